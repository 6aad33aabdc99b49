"""Copies the sessions of an application from another session service, each by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from . import errors
from .service import SessiondSessionService
from .shared import Own, restore_shared_state
from .sources import read_shared_state
from .state import encode_value, is_own, is_temp


class Stopped(Exception):
    """A session could not be copied, and the caller wants to stop there."""


@dataclass
class Copied:
    """What a move has done with an application.

    Attributes:
      sessions: sessions of the source that are complete in the target.
      new_events: events that the target did not have.
      failed: sessions that are not.
      problems: a line for everything that is not in the target as it is in the source.
    """

    sessions: int = 0
    new_events: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def everything(self) -> bool:
        return not self.problems


class _NotCopied(Exception):
    """Why a session is not complete in the target."""


async def copy_application(
    source: BaseSessionService,
    target: SessiondSessionService,
    app_name: str,
    copied: Copied | None = None,
    *,
    stop_on_error: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Copied:
    """Copies all sessions of an application, with the state of the application and its users.

    `app:` and `user:` keys that others have changed in the target keep their values. `copied` grows as the copy goes
    on.

    Raises:
      Stopped: with `stop_on_error`, at the first session that cannot be copied.
      SessiondError: the target is unavailable.
    """
    copied = copied or Copied()
    try:
        listed = sorted((await source.list_sessions(app_name=app_name)).sessions, key=lambda one: one.last_update_time)
        shared = await read_shared_state(source, app_name, listed)
    except Exception as error:
        copied.problems.append(f"the source cannot list its sessions and shared state: {_reason(error)}")
        return copied
    own = Own()
    for number, one in enumerate(listed, 1):
        progress(f"{app_name}: {number} of {len(listed)} sessions, {copied.new_events} new events")
        try:
            await _copy_session(one, source, target, copied, own)
            copied.sessions += 1
        except errors.ENDS_A_SERIES:
            raise
        except Exception as error:
            # Whatever it is, of the source or of the target: the others are to come over.
            copied.failed += 1
            copied.problems.append(f"session {one.id!r} of user {one.user_id!r}: {_reason(error)}")
            if stop_on_error:
                raise Stopped from error
    copied.problems += await restore_shared_state(shared, target, app_name, own)
    return copied


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, _NotCopied | errors.SessiondError) else f"{type(error).__name__}: {text}"


async def _copy_session(
    listed: Session, source: BaseSessionService, target: SessiondSessionService, copied: Copied, own: Own
) -> None:
    """Creates the session and appends its events, as far as the target does not have them.

    Each write leaves what a run that ends there can go on from: the events of the source, up to one of them.
    """
    ids: dict[str, Any] = {"app_name": listed.app_name, "user_id": listed.user_id, "session_id": listed.id}
    session = await source.get_session(**ids)
    if session is None:
        raise _NotCopied("it was deleted from the source after it was listed")
    known = {event.id for event in session.events}
    written, stored = await _create_or_read(session, ids, target)
    for sequence, event_id in stored.items():
        if event_id in known:
            own.events.add((listed.user_id, listed.id, sequence))
    missing = [event for event in session.events if event.id not in stored.values()]
    if missing and list(stored.values()) != [event.id for event in session.events[: len(stored)]]:
        raise _NotCopied(f"others have written to it in the target, which lacks {len(missing)} of its events")
    for event in missing:
        try:
            response = await target._appender.append(written, event, ())
        except errors.ENDS_A_SERIES:
            raise
        except Exception as error:
            number = session.events.index(event) + 1
            raise _NotCopied(f"event {event.id!r} ({number} of {len(session.events)}): {_reason(error)}") from error
        copied.new_events += 1
        own.events.add((listed.user_id, listed.id, response.event.sequence))
    found = await target.get_session(**ids)
    if found is None or _own(found.state) != _own(session.state):
        raise _NotCopied("the state differs from that in the source")


async def _create_or_read(
    session: Session, ids: dict[str, Any], target: SessiondSessionService
) -> tuple[Session, dict[int, str]]:
    """The session in the target, created if it is missing, and the ids of its events by their sequences."""
    changed = {key for event in session.events for key in event.actions.state_delta}
    # A key that no event has set was set at the creation.
    state = {key: value for key, value in session.state.items() if _is_own(key) and key not in changed}
    try:
        return await target._create(ids["app_name"], ids["user_id"], ids["session_id"], state), {}
    except AlreadyExistsError:
        found = await target.get_session(**ids)
        if found is None:
            raise
    events = target.list_events(**ids, include_rewound=True)
    return found, {stored.sequence: stored.event.id async for stored in events}


def _is_own(key: str) -> bool:
    return is_own(key) and not is_temp(key)


def _own(state: dict[str, Any]) -> dict[str, Any]:
    """The session's own values, as they are stored."""
    return {key: json.loads(encode_value(key, value)) for key, value in state.items() if _is_own(key)}
