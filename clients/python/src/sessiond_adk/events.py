"""Conversion of events.

The body of a stored event is the event's own JSON as ADK writes it (camelCase, None omitted), complete except for
`actions.stateDelta`, which is sent as the typed delta. Fields that this version of ADK does not know, from a newer
version or another language, are missing from the decoded object and stay in the store.
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
from pydantic_core import PydanticSerializationError, to_json

from ._proto import types_pb2
from .foreign import convert_body, convert_compaction
from .operations import Operation, write_delta
from .state import encode_values, is_temp
from .times import to_nanos, to_seconds

logger = logging.getLogger(__name__)

# Each round removes every member that pydantic rejects. Further rounds are needed only for unions, which pydantic
# matches anew against what is left.
_MAX_ROUNDS = 8


@dataclass(frozen=True)
class EncodedEvent:
    """An event as it is sent, and the JSON texts of the values that it sets (`temp:` keys only if they are shared)."""

    message: types_pb2.Event
    texts: dict[str, str]


def encode_event(event: Event, operations: Sequence[Operation] = (), *, share_temp: bool = False) -> EncodedEvent:
    """The event as a message. Does not change `event`.

    Raises:
      StateValueError: a value of the delta has no JSON form.
      ValueError: the time is outside the years 1 to 9999, or the body has no JSON form.
    """
    delta = event.actions.state_delta
    texts = encode_values({key: value for key, value in delta.items() if share_temp or not is_temp(key)})
    message = types_pb2.Event(
        event_id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        branch=event.branch or "",
        body_json=_encode_body(event),
    )
    message.event_time.FromNanoseconds(to_nanos(event.timestamp))
    write_delta(message.state_delta, texts, operations)
    return EncodedEvent(message, texts)


def _encode_body(event: Event) -> str:
    included: dict[str, Any] = {"by_alias": True, "exclude_none": True, "exclude": {"actions": {"state_delta"}}}
    try:
        return event.model_dump_json(**included)
    except PydanticSerializationError:
        # A lone surrogate, or a value without a JSON form, which fails again. The settings are those of ADK's models.
        body = _well_formed(event.model_dump(**included))
        return to_json(body, inf_nan_mode="null", bytes_mode="base64").decode()


def _well_formed(value: Any) -> Any:
    """`value` with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_well_formed(item) for item in value]
    return value


def rewind_of(stored: types_pb2.Event) -> int | None:
    """On the marker of a rewind, the last event that stays visible."""
    return stored.rewind_to_sequence if stored.HasField("rewind_to_sequence") else None


def decode_event(stored: types_pb2.Event) -> Event:
    """The ADK event of a stored one.

    A removed key is None in `state_delta`, as ADK has no other form for it. Id, invocation, author, branch and time
    come from the envelope: the body need not be ADK's own. The body's float is kept if it means the same nanosecond.
    """
    event = _decode_body(stored)
    event.actions.state_delta = decode_delta(stored.state_delta)
    event.id = stored.event_id
    event.invocation_id = stored.invocation_id
    event.author = stored.author
    if stored.branch:
        event.branch = stored.branch
    nanos = stored.event_time.ToNanoseconds()
    convert_compaction(event, to_seconds(nanos))
    if _nanos_or_none(event.timestamp) != nanos:
        event.timestamp = to_seconds(nanos)
    return event


def decode_delta(delta: types_pb2.StateDelta) -> dict[str, Any]:
    """The new value of each key, None for removed keys."""
    values: dict[str, Any] = json.loads(delta.set_json) if delta.set_json else {}
    values.update(dict.fromkeys(delta.remove))
    return values


def _nanos_or_none(seconds: float) -> int | None:
    try:
        return to_nanos(seconds)
    except ValueError:
        return None


def _decode_body(stored: types_pb2.Event) -> Event:
    """The event of the body, without the members that this version of ADK rejects."""
    text = stored.body_json or "{}"
    try:
        return Event.model_validate_json(text)
    except ValidationError:
        # json, unlike pydantic, reads integers of any size.
        data = json.loads(text)
    if isinstance(data, dict):
        convert_body(data)
    try:
        return Event.model_validate_json(json.dumps(data))
    except ValidationError as error:
        rejection = error
    omitted: list[str] = []
    for _ in range(_MAX_ROUNDS):
        removed = [path for detail in rejection.errors() if (path := _remove_member(data, detail["loc"]))]
        if not removed:
            break
        omitted += removed
        try:
            event = Event.model_validate_json(json.dumps(data))
        except ValidationError as error:
            rejection = error
            continue
        logger.warning(
            "event %s: omitted fields that this version of ADK does not know: %s", stored.event_id, ", ".join(omitted)
        )
        return event
    logger.warning("event %s: this version of ADK cannot read the body: %s", stored.event_id, rejection)
    return Event()


def _remove_member(data: Any, location: Sequence[int | str]) -> str | None:
    """Removes the object member at `location`, and returns its path. None if the member is missing.

    pydantic appends the names of union variants and of missing fields to a location. The last member that exists is
    then the rejected one. Removing a list item would move the others, so the member that holds the list is removed.
    """
    node: Any = data
    owner: dict[str, Any] | None = None
    name = ""
    path: list[str] = []
    for step in location:
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
    """The names that a body may use for pydantic's `step`."""
    text = str(step)
    return (text, to_camel(text), to_snake(text))
