"""What ADK expects of a session service: sessions, times and filters (test_adk_contract_events.py has the events).

Where ADK's memory service supports a scenario, the test runs it there too and compares the results.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

import pytest
from conftest import Serve, Server
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from support import KEY, delta_event, ids, read, same_as_memory, text_event, with_events

from sessiond_adk import SessiondError, SessiondSessionService


async def test_create_returns_the_merged_state(service: SessiondSessionService) -> None:
    """Keys go to the scope of their prefix. `temp:` keys are dropped."""

    async def scenario(on: BaseSessionService) -> Any:
        state = {"app:a": 1, "user:u": [2], "own": None, "temp:t": 3, "App:x": 4, "session:y": 5}
        first = await on.create_session(**KEY, state=state)
        second = await on.create_session(app_name="app", user_id="user", session_id="two", state={"own": 6})
        other = await on.create_session(app_name="app", user_id="other")
        return first.state, second.state, other.state, first.events, (await read(on)).state

    first, *_ = await same_as_memory(service, scenario)
    assert first == {"app:a": 1, "user:u": [2], "own": None, "App:x": 4, "session:y": 5}


async def test_created_session_equals_the_one_that_is_read(service: SessiondSessionService) -> None:
    """Equality compares private attributes too, so this package must not add any."""
    created = await service.create_session(**KEY, state={"a": 1})
    assert created == await read(service)
    await service.append_event(created, text_event("x"))
    assert created == await read(service)
    assert created.model_copy(deep=True) == created
    assert Session.model_validate_json(created.model_dump_json()) == created


async def test_session_has_no_extra_fields(service: SessiondSessionService) -> None:
    """`Session` forbids extra fields. No method returns a subclass or adds a field."""
    session = await service.create_session(**KEY, state={"a": 1})
    await service.append_event(session, delta_event({"a": 2}))
    returned = [
        session,
        await read(service),
        *(await service.list_sessions(app_name="app")).sessions,
        await service.fork_session(**KEY),
        await service.rewind_session(**KEY, to_sequence=1),
        await service.get_session_as_of(**KEY, sequence=0),
    ]
    for one in returned:
        assert type(one) is Session
        assert one.__dict__.keys() == Session.model_fields.keys()
        assert one.__pydantic_extra__ is None
        again = Session.model_validate(one.model_dump())
        assert (again, type(again.state)) == (one, dict)
        with pytest.raises(ValueError, match="sequence"):
            one.sequence = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("stale", ["merge", "error"])
async def test_storage_update_marker_is_not_touched(server: Server, stale: Literal["merge", "error"]) -> None:
    """`_storage_update_marker` belongs to other services of ADK: never read, set or cleared."""
    async with SessiondSessionService(server.address, stale=stale) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, text_event("x"))
        found = await read(service)
        assert (session._storage_update_marker, found._storage_update_marker) == (None, None)
        marked = found.model_copy(deep=True)
        marked._storage_update_marker = "2020-01-01T00:00:00"
        assert marked != found
        await service.append_event(marked, text_event("y"))
        await service.refresh(marked)
        assert marked._storage_update_marker == "2020-01-01T00:00:00"
        marked._storage_update_marker = None
        assert marked == await read(service)


async def test_get_returns_none_for_a_missing_session(service: SessiondSessionService) -> None:
    await service.create_session(**KEY)
    for other in ({"session_id": "t"}, {"user_id": "t"}, {"app_name": "t"}, {"session_id": ""}, {"session_id": " "}):
        assert await service.get_session(**{**KEY, **other}) is None


async def test_bare_session_id_is_never_sent(service: SessiondSessionService) -> None:
    """The server would look it up among the sessions of all users."""
    session = await service.create_session(**KEY)
    assert await service.get_session(app_name="", user_id="", session_id="s") is None
    await service.delete_session(app_name="", user_id="", session_id="s")
    session.app_name = session.user_id = ""
    with pytest.raises(ValueError, match="app_name is empty"):
        await service.append_event(session, text_event("x"))
    with pytest.raises(ValueError, match="user_id is empty"):
        await service.create_session(app_name="app", user_id="")
    assert (await read(service)).events == []


async def test_list_is_oldest_update_first(service: SessiondSessionService) -> None:
    """With merged state and without events."""

    async def scenario(on: BaseSessionService) -> Any:
        sessions = {}
        for name in "dbca":
            sessions[name] = await on.create_session(
                app_name="app",
                user_id=f"user-{name in 'ab'}",
                session_id=name,
                state={"app:last": name, "user:own": name},
            )
        for name, seconds in (("b", 4e9), ("a", 3e9), ("c", 5e9), ("d", 5e9)):
            await on.append_event(sessions[name], Event(author="x", timestamp=seconds))
        everybody = await on.list_sessions(app_name="app")
        one = await on.list_sessions(app_name="app", user_id="user-True")
        none = await on.list_sessions(app_name="app", user_id="nobody")
        empty = await on.list_sessions(app_name="app", user_id="")
        return [
            [(s.user_id, s.id, s.state, s.events, s.last_update_time) for s in listed.sessions]
            for listed in (everybody, one, none, empty, await on.list_sessions(app_name="other"))
        ]

    everybody, one, none, *_ = await same_as_memory(service, scenario)
    assert [item[1] for item in everybody] == ["a", "b", "c", "d"]
    assert [item[1] for item in one] == ["a", "b"]
    assert none == []


async def test_list_of_all_users(service: SessiondSessionService) -> None:
    """Each session has the state of its own user."""

    async def scenario(on: BaseSessionService) -> Any:
        for user in ("ann", "bob", "carl"):
            key = {"app_name": "app", "user_id": user, "session_id": "same"}
            session = await on.create_session(**key, state={"user:name": user, f"app:{user}": True})
            await on.append_event(session, Event(author="x", timestamp={"ann": 3.0, "bob": 1.0, "carl": 2.0}[user]))
        await on.create_session(app_name="other", user_id="ann", session_id="elsewhere")
        everybody = (await on.list_sessions(app_name="app", user_id=None)).sessions
        assert [one.model_dump() for one in (await on.list_sessions(app_name="app")).sessions] == [
            one.model_dump() for one in everybody
        ]
        return [(one.user_id, one.id, one.state, one.last_update_time) for one in everybody]

    listed = await same_as_memory(service, scenario)
    shared = {"app:ann": True, "app:bob": True, "app:carl": True}
    assert [(user, state) for user, _, state, _ in listed] == [
        (user, {**shared, "user:name": user}) for user in ("bob", "carl", "ann")
    ]


async def test_list_reads_all_pages(server: Server) -> None:
    """More sessions than a page of the server holds, of several users."""
    async with SessiondSessionService(server.address) as service:
        gate = asyncio.Semaphore(64)

        async def create(number: int) -> None:
            async with gate:
                await service.create_session(app_name="app", user_id=f"u{number % 3}", session_id=f"s{number:05}")

        await asyncio.gather(*(create(number) for number in range(2300)))
        listed = (await service.list_sessions(app_name="app")).sessions
        assert sorted(session.id for session in listed) == [f"s{number:05}" for number in range(2300)]
        assert [s.last_update_time for s in listed] == sorted(s.last_update_time for s in listed)
        one = (await service.list_sessions(app_name="app", user_id="u1")).sessions
        assert {session.id for session in one} == {f"s{number:05}" for number in range(1, 2300, 3)}


async def test_deleting_a_missing_session_is_no_error(service: SessiondSessionService) -> None:
    """State of the user stays when a session is deleted."""

    async def scenario(on: BaseSessionService) -> Any:
        await on.delete_session(**KEY)
        await on.create_session(**KEY, state={"user:u": 1, "own": 2})
        await on.delete_session(**KEY)
        gone = await on.get_session(**KEY)
        await on.delete_session(**KEY)
        await on.delete_session(**{**KEY, "session_id": ""})
        again = await on.create_session(**KEY)
        return gone, again.state, again.events

    assert await same_as_memory(service, scenario) == (None, {"user:u": 1}, [])


async def test_append_returns_the_event_and_updates_the_callers_session(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    event = delta_event({"a": [1], "app:b": 2, "user:c": 3})
    held = session.state
    assert await service.append_event(session, event) is event
    assert session.events == [event]
    assert session.events[0] is event
    assert session.state is held, "an agent's contexts hold this very dict"
    assert session.state == {"a": [1], "app:b": 2, "user:c": 3}
    assert session.state["a"] is event.actions.state_delta["a"]
    assert session.last_update_time == event.timestamp
    assert await read(service) == session


async def test_append_to_a_deleted_session(service: SessiondSessionService) -> None:
    """Raises ADK's SessionNotFoundError, and changes neither the session nor the event."""
    session = await service.create_session(**KEY)
    await service.delete_session(**KEY)
    event = delta_event({"a": 1, "temp:t": 1})
    with pytest.raises(SessionNotFoundError) as refused:
        await service.append_event(session, event)
    assert isinstance(refused.value, SessiondError)
    assert refused.value.reason == "SESSION_NOT_FOUND"
    assert refused.value.metadata["session_id"] == "s"
    assert (session.events, session.state) == ([], {})
    assert event.actions.state_delta == {"a": 1, "temp:t": 1}


