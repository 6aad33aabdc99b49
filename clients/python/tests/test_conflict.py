"""`stale="conflict"`: an append is refused only if others have changed a key that it sets or removes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Server
from google.adk.errors import StaleSessionError
from google.adk.sessions.session import Session
from proxy import Proxy
from support import KEY, MANY_ATTEMPTS, delta_event, ids, read, text_event

from sessiond_adk import Delta, Increment, Operation, Remove, SessiondSessionService, SessiondStaleError
from sessiond_adk.proto import event_service_pb2, session_service_pb2
from sessiond_adk.state import SessionState

CASES = json.loads((Path(__file__).parents[2] / "cases/conflict.json").read_text(encoding="utf-8"))
STATE: dict[str, Any] = CASES["state"]
cases = pytest.mark.parametrize("case", CASES["cases"], ids=[case["name"] for case in CASES["cases"]])


@pytest.fixture
async def conflict(server: Server) -> AsyncIterator[SessiondSessionService]:
    """The service with stale="conflict", on each kind of store."""
    async with SessiondSessionService(server.address, stale="conflict") as connected:
        yield connected


def delta(change: dict[str, Any]) -> Delta:
    """A change of clients/cases/conflict.json."""
    operations: list[Operation] = [Remove(key) for key in change.get("remove", [])]
    operations += [Increment(key) for key in change.get("increment", [])]
    return Delta(change.get("set", {}), operations)


@pytest.mark.parametrize("source", ["created", "read", "refreshed", "appended"])
@cases
async def test_append_is_refused_only_if_a_key_that_it_writes_was_changed(
    server: Server, conflict: SessiondSessionService, source: str, case: dict[str, Any]
) -> None:
    session = await conflict.create_session(**KEY, state=STATE)
    if source == "read":
        session = await read(conflict)
    elif source == "refreshed":
        await conflict.refresh(session)
    elif source == "appended":
        await conflict.append_event(session, delta_event({**STATE, "c": 1}))
    async with SessiondSessionService(server.address) as other:
        if case["others"]:
            await other.change(await read(other), delta(case["others"]))
    before, own = session.model_copy(deep=True), delta(case["own"])
    event = delta_event(dict(own.values))
    if not case["keys"]:
        await conflict.append_event(session, event, operations=own.operations)
        # The object is up to date: its own writes do not conflict with its next ones.
        await conflict.append_event(session, delta_event({"a": 5, "new": 5, "user:u": 5, "app:x": 5, "gone": 5}))
        await conflict.append_event(session, delta_event({"a": 6, "new": 6, "user:u": 6, "app:x": 6}, id="last"))
        stored = await read(conflict)
        assert ({**stored.state, **own.values}, stored.events[-1].id) == ({**session.state, **own.values}, "last")
        return
    with pytest.raises(SessiondStaleError, match="modified in storage") as refused:
        await conflict.append_event(session, event, operations=own.operations)
    assert isinstance(refused.value, StaleSessionError)
    assert sorted(refused.value.keys) == case["keys"]
    assert all(key in str(refused.value) for key in case["keys"])
    assert (session, event.actions.state_delta) == (before, own.values)
    # Keys that no other writer has changed can still be set, and after a refresh all.
    await conflict.append_event(session, delta_event({"free": 1}))
    await conflict.refresh(session)
    await conflict.append_event(session, event, operations=own.operations)
    assert session.state == (await read(conflict)).state


@pytest.mark.parametrize("stale", ["merge", "error"])
@cases
async def test_other_settings_look_at_no_key(server: Server, stale: str, case: dict[str, Any]) -> None:
    async with SessiondSessionService(f"sessiond://{server.address}?stale={stale}") as service:
        await service.create_session(**KEY, state=STATE)
        session, own = await read(service), delta(case["own"])
        if case["others"]:
            await service.change(await read(service), delta(case["others"]))
        append = service.append_event(session, delta_event(dict(own.values)), operations=own.operations)
        if stale == "error" and case["others"]:
            with pytest.raises(SessiondStaleError):
                await append
        else:
            await append


async def test_value_that_was_changed_and_changed_back_is_a_change(conflict: SessiondSessionService) -> None:
    await conflict.create_session(**KEY, state={"a": 1, "app:x": 1})
    session, other = await read(conflict), await read(conflict)
    for value in (2, 1):
        await conflict.append_event(other, delta_event({"a": value, "app:x": value}))
    for key in ("a", "app:x"):
        with pytest.raises(SessiondStaleError) as refused:
            await conflict.append_event(session, delta_event({key: 3}))
        assert refused.value.keys == (key,)


@pytest.mark.parametrize("prefix", ["", "user:", "app:"])
async def test_versions_of_keys_that_the_object_created_or_wrote(conflict: SessiondSessionService, prefix: str) -> None:
    """They are known without a read, so the own value is a change if others have written it since."""
    created, written, counted = (prefix + name for name in ("created", "written", "counted"))
    session = await conflict.create_session(**KEY, state={created: 1})
    await conflict.append_event(session, delta_event({written: 1}))
    await conflict.append_event(session, delta_event({}), operations=[Increment(counted)])
    other = await read(conflict)
    for value in (2, 1):
        await conflict.append_event(other, delta_event({created: value, written: value, counted: value}))
    for key in (created, written, counted):
        with pytest.raises(SessiondStaleError) as refused:
            await conflict.append_event(session, delta_event({key: 3}))
        assert refused.value.keys == (key,)


@pytest.mark.parametrize("key", ["k", "user:k", "app:k"])
async def test_append_of_another_key_brings_the_values_of_others(conflict: SessiondSessionService, key: str) -> None:
    """The object then shows their value, so writing from it is no conflict until they write the key again."""
    await conflict.create_session(**KEY, state={key: 1})
    session, other = await read(conflict), await read(conflict)
    await conflict.append_event(other, delta_event({key: 2}))
    await conflict.append_event(session, delta_event({"mine": 1}))
    assert session.state[key] == 2
    late = session.model_copy(deep=True)
    await conflict.append_event(session, delta_event({key: 3}))
    # Back to the value that the copy shows.
    await conflict.append_event(session, delta_event({key: 2}))
    with pytest.raises(SessiondStaleError) as refused:
        await conflict.append_event(late, delta_event({key: 4}))
    assert refused.value.keys == (key,)


async def test_value_that_is_set_and_not_committed_conflicts_later(conflict: SessiondSessionService) -> None:
    """Another append of the same object must not make the change of others look like one that the agent has seen."""
    await conflict.create_session(**KEY, state={"a": 1, "gone": 1})
    await conflict.change(await read(conflict), Delta({"back": 1}))
    session, other = await read(conflict), await read(conflict)
    await conflict.change(other, Delta({"a": 2, "new": 2, "back": 2}, [Remove("gone")]))
    await conflict.change(other, Delta({"back": 1}))
    # As tools do it, before their event is appended.
    mine = {"a": 10, "gone": 10, "new": 10, "back": 10}
    session.state.update(mine)
    await conflict.append_event(session, delta_event({"b": 1}))
    assert session.state == {**mine, "b": 1}
    for key, value in mine.items():
        with pytest.raises(SessiondStaleError) as refused:
            await conflict.append_event(session, delta_event({key: value}))
        assert refused.value.keys == (key,)


async def test_writers_of_one_key_lose_no_update(server: Server) -> None:
    """Reads, computes and writes, and reads again after a conflict. With `merge` most of these would be lost."""
    writers, updates = 8, 10

    async def write(service: SessiondSessionService) -> int:
        conflicts = 0
        for _ in range(updates):
            while True:
                session = await read(service)
                try:
                    await service.append_event(session, delta_event({"user:n": session.state["user:n"] + 1}))
                    break
                except SessiondStaleError as error:
                    conflicts += error.keys == ("user:n",)
        return conflicts

    async with SessiondSessionService(server.address, stale="conflict") as service:
        await service.create_session(**KEY, state={"user:n": 0})
        conflicts = sum(await asyncio.gather(*(write(service) for _ in range(writers))))
        assert (await read(service)).state["user:n"] == writers * updates
        assert conflicts > 0


async def test_merge_keeps_the_last_of_two_values_of_one_key(server: Server) -> None:
    """What the README warns of: each writer counts from what it has read, and one count is lost without an error."""
    async with SessiondSessionService(server.address) as service:
        await service.create_session(**KEY, state={"user:n": 0})
        for session in [await read(service), await read(service)]:
            await service.append_event(session, delta_event({"user:n": session.state["user:n"] + 1}))
        assert (await read(service)).state["user:n"] == 1


async def test_parallel_branches_of_one_object_do_not_conflict(conflict: SessiondSessionService) -> None:
    session = await conflict.create_session(**KEY)
    await asyncio.gather(*(conflict.append_event(session, delta_event({"a": n, f"k{n}": n})) for n in range(10)))
    stored = await read(conflict)
    assert (stored.state, ids(stored)) == (session.state, ids(session))


async def test_repeated_event_is_no_conflict(server: Server, conflict: SessiondSessionService) -> None:
    session = await conflict.create_session(**KEY, state={"a": 1, "app:x": 1})
    event = delta_event({"a": 2, "app:x": 1}, id="mine")
    await conflict.append_event(session, event)
    other = await read(conflict)
    await conflict.append_event(other, delta_event({"a": 3}, id="theirs"))
    await conflict.append_event(session, event)
    stored = await read(conflict)
    assert (ids(stored), stored.state) == (["mine", "theirs"], {"a": 3, "app:x": 1})
    assert session.state == stored.state
    assert versions_of(session) == versions_of(stored) == {"a": 2, "app:x": 2}
    # The object shows the value of the others now, so a decision from it is no conflict.
    await conflict.append_event(session, delta_event({"a": 4, "app:x": 2}))


async def test_repeated_event_without_its_temp_keys_is_no_conflict(server: Server) -> None:
    """They have left the event, so the server refuses its id, and what is stored is read instead."""
    async with SessiondSessionService(server.address, stale="conflict", share_temp=True) as conflict:
        session = await conflict.create_session(**KEY)
        event = delta_event({"app:x": 1, "temp:t": 1}, invocation_id="i")
        await conflict.append_event(session, event)
        await conflict.append_event(await read(conflict), delta_event({"app:x": 2}))
        await conflict.append_event(session, event)
        assert session.state == {"app:x": 2, "temp:t": 1}
        assert versions_of(session) == versions_of(await read(conflict)) == {"app:x": 2}


async def test_lost_response_is_no_conflict(server: Server) -> None:
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS, stale="conflict") as conflict,
    ):
        proxy.lose_responses(1)
        session = await conflict.create_session(**KEY, state={"a": 1, "app:x": 1})
        assert versions_of(session) == versions_of(await read(conflict)) == {"a": 0, "app:x": 1}
        for value in (2, 3):
            proxy.lose_responses(1)
            await conflict.append_event(session, delta_event({"a": value, "app:x": value}))
        assert proxy.lost == 3
        assert session == await read(conflict)
        assert versions_of(session) == versions_of(await read(conflict)) == {"a": 2, "app:x": 3}


async def test_object_that_this_package_has_not_read_must_be_current(conflict: SessiondSessionService) -> None:
    """Nothing is known about its keys."""
    session = await conflict.create_session(**KEY, state={"a": 1})
    await conflict.append_event(session, text_event("x"))
    copied = Session.model_validate(session.model_dump())
    unknown = Session(app_name="app", user_id="user", id="s")
    with pytest.raises(SessiondStaleError):
        await conflict.append_event(unknown, delta_event({"b": 1}))
    await conflict.append_event(copied, delta_event({"a": 2}))
    with pytest.raises(SessiondStaleError):
        await conflict.append_event(session, delta_event({"a": 3}))


async def test_copies_of_a_session_keep_their_versions(conflict: SessiondSessionService) -> None:
    await conflict.create_session(**KEY, state={"a": 1})
    session = await read(conflict)
    copied = session.model_copy(deep=True)
    other = await read(conflict)
    for value in (2, 1):
        await conflict.append_event(other, delta_event({"a": value}))
    with pytest.raises(SessiondStaleError):
        await conflict.append_event(copied, delta_event({"a": 3}))


async def test_response_without_state(conflict: SessiondSessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server leaves out a state that is too large. The object still knows what it has written."""
    session = await conflict.create_session(**KEY, state={"gone": 1})

    def without_state(response: Any) -> None:
        if isinstance(response, event_service_pb2.AppendEventResponse):
            response.session.ClearField("state_json")
            response.session.ClearField("versions")

    watch_calls(conflict, monkeypatch, without_state)
    for value in range(3):
        await conflict.append_event(session, delta_event({"a": value, "user:a": value}))
    await conflict.remove(session, "gone")
    await conflict.append_event(session, delta_event({"gone": 2}))
    await conflict.change(await read(conflict), Delta({"a": "other"}))
    with pytest.raises(SessiondStaleError) as refused:
        await conflict.append_event(session, delta_event({"a": 9, "user:a": 9, "gone": 9}))
    assert refused.value.keys == ("a",)


