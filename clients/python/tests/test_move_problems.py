"""Moves that are cut, that meet what cannot be copied, and that meet others in the target."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Serve, Server
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from support import delta_event, field_by_field, text_event
from test_move import database, local_file

from sessiond_adk import Delta, Remove, SessiondSessionService
from sessiond_adk.moving import copy_application

WRITES = ("CreateSessionRequest", "AppendEventRequest", "UpdateStateRequest")


class Killed(BaseException):
    """Ends a move as a crash does: nothing of it runs any more."""


class CutTarget(SessiondSessionService):
    """Is killed right after its write of a number, before it learns of the response. Counts them otherwise."""

    def __init__(self, address: str, after: int = -1, meanwhile: Callable[[], Awaitable[Any]] | None = None) -> None:
        super().__init__(address)
        self.writes = 0
        call = self._client.call

        async def counted(method: Any, request: Any) -> Any:
            response = await call(method, request)
            if type(request).__name__ in WRITES:
                self.writes += 1
                if self.writes == after:
                    if meanwhile is None:
                        raise Killed
                    await meanwhile()
            return response

        self._client.call = counted  # type: ignore[method-assign]


async def fill(source: BaseSessionService, app_name: str) -> None:
    """Sessions of two users that take turns in changing shared keys, so that no order of copying is that of time."""
    users = ("ann", "ann", "bob", "bob")
    sessions = [
        await source.create_session(
            app_name=app_name, user_id=user, session_id=f"s{n}", state={"start": n, "app:born": n}
        )
        for n, user in enumerate(users)
    ]
    number = 0
    for turn in range(2):
        for session in sessions:
            number += 1
            at = 1000.0 - 100 * int(session.id[1:]) + number
            delta: dict[str, Any] = {"app:count": number, "user:last": session.id, "own": number}
            if turn == 0:
                delta[f"app:only {session.id}"] = {"n": number, "none": None}
            await source.append_event(session, delta_event(delta, id=f"e{number}", timestamp=at))


async def content(service: BaseSessionService, app_name: str) -> list[dict[str, Any]]:
    """All sessions with their events and merged state."""
    found = []
    for listed in (await service.list_sessions(app_name=app_name)).sessions:
        ids: dict[str, Any] = {"app_name": app_name, "user_id": listed.user_id, "session_id": listed.id}
        session = await service.get_session(**ids)
        assert session is not None
        found.append(session.model_dump(mode="json", exclude={"last_update_time", "app_name"}))
    return sorted(found, key=lambda one: str((one["user_id"], one["id"])))


async def test_move_that_was_cut_after_any_write_ends_as_an_unbroken_one(server: Server) -> None:
    source = InMemorySessionService()
    await fill(source, "app")
    async with CutTarget(server.address) as unbroken:
        assert (await copy_application(source, unbroken, "app")).everything
        expected = await content(unbroken, "app")
        writes = unbroken.writes
        field_by_field(expected, await content(source, "app"))
        assert expected[0]["state"]["app:count"] == 8
    # Sessions, events, and the shared state of the application and of both users.
    assert writes == 4 + 8 + 3
    for cut in range(1, writes + 1):
        await fill(source, f"app{cut}")
        async with CutTarget(server.address, after=cut) as target:
            with pytest.raises(Killed):
                await copy_application(source, target, f"app{cut}")
        # Cut once more, after the first write of the second run, if it has one.
        async with CutTarget(server.address, after=1) as target:
            try:
                await copy_application(source, target, f"app{cut}")
            except Killed:
                pass
            else:
                assert cut == writes, "only the last write leaves nothing to do"
        async with CutTarget(server.address) as target:
            copied = await copy_application(source, target, f"app{cut}")
            assert (copied.sessions, copied.problems) == (4, []), f"cut after write {cut}"
            field_by_field(await content(target, f"app{cut}"), expected)
            # And a run that has nothing to do writes nothing.
            written = target.writes
            again = await copy_application(source, target, f"app{cut}")
            # It finds out that the sessions exist by creating them, which fails.
            assert (again.new_events, again.problems, target.writes) == (0, [], written)


async def test_source_that_has_gone_on_is_moved_again(server: Server) -> None:
    """What the move itself has written last is nobody else's."""
    source = InMemorySessionService()
    await fill(source, "app")
    async with SessiondSessionService(server.address) as target:
        assert (await copy_application(source, target, "app")).everything
        session = await source.get_session(app_name="app", user_id="ann", session_id="s0")
        assert session is not None
        await source.append_event(session, delta_event({"app:count": 9, "user:last": "again"}, id="e9"))
        # Not by an event, so that only the last step of the move brings it.
        source.app_state["app"]["born"] = 10
        copied = await copy_application(source, target, "app")
        assert (copied.new_events, copied.problems) == (1, [])
        field_by_field(await content(target, "app"), await content(source, "app"))