async def test_user_state_has_no_prefixes(service: SessiondSessionService) -> None:
    """`get_user_state` returns keys without prefix."""

    async def scenario(on: BaseSessionService) -> Any:
        nothing = await on.get_user_state(app_name="app", user_id="user")
        session = await on.create_session(**KEY, state={"user:a": 1, "app:b": 2, "c": 3, "user:": 4})
        await on.append_event(session, delta_event({"user:user:d": 5}))
        await on.flush()
        other = await on.get_user_state(app_name="app", user_id="other")
        return nothing, await on.get_user_state(app_name="app", user_id="user"), other

    assert await same_as_memory(service, scenario) == ({}, {"a": 1, "": 4, "user:d": 5}, {})


async def test_flush_does_nothing(serve: Serve) -> None:
    """An append that has returned survives a kill of the server, and flush works without a server."""
    server = serve("sqlite:test.db")
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, delta_event({"a": 1}))
        server.kill()
        await service.flush()
        server.start_again()
        assert await read(service) == session


async def test_duplicate_id_already_exists(service: SessiondSessionService) -> None:
    """The existing session does not change."""
    await service.create_session(**KEY, state={"a": 1})
    with pytest.raises(AlreadyExistsError) as refused:
        await service.create_session(**{**KEY, "session_id": "\ts\n"}, state={"a": 2, "app:b": 3})
    assert isinstance(refused.value, SessiondError)
    assert refused.value.reason == "SESSION_EXISTS"
    assert (await read(service)).state == {"a": 1}


