"""Calls with a deadline, tried again where trying again is safe.

Only UNAVAILABLE is retried, and only within one call, whose request can be carried out twice without harm: an append
has its event id, an update its request id, a new session a chosen id and a mark of its creator. A deletion has nothing
of the kind, and may meet a session that was created anew in between. Calling a method again is another matter: for
everything but an append of the same event that is another write, with another id.

Where the server gave a reason (STARTING, DRAINING, STORE_UNAVAILABLE) the attempt was certainly not applied; where it
gave none, nobody knows, and the id sorts it out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc

from . import errors

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try again on UNAVAILABLE.

    The delays double from `first_delay_seconds` up to `max_delay_seconds`, each shortened by chance to between half and
    all of itself so that clients of a restarted server do not come back all at once. By default a server that is
    away for about five seconds is waited for. The deadline of the call ends the retries as well.
    """

    attempts: int = 10
    first_delay_seconds: float = 0.05
    max_delay_seconds: float = 1.0

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        if self.attempts < 1 or self.first_delay_seconds < 0 or self.max_delay_seconds < 0:
            raise ValueError(f"{self}: at least one attempt, and no negative delays")

    def delay_seconds(self, failed: int, asked_for: float | None = None) -> float:
        """How long to wait after `failed` attempts (1 or more); never less than what the server asked for."""
        # The exponent is bounded so that a policy of very many attempts does not overflow a float.
        longest = min(self.first_delay_seconds * 2 ** min(failed - 1, 32), self.max_delay_seconds)
        return max(random.uniform(longest / 2, longest), asked_for or 0.0)


@dataclass(frozen=True)
class Answered(Generic[Answer]):
    """An answer, and whether it took more than one attempt: then an earlier one may have been carried out unheard."""

    answer: Answer
    retried: bool


class RetriedError(Exception):
    """Carries the error of a call that had been tried before; never leaves this package."""

    def __init__(self, error: errors.SessiondError, retried: bool) -> None:
        """Keeps both."""
        super().__init__(str(error))
        self.error = error
        self.retried = retried


async def call(
    attempt: Callable[[float], Awaitable[Answer]], *, timeout_seconds: float, policy: RetryPolicy
) -> Answered[Answer]:
    """Calls `attempt(seconds left)` until it answers, fails for good, or the time is up.

    Raises:
      RetriedError: holding the error, and whether an earlier attempt may have been carried out.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    failed = 0
    while True:
        try:
            return Answered(await attempt(max(deadline - loop.time(), 0.0)), failed > 0)
        except grpc.aio.AioRpcError as error:
            refusal = errors.read(error)
            raised = errors.raised_for(refusal)
            raised.__cause__ = error
        failed += 1
        if refusal.code is not grpc.StatusCode.UNAVAILABLE or failed >= policy.attempts:
            raise RetriedError(raised, failed > 1)
        delay = policy.delay_seconds(failed, refusal.retry_after_seconds)
        if loop.time() + delay >= deadline:
            # Waiting would outlive the deadline: what is known now says more than a DEADLINE_EXCEEDED later.
            raise RetriedError(raised, failed > 1)
        await asyncio.sleep(delay)