async def change_as_somebody_else(address: str) -> None:
    """Sets keys without a session and by an event, and removes one."""
    async with SessiondSessionService(address) as other:
        delta = Delta({"app:count": "theirs", "app:born": 3, "app:new": 1}, [Remove("app:only s2")])
        await other.update_state(delta, app_name="app")
        session = await other.create_session(app_name="app", user_id="ann", session_id="theirs")
        await other.append_event(session, delta_event({"user:last": "theirs"}, id="e1"))


@pytest.mark.parametrize("cut", range(1, 16))
@pytest.mark.parametrize("again", [False, True], ids=["in one run", "between two runs"])
async def test_key_that_somebody_else_has_changed_meanwhile_is_kept_and_named(
    serve: Serve, cut: int, again: bool
) -> None:
    """At any point: what is copied later must not win, and what is restored last neither."""
    server = serve()
    source = InMemorySessionService()
    await fill(source, "app")
    if again:
        async with CutTarget(server.address, after=cut) as target:
            with pytest.raises(Killed):
                await copy_application(source, target, "app")
        await change_as_somebody_else(server.address)
    meanwhile = None if again else lambda: change_as_somebody_else(server.address)
    async with CutTarget(server.address, -1 if again else cut, meanwhile) as target:
        await copy_application(source, target, "app")
        # A change behind the restoring of its scope is no longer the move's, but the next run names it.
        copied = await copy_application(source, target, "app")
        assert copied.sessions == 4
        app, ann, bob = [
            await target.get_app_state(app_name="app"),
            await target.get_user_state(app_name="app", user_id="ann"),
            await target.get_user_state(app_name="app", user_id="bob"),
        ]
    # Born is 3 in the source, too. The key that was removed before it had a value was not changed by anybody.
    copied_before = cut >= 5
    assert app.pop("only s2", None) == (None if copied_before else {"n": 3, "none": None})
    expected = {"count": "theirs", "born": 3, "new": 1} | {f"only s{n}": {"n": n + 1, "none": None} for n in (0, 1, 3)}
    assert (app, ann, bob) == (expected, {"last": "theirs"}, {"last": "s3"})
    named = {"app:count", "user:last"} | ({"app:only s2"} if copied_before else set())
    assert {line.split("'")[3 if "of user" in line else 1] for line in copied.problems} == named
    assert all("of another writer" in line for line in copied.problems)


async def test_keys_of_the_target_from_before_the_move_are_kept_and_named(server: Server) -> None:
    source = InMemorySessionService()
    await fill(source, "app")
    await change_as_somebody_else(server.address)
    async with SessiondSessionService(server.address) as target:
        copied = await copy_application(source, target, "app")
        assert await target.get_user_state(app_name="app", user_id="ann") == {"last": "theirs"}
    assert copied.problems == [
        "state of the application: 'app:count' keeps the value \"theirs\" of another writer; the source has 8",
        "state of user 'ann': 'user:last' keeps the value \"theirs\" of another writer; the source has \"s1\"",
    ]


HALF = "\ud83d"


async def fill_with_problems(source: BaseSessionService) -> None:
    """The second session has a photo, the fourth a large value, the fifth half an emoji in a value."""
    for number in range(1, 6):
        session = await source.create_session(app_name="app", user_id="ann", session_id=f"s{number}")
        for at in range(1, 4):
            event = delta_event({"app:count": 10 * number + at, "own": at}, id=f"e{at}", timestamp=100.0 * number + at)
            if (number, at) == (2, 2):
                event = text_event("x" * 1_100_000, id="e2", timestamp=202.0)
            if (number, at) == (4, 3):
                event.actions.state_delta["large"] = "x" * 300_000
            if (number, at) == (5, 2):
                event.actions.state_delta["cut"] = f"half {HALF}"
            await source.append_event(session, event)


def move(server: Server, folder: Path, uri: str, *more: str, app: str = "app") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sessiond_adk.move", "--from", uri, "--to", server.address, "--app", app, *more]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


