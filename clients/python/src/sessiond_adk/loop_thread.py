"""A thread with an event loop, on which callers without one run coroutines."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from . import errors

Result = TypeVar("Result")


class LoopThread:
    """Starts its thread at the first `run`. Thread-safe.

    A thread of its own, because the calling thread may be inside of a running loop, which cannot be entered again.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process_id = 0

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Runs the coroutine and waits for its result.

        Raises:
          SessiondClosedError: the thread was stopped meanwhile.
        """
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._running_loop()).result()
        except CancelledError:
            raise errors.service_closed() from None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            self._forget_loop_of_parent()
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                self._process_id = os.getpid()
                # A daemon: a script that ends without closing its service does not hang.
                threading.Thread(target=_serve, args=(self._loop,), name="sessiond-adk", daemon=True).start()
            return self._loop

    def stop(self) -> None:
        """Ends the thread and what runs on it. The next `run` starts another one."""
        with self._guard:
            self._forget_loop_of_parent()
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def _forget_loop_of_parent(self) -> None:
        """A forked process has the loop, and not the thread that runs it."""
        if self._process_id != os.getpid():
            self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_others())
    finally:
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
