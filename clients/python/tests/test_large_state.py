"""State that does not fit into a response is read in pages, and damaged keys are named once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Serve
from grpc import aio
from scripted_server import Scripted
from support import KEY, delta_event

from sessiond_adk import Delta, SessiondError, SessiondSessionService, Snapshot
from sessiond_adk.proto import (
    event_service_pb2,
    event_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
    state_service_pb2,
    state_service_pb2_grpc,
    types_pb2,
    watch_service_pb2,
    watch_service_pb2_grpc,
)

# 917 KB of keys and values, and as much punctuation, in each scope.
TINY_KEYS = 131_000

STATE = {"app:a": 1, "app:b": [None], "user:c": 10**30, "d": {"é": 0.5}, "e": "x"}
VERSIONS = {key: number for number, key in enumerate(STATE, 1)}


class Large(
    session_service_pb2_grpc.SessionServiceServicer,
    event_service_pb2_grpc.EventServiceServicer,
    state_service_pb2_grpc.StateServiceServicer,
    watch_service_pb2_grpc.WatchServiceServicer,
    Scripted,
):
    """Has one session, whose state fits into no answer but GetState's, which has pages of two keys."""

    def __init__(self) -> None:
        self.uids = ["life"]
        self.damaged: list[str] = []
        self.pages = 0

    def _register(self, server: aio.Server) -> None:  # type: ignore[override]
        session_service_pb2_grpc.add_SessionServiceServicer_to_server(self, server)
        event_service_pb2_grpc.add_EventServiceServicer_to_server(self, server)
        state_service_pb2_grpc.add_StateServiceServicer_to_server(self, server)
        watch_service_pb2_grpc.add_WatchServiceServicer_to_server(self, server)

    def session(self) -> types_pb2.Session:
        return types_pb2.Session(
            key=types_pb2.SessionKey(**KEY), uid=self.uids[0], state_omitted=True, damaged_keys=self.damaged
        )

    async def CreateSession(
        self, request: session_service_pb2.CreateSessionRequest, context: Any
    ) -> session_service_pb2.CreateSessionResponse:
        return session_service_pb2.CreateSessionResponse(session=self.session(), created=True)

    async def GetSession(
        self, request: session_service_pb2.GetSessionRequest, context: Any
    ) -> session_service_pb2.GetSessionResponse:
        return session_service_pb2.GetSessionResponse(session=self.session())

    async def ForkSession(
        self, request: session_service_pb2.ForkSessionRequest, context: Any
    ) -> session_service_pb2.ForkSessionResponse:
        return session_service_pb2.ForkSessionResponse(session=self.session())

    async def RewindSession(
        self, request: session_service_pb2.RewindSessionRequest, context: Any
    ) -> session_service_pb2.RewindSessionResponse:
        return session_service_pb2.RewindSessionResponse(session=self.session())

    async def ListSessions(
        self, request: session_service_pb2.ListSessionsRequest, context: Any
    ) -> session_service_pb2.ListSessionsResponse:
        return session_service_pb2.ListSessionsResponse(sessions=[self.session()])

    async def AppendEvent(
        self, request: event_service_pb2.AppendEventRequest, context: Any
    ) -> event_service_pb2.AppendEventResponse:
        stored = types_pb2.Event()
        stored.CopyFrom(request.event)
        stored.sequence = 1
        session = self.session()
        session.last_sequence = 1
        return event_service_pb2.AppendEventResponse(event=stored, session=session)

    async def UpdateState(
        self, request: state_service_pb2.UpdateStateRequest, context: Any
    ) -> state_service_pb2.UpdateStateResponse:
        return state_service_pb2.UpdateStateResponse(state_omitted=True)

    async def GetState(
        self, request: state_service_pb2.GetStateRequest, context: Any
    ) -> state_service_pb2.GetStateResponse:
        self.pages += 1
        # The first uid is that of the session that other calls return; the next ones come page by page.
        uid = self.uids.pop(0) if len(self.uids) > 1 else self.uids[0]
        begin = int(request.page_token or "0")
        keys = list(STATE)[begin : begin + 2]
        page = state_service_pb2.GetStateResponse(
            state_json=json.dumps({key: STATE[key] for key in keys}), uid=uid, damaged_keys=self.damaged
        )
        if request.include_versions:
            page.versions.update({key: VERSIONS[key] for key in keys})
        if begin + 2 < len(STATE):
            page.next_page_token = str(begin + 2)
        return page

    async def Watch(
        self, request: watch_service_pb2.WatchRequest, context: Any
    ) -> AsyncIterator[watch_service_pb2.WatchResponse]:
        snapshot = watch_service_pb2.StateSnapshot(
            state_omitted=True, last_sequence=7, uid=self.uids[0], damaged_keys=self.damaged
        )
        yield watch_service_pb2.WatchResponse(snapshot=snapshot, cursor="c")
        await asyncio.Event().wait()


READS: dict[str, Any] = {
    "create_session": lambda on: on.create_session(**KEY),
    "get_session": lambda on: on.get_session(**KEY),
    "list_sessions": lambda on: only_listed(on),
    "fork_session": lambda on: on.fork_session(**KEY),
    "rewind_session": lambda on: on.rewind_session(**KEY, to_sequence=0),
    "refresh": lambda on: refreshed(on),
}


