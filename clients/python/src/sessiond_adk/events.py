"""Events: the kit's objects on one side, the contract's messages on the other.

The body of a stored event is the event's own JSON as the kit writes it (camelCase, nothing that is None), whole but for
`actions.stateDelta`, which travels as the typed delta. What this version of the kit does not know in an event that a
newer one, or a kit of another language, has written is left out of the object that is returned; in the store, and for
everybody else who reads it, it stays.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from pydantic import ValidationError
from pydantic.alias_generators import to_camel, to_snake

from ._proto import types_pb2
from .operations import Operation, fill
from .state import encode_values, is_temp
from .times import to_nanos, to_seconds

logger = logging.getLogger(__name__)

# Rounds of leaving out what cannot be read, before a body is given up: each round takes out everything that pydantic
# complains about, and only complaints about what a union makes of the rest can follow.
_ROUNDS = 8


@dataclass(frozen=True)
class Sent:
    """An event as it is sent, and the JSON texts of the values that it sets (`temp:` keys only where shared)."""

    message: types_pb2.Event
    texts: dict[str, str]


def encode_event(event: Event, operations: Sequence[Operation] = (), *, share_temp: bool = False) -> Sent:
    """The event as the contract writes it. Does not change `event`.

    Raises:
      StateValueError: a value of the delta that JSON cannot hold; names its key.
      ValueError: a time outside of the years 1 to 9999, or a body that JSON cannot hold.
    """
    delta = event.actions.state_delta
    texts = encode_values({key: value for key, value in delta.items() if share_temp or not is_temp(key)})
    message = types_pb2.Event(
        event_id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        branch=event.branch or "",
        body_json=event.model_dump_json(by_alias=True, exclude_none=True, exclude={"actions": {"state_delta"}}),
    )
    message.event_time.FromNanoseconds(to_nanos(event.timestamp))
    fill(message.state_delta, texts, operations)
    return Sent(message, texts)


def decode_event(stored: types_pb2.Event) -> Event:
    """The kit's event for a stored one.

    A key that an event has removed is None in the object's `state_delta`, the only way in which the kit can say it.
    What the envelope says about id, invocation, author, branch and time wins over the body, which need not be the kit's
    own; the time as a float is the body's where both mean the same nanosecond.
    """
    event = _read_body(stored)
    event.actions.state_delta = decode_delta(stored.state_delta)
    event.id = stored.event_id
    event.invocation_id = stored.invocation_id
    event.author = stored.author
    if stored.branch:
        event.branch = stored.branch
    nanos = stored.event_time.ToNanoseconds()
    if _nanos_or_none(event.timestamp) != nanos:
        event.timestamp = to_seconds(nanos)
    return event


def decode_delta(delta: types_pb2.StateDelta) -> dict[str, Any]:
    """What each key became: its value, or None where it was removed."""
    values: dict[str, Any] = json.loads(delta.set_json) if delta.set_json else {}
    values.update(dict.fromkeys(delta.remove))
    return values


def _nanos_or_none(seconds: float) -> int | None:
    try:
        return to_nanos(seconds)
    except ValueError:
        return None


def _read_body(stored: types_pb2.Event) -> Event:
    text = stored.body_json or "{}"
    try:
        return Event.model_validate_json(text)
    except ValidationError as error:
        complaint = error
    # A body may hold integers that only Python's own parser takes, so the tree is made by that one.
    data = json.loads(text)
    left_out: list[str] = []
    for _ in range(_ROUNDS):
        taken = [path for fault in complaint.errors() if (path := _take_out(data, fault["loc"]))]
        if not taken:
            break
        left_out += taken
        try:
            event = Event.model_validate_json(json.dumps(data))
        except ValidationError as error:
            complaint = error
            continue
        logger.warning(
            "event %s holds what this version of the kit does not know, left out here and kept in the store: %s",
            stored.event_id,
            ", ".join(left_out),
        )
        return event
    logger.warning("event %s holds no body that this version of the kit can read: %s", stored.event_id, complaint)
    return Event()


def _take_out(data: Any, place: Sequence[int | str]) -> str | None:
    """Takes the member at `place` out of `data`, and answers its path; None where nothing is there.

    A place may go on behind the last member that exists: pydantic adds the names of a union's variants, and of fields
    that are missing. Then the last member that does exist is what cannot be read. Items of lists are not taken out, as
    that would move the others: the list's own member goes.
    """
    node: Any = data
    owner: dict[str, Any] | None = None
    name = ""
    path: list[str] = []
    for step in place:
        if isinstance(node, dict):
            found = next((key for key in _spellings(step) if key in node), None)
            if found is None:
                break
            owner, name = node, found
            node = node[found]
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            node = node[step]
        else:
            break
        path.append(str(step))
    if owner is None:
        return None
    del owner[name]
    return ".".join(path)


def _spellings(step: int | str) -> tuple[str, ...]:
    """How a body may write the member that pydantic calls `step`."""
    text = str(step)
    return (text, to_camel(text), to_snake(text))
