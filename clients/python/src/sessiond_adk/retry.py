"""Deadlines and retries of a call.

The server decides whether a call may be sent again (`Status.retryable`). A retry sends the same request, with the same
ids, so this module treats "yes" and "same_id" alike: an append carries its event id, an update its request id, and a
new session a chosen id with a label of the creating call. A deletion has no such id: if its response is lost, the retry
also deletes a session that was created under the same id in between.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc
from grpc import aio

from . import errors

logger = logging.getLogger(__name__)

Response = TypeVar("Response")


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call is sent, and how long to wait between attempts.

    Delays double from `first_delay_seconds` up to `max_delay_seconds`. Each is reduced at random by up to one half, so
    that the clients of a restarted server do not return all at once. The call's deadline ends the retries; `attempts`
    can end them earlier.
    """

    attempts: int | None = None
    first_delay_seconds: float = 0.05
    max_delay_seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}. It must be at least 1, or None for no limit.")
        for name in ("first_delay_seconds", "max_delay_seconds"):
            value = getattr(self, name)
            if not (0 < value < math.inf):
                raise ValueError(f"{name} is {value}. It must be a positive number of seconds.")

    def delay_seconds(self, failed: int, requested: float | None = None) -> float:
        """The delay after `failed` attempts (1 or more), at least the one that the server `requested`."""
        # The exponent is bounded: 2**1024 does not fit into a float.
        longest = min(self.first_delay_seconds * 2 ** min(failed - 1, 32), self.max_delay_seconds)
        return max(random.uniform(longest / 2, longest), requested or 0.0)


class Outage:
    """Logs an outage of a server twice: when the first call is retried, and when the next one succeeds. Thread-safe.

    However many calls are in flight, and however many fail for good in between, there is one pair of lines.
    """

    def __init__(self, target: str) -> None:
        # Whether the server has ever responded.
        self.reached = False
        self._target = target
        self._guard = threading.Lock()
        self._since: float | None = None

    def retrying(self, status: errors.Status) -> None:
        """Records that a call is about to be retried. A busy server is not an outage."""
        if status.code is not grpc.StatusCode.UNAVAILABLE:
            return
        with self._guard:
            if self._since is not None:
                return
            self._since = time.monotonic()
        logger.warning("sessiond at %s is unavailable, retrying: %s", self._target, status.message)

    def succeeded(self) -> None:
        """Records that the server has responded to a call."""
        self.reached = True
        if self._since is None:
            return
        with self._guard:
            since, self._since = self._since, None
        if since is not None:
            seconds = time.monotonic() - since
            logger.warning("connected to sessiond at %s again after %.1f s", self._target, seconds)


async def call_with_retries(
    attempt: Callable[[float], Awaitable[Response]],
    *,
    timeout_seconds: float,
    policy: RetryPolicy,
    target: str,
    outage: Outage,
    absent_seconds: float = math.inf,
) -> Response:
    """Calls `attempt(seconds left)` until it succeeds, fails for good, or no time or attempt is left.

    `target` is the server's address in messages. After `absent_seconds` the retries end if the server has never
    responded: then it was not started, and does not just start again.

    Raises:
      SessiondError: of the last attempt.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    deadline = began + timeout_seconds
    attempts = 0
    while True:
        attempts += 1
        try:
            response = await attempt(max(deadline - loop.time(), 0.0))
        except aio.AioRpcError as failure:
            status = errors.parse_status(failure)
            error = errors.from_status(errors.with_advice(status, target, timeout_seconds), attempts)
            error.__cause__ = failure
        else:
            outage.succeeded()
            return response
        outage.reached = outage.reached or bool(status.reason)
        delay = policy.delay_seconds(attempts, status.retry_after_seconds)
        last = deadline if outage.reached else min(deadline, began + absent_seconds)
        exhausted = policy.attempts is not None and attempts >= policy.attempts
        # Waiting past the deadline would replace this error by a DEADLINE_EXCEEDED, which says less.
        if status.retryable == "no" or exhausted or loop.time() + delay >= last:
            try:
                raise error
            finally:
                # Its traceback has this frame. The cycle would keep the channel of a closed service.
                del error
        outage.retrying(status)
        await asyncio.sleep(delay)
