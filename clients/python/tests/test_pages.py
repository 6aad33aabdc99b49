"""A page may be empty and still have a token: every list goes on to the last page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from grpc import aio
from support import KEY

from sessiond_adk import SessiondSessionService
from sessiond_adk.client import scope_of, session_key
from sessiond_adk.proto import event_service_pb2, session_service_pb2, state_service_pb2, types_pb2
from sessiond_adk.rewind import values_before
from sessiond_adk.shared import Own, _find

EVENTS = [types_pb2.Event(event_id=f"e{sequence}", sequence=sequence) for sequence in (1, 2)]
SESSIONS = [types_pb2.Session(key=types_pb2.SessionKey(**KEY | {"session_id": name})) for name in ("s", "t")]
STORED = types_pb2.Session(key=SESSIONS[0].key, state_json='{"a":1}')
CHANGES = [state_service_pb2.KeyChange(version=version, author="other", value_json="1") for version in (2, 1)]


def pages(kind: Any, items: str, content: list[Any]) -> list[Any]:
    """An empty page, the first item, an empty page, and the second item. Tokens are the numbers of pages."""
    one, other = content
    made = [kind(), kind(**{items: one}), kind(), kind(**{items: other})]
    for number, page in enumerate(made[:-1], 1):
        page.next_page_token = str(number)
    return made


SERVICES: dict[str, dict[str, tuple[Any, list[Any]]]] = {
    "SessionService": {
        "ListSessions": (
            session_service_pb2.ListSessionsRequest,
            pages(session_service_pb2.ListSessionsResponse, "sessions", [[one] for one in SESSIONS]),
        ),
        "GetSession": (
            session_service_pb2.GetSessionRequest,
            [session_service_pb2.GetSessionResponse(session=STORED, next_page_token="0")],
        ),
    },
    "EventService": {
        "ListEvents": (
            event_service_pb2.ListEventsRequest,
            pages(event_service_pb2.ListEventsResponse, "events", [[one] for one in EVENTS]),
        )
    },
    "StateService": {
        "GetState": (
            state_service_pb2.GetStateRequest,
            pages(state_service_pb2.GetStateResponse, "state_json", ['{"a":1}', '{"b":2}']),
        ),
        "ListKeyChanges": (
            state_service_pb2.ListKeyChangesRequest,
            pages(state_service_pb2.ListKeyChangesResponse, "changes", [[one] for one in CHANGES]),
        ),
    },
}


@pytest.fixture
async def service() -> AsyncIterator[SessiondSessionService]:
    """A service on a server that only has these pages."""
    server = aio.server()
    for name, methods in SERVICES.items():
        handlers = {method: handler(*scripted) for method, scripted in methods.items()}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(f"sessiond.v1.{name}", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with SessiondSessionService(f"127.0.0.1:{port}") as connected:
        yield connected
    await server.stop(None)


def handler(request_type: Any, answers: list[Any]) -> Any:
    async def answer(request: Any, _: object) -> Any:
        return answers[int(getattr(request, "page_token", "") or 0)]

    return grpc.unary_unary_rpc_method_handler(answer, request_type.FromString, lambda page: page.SerializeToString())


async def test_lists_of_sessions(service: SessiondSessionService) -> None:
    assert [one.id for one in (await service.list_sessions(app_name="app")).sessions] == ["s", "t"]


async def test_lists_of_events(service: SessiondSessionService) -> None:
    assert [stored.sequence async for stored in service.list_events(**KEY)] == [1, 2]


@pytest.mark.parametrize("config", [{}, {"num_recent_events": 2}, {"after_timestamp": 1.0}])
async def test_events_of_a_session(service: SessiondSessionService, config: dict[str, Any]) -> None:
    session = await service.get_session(**KEY, config=GetSessionConfig(**config))
    assert session is not None
    assert [event.id for event in session.events] == ["e1", "e2"]


async def test_state(service: SessiondSessionService) -> None:
    assert await service.get_state(app_name="app") == {"a": 1, "b": 2}


async def test_history_of_a_key_that_a_move_reads(service: SessiondSessionService) -> None:
    found = await _find("app:a", service, scope_of("app"), Own())
    assert (found.version, found.by_others) == (2, True)


async def test_event_that_a_rewind_goes_back_to(service: SessiondSessionService) -> None:
    marker = Event(author="user", actions=EventActions(rewind_before_invocation_id="i", state_delta={"a": None}))
    values = await values_before(service._client, session_key(*KEY.values()), marker, {})
    assert {name: item.value for name, item in values.items()} == {"a": 1}
