"""State as JSON text, and the state dict of a session object.

The server returns every value byte for byte as it was stored. Values are therefore compared as texts: two texts that
differ are a change, and no deep comparison is needed.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from .errors import StateValueError
from .text import HALF_PAIR, is_sendable, mend

logger = logging.getLogger(__name__)

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
    objects, bytes to their UTF-8 text. Refuses what that service would store as a `repr`. Half a surrogate pair in the
    value becomes U+FFFD, with a warning.

    Raises:
      StateValueError: the value has no JSON form (NaN, an infinity, a function, bytes that are not UTF-8, a value that
        contains itself), or the key is not a string or has half a surrogate pair.
    """
    return mend_and_encode(key, value)[0]


def mend_and_encode(key: object, value: object) -> tuple[str, Any]:
    """As `encode_value`, with the value that the text stands for: `value` itself, or the mended one."""
    text, stored, paths = _encode(key, value)
    if paths:
        logger.warning("state key %s: replaced half a surrogate pair by U+FFFD in %s", key, ", ".join(paths))
    return text, stored


def _encode(key: object, value: object) -> tuple[str, Any, list[str]]:
    """The text, the value that it stands for, and the paths of what was mended."""
    check_key(key)
    paths: list[str] = []
    try:
        try:
            text = _write(to_jsonable_python(value))
        except UnicodeEncodeError:
            # Member names first, which the conversion refuses; then the texts that it makes.
            value, paths = mend(value, str(key))
            value, more = mend(to_jsonable_python(value), str(key))
            paths += more
            text = _write(value)
    except (ValueError, TypeError, RecursionError) as error:
        # pydantic's PydanticSerializationError is a ValueError.
        raise StateValueError(key, str(error)) from error
    return text, value, paths


def _write(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if not text.isascii():
        text.encode()
    return text


def check_key(key: object) -> None:
    """Checks a key before it is sent.

    Raises:
      StateValueError: it is not a string, or has half a surrogate pair.
    """
    if not isinstance(key, str):
        raise StateValueError(key, "the key is not a string")
    if not is_sendable(key):
        raise StateValueError(key, f"the key has {HALF_PAIR}")


def encode_values(values: Mapping[str, Any]) -> dict[str, str]:
    """The JSON text of each value, by key.

    Raises:
      StateValueError: as `encode_value`.
    """
    return {key: encode_value(key, value) for key, value in values.items()}


def join_object(texts: Mapping[str, str]) -> str:
    """A JSON object of values that are JSON texts already."""
    return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{text}" for key, text in texts.items()) + "}"


@dataclass(frozen=True, slots=True)
class SeenValue:
    """A stored value that the caller has seen: its JSON text, and the version of its key if the server sent it."""

    text: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value as the server stores it: what the caller sees of it, and a freshly decoded object."""

    seen: SeenValue
    value: Any

    @property
    def text(self) -> str:
        return self.seen.text


def split_object(text: str, versions: Mapping[str, int] | None = None) -> dict[str, StoredValue]:
    """The members of a JSON object, each with its own text and the version of its key.

    Raises:
      ValueError: `text` is not a JSON object.
    """
    members: dict[str, StoredValue] = {}
    versions = versions or {}
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
        members[key] = StoredValue(SeenValue(text[begin:end], versions.get(key)), value)
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
      uid: identity of this life of the session id, which every write sends; "" if the server has not said it.
      seen: the stored values, by key; no `temp:` keys. Of a key that the caller has set and not committed, the value
        that the caller saw before.
    """

    sequence: int
    uid: str
    seen: dict[str, SeenValue]

    def __init__(self, stored: Mapping[str, StoredValue] | None = None, sequence: int = 0, uid: str = "") -> None:
        # Copying and unpickling call this without arguments.
        stored = stored or {}
        super().__init__(values_of(stored))
        self.sequence, self.uid, self.seen = sequence, uid, _seen_values(stored)

    def replace_with(self, other: SessionState) -> None:
        self.clear()
        self.update(other)
        self.sequence, self.uid, self.seen = other.sequence, other.uid, dict(other.seen)

    def record_written(self, written: Mapping[str, StoredValue], removed: Iterable[str], sequence: int) -> None:
        """Keeps what the caller's event of this `sequence` has written, after a response without state.

        The version of a session's own key is the event's sequence. Those of wider scopes are unknown.
        """
        for key, item in written.items():
            self.seen[key] = SeenValue(item.text, sequence if is_own(key) else None)
        for key in removed:
            self.seen.pop(key, None)

    def is_uncommitted(self, key: str) -> bool:
        """Whether the caller has changed a key since the server's value was recorded."""
        if key not in self.seen or key not in self:
            return (key in self.seen) != (key in self)
        try:
            return bool(json.loads(_encode(key, self[key])[0]) != json.loads(self.seen[key].text))
        except StateValueError:
            return True


def apply_stored_state(
    state: dict[str, Any],
    stored: Mapping[str, StoredValue],
    sequence: int,
    *,
    own: Mapping[str, Any],
    own_texts: Mapping[str, str],
    written: Collection[str] = (),
) -> None:
    """Updates `state` in place to what the server has at `sequence`, right after a commit that changed `written`.

    * A key that the caller has just written (`own`, sent as `own_texts`) keeps the caller's object, as in ADK's own
      services, unless the server has another value.
    * A key that others have changed gets their value. A key that others have removed is removed.
    * A value that the caller has set and not committed stays, also if others have changed the key: an agent's tools
      write into this dict before their event is appended, and the append of another branch must not undo that. The
      stored value that the caller saw, and its version, stay with it, so that the append of that value can be
      recognized as a conflict.
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
    seen = _seen_values(stored)
    for key in stored.keys() | state.seen.keys() | own_texts.keys():
        now, before = stored.get(key), state.seen.get(key)
        if now is not None and own_texts.get(key) == now.text:
            state[key] = own[key]
        elif is_temp(key):
            if now is not None:
                state[key] = now.value
        elif key not in own_texts and before != seen.get(key) and state.is_uncommitted(key):
            if key in written:
                continue
            seen.pop(key, None)
            if before is not None:
                seen[key] = before
        elif now is None:
            state.pop(key, None)
        elif key in own_texts or before != now.seen:
            state[key] = now.value
    state.sequence, state.seen = sequence, seen


def _seen_values(stored: Mapping[str, StoredValue]) -> dict[str, SeenValue]:
    return {key: item.seen for key, item in stored.items() if not is_temp(key)}


def values_of(stored: Mapping[str, StoredValue]) -> dict[str, Any]:
    return {key: item.value for key, item in stored.items()}


def without_prefix(stored: Mapping[str, StoredValue], prefix: str) -> dict[str, Any]:
    """The values whose keys begin with `prefix`, by the rest of the key."""
    return {key.removeprefix(prefix): item.value for key, item in stored.items() if key.startswith(prefix)}


def with_prefix(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {prefix + key: value for key, value in values.items()}