async def test_stale_writer_is_refused_with_stale_error(server: Server) -> None:
    """ADK's StaleSessionError has "modified in storage" in its message."""
    async with SessiondSessionService(server.address, stale="error") as service:
        mine = await service.create_session(**KEY)
        theirs = await read(service)
        await service.append_event(theirs, delta_event({"a": 1}))
        await service.append_event(theirs, delta_event({"a": 2}))
        event = delta_event({"b": 1, "temp:t": 1})
        with pytest.raises(StaleSessionError, match="modified in storage"):
            await service.append_event(mine, event)
        assert (mine.events, mine.state) == ([], {})
        fresh = await read(service)
        assert fresh.state == {"a": 2}
        await service.append_event(fresh, event)
        assert (await read(service)).state == {"a": 2, "b": 1}


async def test_stale_writer_is_merged_by_default(service: SessiondSessionService) -> None:
    """No error for a second writer, and no lost update."""
    mine = await service.create_session(**KEY, state={"gone": 1, "app:gone": 2, "kept": 3})
    theirs = await read(service)
    await service.append_event(theirs, delta_event({"theirs": [1], "app:x": 1, "kept": 4}))
    await service.remove(theirs, "gone", "app:gone")
    event = delta_event({"mine": 2})
    await service.append_event(mine, event)
    assert mine.state == {"theirs": [1], "app:x": 1, "kept": 4, "mine": 2}
    assert mine.events == [event], "events of others come with the next read"
    await service.refresh(mine)
    assert mine == await read(service)
    assert len(mine.events) == 3


