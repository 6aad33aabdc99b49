"""Every point of what the kits expect of a session service that concerns Python, one test each.

The docstrings cite the point. Where the kit's memory service can be asked, it is, so that the point stays the kit's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conftest import Server
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from tests_support import delta_event, field_by_field, text_event

from sessiond_adk import SessiondError, SessiondSessionService
from sessiond_adk._proto import event_service_pb2
from sessiond_adk.client import session_key

KEY: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": "s"}
Ask = Callable[[BaseSessionService], Awaitable[Any]]


async def same_as_memory(service: BaseSessionService, ask: Ask) -> Any:
    """What both services answer, which must be the same."""
    found, expected = await ask(service), await ask(InMemorySessionService())
    field_by_field(found, expected)
    return found


async def read(service: BaseSessionService, **config: Any) -> Session:
    session = await service.get_session(**KEY, config=GetSessionConfig(**config) if config else None)
    assert session is not None
    return session


async def with_events(service: BaseSessionService, times: list[float]) -> Session:
    session = await service.create_session(**KEY)
    for number, seconds in enumerate(times):
        await service.append_event(session, Event(id=f"e{number}", author="a", timestamp=seconds))
    return session


def ids(session: Session) -> list[str]:
    return [event.id for event in session.events]


async def test_create_answers_the_merged_state(service: SessiondSessionService) -> None:
    """create: `create_session(app_name, user_id, state, session_id)`; "prefixes are sorted, temp: goes nowhere"."""

    async def ask(on: BaseSessionService) -> Any:
        state = {"app:a": 1, "user:u": [2], "own": None, "temp:t": 3, "App:x": 4, "session:y": 5}
        first = await on.create_session(**KEY, state=state)
        second = await on.create_session(app_name="app", user_id="user", session_id="two", state={"own": 6})
        other = await on.create_session(app_name="app", user_id="other")
        return first.state, second.state, other.state, first.events, (await read(on)).state

    first, *_ = await same_as_memory(service, ask)
    assert first == {"app:a": 1, "user:u": [2], "own": None, "App:x": 4, "session:y": 5}


async def test_a_created_session_equals_the_one_that_is_read(service: SessiondSessionService) -> None:
    """ "equality compares private attributes too": no marker of ours parts two readings of one session."""
    created = await service.create_session(**KEY, state={"a": 1})
    assert created == await read(service)
    await service.append_event(created, text_event("x"))
    assert created == await read(service)
    assert created.model_copy(deep=True) == created
    assert Session.model_validate_json(created.model_dump_json()) == created


async def test_get_answers_none_for_what_is_missing(service: SessiondSessionService) -> None:
    """get: "→ None if missing"."""
    await service.create_session(**KEY)
    for other in ({"session_id": "t"}, {"user_id": "t"}, {"app_name": "t"}, {"session_id": ""}, {"session_id": " "}):
        assert await service.get_session(**{**KEY, **other}) is None


async def test_a_session_id_alone_reaches_nobody(service: SessiondSessionService) -> None:
    """A bare session id, which the server would look up among everybody's, is never sent."""
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
    """list: "oldest update first", with merged state and without events."""

    async def ask(on: BaseSessionService) -> Any:
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

    everybody, one, none, *_ = await same_as_memory(service, ask)
    assert [item[1] for item in everybody] == ["a", "b", "c", "d"]
    assert [item[1] for item in one] == ["a", "b"]
    assert none == []


async def test_list_reads_all_pages(server: Server) -> None:
    """list: more sessions than a page of the server holds, of several users."""
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


async def test_deleting_what_is_missing_is_nothing(service: SessiondSessionService) -> None:
    """delete: "missing is a no-op"; the wider scopes' state stays."""

    async def ask(on: BaseSessionService) -> Any:
        await on.delete_session(**KEY)
        await on.create_session(**KEY, state={"user:u": 1, "own": 2})
        await on.delete_session(**{**KEY, "session_id": " s "})
        gone = await on.get_session(**KEY)
        await on.delete_session(**KEY)
        await on.delete_session(**{**KEY, "session_id": ""})
        again = await on.create_session(**KEY)
        return gone, again.state, again.events

    assert await same_as_memory(service, ask) == (None, {"user:u": 1}, [])


async def test_append_answers_the_event_and_changes_the_callers_session(service: SessiondSessionService) -> None:
    """append: "`append_event(session, event)` → event; changes the caller's session"."""
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


