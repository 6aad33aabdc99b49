"""What several tests need to say."""

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
# For calls that wait for a new connection: as many attempts as it takes, on a machine however busy.
PATIENT = RetryPolicy(attempts=10_000)
Ask = Callable[[BaseSessionService], Awaitable[Any]]


def field_by_field(found: Any, expected: Any, path: str = "") -> None:
    """Fails at the first field that differs, with its path: a diff of whole conversations cannot be read."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        assert sorted(found) == sorted(expected), f"members of {path or 'the whole'}"
        for key, value in expected.items():
            field_by_field(found[key], value, f"{path}.{key}")
    elif isinstance(expected, Sequence) and isinstance(found, Sequence) and not isinstance(expected, str | bytes):
        assert len(found) == len(expected), f"length of {path}"
        for at, (one, other) in enumerate(zip(found, expected, strict=True)):
            field_by_field(one, other, f"{path}[{at}]")
    else:
        assert (type(found), found) == (type(expected), expected), path


def text_event(text: str, **more: Any) -> Event:
    """A user's message."""
    more.setdefault("author", "user")
    return Event(content=types.Content(role="user", parts=[types.Part(text=text)]), **more)


def delta_event(delta: dict[str, Any], **more: Any) -> Event:
    """An event that changes state."""
    more.setdefault("author", "agent")
    return Event(actions=EventActions(state_delta=delta), **more)


async def same_as_memory(service: BaseSessionService, ask: Ask) -> Any:
    """What both services answer, which must be the same."""
    found, expected = await ask(service), await ask(InMemorySessionService())
    field_by_field(found, expected)
    return found


async def read(service: BaseSessionService, session_id: str = KEY["session_id"], **config: Any) -> Session:
    """The session of `KEY`, or another of its user, as it is stored, with a config of these fields."""
    key = {**KEY, "session_id": session_id}
    session = await service.get_session(**key, config=GetSessionConfig(**config) if config else None)
    assert session is not None
    return session


async def with_events(service: BaseSessionService, times: list[float]) -> Session:
    """A session with events of these times."""
    session = await service.create_session(**KEY)
    for number, seconds in enumerate(times):
        await service.append_event(session, Event(id=f"e{number}", author="a", timestamp=seconds))
    return session


def ids(session: Session) -> list[str]:
    """The ids of its events."""
    return [event.id for event in session.events]
