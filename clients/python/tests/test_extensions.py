"""The methods beyond ADK's interface."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from support import KEY, delta_event, read, text_event

from sessiond_adk import (
    Delta,
    Increment,
    ListAppend,
    MergePatch,
    Operation,
    Remove,
    SessiondError,
    SessiondInvalidError,
    SessiondSessionService,
    SetIfAbsent,
    StateValueError,
    events,
)
from sessiond_adk._proto import types_pb2
from sessiond_adk.client import session_key
from sessiond_adk.reading import read_stored_session
from sessiond_adk.times import to_seconds


async def test_operations_through_a_session(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"user:list": [1], "gone": 1})
    assert await service.increment(session, "app:n") == 1
    assert await service.increment(session, "app:n", -5) == -4
    assert await service.increment(session, "f", 0.5) == 0.5
    assert await service.append_to_list(session, "user:list", [2, {"a": None}]) == [1, 2, {"a": None}]
    assert await service.append_to_list(session, "user:list", [3], max_length=2) == [{"a": None}, 3]
    assert await service.set_if_absent(session, "d", None) is None
    assert await service.set_if_absent(session, "d", 2) is None
    assert await service.merge(session, "m", {"a": {"b": 1, "c": 2}}) == {"a": {"b": 1, "c": 2}}
    assert await service.merge(session, "m", {"a": {"b": None}}) == {"a": {"c": 2}}
    await service.remove(session, "gone", "never there")
    expected = {"app:n": -4, "f": 0.5, "user:list": [{"a": None}, 3], "d": None, "m": {"a": {"c": 2}}}
    assert session.state == expected
    assert await read(service) == session
    assert [event.author for event in session.events] == ["system"] * 10
    assert session.events[-1].actions.state_delta == {"gone": None}


async def test_stored_delta_is_decoded_only_for_operations(
    service: SessiondSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain append knows its own values, and every invocation makes several appends."""
    decoded: list[str] = []
    decode = events.decode_delta

    def counting_decode(delta: types_pb2.StateDelta) -> dict[str, Any]:
        decoded.append(delta.set_json)
        return decode(delta)

    monkeypatch.setattr("sessiond_adk.append.decode_delta", counting_decode)
    session = await service.create_session(**KEY)
    await service.append_event(session, delta_event({"a": 1}))
    assert decoded == []
    await service.append_event(session, delta_event({"a": 2}), operations=[Increment("n")])
    assert [json.loads(text) for text in decoded] == [{"a": 2, "n": 1}]


async def test_operations_of_an_event(service: SessiondSessionService) -> None:
    """They apply in the event's commit, after its values. Their results are added to the event's delta."""
    session = await service.create_session(**KEY, state={"a": 1, "x": 1})
    event = delta_event({"a": 10, "b": [1]}, author="agent")
    operations: list[Operation] = [
        Increment("a", 2),
        ListAppend("b", [2]),
        Remove("x"),
        SetIfAbsent("x", 9),
        MergePatch("c", {"d": 1}),
    ]
    await service.append_event(session, event, operations=operations)
    assert event.actions.state_delta == {"a": 12, "b": [1, 2], "x": 9, "c": {"d": 1}}
    assert session.state == {"a": 12, "b": [1, 2], "x": 9, "c": {"d": 1}}
    assert await read(service) == session
    # The same object again, whose delta now includes the results.
    await service.append_event(session, event, operations=operations)
    assert len((await read(service)).events) == 1
    assert session.state["a"] == 12


async def test_operation_returns_the_stored_value_not_the_local_one(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"stored": [1], "map": {"a": 1}})
    session.state["stored"] = session.state["new"] = session.state["count"] = "not committed"
    assert await service.set_if_absent(session, "stored", "default") == [1]
    assert await service.set_if_absent(session, "new", "default") == "default"
    assert await service.increment(session, "count") == 1
    merged = await service.merge(session, "map", {"b": 2})
    merged["c"] = 3
    assert session.state["map"] == session.events[-1].actions.state_delta["map"] == {"a": 1, "b": 2}
    session.state["temp:t"] = 5
    with pytest.raises(ValueError, match="'temp:t' belongs to an invocation"):
        await service.increment(session, "temp:t")
    assert session.state["temp:t"] == 5
    assert len((await read(service)).events) == 4


