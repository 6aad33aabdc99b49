"""Deadlines and retries of a call.

The server decides whether a call may be sent again (`Status.retryable`). A retry sends the same request, with the same
ids, so this module treats "yes" and "same_id" alike: an append carries its event id, an update its request id, and a
new session a chosen id with a label of the creating call. A deletion has no such id: if its response is lost, the retry
also deletes a session that was created under the same id in between.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from grpc import aio

from . import errors

Response = TypeVar("Response")


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call is sent, and how long to wait between attempts.

    Delays double from `first_delay_seconds` up to `max_delay_seconds`. Each is reduced at random by up to one half, so
    that the clients of a restarted server do not return all at once. The defaults bridge an outage of about five
    seconds. The call's deadline also ends the retries.
    """

    attempts: int = 10
    first_delay_seconds: float = 0.05
    max_delay_seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}. It must be at least 1.")
        for name in ("first_delay_seconds", "max_delay_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}. It must not be negative.")

    def delay_seconds(self, failed: int, requested: float | None = None) -> float:
        """The delay after `failed` attempts (1 or more), at least the one that the server `requested`."""
        # The exponent is bounded: 2**1024 does not fit into a float.
        longest = min(self.first_delay_seconds * 2 ** min(failed - 1, 32), self.max_delay_seconds)
        return max(random.uniform(longest / 2, longest), requested or 0.0)


async def call_with_retries(
    attempt: Callable[[float], Awaitable[Response]], *, timeout_seconds: float, policy: RetryPolicy
) -> Response:
    """Calls `attempt(seconds left)` until it succeeds, fails for good, or no time or attempt is left.

    Raises:
      SessiondError: of the last attempt.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    attempts = 0
    while True:
        attempts += 1
        try:
            return await attempt(max(deadline - loop.time(), 0.0))
        except aio.AioRpcError as failure:
            status = errors.parse_status(failure)
            error = errors.from_status(status, attempts)
            error.__cause__ = failure
        delay = policy.delay_seconds(attempts, status.retry_after_seconds)
        # Waiting past the deadline would replace this error by a DEADLINE_EXCEEDED, which says less.
        if status.retryable == "no" or attempts >= policy.attempts or loop.time() + delay >= deadline:
            raise error
        await asyncio.sleep(delay)
