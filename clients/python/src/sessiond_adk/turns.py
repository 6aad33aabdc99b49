"""One append or refresh of a session object at a time, so that its events stand in the order in which they were stored
and nothing that is older than what it has already is put over it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Turns at objects. Two objects of the same session do not wait for each other: the server merges what they do.

    An object's identity is safe as a key because a turn is only taken by callers that hold the object, and forgotten
    with the last of them.
    """

    def __init__(self) -> None:
        """Nobody has a turn."""
        self._guard = threading.Lock()
        self._locks: dict[tuple[int, int], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def at(self, what: object) -> AsyncIterator[None]:
        """Waits until no other task of this event loop has a turn at `what`."""
        key = (id(asyncio.get_running_loop()), id(what))
        with self._guard:
            lock, holders = self._locks.get(key, (asyncio.Lock(), 0))
            self._locks[key] = (lock, holders + 1)
        try:
            async with lock:
                yield
        finally:
            with self._guard:
                lock, holders = self._locks[key]
                if holders == 1:
                    del self._locks[key]
                else:
                    self._locks[key] = (lock, holders - 1)

    def count(self, what: object) -> int:
        """How many tasks of this event loop have or wait for a turn at `what`."""
        _, holders = self._locks.get((id(asyncio.get_running_loop()), id(what)), (None, 0))
        return holders

    def __len__(self) -> int:
        """How many objects somebody has or waits for a turn at."""
        return len(self._locks)