async def test_what_cannot_be_copied_is_named_and_the_rest_goes_on(server: Server, tmp_path: Path) -> None:
    source = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
    await fill_with_problems(source)
    uri = "sqlite:///adk.db"
    moved = move(server, tmp_path, uri)
    assert moved.returncode == 1
    assert moved.stdout == "app: 3 sessions, 12 new events, 2 failed\n"
    assert "Traceback" not in moved.stderr
    lines = [line for line in moved.stderr.splitlines() if line.startswith("app: ")]
    assert len(lines) == 2
    assert lines[0].startswith("app: session 's2' of user 'ann': event 'e2' (2 of 3): ")
    assert "[EVENT_TOO_LARGE]" in lines[0]
    assert lines[1].startswith("app: session 's4' of user 'ann': event 'e3' (3 of 3): ")
    assert "[VALUE_TOO_LARGE]" in lines[1]
    assert "state key cut: replaced half a surrogate pair by U+FFFD in cut" in moved.stderr
    async with SessiondSessionService(server.address) as target:
        lengths = {}
        for number in range(1, 6):
            session = await target.get_session(app_name="app", user_id="ann", session_id=f"s{number}")
            assert session is not None
            lengths[number] = len(session.events)
        assert lengths == {1: 3, 2: 1, 3: 3, 4: 2, 5: 3}
        assert session is not None
        assert session.state == {"app:count": 53, "own": 3, "cut": "half \ufffd"}
    # What can be completed is, by the next run; the others are named again.
    found = await source.get_session(app_name="app", user_id="ann", session_id="s2")
    assert found is not None
    await source.delete_session("app", "ann", "s2")
    session = await source.create_session(app_name="app", user_id="ann", session_id="s2")
    for event in found.events:
        await source.append_event(
            session, text_event("smaller", id="e2", timestamp=202.0) if event.id == "e2" else event
        )
    await source.close()
    again = move(server, tmp_path, uri)
    assert (again.returncode, again.stdout) == (1, "app: 4 sessions, 2 new events, 1 failed\n")
    assert [line[:30] for line in again.stderr.splitlines() if line.startswith("app: ")] == [
        "app: session 's4' of user 'ann"
    ]


async def test_stop_on_error(server: Server, tmp_path: Path) -> None:
    source = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
    await fill_with_problems(source)
    await source.close()
    moved = move(server, tmp_path, "sqlite:///adk.db", "--stop-on-error")
    assert (moved.returncode, moved.stdout) == (1, "app: 1 sessions, 4 new events, 1 failed\n")
    async with SessiondSessionService(server.address) as target:
        listed = (await target.list_sessions(app_name="app")).sessions
        assert sorted(session.id for session in listed) == ["s1", "s2"]


async def test_session_that_the_source_cannot_read_is_named(server: Server, tmp_path: Path) -> None:
    """A damaged row, as a bug of another program leaves it."""
    source = SqliteSessionService(str(tmp_path / "adk.db"))
    for name in ("s1", "s2", "s3"):
        session = await source.create_session(app_name="app", user_id="ann", session_id=name)
        await source.append_event(session, text_event("hello", id="e"))
    with closing(sqlite3.connect(tmp_path / "adk.db")) as file, file:
        file.execute("UPDATE events SET event_data = '{\"content\":' WHERE session_id = 's2'")
    moved = move(server, tmp_path, "sqlite:///adk.db")
    assert (moved.returncode, moved.stdout) == (1, "app: 2 sessions, 2 new events, 1 failed\n")
    assert moved.stderr.startswith("app: session 's2' of user 'ann': ValidationError: ")
    assert "Traceback" not in moved.stderr


async def test_session_that_others_have_continued_is_not_mixed_up(server: Server) -> None:
    """The first run was cut, and an agent went on with what was there."""
    source = InMemorySessionService()
    session = await source.create_session(app_name="app", user_id="ann", session_id="s")
    for number in range(1, 4):
        await source.append_event(session, delta_event({"n": number}, id=f"e{number}"))
    async with CutTarget(server.address, after=2) as target:
        with pytest.raises(Killed):
            await copy_application(source, target, "app")
    async with SessiondSessionService(server.address) as target:
        ids: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s"}
        continued = await target.get_session(**ids)
        assert continued is not None
        await target.append_event(continued, delta_event({"n": "theirs"}, id="theirs"))
        copied = await copy_application(source, target, "app")
        assert copied.problems == [
            "session 's' of user 'ann': others have written to it in the target, which lacks 2 of its events"
        ]
        assert await target.get_session(**ids) == continued


