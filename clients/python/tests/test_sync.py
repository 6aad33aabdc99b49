"""The methods that block, for callers without an event loop."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading

import pytest
from conftest import Server
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from support import KEY, field_by_field, read, text_event

from sessiond_adk import SessiondAlreadyExistsError, SessiondClosedError, SessiondSessionService

NAMES = [name for name in dir(InMemorySessionService) if name.endswith("_sync") and not name.startswith("_")]


def test_sync_methods_are_those_of_the_memory_service() -> None:
    assert NAMES == ["create_session_sync", "delete_session_sync", "get_session_sync", "list_sessions_sync"]
    for name in NAMES:
        ours = inspect.signature(getattr(SessiondSessionService, name)).parameters
        theirs = inspect.signature(getattr(InMemorySessionService, name)).parameters
        assert [(one.name, one.kind, one.default) for one in ours.values()] == [
            (one.name, one.kind, one.default) for one in theirs.values()
        ]


def conversation(service: SessiondSessionService | InMemorySessionService) -> list[object]:
    """What the methods return."""
    service.create_session_sync(**KEY, state={"a": 1, "app:x": 2, "temp:t": 3})
    found = service.get_session_sync(**KEY, config=GetSessionConfig(num_recent_events=1))
    assert found is not None
    listed = service.list_sessions_sync(app_name="app").sessions
    service.delete_session_sync(**KEY)
    service.delete_session_sync(**KEY)
    gone = service.get_session_sync(**KEY)
    return [found.state, found.events, [(one.id, one.state) for one in listed], gone]


def test_sync_methods_without_an_event_loop(server: Server) -> None:
    service = SessiondSessionService(server.address)
    try:
        field_by_field(conversation(service), conversation(InMemorySessionService()))
        service.create_session_sync(**KEY)
        with pytest.raises(SessiondAlreadyExistsError):
            service.create_session_sync(**KEY)
    finally:
        asyncio.run(service.close())
    # Closing ends the thread, and the next call starts another one.
    assert service.get_session_sync(**KEY) is not None
    asyncio.run(service.close())


async def test_sync_methods_inside_of_a_running_loop(server: Server) -> None:
    """As ADK's own tests call them, beside the asynchronous methods."""
    async with SessiondSessionService(server.address) as service:
        session = service.create_session_sync(**KEY)
        await service.append_event(session, text_event("x"))
        assert service.get_session_sync(**KEY) == await read(service)
        names = {thread.name for thread in threading.enumerate()}
        assert "sessiond-adk" in names
        for thread in threading.enumerate():
            if thread.name == "sessiond-adk":
                ended = thread
    await asyncio.to_thread(ended.join, 60)
    assert not ended.is_alive()


def test_closing_ends_a_call_that_waits_for_its_server(caplog: pytest.LogCaptureFixture) -> None:
    # Nothing listens on port 1.
    service = SessiondSessionService("127.0.0.1:1", timeout=600)
    failures: list[Exception] = []

    def create() -> None:
        try:
            service.create_session_sync(**KEY)
        except SessiondClosedError as error:
            failures.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    while "is unavailable, retrying" not in caplog.text:
        thread.join(0.01)
    asyncio.run(service.close())
    thread.join(60)
    assert len(failures) == 1


def test_script_that_does_not_close_the_service_ends(server: Server) -> None:
    code = (
        "import sys; from sessiond_adk import SessiondSessionService as S;"
        "print(S(sys.argv[1]).create_session_sync(app_name='app', user_id='user', session_id='s').id)"
    )
    command = [sys.executable, "-c", code, server.address]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout == "s\n"