async def test_operations_on_temp_keys(service: SessiondSessionService) -> None:
    """The server evaluates operations on shared keys and never stores them. Without sharing it cannot."""
    session = await service.create_session(**KEY)
    session.state["temp:n"] = 5
    with pytest.raises(ValueError, match="cannot change 'temp:n'"):
        await service.append_event(session, delta_event({"a": 1}), operations=[Increment("temp:n")])
    assert (session.state, session.events) == ({"temp:n": 5}, [])
    assert (await read(service)).events == []
    async with SessiondSessionService(service._client.target, share_temp=True) as shared:
        for total in (1, 2):
            event = delta_event({"a": total}, invocation_id="i")
            await shared.append_event(session, event, operations=[Increment("temp:n")])
            assert event.actions.state_delta == {"a": total}
            assert session.state == {"temp:n": total, "a": total}
    assert (await read(service)).state == {"a": 2}


async def test_operation_that_removes_a_key_of_its_own_event(service: SessiondSessionService) -> None:
    """Removing a key that the same event sets for the first time leaves no trace of the key in the event."""
    session = await service.create_session(**KEY, state={"old": 1})
    event = delta_event({"new": 1, "old": 2}, author="agent")
    await service.append_event(session, event, operations=[Remove("new"), Remove("old")])
    assert event.actions.state_delta == {"old": None}
    assert session.state == {}
    assert await read(service) == session


@pytest.mark.parametrize(
    "operation",
    [
        Increment("k", float("nan")),
        Increment("k", 2**63),
        Increment("k", True),
        ListAppend("k", [object()]),
        SetIfAbsent("k", float("inf")),
        MergePatch("k", {"a": b"\xff"}),
    ],
)
async def test_operations_that_cannot_be_encoded(operation: Any) -> None:
    nowhere = SessiondSessionService("127.0.0.1:1")
    session = Session(id="s", app_name="a", user_id="u")
    with pytest.raises(ValueError, match="'k'"):
        await nowhere.append_event(session, text_event("x"), operations=[operation])
    with pytest.raises(ValueError, match="'k'"):
        await nowhere.update_state(Delta(operations=[operation]), app_name="a")
    with pytest.raises(TypeError, match="not an operation"):
        Delta(operations=["increment"])  # type: ignore[list-item]


async def test_state_without_a_session(service: SessiondSessionService) -> None:
    assert await service.get_app_state(app_name="app") == {}
    await service.update_app_state({"a": 1, "app:b": None}, app_name="app")
    await service.update_user_state({"c": [2]}, app_name="app", user_id="user")
    assert await service.get_app_state(app_name="app") == {"a": 1, "app:b": None}
    assert await service.get_user_state(app_name="app", user_id="user") == {"c": [2]}
    assert await service.get_state(app_name="app") == {"app:a": 1, "app:app:b": None}
    session = await service.create_session(**KEY)
    assert session.state == {"app:a": 1, "app:app:b": None, "user:c": [2]}
    visible = await service.update_state(
        Delta({"user:d": 4}, [Increment("app:a"), Remove("user:c")]), app_name="app", user_id="user"
    )
    assert visible == {"app:a": 2, "app:app:b": None, "user:d": 4}
    with pytest.raises(SessiondError) as refused:
        await service.update_state(Delta({"own": 1}), app_name="app", user_id="user")
    assert refused.value.reason == "KEY_OUTSIDE_SCOPE"
    with pytest.raises(StateValueError, match="'app:x'"):
        await service.update_app_state({"x": object()}, app_name="app")
    with pytest.raises(ValueError, match="user_id is empty"):
        await service.get_state(app_name="app", user_id="")
    with pytest.raises(ValueError, match="needs a user_id"):
        await service.get_state(app_name="app", session_id="s")