async def test_unavailable_target_ends_the_move_without_a_traceback(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    source = SqliteSessionService(str(tmp_path / "adk.db"))
    await fill(source, "app")
    server.stop()
    command = [sys.executable, "-m", "sessiond_adk.move", "--from", "sqlite:///adk.db", "--app", "app"]
    command += ["--to", f"sessiond://{server.address}?timeout=1"]
    moved = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert moved.returncode == 1
    assert f"The move ended: sessiond at {server.address} is unreachable" in moved.stderr
    assert "Traceback" not in moved.stderr


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite"])
@pytest.mark.parametrize("absolute", [False, True])
async def test_sqlite_uri_takes_the_files_of_both_services(
    server: Server, tmp_path: Path, scheme: str, absolute: bool
) -> None:
    folder = tmp_path / "my agents"
    folder.mkdir()
    path = folder / "adk.db"
    database = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    await fill(database, "app")
    expected = await content(database, "app")
    await database.close()
    uri = f"{scheme}:///{path}" if absolute else f"{scheme}:///adk.db"
    moved = move(server, folder, uri)
    assert (moved.stderr, moved.stdout) == ("", "app: 4 sessions, 8 new events\n")
    async with SessiondSessionService(server.address) as target:
        field_by_field(await content(target, "app"), expected)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite:///missing.db", "There is no file 'missing.db'."),
        ("sqlite+aiosqlite:///missing.db", "There is no file 'missing.db'."),
        ("sqlite:///text.db", "The file 'text.db' cannot be read: file is not a database"),
        ("nonsense", "Invalid database URL format"),
        ("postgresql://127.0.0.1:1/x", "postgresql"),
    ],
)
def test_source_that_cannot_be_opened_is_named(serve: Serve, tmp_path: Path, uri: str, message: str) -> None:
    (tmp_path / "text.db").write_text("no database " * 100)
    moved = move(serve(), tmp_path, uri)
    assert moved.returncode == 1
    assert moved.stderr.startswith("The move ended: ")
    assert message in moved.stderr
    assert "Traceback" not in moved.stderr
    assert not (tmp_path / "missing.db").exists()


PADDED = ["order-42", "order-42\n", " order-42", "  "]


async def test_ids_with_white_space_are_moved_as_they_are(server: Server, tmp_path: Path) -> None:
    """And are not copied again, under another id, by each run."""
    source = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}")
    for number, name in enumerate(PADDED):
        session = await source.create_session(app_name="app", user_id=" u\t", session_id=name)
        await source.append_event(session, text_event(name, id=f"e{number}"))
    expected = await content(source, "app")
    await source.close()
    for new in (4, 0):
        moved = move(server, tmp_path, "sqlite:///adk.db")
        assert (moved.returncode, moved.stdout) == (0, f"app: 4 sessions, {new} new events\n")
        async with SessiondSessionService(server.address) as target:
            field_by_field(await content(target, "app"), expected)


@pytest.mark.parametrize("kind", [database, local_file])
async def test_state_of_users_and_applications_without_sessions_is_moved(
    server: Server, tmp_path: Path, kind: Any
) -> None:
    source = kind(tmp_path)
    for app_name in ("app", "empty"):
        state = {"app:a": 1, "user:u": [None], "own": 1}
        await source.create_session(app_name=app_name, user_id="gone", session_id="s", state=state)
        await source.delete_session(app_name=app_name, user_id="gone", session_id="s")
    await source.create_session(app_name="app", user_id="ann", session_id="s", state={"user:u": 2})
    await source.close() if kind is database else None
    moved = move(server, tmp_path, "sqlite:///adk.db", "--app", "empty")
    assert (moved.returncode, moved.stdout) == (
        0,
        "app: 1 sessions, 0 new events\nempty: 0 sessions, 0 new events\n",
    )
    async with SessiondSessionService(server.address) as target:
        for app_name in ("app", "empty"):
            assert await target.get_app_state(app_name=app_name) == {"a": 1}
            assert await target.get_user_state(app_name=app_name, user_id="gone") == {"u": [None]}
        assert await target.get_user_state(app_name="app", user_id="ann") == {"u": 2}
