"""A process of test_fork.py: uses a service, forks, and prints what a call in the child comes to."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from support import KEY

from sessiond_adk import SessiondAlreadyExistsError, SessiondSessionService

SECONDS = 60


async def create(service: SessiondSessionService) -> None:
    """One call that succeeds and one that fails."""
    await service.create_session(**KEY)
    with suppress(SessiondAlreadyExistsError):
        await service.create_session(**KEY)


def describe(read: Callable[[], Any], output: Connection) -> None:
    try:
        output.send(read().id)
    except RuntimeError as error:
        output.send(f"RuntimeError: {error}")


def main(address: str, before: str, after: str) -> None:
    service = SessiondSessionService(address)
    run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run
    if after == "same_loop":
        run = asyncio.new_event_loop().run_until_complete
    run(create(service))
    if after == "sync":
        service.get_session_sync(**KEY)
    if before == "closed":
        run(service.close())
    used = SessiondSessionService(address) if after == "new_service" else service

    def read() -> Any:
        if after == "sync":
            return used.get_session_sync(**KEY)

        async def within() -> Any:
            async with used:
                return await used.get_session(**KEY)

        return run(within())

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=describe, args=(read, sender), daemon=True)
    child.start()
    if receiver.poll(SECONDS):
        print(receiver.recv())
        child.join(SECONDS)
    else:
        print("the child hangs")
    # Also one that cannot end, or the pipe of the output stays open.
    child.kill()
    child.join()
    print(child.exitcode)


if __name__ == "__main__":
    main(*sys.argv[1:])
