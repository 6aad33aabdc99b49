"""State as JSON text, and the state dict of a session object.

The server returns every value byte for byte as it was stored. Values are therefore compared as texts: two texts that
differ are a change, and no deep comparison is needed.
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
    """Whether `key` is a `temp:` key. False for a key that is not a string: `encode_value` refuses it."""
    return isinstance(key, str) and key.startswith(State.TEMP_PREFIX)


def encode_value(key: object, value: object) -> str:
    """The JSON text of a value.

    Converts as ADK's `DatabaseSessionService` does: dates to ISO 8601, sets and tuples to lists, pydantic models to
    objects, bytes to their UTF-8 text. Refuses what that service would store as a `repr`.

    Raises:
      StateValueError: the value has no JSON form (NaN, an infinity, a function, bytes that are not UTF-8, a lone
        surrogate, a value that contains itself), or the key is not a string.
    """
    if not isinstance(key, str):
        raise StateValueError(key, "the key is not a string")
    try:
        text = json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if not text.isascii():
            text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        # UnicodeEncodeError and pydantic's PydanticSerializationError are ValueErrors.
        raise StateValueError(key, str(error)) from error
    return text


def encode_values(values: Mapping[str, Any]) -> dict[str, str]:
    """The JSON text of each value, by key.

    Raises:
      StateValueError: as `encode_value`.
    """
    return {key: encode_value(key, value) for key, value in values.items()}


def join_object(texts: Mapping[str, str]) -> str:
    """A JSON object of values that are JSON texts already.

    Raises:
      StateValueError: a key cannot be encoded as UTF-8.
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
class StoredValue:
    """A value as the server stores it: its JSON text, and a freshly decoded object."""

    text: str
    value: Any


def split_object(text: str) -> dict[str, StoredValue]:
    """The members of a JSON object, each with its own text.

    Raises:
      ValueError: `text` is not a JSON object.
    """
    members: dict[str, StoredValue] = {}
    at = _skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError(f"Expected '{{' at offset {at} of a JSON object.")
    at = _skip_space(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, at)
        if not isinstance(key, str) or text[at : at + 1] != ":":
            raise ValueError(f"Expected a string and ':' before offset {at} of a JSON object.")
        begin = _skip_space(text, at + 1)
        value, end = _DECODER.raw_decode(text, begin)
        members[key] = StoredValue(text[begin:end], value)
        at = _skip_space(text, end)
        if text[at : at + 1] == ",":
            at = _skip_space(text, at + 1)
        elif text[at : at + 1] != "}":
            raise ValueError(f"Expected ',' or '}}' at offset {at} of a JSON object.")
    return members


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


class SessionState(dict[str, Any]):
    """The state of a session that this package has read: a dict that also keeps what the server sent last.

    `apply_stored_state` needs that to tell a key that another writer removed from one that the caller has set and not
    committed, and a change of another writer from one of the caller. Copies of the session copy it.

    Attributes:
      sequence: sequence of the session's newest event when the state was read.
      texts: the JSON text of each stored value, by key; no `temp:` keys.
    """

    sequence: int
    texts: dict[str, str]

    def __init__(self, stored: Mapping[str, StoredValue] | None = None, sequence: int = 0) -> None:
        # Copying and unpickling call this without arguments.
        stored = stored or {}
        super().__init__(values_of(stored))
        self.record_stored(stored, sequence)

    def record_stored(self, stored: Mapping[str, StoredValue], sequence: int) -> None:
        """Keeps what the server sent. Leaves the dict's own items as they are."""
        self.sequence = sequence
        self.texts = {key: item.text for key, item in stored.items() if not is_temp(key)}

    def replace_with(self, other: SessionState) -> None:
        self.clear()
        self.update(other)
        self.sequence, self.texts = other.sequence, dict(other.texts)


def apply_stored_state(
    state: dict[str, Any],
    stored: Mapping[str, StoredValue],
    sequence: int,
    *,
    own: Mapping[str, Any],
    own_texts: Mapping[str, str],
) -> None:
    """Updates `state` in place to what the server has at `sequence`.

    * A key that the caller has just written (`own`, sent as `own_texts`) keeps the caller's object, as in ADK's own
      services, unless the server has another value.
    * A key that others have changed gets their value. A key that others have removed is removed.
    * A value that the caller has set and not committed stays: an agent's tools write into this dict before their event
      is appended, and the append of another branch must not undo that.
    * `temp:` keys stay.

    For a plain dict the earlier stored values are unknown: every key gets the server's value, and none is removed.
    """
    tracked = state if isinstance(state, SessionState) else None
    before = tracked.texts if tracked is not None else {}
    for key, now in stored.items():
        if own_texts.get(key) == now.text:
            state[key] = own[key]
        elif key in own_texts or before.get(key) != now.text:
            state[key] = now.value
    for key in (before.keys() | own_texts.keys()) - stored.keys():
        if not is_temp(key):
            state.pop(key, None)
    if tracked is not None:
        tracked.record_stored(stored, sequence)


def values_of(stored: Mapping[str, StoredValue]) -> dict[str, Any]:
    return {key: item.value for key, item in stored.items()}


def without_prefix(stored: Mapping[str, StoredValue], prefix: str) -> dict[str, Any]:
    """The values whose keys begin with `prefix`, by the rest of the key."""
    return {key.removeprefix(prefix): item.value for key, item in stored.items() if key.startswith(prefix)}


def with_prefix(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {prefix + key: value for key, value in values.items()}
