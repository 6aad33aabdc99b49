"""Moving from the databases of ADK's own services."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Server
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from support import delta_event, field_by_field, text_event

from sessiond_adk import Delta, SessiondSessionService
from sessiond_adk.moving import copy_application


def database(folder: Path) -> DatabaseSessionService:
    return DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'adk.db'}")


def local_file(folder: Path) -> SqliteSessionService:
    return SqliteSessionService(str(folder / "adk.db"))


async def fill(service: BaseSessionService) -> None:
    """Two users with two sessions each, whose shared state was last changed by the session that was created first."""
    for user in ("ann", "bob"):
        sessions = [
            await service.create_session(
                app_name="app", user_id=user, session_id=f"{user}-{n}", state={"initial": n, "user:first": user}
            )
            for n in range(2)
        ]
        for n in (1, 0):
            session = sessions[n]
            await service.append_event(session, text_event("hello", id=f"e1-{session.id}"))
            delta = {"step": n, "initial": None, "app:last": session.id, "user:last": n, "list": [n, {"a": None}]}
            await service.append_event(session, delta_event(delta, id=f"e2-{session.id}"))
            await service.append_event(session, delta_event({"step": n + 10}, id=f"e3-{session.id}"))


async def content(service: BaseSessionService) -> list[dict[str, Any]]:
    """All sessions with their events."""
    found = []
    for listed in (await service.list_sessions(app_name="app")).sessions:
        session = await service.get_session(app_name="app", user_id=listed.user_id, session_id=listed.id)
        assert session is not None
        found.append(session.model_dump(mode="json", exclude={"last_update_time"}))
    return sorted(found, key=lambda one: one["id"])


@pytest.mark.parametrize("kind", [database, local_file])
async def test_sessions_events_and_state_are_copied(server: Server, tmp_path: Path, kind: Any) -> None:
    source = kind(tmp_path)
    await fill(source)
    async with SessiondSessionService(server.address) as target:
        copied = await copy_application(source, target, "app")
        assert (copied.sessions, copied.new_events, copied.problems) == (4, 12, [])
        field_by_field(await content(target), await content(source))
        # Again: nothing is new, and what agents have written since then stays.
        await target.update_app_state({"last": "newer"}, app_name="app")
        copied = await copy_application(source, target, "app")
        assert (copied.sessions, copied.new_events) == (4, 0)
        assert copied.problems == [
            'state of the application: \'app:last\' keeps the value "newer" of another writer; the source has "bob-0"'
        ]
        assert await target.get_app_state(app_name="app") == {"last": "newer"}
        # Interrupted in the middle of a session.
        key: dict[str, Any] = {"app_name": "app", "user_id": "bob", "session_id": "bob-1"}
        complete = await content(target)
        found = await target.get_session(**key)
        assert found is not None
        await target.delete_session(**key)
        session = await target.create_session(**key)
        await target.append_event(session, found.events[0])
        copied = await copy_application(source, target, "app")
        assert (copied.new_events, len(copied.problems)) == (2, 1)
        field_by_field(await content(target), complete)


async def test_shared_keys_of_the_target_keep_their_values(server: Server, tmp_path: Path) -> None:
    source = database(tmp_path)
    await fill(source)
    async with SessiondSessionService(server.address) as target:
        await target.update_state(Delta({"app:last": "mine", "user:last": "mine"}), app_name="app", user_id="ann")
        await copy_application(source, target, "app")
        assert await target.get_app_state(app_name="app") == {"last": "mine"}
        assert await target.get_user_state(app_name="app", user_id="ann") == {"first": "ann", "last": "mine"}
        assert await target.get_user_state(app_name="app", user_id="bob") == {"first": "bob", "last": 0}


@pytest.mark.parametrize(("kind", "scheme"), [(database, "sqlite+aiosqlite"), (local_file, "sqlite")])
async def test_move_program(server: Server, tmp_path: Path, kind: Any, scheme: str) -> None:
    source = kind(tmp_path)
    await fill(source)
    await source.close()
    uri = f"{scheme}:///{tmp_path / 'adk.db'}"
    command = [sys.executable, "-m", "sessiond_adk.move", "--from", uri, "--to", server.address]
    command += ["--app", "app", "--app", "none"]
    moved = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert moved.stdout == "app: 4 sessions, 12 new events\nnone: 0 sessions, 0 new events\n"
    async with SessiondSessionService(server.address) as target:
        # A session whose state was changed in between is named.
        await target.update_state(Delta({"step": 99}), app_name="app", user_id="bob", session_id="bob-0")
    again = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "session 'bob-0' of user 'bob': the state differs" in again.stderr
