"""Locks per session object: one append or refresh of an object at a time, so that its events keep the stored order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ObjectLocks:
    """A lock for every object in use. Two objects of the same session do not wait for each other.

    The lock is found by the object's identity. That is safe because callers hold the object while they hold or await
    its lock, and the last one removes the lock.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[tuple[int, int], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, target: object) -> AsyncIterator[None]:
        """Holds the lock of `target`. Excludes the other tasks of this event loop."""
        key = (id(asyncio.get_running_loop()), id(target))
        with self._guard:
            lock, users = self._locks.get(key, (asyncio.Lock(), 0))
            self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks[key]
                if users == 1:
                    del self._locks[key]
                else:
                    self._locks[key] = (lock, users - 1)

    def count(self, target: object) -> int:
        """How many tasks of this event loop hold or await the lock of `target`."""
        _, users = self._locks.get((id(asyncio.get_running_loop()), id(target)), (None, 0))
        return users

    def __len__(self) -> int:
        return len(self._locks)