async def only_listed(service: SessiondSessionService) -> Any:
    (session,) = (await service.list_sessions(app_name="app")).sessions
    return session


async def refreshed(service: SessiondSessionService) -> Any:
    session = await service.create_session(**KEY)
    session.state.clear()
    await service.refresh(session)
    return session


def large() -> Large:
    # Only the stubs of the types are abstract.
    return Large()  # type: ignore[abstract]


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
async def test_state_of_a_session_is_put_together_from_pages(read: Any) -> None:
    async with large() as server, SessiondSessionService(server.address, stale="conflict") as service:
        session = await read(service)
        assert session.state == STATE
        assert session.state.uid == "life"
        if read not in (READS["list_sessions"], READS["fork_session"]):
            assert {key: item.version for key, item in session.state.seen.items()} == VERSIONS
        assert server.pages % 3 == 0


async def test_state_of_scopes_is_put_together_from_pages() -> None:
    async with large() as server, SessiondSessionService(server.address) as service:
        assert await service.get_state(app_name="app") == STATE
        assert await service.get_app_state(app_name="app") == {"a": 1, "b": [None]}
        assert await service.get_user_state(app_name="app", user_id="u") == {"c": 10**30}
        assert await service.update_state(Delta({"app:a": 1}), app_name="app") == STATE


async def test_snapshot_of_a_watch_is_put_together_from_pages() -> None:
    async with large() as server, SessiondSessionService(server.address) as service, service.watch(**KEY) as watch:
        assert await anext(watch) == Snapshot(STATE, 7, "c")


async def test_snapshot_that_a_timeout_has_cut_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with large() as server, SessiondSessionService(server.address) as service:
        call = service._client.call
        waiting = asyncio.Event()

        async def stuck(*_: Any) -> Any:
            waiting.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(service._client, "call", stuck)
        async with service.watch(**KEY) as watch:
            reading = asyncio.ensure_future(anext(watch))
            await waiting.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert watch.cursor == ""
            monkeypatch.setattr(service._client, "call", call)
            assert await anext(watch) == Snapshot(STATE, 7, "c")


async def test_append_without_state_in_its_response_needs_no_pages() -> None:
    async with large() as server, SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        read = server.pages
        await service.append_event(session, delta_event({"e": "mine"}))
        assert session.state == {**STATE, "e": "mine"}
        assert server.pages == read


async def test_state_of_the_past_that_does_not_fit_is_an_error() -> None:
    async with large() as server, SessiondSessionService(server.address) as service:
        with pytest.raises(SessiondError, match="as of event 3 does not fit") as refused:
            await service.get_session_as_of(**KEY, sequence=3)
        assert refused.value.reason == "ANSWER_TOO_LARGE"


@pytest.mark.parametrize(
    "uids",
    [
        pytest.param(["old", "new", "new", "new", "new"], id="before the first page"),
        pytest.param(["old", "old", "new", "new", "new"], id="between two pages"),
    ],
)
async def test_session_that_was_replaced_between_two_pages_is_read_anew(uids: list[str]) -> None:
    """State of two sessions is never mixed."""
    async with large() as server, SessiondSessionService(server.address) as service:
        server.uids = uids
        session = await service.get_session(**KEY)
        assert session is not None
        assert session.state == STATE
        assert getattr(session.state, "uid", None) == "new"


async def test_damaged_keys_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async with large() as server, SessiondSessionService(server.address) as service:
        server.damaged = ["app:broken", "user:broken"]
        with caplog.at_level(logging.WARNING, "sessiond_adk.client"):
            for read in READS.values():
                session = await read(service)
                await service.append_event(session, delta_event({}))
            await service.get_state(app_name="app", user_id="user")
            async with service.watch(**KEY) as watch:
                await anext(watch)
            server.damaged = ["app:broken"]
            await service.update_state(Delta({"app:a": 1}), app_name="app")
            assert caplog.messages == [
                "application app, user user: left out of the state, because the stored values are damaged:"
                " app:broken, user:broken"
            ]
            server.damaged.append("app:more")
            await service.get_session(**KEY)
        assert caplog.messages[1].endswith("are damaged: app:more")
        assert len(caplog.messages) == 2


async def test_session_with_three_full_scopes_of_tiny_keys_is_read(serve: Serve) -> None:
    """Each scope is within its 1 MiB, and the three fit into no answer."""
    async with SessiondSessionService(serve().address) as service:
        await service.create_session(**KEY)
        expected: dict[str, int] = {}
        for prefix in ("app:", "user:", ""):
            for begin in range(0, TINY_KEYS, 10_000):
                some = {f"{prefix}{number:05x}": number % 10 for number in range(begin, min(begin + 10_000, TINY_KEYS))}
                request = event_service_pb2.AppendEventRequest(key=types_pb2.SessionKey(**KEY))
                request.event.state_delta.set_json = json.dumps(some)
                await service.stubs.events.AppendEvent(request)
                expected |= some
        read = await service.get_session(**KEY)
        assert read is not None
        assert read.state == expected
        await service.append_event(read, delta_event({"00000": 9}))
        assert read.state == expected | {"00000": 9}
        (listed,) = (await service.list_sessions(app_name=KEY["app_name"])).sessions
        assert listed.state == read.state
