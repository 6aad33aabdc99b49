"""Helpers that several tests share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from sessiond_adk import RetryPolicy

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
# For calls that wait for a new connection, on machines however busy.
MANY_ATTEMPTS = RetryPolicy(attempts=10_000)
Scenario = Callable[[BaseSessionService], Awaitable[Any]]


def field_by_field(found: Any, expected: Any, path: str = "") -> None:
    """Fails at the first field that differs, with its path. Diffs of whole conversations are unreadable."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        assert sorted(found) == sorted(expected), f"keys of {path or 'the root'}"
        for key, value in expected.items():
            field_by_field(found[key], value, f"{path}.{key}")
    elif isinstance(expected, Sequence) and isinstance(found, Sequence) and not isinstance(expected, str | bytes):
        assert len(found) == len(expected), f"length of {path}"
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            field_by_field(one, other, f"{path}[{at}]")
    else:
        assert (type(found), found) == (type(expected), expected), path


def text_event(text: str, **more: Any) -> Event:
    more.setdefault("author", "user")
    return Event(content=types.Content(role="user", parts=[types.Part(text=text)]), **more)


def delta_event(delta: dict[str, Any], **more: Any) -> Event:
    more.setdefault("author", "agent")
    return Event(actions=EventActions(state_delta=delta), **more)


async def same_as_memory(service: BaseSessionService, scenario: Scenario) -> Any:
    """Runs the scenario on `service` and on ADK's memory service. The results must be equal; returns them."""
    found, expected = await scenario(service), await scenario(InMemorySessionService())
    field_by_field(found, expected)
    return found


async def read(service: BaseSessionService, session_id: str = KEY["session_id"], **config: Any) -> Session:
    """Reads the session of `KEY`, or another of its user, with a config of these fields."""
    key = {**KEY, "session_id": session_id}
    session = await service.get_session(**key, config=GetSessionConfig(**config) if config else None)
    assert session is not None
    return session


async def with_events(service: BaseSessionService, times: list[float]) -> Session:
    """A session with events at these times."""
    session = await service.create_session(**KEY)
    for number, seconds in enumerate(times):
        await service.append_event(session, Event(id=f"e{number}", author="a", timestamp=seconds))
    return session


def ids(session: Session) -> list[str]:
    return [event.id for event in session.events]
