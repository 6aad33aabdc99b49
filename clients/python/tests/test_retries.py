"""Lost responses: every call takes effect once, and what repeating a call does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import Server
from proxy import Proxy
from support import KEY, MANY_ATTEMPTS, delta_event, read, text_event

from sessiond_adk import Delta, Increment, SessiondAlreadyExistsError, SessiondSessionService


async def test_append_with_lost_response_is_stored_once(server: Server) -> None:
    """The connection breaks after the commit and before the response."""
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service:
        session = await service.create_session(**KEY)
        for lost in (1, 2):
            proxy.lose_responses(lost)
            event = delta_event({"n": lost, "temp:t": lost})
            assert await service.append_event(session, event, operations=[Increment("app:count")]) is event
            assert session.state == {"n": lost, "temp:t": lost, "app:count": lost}
            assert event.actions.state_delta == {"n": lost, "app:count": lost}
        assert proxy.lost == 3
        stored = await read(service)
        assert stored.events == session.events
        assert len(stored.events) == 2
        assert stored.state["app:count"] == 2


async def test_operation_returns_the_result_of_its_own_commit(server: Server) -> None:
    """Even if it is sent twice and others change the key before the caller gets the response."""
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service,
        SessiondSessionService(server.address) as others,
    ):
        session = await service.create_session(**KEY, state={"app:list": [0], "default": 1})
        theirs = await read(others)
        seen: list[Any] = []

        async def meanwhile() -> None:
            seen.append(await others.increment(theirs, "app:tickets"))
            seen.append(await others.append_to_list(theirs, "app:list", ["theirs"]))
            seen.append(await others.merge(theirs, "map", {"theirs": 1}))
            await others.change(theirs, Delta({"default": 2}))
            await others.remove(theirs, "gone")

        proxy.lose_responses(1, meanwhile)
        assert await service.increment(session, "app:tickets") == 1
        proxy.lose_responses(1, meanwhile)
        assert await service.append_to_list(session, "app:list", ["mine"]) == [0, "theirs", "mine"]
        proxy.lose_responses(1, meanwhile)
        assert await service.merge(session, "map", {"mine": 1}) == {"theirs": 1, "mine": 1}
        await others.change(theirs, Delta({"default": 1}))
        proxy.lose_responses(1, meanwhile)
        # The commit does not change the key, so the event does not have its value.
        assert await service.set_if_absent(session, "default", 9) == 1
        proxy.lose_responses(1, meanwhile)
        assert await service.set_if_absent(session, "gone", 3) == 3
        assert proxy.lost == 5
        assert [one for one in seen if isinstance(one, int)] == [2, 3, 4, 5, 6]
        assert session.state["default"] == 2
        assert "gone" not in session.state


async def test_lost_response_to_a_stale_check_is_no_conflict(server: Server) -> None:
    """The expected sequence is the one before the event, but the second attempt finds the event stored."""
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS, stale="error") as service,
    ):
        session = await service.create_session(**KEY)
        proxy.lose_responses(1)
        await service.append_event(session, text_event("x"))
        await service.append_event(session, text_event("y"))
        assert proxy.lost == 1
        assert len(session.events) == 2


@pytest.mark.parametrize("session_id", ["s", None])
async def test_creation_with_lost_response_is_no_duplicate(server: Server, session_id: str | None) -> None:
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service:
        # Connects, so that the next response is that of the creation.
        await service.list_sessions(app_name="app")
        proxy.lose_responses(1)
        session = await service.create_session(
            app_name="app", user_id="user", session_id=session_id, state={"app:a": 1, "b": 2}
        )
        assert proxy.lost == 1
        assert session.state == {"app:a": 1, "b": 2}
        assert len((await service.list_sessions(app_name="app")).sessions) == 1


async def test_creation_that_finds_a_foreign_session_is_a_duplicate(server: Server) -> None:
    """Even if the response of its first attempt is lost: the session does not have its label."""
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service:
        await service.create_session(**KEY, state={"theirs": 1})
        proxy.lose_responses(1)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.create_session(**KEY, state={"mine": 1})
        assert proxy.lost == 1


@pytest.mark.parametrize("up_to", [None, 1])
async def test_fork_with_lost_response(server: Server, up_to: int | None) -> None:
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, delta_event({"a": 1}))
        proxy.lose_responses(1)
        fork = await service.fork_session(**KEY, up_to_sequence=up_to, new_session_id="f")
        assert proxy.lost == 1
        assert (fork.id, fork.state) == ("f", {"a": 1})
        # A session with that id that is not this fork is a duplicate, lost response or not.
        await service.create_session(**{**KEY, "session_id": "g"})
        proxy.lose_responses(1)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.fork_session(**KEY, up_to_sequence=up_to, new_session_id="g")
        proxy.lose_responses(1)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.fork_session(**KEY, up_to_sequence=0, new_session_id="f")


async def test_rewind_update_and_delete_with_lost_responses(server: Server) -> None:
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, delta_event({"a": 1}))
        await service.append_event(session, delta_event({"a": 2}))
        proxy.lose_responses(1)
        assert (await service.rewind_session(**KEY, to_sequence=1)).state == {"a": 1}
        stored = [item async for item in service.list_events(**KEY, include_rewound=True)]
        assert [item.sequence for item in stored] == [1, 2, 3]
        proxy.lose_responses(1)
        state = await service.update_state(Delta(operations=[Increment("app:n")]), app_name="app")
        assert state == {"app:n": 1}
        proxy.lose_responses(1)
        await service.delete_session(**KEY)
        assert proxy.lost == 3
        assert await service.get_session(**KEY) is None


async def test_effects_of_repeated_calls(server: Server) -> None:
    """As in the README: none for an event, and a second write for everything else."""
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        event = delta_event({"a": 1})
        for _ in range(3):
            await service.append_event(session, event, operations=[Increment("count")])
        assert session.state == {"a": 1, "count": 1}
        assert len(session.events) == 1
        with pytest.raises(SessiondAlreadyExistsError):
            await service.create_session(**KEY)
        fork = {**KEY, "new_session_id": "fork"}
        await service.fork_session(**fork)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.fork_session(**fork)
        twice = [(await service.create_session(app_name="app", user_id="user")).id for _ in range(2)]
        twice += [(await service.fork_session(**KEY)).id for _ in range(2)]
        assert len(set(twice)) == 4
        assert [await service.increment(session, "n") for _ in range(2)] == [1, 2]
        assert [await service.append_to_list(session, "l", [1]) for _ in range(2)] == [[1], [1, 1]]
        assert [await service.set_if_absent(session, "d", value) for value in (1, 2)] == [1, 1]
        assert [await service.merge(session, "m", {"a": 1}) for _ in range(2)] == [{"a": 1}] * 2
        for _ in range(2):
            await service.remove(session, "m")
            await service.change(session, Delta({"c": 1}, [Increment("n")]))
        assert session.state["n"] == 4
        assert len(session.events) == 1 + 2 * 6
        for _ in range(2):
            await service.update_state(Delta(operations=[Increment("n")]), **KEY)
        await service.refresh(session)
        assert session.state["n"] == 6
        assert len(session.events) == 1 + 2 * 7
        for _ in range(2):
            await service.rewind_session(**KEY, to_sequence=1)
        everything = [item async for item in service.list_events(**KEY, include_rewound=True)]
        assert len(everything) == 1 + 2 * 8
        for _ in range(2):
            await service.delete_session(**KEY)
            await service.create_session(**KEY)


async def test_cancelled_append_can_be_repeated(server: Server) -> None:
    """A cancelled append may be stored. After appending the same event again it is stored once."""
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        events = [delta_event({f"k{number}": number}) for number in range(50)]
        tasks = [asyncio.create_task(service.append_event(session, event)) for event in events]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert any(task.cancelled() for task in tasks)
        for event in events:
            await service.append_event(session, event)
        stored = await read(service)
        assert sorted(event.id for event in stored.events) == sorted(event.id for event in events)
        assert sorted(event.id for event in session.events) == sorted(event.id for event in events)
        assert stored.state == session.state == {f"k{number}": number for number in range(50)}