async def test_time_is_float_seconds_compared_exactly(service: SessiondSessionService) -> None:
    """`last_update_time` is the last event's time, even if an earlier event has a later time."""
    session = await service.create_session(**KEY)
    for seconds in (1_700_000_000.1234567, 5.25, 1_700_000_000.1234565):
        await service.append_event(session, Event(author="a", timestamp=seconds))
        assert session.last_update_time == seconds
        assert (await read(service)).last_update_time == seconds
        assert (await read(service, num_recent_events=0)).last_update_time == seconds
        assert (await service.list_sessions(app_name="app")).sessions[0].last_update_time == seconds
    assert [event.timestamp for event in (await read(service)).events][1] == 5.25


async def test_last_update_time_may_be_older_than_the_creation(service: SessiondSessionService) -> None:
    """Without events it is the time of the creation."""

    async def scenario(on: BaseSessionService) -> Any:
        began = time.time()
        old = await on.create_session(**KEY)
        young = await on.create_session(**{**KEY, "session_id": "young"})
        assert began <= old.last_update_time <= young.last_update_time <= time.time()
        assert (await read(on)).last_update_time == old.last_update_time
        await on.append_event(young, Event(author="a", timestamp=5.25))
        found = await read(on, "young")
        listed = (await on.list_sessions(app_name="app")).sessions
        assert listed[1].last_update_time == old.last_update_time
        return young.last_update_time, found.last_update_time, [one.id for one in listed], listed[0].last_update_time

    assert await same_as_memory(service, scenario) == (5.25, 5.25, ["young", "s"], 5.25)


async def test_events_keep_the_order_of_their_commits(service: SessiondSessionService) -> None:
    """Also events with equal timestamps."""
    session = await with_events(service, [7.0] * 20 + [3.0])
    assert ids(await read(service)) == ids(session)
    assert ids(await read(service, num_recent_events=2)) == ids(session)[-2:]


TIMES = [10.0, 20.5, 20.5, 30.1234567, 1_700_000_000.1234567]


@pytest.mark.parametrize("recent", [None, 0, 1, 2, 5, 100, 2**40])
@pytest.mark.parametrize("after", [None, 0.0, 10.0, 20.5, 30.1234567, 30.1234568, 1_700_000_000.1234567, 2e9, 1e300])
async def test_event_filters(server: Server, recent: int | None, after: float | None) -> None:
    """`num_recent_events`: 0 selects none, None all. `after_timestamp` is inclusive, and 0 is no filter."""

    async def scenario(on: BaseSessionService) -> list[str]:
        await with_events(on, TIMES)
        return ids(await read(on, num_recent_events=recent, after_timestamp=after))

    async with SessiondSessionService(server.address) as service:
        await same_as_memory(service, scenario)


async def test_after_timestamp_outside_the_range_of_times(service: SessiondSessionService) -> None:
    """Any float is valid: below the range it filters nothing, above it filters every event."""
    await with_events(service, [-5.0, 1.0])
    for after, expected in ((float("nan"), 2), (float("-inf"), 2), (float("inf"), 0), (-5.0, 2), (-4.9, 1), (0.0, 2)):
        assert len((await read(service, after_timestamp=after)).events) == expected, after
