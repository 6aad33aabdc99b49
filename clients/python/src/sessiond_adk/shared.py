"""Shared state after a move: the last values of the source, except for keys that others have changed.

Events that are copied set shared keys to values of the past, in the order of the sessions. Afterwards every key gets
the source's value, or the newest value of another writer. Both come from the target's history of the key, in which the
moves' own changes are known by their events and their author. Nothing has to be remembered between two runs, so a run
that was cut after any write ends, when it is run again, as an unbroken one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from google.adk.sessions.state import State

from . import errors
from ._proto import state_service_pb2, types_pb2
from .client import PAGE_SIZE, TEXT, scope_of
from .reading import read_state
from .service import SessiondSessionService
from .sources import SharedState
from .state import encode_value, join_object

# The author of the moves' changes of shared keys.
AUTHOR = "sessiond_adk.move"

# How often the values are determined anew because others have changed a key meanwhile.
_ATTEMPTS = 10

# Characters of a value in a message.
_SHOWN = 60

# Keys of one write.
_KEYS_AT_ONCE = 100


@dataclass
class Own:
    """The events in the target that moves have written: user, session and sequence."""

    events: set[tuple[str, str, int]] = field(default_factory=set)


@dataclass(frozen=True)
class _Found:
    """A key in the target.

    Attributes:
      text: its value as JSON text; None if it has none.
      version: of its newest change; 0 without one.
      by_others: whether others have ever changed it.
      others_text: the value of the newest of these changes; None if that removed the key.
    """

    text: str | None = None
    version: int = 0
    by_others: bool = False
    others_text: str | None = None


async def restore_shared_state(
    shared: SharedState, target: SessiondSessionService, app_name: str, own: Own
) -> list[str]:
    """Gives the keys of the application and its users their values in the source, `shared`.

    Returns a line for each key that has another value than in the source.

    Raises:
      SessiondError: the target is unavailable.
    """
    problems: list[str] = []
    for user, last in shared.items():
        prefix = State.APP_PREFIX if user is None else State.USER_PREFIX
        whose = "the application" if user is None else f"user {user!r}"
        texts: dict[str, str] = {}
        for key, value in last.items():
            try:
                texts[key] = encode_value(key, value)
            except errors.StateValueError as error:
                problems.append(f"state of {whose}: {error}")
        scope = scope_of(app_name, user)
        current = await read_state(target._client, scope)
        names = sorted(texts.keys() | {key for key in current if key.startswith(prefix)})
        for at in range(0, len(names), _KEYS_AT_ONCE):
            some = {name: texts.get(name) for name in names[at : at + _KEYS_AT_ONCE]}
            try:
                problems += [f"state of {whose}: {text}" for text in await _restore(some, target, scope, own)]
            except errors.SessiondError as error:
                if isinstance(error, errors.ENDS_A_SERIES):
                    raise
                problems.append(f"state of {whose}: {error}")
    return problems


async def _restore(
    wanted: Mapping[str, str | None], target: SessiondSessionService, scope: types_pb2.Scope, own: Own
) -> list[str]:
    """Gives keys their values in one write; `wanted` has those of the source, None if it has none.

    Returns a line for each key that keeps a value of others.
    """
    attempts = 0
    while True:
        attempts += 1
        request = state_service_pb2.UpdateStateRequest(
            scope=scope, author=AUTHOR, request_id=uuid.uuid4().hex, json_form=TEXT
        )
        kept: list[str] = []
        texts: dict[str, str] = {}
        for name, text in wanted.items():
            found = await _find(name, target, scope, own)
            goal = found.others_text if found.by_others else found.text if text is None else text
            if text is not None and not _equal(goal, text):
                value = "no value" if goal is None else f"the value {_short(goal)}"
                kept.append(f"{name!r} keeps {value} of another writer; the source has {_short(text)}")
            if _equal(goal, found.text):
                continue
            if goal is None:
                request.delta.remove.append(name)
            else:
                texts[name] = goal
            check = request.precondition.keys.add(key=name)
            if found.text is None:
                check.exists = False
            else:
                check.version = found.version
        if not request.precondition.keys:
            return kept
        if texts:
            request.delta.set_json = join_object(texts)
        try:
            await target._client.call(lambda to: to.state.UpdateState, request)
        except errors.SessiondStaleError:
            if attempts == _ATTEMPTS:
                raise
        else:
            return kept


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _equal(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(json.loads(one) == json.loads(other))


async def _find(name: str, target: SessiondSessionService, scope: types_pb2.Scope, own: Own) -> _Found:
    """What the history of a key says, read back to the newest change of others."""
    request = state_service_pb2.ListKeyChangesRequest(scope=scope, key=name, page_size=PAGE_SIZE, json_form=TEXT)
    newest: _Found | None = None
    while True:
        page = await target._client.call(lambda to: to.state.ListKeyChanges, request)
        for change in page.changes:
            text = change.value_json if change.HasField("value_json") else None
            newest = newest or _Found(text, change.version)
            if not _is_own(change, own):
                return replace(newest, by_others=True, others_text=text)
        if not page.next_page_token:
            return newest or _Found()
        request.page_token = page.next_page_token


def _is_own(change: state_service_pb2.KeyChange, own: Own) -> bool:
    """Whether a move has made the change."""
    if not change.HasField("session"):
        return change.author == AUTHOR
    return (change.session.user_id, change.session.session_id, change.sequence) in own.events