async def test_append_to_a_session_that_is_gone(service: SessiondSessionService) -> None:
    """The kit's SessionNotFoundError, which is a ValueError; nothing of the caller's changes."""
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
    """more: "`get_user_state` (keys without prefix), `flush`"."""

    async def ask(on: BaseSessionService) -> Any:
        nothing = await on.get_user_state(app_name="app", user_id="user")
        session = await on.create_session(**KEY, state={"user:a": 1, "app:b": 2, "c": 3, "user:": 4})
        await on.append_event(session, delta_event({"user:user:d": 5}))
        await on.flush()
        other = await on.get_user_state(app_name="app", user_id="other")
        return nothing, await on.get_user_state(app_name="app", user_id="user"), other

    assert await same_as_memory(service, ask) == ({}, {"a": 1, "": 4, "user:d": 5}, {})


async def test_a_duplicate_id_already_exists(service: SessiondSessionService) -> None:
    """duplicate id: `AlreadyExistsError`; the session that is there stays as it is."""
    await service.create_session(**KEY, state={"a": 1})
    with pytest.raises(AlreadyExistsError) as refused:
        await service.create_session(**{**KEY, "session_id": "\ts\n"}, state={"a": 2, "app:b": 3})
    assert isinstance(refused.value, SessiondError)
    assert refused.value.reason == "SESSION_EXISTS"
    assert (await read(service)).state == {"a": 1}


async def test_a_stale_writer_is_refused_where_that_is_wanted(server: Server) -> None:
    """stale writer: "`StaleSessionError` whose text holds "modified in storage""."""
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


async def test_a_stale_writer_is_merged_by_default(service: SessiondSessionService) -> None:
    """ "What hurts: stale-session errors from a second writer; updates lost by concurrent appends"."""
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
    """time: "float seconds, compared exactly"; `last_update_time` is the last event's time, even an older one."""
    session = await service.create_session(**KEY)
    for seconds in (1_700_000_000.1234567, 5.25, 1_700_000_000.1234565):
        await service.append_event(session, Event(author="a", timestamp=seconds))
        assert session.last_update_time == seconds
        assert (await read(service)).last_update_time == seconds
        assert (await read(service, num_recent_events=0)).last_update_time == seconds
        assert (await service.list_sessions(app_name="app")).sessions[0].last_update_time == seconds
    assert [event.timestamp for event in (await read(service)).events][1] == 5.25


async def test_events_stay_in_the_order_of_their_commits(service: SessiondSessionService) -> None:
    """ "What hurts: events with equal timestamps in random order"."""
    session = await with_events(service, [7.0] * 20 + [3.0])
    assert ids(await read(service)) == ids(session)
    assert ids(await read(service, num_recent_events=2)) == ids(session)[-2:]


TIMES = [10.0, 20.5, 20.5, 30.1234567, 1_700_000_000.1234567]


@pytest.mark.parametrize("recent", [None, 0, 1, 2, 5, 100, 2**40])
@pytest.mark.parametrize("after", [None, 0.0, 10.0, 20.5, 30.1234567, 30.1234568, 1_700_000_000.1234567, 2e9, 1e300])
async def test_which_events_are_read(server: Server, recent: int | None, after: float | None) -> None:
    """ "`num_recent_events`: Python 0 = none; absent = all. `after_timestamp` is inclusive; Python 0 = no filter"."""

    async def ask(on: BaseSessionService) -> list[str]:
        await with_events(on, TIMES)
        return ids(await read(on, num_recent_events=recent, after_timestamp=after))

    async with SessiondSessionService(server.address) as service:
        await same_as_memory(service, ask)


async def test_an_after_that_is_no_time(service: SessiondSessionService) -> None:
    """Any float may stand there: what no event can fail is no filter, what none can pass leaves none."""
    await with_events(service, [-5.0, 1.0])
    for after, expected in ((float("nan"), 2), (float("-inf"), 2), (float("inf"), 0), (-5.0, 2), (-4.9, 1), (0.0, 2)):
        assert len((await read(service, after_timestamp=after)).events) == expected, after


async def test_temp_lives_in_the_callers_session_only(service: SessiondSessionService) -> None:
    """ "`temp:`: Python puts it into the caller's session and strips it from the event before storing"."""
    session = await service.create_session(**KEY)
    marker = object()
    event = delta_event({"temp:a": marker, "temp:": 1, "b": 2})
    await service.append_event(session, event)
    assert event.actions.state_delta == {"b": 2}
    assert session.state == {"temp:a": marker, "temp:": 1, "b": 2}
    await service.append_event(session, delta_event({"c": 3}))
    assert session.state["temp:a"] is marker
    again = await read(service)
    assert again.state == {"b": 2, "c": 3}
    assert again.events[0].actions.state_delta == {"b": 2}
    assert again.events == session.events


