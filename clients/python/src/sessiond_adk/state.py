"""State as JSON text, and the caller's copy of it.

Values travel as text and are compared as text: the server returns every value byte for byte as it was stored, so two
texts that differ are a change, and nothing has to be compared deeply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from .errors import StateValueError

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def is_temp(key: object) -> bool:
    """Whether `key` lives during one invocation only. One that is no string does not; it is refused later, by name."""
    return isinstance(key, str) and key.startswith(State.TEMP_PREFIX)


def encode_value(key: object, value: object) -> str:
    """The JSON text of a value.

    What has a JSON form gets it, as in the kit's own `DatabaseSessionService`: dates as ISO 8601, sets and tuples as
    lists, pydantic models as objects, bytes as the UTF-8 text that they hold. What has none is refused, where that
    service would store a `repr`.

    Raises:
      StateValueError: JSON cannot hold it (NaN, infinities, functions, bytes that are no UTF-8, half of a surrogate
        pair, a value that contains itself), or the key is no string.
    """
    if not isinstance(key, str):
        raise StateValueError(key, "the key is no string")
    try:
        text = json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if not text.isascii():
            text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        # UnicodeEncodeError and pydantic's PydanticSerializationError are ValueErrors.
        raise StateValueError(key, str(error)) from error
    return text


def encode_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Key -> JSON text of its value.

    Raises:
      StateValueError: as `encode_value`.
    """
    return {key: encode_value(key, value) for key, value in values.items()}


def join_object(texts: Mapping[str, str]) -> str:
    """One JSON object of values that are texts already.

    Raises:
      StateValueError: a key that UTF-8 cannot hold.
    """
    members = []
    for key, text in texts.items():
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise StateValueError(key, str(error)) from error
        members.append(f"{json.dumps(key, ensure_ascii=False)}:{text}")
    return "{" + ",".join(members) + "}"


@dataclass(frozen=True, slots=True)
class Known:
    """A value as the server has it: its text, and what that decodes to (a fresh object, shared with nobody)."""

    text: str
    value: Any


def split_object(text: str) -> dict[str, Known]:
    """The members of a JSON object, each with its own text.

    Raises:
      ValueError: `text` is no JSON object.
    """
    found: dict[str, Known] = {}
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("a JSON object begins with {")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError("a member of a JSON object is a string, a colon and a value")
        begin = _skip(text, at + 1)
        value, end = _DECODER.raw_decode(text, begin)
        found[key] = Known(text[begin:end], value)
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError("a comma or } stands behind a member of a JSON object")
    return found


def _skip(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


class SessionState(dict[str, Any]):
    """The state of a session that this package has read: a plain dict that remembers what the server said last.

    The memory is what tells a key that another writer has removed from one that the caller has set and not committed
    yet, and a value that another has changed from one that the caller has. It stays with the dict through copies of the
    session, and is lost with the dict, which is safe (see `bring_up_to_date`).

    Attributes:
      sequence: sequence of the session's newest event when the state was read.
      texts: key -> JSON text as the server has it, `temp:` keys left out.
    """

    sequence: int
    texts: dict[str, str]

    def __init__(self, known: Mapping[str, Known] | None = None, sequence: int = 0) -> None:
        """The state that was read; without arguments an empty one, which is what copying needs."""
        known = known or {}
        super().__init__(values_of(known))
        self.remember(known, sequence)

    def remember(self, known: Mapping[str, Known], sequence: int) -> None:
        """Takes down what the server says now."""
        self.sequence = sequence
        self.texts = {key: item.text for key, item in known.items() if not is_temp(key)}

    def become(self, other: SessionState) -> None:
        """Takes over another state whole, with what it remembers."""
        self.clear()
        self.update(other)
        self.sequence, self.texts = other.sequence, dict(other.texts)


def bring_up_to_date(
    state: dict[str, Any],
    known: Mapping[str, Known],
    sequence: int,
    *,
    own: Mapping[str, Any],
    own_texts: Mapping[str, str],
) -> None:
    """Changes `state` in place to what the server has now, `known` at `sequence`.

    * A key that the caller has just written (`own`, sent as `own_texts`) keeps the caller's own object, as in every
      service of the kit, unless the server has another value for it.
    * A key that others have changed gets their value; one that they have removed goes.
    * What the caller has set locally and not committed yet stays: an agent's tools write into this dict before their
      event is appended, and another branch's append must not undo that.
    * `temp:` keys stay.

    In a plain dict nothing is known about the past, so every key gets the server's value and none is removed.
    """
    tracked = state if isinstance(state, SessionState) else None
    before = tracked.texts if tracked is not None else {}
    for key, now in known.items():
        if own_texts.get(key) == now.text:
            state[key] = own[key]
        elif key in own_texts or before.get(key) != now.text:
            state[key] = now.value
    for key in (before.keys() | own_texts.keys()) - known.keys():
        if not is_temp(key):
            state.pop(key, None)
    if tracked is not None:
        tracked.remember(known, sequence)


def values_of(known: Mapping[str, Known]) -> dict[str, Any]:
    """The values alone."""
    return {key: item.value for key, item in known.items()}


def without_prefix(known: Mapping[str, Known], prefix: str) -> dict[str, Any]:
    """The values whose keys begin with `prefix`, by the rest of the key."""
    return {key.removeprefix(prefix): item.value for key, item in known.items() if key.startswith(prefix)}


def with_prefix(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The reverse of `without_prefix`."""
    return {prefix + key: value for key, value in values.items()}
