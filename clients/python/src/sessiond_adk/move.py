"""Copies sessions of another session service of ADK into sessiond.

    python -m sessiond_adk.move --from sqlite:///sessions.db --to 127.0.0.1:50051 --app my_app

The source is any URI that ADK's `--session_service_uri` takes. It is only read. Events keep their ids and times, so a
copy that was interrupted is completed by running it again. Stop the agents first: what they write meanwhile is not
copied.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.cli.utils.service_factory import create_session_service_from_options
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from .operations import Delta
from .service import SessiondSessionService
from .state import is_own, is_temp


@dataclass
class Copied:
    """What a copy has done.

    Attributes:
      sessions: sessions of the source.
      new_events: events that the target did not have.
      different: sessions whose own state in the target differs from the source.
    """

    sessions: int = 0
    new_events: int = 0
    different: tuple[tuple[str, str], ...] = ()


async def copy_application(source: BaseSessionService, target: SessiondSessionService, app_name: str) -> Copied:
    """Copies all sessions of an application, with the state of the application and its users.

    `app:` and `user:` keys that have a value in the target keep it.
    """
    listed = sorted((await source.list_sessions(app_name=app_name)).sessions, key=lambda one: one.last_update_time)
    kept = await _shared_state(target, app_name, {one.user_id for one in listed})
    copied = Copied(sessions=len(listed))
    for number, one in enumerate(listed, 1):
        session = await source.get_session(app_name=app_name, user_id=one.user_id, session_id=one.id)
        if session is None:
            # Deleted since it was listed.
            continue
        copied.new_events += await _copy_session(session, target)
        _show_progress(f"{app_name}: {number} of {len(listed)} sessions, {copied.new_events} new events")
        written = await target.get_session(app_name=app_name, user_id=one.user_id, session_id=one.id)
        if written is None or _own(written.state) != _own(session.state):
            copied.different += ((one.user_id, one.id),)
    _show_progress(None)
    await _restore_shared_state(listed, kept, target, app_name)
    return copied


def _own(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if is_own(key) and not is_temp(key)}


async def _copy_session(session: Session, target: SessiondSessionService) -> int:
    """Creates the session and appends its events, as far as the target does not have them. Returns their number."""
    changed = {key for event in session.events for key in event.actions.state_delta}
    # A key that no event has set was set at the creation.
    state = {key: value for key, value in _own(session.state).items() if key not in changed}
    app_name, user_id, session_id = session.app_name, session.user_id, session.id
    try:
        written = await target.create_session(app_name=app_name, user_id=user_id, session_id=session_id, state=state)
    except AlreadyExistsError:
        found = await target.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if found is None:
            raise
        written = found
    present = {event.id for event in written.events}
    missing = [event for event in session.events if event.id not in present]
    for event in missing:
        await target.append_event(written, event)
    return len(missing)


async def _shared_state(
    target: SessiondSessionService, app_name: str, users: set[str]
) -> dict[str | None, dict[str, Any]]:
    """The state of the application (None) and of its users in the target, with prefixed keys."""
    state: dict[str | None, dict[str, Any]] = {None: await target.get_state(app_name=app_name)}
    for user in users:
        found = await target.get_state(app_name=app_name, user_id=user)
        state[user] = {key: value for key, value in found.items() if key.startswith(State.USER_PREFIX)}
    return state


async def _restore_shared_state(
    listed: Sequence[Session], kept: dict[str | None, dict[str, Any]], target: SessiondSessionService, app_name: str
) -> None:
    """Gives shared keys their last value: sessions are copied one after the other, and not in the order of time."""
    for user, before in kept.items():
        prefix = State.APP_PREFIX if user is None else State.USER_PREFIX
        last = {
            key: value
            for session in listed
            if user in (None, session.user_id)
            for key, value in session.state.items()
            if key.startswith(prefix)
        }
        if values := last | before:
            await target.update_state(Delta(values), app_name=app_name, user_id=user)


def _show_progress(text: str | None) -> None:
    """Shows a line on a terminal, in the place of the last one; None ends it."""
    if sys.stderr.isatty():
        print("\n" if text is None else f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


async def _move(source_uri: str, target_uri: str, applications: Sequence[str]) -> int:
    source = create_session_service_from_options(base_dir=Path.cwd(), session_service_uri=source_uri)
    different = 0
    async with SessiondSessionService(target_uri) as target:
        for app_name in applications:
            copied = await copy_application(source, target, app_name)
            print(f"{app_name}: {copied.sessions} sessions, {copied.new_events} new events")
            for user_id, session_id in copied.different:
                different += 1
                print(f"session {session_id!r} of user {user_id!r}: the state differs", file=sys.stderr)
    return 1 if different else 0


def main() -> int:
    """Runs the program, and returns its exit code: 1 if a session's state in the target differs from the source."""
    parser = argparse.ArgumentParser(
        prog="python -m sessiond_adk.move", description="Copies sessions of another session service of ADK."
    )
    parser.add_argument("--from", dest="source", required=True, metavar="URI", help="as for --session_service_uri")
    parser.add_argument("--to", required=True, metavar="ADDRESS", help="the server's address")
    parser.add_argument("--app", action="append", required=True, metavar="NAME", help="an application; can be repeated")
    arguments = parser.parse_args()
    return asyncio.run(_move(arguments.source, arguments.to, arguments.app))


if __name__ == "__main__":
    sys.exit(main())