async def test_temp_never_reaches_the_server_unless_it_is_shared(server: Server) -> None:
    """The contract's invocations hold what is shared, until the invocation ends, and no event shows it."""
    async with (
        SessiondSessionService(server.address) as private,
        SessiondSessionService(server.address, share_temp=True) as shared,
    ):
        session = await private.create_session(**KEY)
        await private.append_event(session, delta_event({"temp:a": 1}, invocation_id="i"))
        assert await private.get_state(**KEY, invocation_id="i") == {}
        await shared.append_event(session, delta_event({"temp:b": [2], "c": 3}, invocation_id="i"))
        assert await private.get_state(**KEY, invocation_id="i") == {"temp:b": [2], "c": 3}
        assert await private.get_state(**KEY) == {"c": 3}
        assert session.state == {"temp:a": 1, "temp:b": [2], "c": 3}
        await shared.end_invocation(session, "i")
        assert await private.get_state(**KEY, invocation_id="i") == {"c": 3}
        assert [event.actions.state_delta for event in (await read(private)).events] == [{}, {"c": 3}]


async def test_a_key_that_is_almost_temp_is_stored(service: SessiondSessionService) -> None:
    """Prefixes are case-sensitive."""

    async def ask(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY)
        await on.append_event(session, delta_event({"Temp:a": 1, "temp": 2, "x:temp:": 3, "APP:b": 4, "_adk:c": 5}))
        return (await read(on)).state

    assert len(await same_as_memory(service, ask)) == 5


async def test_partial_events_are_nothing(service: SessiondSessionService) -> None:
    """ "Partial events are not stored and change no state"."""

    async def ask(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY)
        event = delta_event({"a": 1, "temp:b": 2}, partial=True)
        assert await on.append_event(session, event) is event
        return session.state, session.events, event.actions.state_delta, (await read(on)).state, (await read(on)).events

    assert await same_as_memory(service, ask) == ({}, [], {"a": 1, "temp:b": 2}, {}, [])


async def test_null_in_a_delta_is_stored(service: SessiondSessionService) -> None:
    """ "`null` in a delta is stored by Python"."""

    async def ask(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY, state={"a": 1})
        await on.append_event(session, delta_event({"a": None, "user:b": None, "app:c": [None]}))
        return session.state, (await read(on)).state, (await read(on)).events[0].actions.state_delta

    expected = {"a": None, "user:b": None, "app:c": [None]}
    assert await same_as_memory(service, ask) == (expected, expected, expected)


async def test_ids_are_trimmed_and_blank_is_none(service: SessiondSessionService) -> None:
    """ "Python's in-memory service trims session ids; a blank id counts as none"."""

    async def ask(on: BaseSessionService) -> Any:
        created = await on.create_session(app_name="app", user_id="user", session_id="  padded \n")
        found = await on.get_session(app_name="app", user_id="user", session_id=" padded")
        blank = [await on.create_session(app_name="app", user_id="user", session_id=one) for one in ("", "  ", None)]
        return created.id, found and found.id, len({session.id for session in blank}), [len(s.id) for s in blank]

    assert await same_as_memory(service, ask) == ("padded", "padded", 3, [36, 36, 36])


async def test_redelivery_of_an_equal_event_is_ignored(service: SessiondSessionService) -> None:
    """ "Redelivery of an equal event is ignored by Python's in-memory service; databases fail on it"."""

    async def ask(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY)
        event = delta_event({"a": 1, "app:b": 2, "temp:c": 3}, id="once", timestamp=9.5)
        await on.append_event(session, event)
        await on.append_event(session, delta_event({"a": 5}, id="later", timestamp=8.5))
        again = await on.append_event(session, event)
        copied = await on.append_event(session, event.model_copy(deep=True))
        elsewhere = await read(on)
        await on.append_event(elsewhere, event)
        stored = await read(on)
        lasts = session.last_update_time, elsewhere.last_update_time, stored.last_update_time
        return again.id, copied.id, session.state, ids(session), ids(elsewhere), ids(stored), stored.state, lasts

    *_, stored, state, lasts = await same_as_memory(service, ask)
    assert (stored, state, lasts) == (["once", "later"], {"a": 5, "app:b": 2}, (8.5, 8.5, 8.5))


async def test_an_equal_event_with_its_temp_keys_back_is_a_redelivery_too(server: Server) -> None:
    """Also where `temp:` keys were shared, which the server counts as content and the stored event does not hold."""
    async with SessiondSessionService(server.address, share_temp=True) as service:
        session = await service.create_session(**KEY)
        event = delta_event({"a": 1, "temp:b": 2}, id="once", invocation_id="i")
        await service.append_event(session, event)
        assert event.actions.state_delta == {"a": 1}
        await service.append_event(session, event)
        event.actions.state_delta["temp:b"] = 3
        await service.append_event(session, event)
        assert ids(session) == ids(await read(service)) == ["once"]