async def test_state_of_a_session_without_a_session_object(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": 1, "b": 2})
    state = await service.update_state(Delta({"a": 3}, [Remove("b")]), **KEY, author="ops")
    assert state == {"a": 3}
    (event,) = (await read(service)).events
    assert (event.author, event.actions.state_delta, event.content) == ("ops", {"a": 3, "b": None}, None)
    await service.append_event(session, text_event("x"))
    assert session.state == {"a": 3}
    with pytest.raises(SessionNotFoundError):
        await service.get_state(app_name="app", user_id="user", session_id="none")


async def test_history(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": 0, "app:x": 0})
    for number in range(1, 5):
        await service.append_event(session, delta_event({"a": number, "app:x": number, f"k{number}": 1}))
    for number in range(5):
        past = await service.get_session_as_of(**KEY, sequence=number)
        assert past is not None
        assert past.events == session.events[:number]
        assert past.state == {"a": number, "app:x": number} | {f"k{i}": 1 for i in range(1, number + 1)}
    few = await service.get_session_as_of(**KEY, sequence=3, config=GetSessionConfig(num_recent_events=1))
    assert few is not None
    assert few.events == session.events[2:3]
    with pytest.raises(SessiondError) as refused:
        await service.get_session_as_of(**KEY, sequence=5)
    assert refused.value.reason == "BEYOND_LAST_SEQUENCE"
    assert await service.get_session_as_of(app_name="app", user_id="user", session_id="none", sequence=0) is None
    listed = [item async for item in service.list_events(**KEY, after_sequence=1)]
    assert [item.sequence for item in listed] == [2, 3, 4]
    assert [item.event for item in listed] == session.events[1:]
    assert all(item.commit_time > 1.7e9 and not item.rewound for item in listed)


async def test_events_by_ids_and_sequences(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    for number in range(1, 5):
        await service.append_event(session, text_event(str(number), id=f"e{number}"))
    await service.rewind_session(**KEY, to_sequence=2)
    refs: list[str | int] = ["e4", 9, 2, "none", "e1", 2, 5, 3, "e2", 9]
    found, missing = await service.get_events(refs, **KEY)
    assert [item.sequence for item in found] == [4, 2, 1, 2, 5, 3, 2]
    assert [item.sequence for item in found if item.rewound] == [4, 5, 3]
    assert missing == [9, "none", 9]
    listed = {item.sequence: item async for item in service.list_events(**KEY, include_rewound=True)}
    assert found == [listed[item.sequence] for item in found]
    # More than one request may name.
    many: list[str | int] = ["none"] * 1200 + [1] * 1200
    found, missing = await service.get_events(many, **KEY)
    assert (found, missing) == ([listed[1]] * 1200, ["none"] * 1200)
    assert await service.get_events([], **KEY) == ([], [])
    with pytest.raises(SessionNotFoundError):
        await service.get_events([1], app_name="app", user_id="user", session_id="none")
    with pytest.raises(SessiondInvalidError):
        await service.get_events([""], **KEY)
    wrong: Any
    for wrong in (1.5, 2**63, "\ud83d", None):
        with pytest.raises((TypeError, ValueError)):
            await service.get_events([1, wrong], **KEY)
    with pytest.raises(TypeError, match="Pass a list"):
        await service.get_events("e1", **KEY)
    with pytest.raises(TypeError, match="True is neither"):
        await service.get_events([1, True], **KEY)
    with pytest.raises(SessiondInvalidError):
        await service.get_events([-1], **KEY)


async def test_events_by_ids_that_take_several_pages(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    for number in range(1, 7):
        await service.append_event(session, text_event("x" * 900_000, id=f"e{number}"))
    refs: list[str | int] = [6, "none", "e2", 4, 1, "e3", 8, "e5", 6]
    found, missing = await service.get_events(refs, **KEY)
    assert [item.event.id for item in found] == ["e6", "e2", "e4", "e1", "e3", "e5", "e6"]
    assert [item.event for item in found[:-1]] == [session.events[at - 1] for at in (6, 2, 4, 1, 3, 5)]
    assert missing == ["none", 8]


async def test_forks(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": 0})
    for number in range(1, 4):
        await service.append_event(session, delta_event({"a": number}))
    fork = await service.fork_session(**KEY, up_to_sequence=2, new_session_id=" fork ")
    assert (fork.id, fork.state, fork.events) == (" fork ", {"a": 2}, [])
    assert (await read(service, " fork ")).events == session.events[:2]
    await service.append_event(fork, delta_event({"a": 9}))
    assert (await read(service)).state == {"a": 3}
    whole = await service.fork_session(**KEY)
    assert (await read(service, whole.id)).events == session.events
    with pytest.raises(AlreadyExistsError):
        await service.fork_session(**KEY, new_session_id=" fork ")
    with pytest.raises(SessionNotFoundError):
        await service.fork_session(app_name="app", user_id="user", session_id="none")


async def test_rewinds(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": 0})
    for number in range(1, 4):
        await service.append_event(session, delta_event({"a": number, f"k{number}": 1, "user:u": number}))
    back = await service.rewind_session(**KEY, to_sequence=1, author="user")
    assert back.state == {"a": 1, "k1": 1, "user:u": 3}
    assert back.events == session.events[:1]
    assert await read(service) == back
    everything = [item async for item in service.list_events(**KEY, include_rewound=True)]
    assert [item.rewound for item in everything] == [False, True, True, True]
    assert [item.rewind_to_sequence for item in everything] == [None, None, None, 1]
    # An object that was read before the rewind gets the state after it.
    await service.append_event(session, text_event("on"))
    assert session.state == {"a": 1, "k1": 1, "user:u": 3}
    with pytest.raises(SessionNotFoundError):
        await service.rewind_session(app_name="app", user_id="user", session_id="none", to_sequence=0)


async def test_expiry_can_be_set_and_cleared(service: SessiondSessionService) -> None:
    async def stored_expiry() -> float | None:
        stored = await read_stored_session(service._client, session_key(**KEY))
        return to_seconds(stored.expire_time.ToNanoseconds()) if stored.HasField("expire_time") else None

    def expire(**when: Any) -> Awaitable[float | None]:
        return service.expire_session(**KEY, **when)

    await service.create_session(**KEY, state={"a": 1})
    assert await stored_expiry() is None
    for at in (4_102_444_800.0, 4_000_000_000.123456):
        assert await service.expire_session(**KEY, at=at) == await stored_expiry() == at
    soon = await expire(after_seconds=3600.5)
    later = await expire(after_seconds=7200)
    assert soon is not None
    assert later is not None
    assert soon < later < 4_000_000_000
    assert later == await stored_expiry()
    for wrong in ({"at": 1.0}, {"at": -1e9}, {"after_seconds": 0}, {"after_seconds": -5}):
        with pytest.raises(SessiondInvalidError):
            await expire(**wrong)
    for unsent in ({"at": float("nan")}, {"after_seconds": float("inf")}, {"at": 4e9, "after_seconds": 5}):
        with pytest.raises(ValueError, match=r"not a time|at most one"):
            await expire(**unsent)
    assert later == await stored_expiry()
    assert await expire() is None
    assert await stored_expiry() is None
    assert (await read(service)).state == {"a": 1}
    with pytest.raises(SessionNotFoundError):
        await service.expire_session(**{**KEY, "session_id": "none"}, at=4e9)


async def test_refreshing(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    held = session.state
    other = await read(service)
    await service.append_event(other, delta_event({"a": 1}))
    session.state["temp:t"] = 1
    session.state["uncommitted"] = 1
    await service.refresh(session)
    assert session.state is held
    assert session.state == {"a": 1, "temp:t": 1}
    assert session.events == other.events
    constructed = Session(id="s", app_name="app", user_id="user")
    await service.refresh(constructed)
    assert constructed == other
    await service.delete_session(**KEY)
    with pytest.raises(SessionNotFoundError):
        await service.refresh(session)


async def test_constructed_session_with_stale_error(service: SessiondSessionService) -> None:
    """It is current if its newest event is the newest stored one."""
    strict = SessiondSessionService(f"{service._client.target}", stale="error")
    async with strict:
        session = await service.create_session(**KEY)
        fresh = Session(id="s", app_name="app", user_id="user")
        await strict.append_event(fresh, text_event("one"))
        await strict.append_event(fresh, text_event("two"))
        assert len(fresh.events) == 2
        late = Session(id="s", app_name="app", user_id="user")
        with pytest.raises(ValueError, match="modified in storage"):
            await strict.append_event(late, text_event("three"))
        with pytest.raises(ValueError, match="modified in storage"):
            await strict.append_event(session, text_event("three"))
        await strict.append_event(late, fresh.events[-1].model_copy(deep=True))
        assert len((await read(service)).events) == 2
