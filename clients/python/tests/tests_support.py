"""What several tests need to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types


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