async def test_values_are_compared_if_the_server_sends_no_versions(
    conflict: SessiondSessionService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older server does not know the field that asks for them."""

    def without_versions(response: Any) -> None:
        if not isinstance(response, event_service_pb2.ListEventsResponse):
            response.session.ClearField("versions")

    watch_calls(conflict, monkeypatch, without_versions)
    created = await conflict.create_session(**KEY, state={"a": 1, "app:x": 1})
    session, other = await read(conflict), await read(conflict)
    await conflict.append_event(session, delta_event({"a": 2, "app:x": 2}))
    await conflict.append_event(session, delta_event({"a": 3, "app:x": 3}))
    for outdated in (created, other):
        with pytest.raises(SessiondStaleError) as refused:
            await conflict.append_event(outdated, delta_event({"a": 4, "app:x": 4}))
        assert sorted(refused.value.keys) == ["a", "app:x"]
    await conflict.append_event(session, delta_event({"a": 1, "app:x": 1}))
    await conflict.append_event(created, delta_event({"a": 5, "app:x": 5}))


async def test_versions_come_with_the_calls_that_are_made_anyway(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other appends than those of `stale="conflict"` do not pay for them."""
    for stale in ("merge", "error", "conflict"):
        async with SessiondSessionService(f"sessiond://{server.address}?stale={stale}") as service:
            calls = watch_calls(service, monkeypatch)
            key = {**KEY, "session_id": stale}
            session = await service.create_session(**key, state={"a": 0, "b": 0})
            await service.append_event(session, delta_event({"a": 1}))
            await service.refresh(session)
            found = await service.get_session(**key)
        assert [type(request) for request in calls] == [
            session_service_pb2.CreateSessionRequest,
            event_service_pb2.AppendEventRequest,
            session_service_pb2.GetSessionRequest,
            session_service_pb2.GetSessionRequest,
        ]
        assert [request.include_versions for request in calls] == [stale == "conflict"] * 4
        for one in (session, found):
            assert versions_of(one) == ({"a": 1, "b": 0} if stale == "conflict" else {"a": None, "b": None})


def versions_of(session: Session | None) -> dict[str, int | None]:
    """The versions of the keys, as far as the object knows them."""
    assert session is not None
    assert isinstance(session.state, SessionState)
    return {key: seen.version for key, seen in session.state.seen.items()}


def watch_calls(
    service: SessiondSessionService,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Any], None] = lambda response: None,
) -> list[Any]:
    """The requests of the calls from now on. `change` changes each response."""
    call, requests = service._client.call, list[Any]()

    async def watched(method: Any, request: Any) -> Any:
        requests.append(request)
        response = await call(method, request)
        change(response)
        return response

    monkeypatch.setattr(service._client, "call", watched)
    return requests