async def test_a_redelivery_behind_a_rewind_is_one_too(server: Server) -> None:
    """What a rewind hides is stored all the same."""
    async with SessiondSessionService(server.address, share_temp=True) as service:
        session = await service.create_session(**KEY)
        event = delta_event({"a": 1, "temp:b": 2}, id="once", invocation_id="i")
        await service.append_event(session, event)
        await service.rewind_session(**KEY, to_sequence=0)
        await service.append_event(session, event)
        assert session.state == {"temp:b": 2}
        assert ids(await read(service)) == []


async def test_another_event_of_the_same_id_is_refused(service: SessiondSessionService) -> None:
    """Ids are unique within a session, which only the memory service lets pass. As the kit's AlreadyExistsError."""
    session = await service.create_session(**KEY)
    await service.append_event(session, delta_event({"a": 1}, id="once"))
    with pytest.raises(AlreadyExistsError) as refused:
        await service.append_event(session, delta_event({"a": 2}, id="once"))
    assert isinstance(refused.value, SessiondError)
    assert refused.value.reason == "EVENT_ID_REUSED"
    assert session.state == {"a": 1}
    assert (await read(service)).state == {"a": 1}


async def test_an_event_without_an_id_gets_one(service: SessiondSessionService) -> None:
    """So that a retry is safe."""
    session = await service.create_session(**KEY)
    event = text_event("x")
    event.id = ""
    await service.append_event(session, event)
    assert event.id
    assert ids(await read(service)) == [event.id]


async def test_the_body_is_whole_but_for_the_delta(service: SessiondSessionService) -> None:
    """ "Send the event's own JSON as the body, whole and unchanged except for `actions.state_delta`"."""
    session = await service.create_session(**KEY)
    event = delta_event({"a": 1}, custom_metadata={"k": None}, branch="x.y")
    await service.append_event(session, event)
    request = event_service_pb2.ListEventsRequest(key=session_key(**KEY))
    (stored,) = [item async for item in service._client.list_events(request)]
    assert stored.body_json == event.model_dump_json(
        by_alias=True, exclude_none=True, exclude={"actions": {"state_delta"}}
    )
    assert stored.state_delta.set_json == '{"a":1}'


async def test_a_rewind_of_the_kit_is_an_event_like_any_other(service: SessiondSessionService) -> None:
    """`Runner.rewind_async` appends a marker with a delta of its own making; its nulls are stored."""

    async def ask(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY, state={"old": 1})
        await on.append_event(session, delta_event({"new": 1}, id="e1", invocation_id="i1"))
        marker = delta_event({"new": None}, id="e2")
        marker.actions.rewind_before_invocation_id = "i1"
        await on.append_event(session, marker)
        stored = await read(on)
        return stored.state, ids(stored), stored.events[1].actions.rewind_before_invocation_id

    assert await same_as_memory(service, ask) == ({"old": 1, "new": None}, ["e1", "e2"], "i1")


async def test_what_an_agent_has_set_and_not_committed_survives_the_append_of_another(
    service: SessiondSessionService,
) -> None:
    """The kit's State writes into the session's dict at once, long before its event is appended."""
    session = await service.create_session(**KEY, state={"shared": 1})
    pending: dict[str, Any] = {}
    tool = State(session.state, pending)
    tool["draft"] = "mine"
    tool["shared"] = 2
    await service.append_event(session, delta_event({"other": 1}))
    assert session.state == {"shared": 2, "draft": "mine", "other": 1}
    assert (await read(service)).state == {"shared": 1, "other": 1}
    await service.append_event(session, delta_event(pending))
    assert (await read(service)).state == {"shared": 2, "draft": "mine", "other": 1}


async def test_app_and_user_changes_are_seen_by_other_sessions(service: SessiondSessionService) -> None:
    """ "What hurts: `app:` and `user:` changes invisible to other sessions"."""
    one = await service.create_session(**KEY)
    two = await service.create_session(app_name="app", user_id="user", session_id="two")
    await service.append_event(one, delta_event({"app:a": 1, "user:b": 2, "c": 3}))
    await service.append_event(two, text_event("x"))
    assert two.state == {"app:a": 1, "user:b": 2}


async def test_a_session_of_another_making_can_be_appended_to(service: SessiondSessionService) -> None:
    """Built by hand, or by another service, without what this package remembers: nothing of it is dropped."""
    await service.create_session(**KEY, state={"a": 1, "b": 2})
    foreign = Session(id="s", app_name="app", user_id="user", state={"a": 0, "local": 1})
    await service.append_event(foreign, delta_event({"c": 3}))
    assert foreign.state == {"a": 1, "b": 2, "local": 1, "c": 3}
    assert len(foreign.events) == 1
