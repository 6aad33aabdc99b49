"""Conversion of events.

The body of a stored event is its canonical form (docs/bodies.md): the event's own JSON as ADK writes it (camelCase,
None omitted), complete except for `actions.stateDelta`, which is sent as the typed delta. Fields that this version of
ADK does not know, from a newer version or another language, are missing from the decoded object and stay in the store.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from pydantic import ValidationError
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import PydanticSerializationError, to_json

from ._proto import types_pb2
from .canonical import may_be_variant, to_canonical
from .operations import Operation, write_delta
from .state import StoredValue, is_temp, mend_and_encode
from .text import mend, require_sendable
from .times import to_nanos, to_seconds

logger = logging.getLogger(__name__)

# Each round removes every member that pydantic rejects. The next may reject what holds them: a record that lacks a
# required member now, or a union, which pydantic matches anew. The last round removes whole members of the event.
_MAX_ROUNDS = 10


@dataclass(frozen=True)
class EncodedEvent:
    """An event as it is sent.

    Attributes:
      message: the event.
      texts: the JSON texts of the values that it sets (`temp:` keys only if they are shared).
      delta: the values of the event's delta, as they are stored, and its `temp:` keys.
    """

    message: types_pb2.Event
    texts: dict[str, str]
    delta: dict[str, Any]


def encode_event(
    event: Event,
    operations: Sequence[Operation] = (),
    *,
    share_temp: bool = False,
    restored: Mapping[str, StoredValue] | None = None,
) -> EncodedEvent:
    """The event as a message. Does not change `event`. Values of `restored` take the place of those in its delta.

    Raises:
      StateValueError: a value of the delta has no JSON form, or a key cannot be sent.
      ValueError: the time is outside the years 1 to 9999, the body has no JSON form, or an id cannot be sent.
    """
    require_sendable(event_id=event.id, invocation_id=event.invocation_id, author=event.author, branch=event.branch)
    delta = dict(event.actions.state_delta)
    texts = {}
    for key, value in delta.items():
        if share_temp or not is_temp(key):
            texts[key], delta[key] = mend_and_encode(key, value)
    for key, stored in (restored or {}).items():
        texts[key], delta[key] = stored.text, stored.value
    message = types_pb2.Event(
        event_id=event.id,
        invocation_id=event.invocation_id,
        author=event.author,
        branch=event.branch or "",
        body_json=_encode_body(event),
    )
    message.event_time.FromNanoseconds(to_nanos(event.timestamp))
    write_delta(message.state_delta, texts, operations)
    return EncodedEvent(message, texts, delta)


def _encode_body(event: Event) -> str:
    included: dict[str, Any] = {"by_alias": True, "exclude_none": True, "exclude": {"actions": {"state_delta"}}}
    try:
        return event.model_dump_json(**included)
    except PydanticSerializationError:
        # Half a surrogate pair, or a value without a JSON form, which fails again. The settings are those of ADK's
        # models.
        body, paths = mend(event.model_dump(**included))
        text = to_json(body, inf_nan_mode="null", bytes_mode="base64").decode()
        logger.warning("event %s: replaced half a surrogate pair by U+FFFD in %s", event.id, ", ".join(paths))
        return text


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
    if not may_be_variant(text):
        with suppress(ValidationError):
            return Event.model_validate_json(text)
    # json, unlike pydantic, reads integers of any size.
    data = to_canonical(json.loads(text))
    # The envelope has the time. ADK for Go and Rust write a text.
    if isinstance(data.get("timestamp"), str):
        del data["timestamp"]
    omitted: list[str] = []
    for round_number in range(_MAX_ROUNDS):
        try:
            event = Event.model_validate_json(json.dumps(data))
        except ValidationError as error:
            rejection = error
        else:
            if omitted:
                logger.warning(
                    "event %s: omitted fields that this version of ADK does not know: %s",
                    stored.event_id,
                    ", ".join(omitted),
                )
            return event
        last = round_number == _MAX_ROUNDS - 2
        locations = [place for detail in rejection.errors() for place in _rejected(data, detail["loc"])]
        removed = _remove_members(data, [place[: 1 if last else None] for place in locations])
        if not removed:
            break
        omitted += removed
    logger.warning("event %s: this version of ADK cannot read the body: %s", stored.event_id, rejection)
    return Event()


def _rejected(data: Any, location: tuple[int | str, ...]) -> Iterator[tuple[int | str, ...]]:
    """What is rejected at `location`. ADK's own validators reject a map in `actions` without saying which entry."""
    path, owner, name = _member_at(data, location)
    entries = owner[name] if path.startswith("actions.") and path.count(".") == 1 else None
    if isinstance(entries, dict):
        rejected = []
        for key, value in entries.items():
            try:
                EventActions.model_validate({name: {key: value}})
            except ValidationError:
                rejected.append((*location[:2], key))
        # A record, such as a compaction, is rejected with each of its members.
        if 0 < len(rejected) < len(entries):
            yield from rejected
            return
    yield location


def _remove_members(data: Any, locations: Iterable[Sequence[int | str]]) -> list[str]:
    """Removes what is at the locations, and returns the paths.

    All are looked up before one is removed: several may point into one record, and a location whose record is gone
    would name what holds the record.
    """
    found: dict[str, tuple[Any, int | str]] = {}
    for location in locations:
        path, owner, name = _member_at(data, location)
        if path:
            found[path] = owner, name
    # The last items of a list first: a removal moves those behind it.
    for owner, name in sorted(found.values(), key=lambda one: -one[1] if isinstance(one[1], int) else 0):
        del owner[name]
    return list(found)


def _member_at(data: Any, location: Sequence[int | str]) -> tuple[str, Any, int | str]:
    """The last member on the way to `location` that exists: its path, its owner, and its name there. "" if none does.

    pydantic appends the names of union variants and of missing fields to a location, so the last one is what it
    rejects. An item counts as a member in a list of parts only; others may refer to the items of other lists by number.
    """
    node: Any = data
    owner: Any = None
    name: int | str = ""
    path: list[str] = []
    length = 0
    for step in location:
        if isinstance(node, dict):
            found = next((key for key in _spellings(step) if key in node), None)
            if found is None:
                break
            owner, name, length = node, found, len(path) + 1
            node, step = node[found], found
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            if name == "parts":
                owner, name, length = node, step, len(path) + 1
            node = node[step]
        else:
            break
        path.append(str(step))
    return ".".join(path[:length]), owner, name


def _spellings(step: int | str) -> tuple[str, ...]:
    """The names that a body may use for pydantic's `step`."""
    text = str(step)
    return (text, to_camel(text), to_snake(text))
