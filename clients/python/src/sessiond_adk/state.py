"""State as JSON text, and the state dict of a session object.

The server returns every value byte for byte as it was stored. Values are therefore compared as texts: two texts that
differ are a change, and no deep comparison is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
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


def is_own(key: str) -> bool:
    """Whether a key that is not a `temp:` key belongs to its session, and not to a wider scope."""
    return not key.startswith((State.APP_PREFIX, State.USER_PREFIX))


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
      texts: the JSON text of each stored value, by key; no `temp:` keys. Of a key that the caller has set and not
        committed, the value that the caller saw before.
      versions: the version at which a key got the value in `texts`, as far as it is known.
    """

    sequence: int
    texts: dict[str, str]
    versions: dict[str, int]

    def __init__(self, stored: Mapping[str, StoredValue] | None = None, sequence: int = 0) -> None:
        # Copying and unpickling call this without arguments.
        stored = stored or {}
        super().__init__(values_of(stored))
        self.record_stored(stored, sequence)

    def record_stored(self, stored: Mapping[str, StoredValue], sequence: int) -> None:
        """Keeps what the server sent. Leaves the dict's own items as they are."""
        self.sequence = sequence
        self.texts = {key: item.text for key, item in stored.items() if not is_temp(key)}
        self.versions = {}

    def replace_with(self, other: SessionState) -> None:
        self.clear()
        self.update(other)
        self.sequence, self.texts, self.versions = other.sequence, dict(other.texts), dict(other.versions)

    def take_versions(self, versions: Mapping[str, int], read: Mapping[str, StoredValue]) -> None:
        """Keeps the versions of the keys that had the same value in an earlier `read`."""
        same = {key for key, item in read.items() if self.texts.get(key) == item.text}
        self.versions = {key: version for key, version in versions.items() if key in same}

    def record_written(self, texts: Mapping[str, str], removed: Iterable[str], sequence: int) -> None:
        """Keeps what the caller's event of this `sequence` has written.

        The version of a session's own key is the event's sequence. Those of wider scopes come with reads only.
        """
        for key, text in texts.items():
            self.texts[key] = text
            if is_own(key):
                self.versions[key] = sequence
            else:
                self.versions.pop(key, None)
        for key in removed:
            self.texts.pop(key, None)
            self.versions.pop(key, None)

    def is_uncommitted(self, key: str) -> bool:
        """Whether the caller has changed a key since the server's value was recorded."""
        if key not in self.texts or key not in self:
            return (key in self.texts) != (key in self)
        try:
            return bool(json.loads(encode_value(key, self[key])) != json.loads(self.texts[key]))
        except StateValueError:
            return True


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
    * A value that the caller has set and not committed stays, also if others have changed the key: an agent's tools
      write into this dict before their event is appended, and the append of another branch must not undo that. The
      stored value that the caller saw stays with it, so that the append of that value can be recognized as a conflict.
    * `temp:` keys stay.

    For a plain dict the earlier stored values are unknown: every key gets the server's value, and none is removed.
    """
    if not isinstance(state, SessionState):
        for key, item in stored.items():
            state[key] = own[key] if own_texts.get(key) == item.text else item.value
        for key in own_texts.keys() - stored.keys():
            if not is_temp(key):
                state.pop(key, None)
        return
    texts: dict[str, str] = {}
    versions: dict[str, int] = {}
    for key in stored.keys() | state.texts.keys() | own_texts.keys():
        now, before = stored.get(key), state.texts.get(key)
        text = now.text if now is not None else None
        if now is not None and own_texts.get(key) == text:
            state[key] = own[key]
        elif is_temp(key):
            if now is not None:
                state[key] = now.value
        elif key not in own_texts and before != text and state.is_uncommitted(key):
            text = before
        elif now is None:
            state.pop(key, None)
        elif key in own_texts or before != text:
            state[key] = now.value
        if text is not None and not is_temp(key):
            texts[key] = text
            if before == text and key not in own_texts and key in state.versions:
                versions[key] = state.versions[key]
    state.sequence, state.texts, state.versions = sequence, texts, versions


def values_of(stored: Mapping[str, StoredValue]) -> dict[str, Any]:
    return {key: item.value for key, item in stored.items()}


def without_prefix(stored: Mapping[str, StoredValue], prefix: str) -> dict[str, Any]:
    """The values whose keys begin with `prefix`, by the rest of the key."""
    return {key.removeprefix(prefix): item.value for key, item in stored.items() if key.startswith(prefix)}


def with_prefix(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {prefix + key: value for key, value in values.items()}
