"""`stale="error"`: which session objects are outdated, and that a repeated event does not hide it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from conftest import Server
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from proxy import Proxy
from support import KEY, MANY_ATTEMPTS, delta_event, ids, read

from sessiond_adk import Remove, SessiondSessionService, SessiondStaleError


@pytest.fixture
async def strict(server: Server) -> AsyncIterator[SessiondSessionService]:
    """The service with stale="error", on each kind of store."""
    async with SessiondSessionService(server.address, stale="error") as connected:
        yield connected


def as_read(session: Session) -> Session:
    """The session itself, which has the sequence that it was read at."""
    return session


def without_sequence(session: Session) -> Session:
    """A session of the same content without a sequence, as another service creates it."""
    return Session.model_validate(session.model_dump())


Variant = Callable[[Session], Session]
both = pytest.mark.parametrize("variant", [as_read, without_sequence])


def event(name: str) -> Event:
    """An event with the id `name` that sets the key `name`."""
    return delta_event({name: 1}, id=name)


async def is_outdated(service: SessiondSessionService, session: Session) -> bool:
    """Whether the next append is refused. If so, the session stays as it was, and after a refresh it is not refused."""
    before = session.model_copy(deep=True)
    try:
        await service.append_event(session, event("next"))
    except SessiondStaleError:
        assert session == before
        await service.refresh(session)
        await service.append_event(session, event("next"))
        assert session == await read(service)
        return True
    assert session == await read(service)
    return False


@both
async def test_event_stored_before_others_appended(strict: SessiondSessionService, variant: Variant) -> None:
    """Repeated from an object that contains it."""
    session = variant(await strict.create_session(**KEY))
    mine = event("mine")
    await strict.append_event(session, mine)
    await strict.append_event(await read(strict), event("theirs"))
    session.state["mine"] = "set and not committed"
    await strict.append_event(session, mine)
    assert (ids(session), session.state) == (["mine"], {"mine": "set and not committed"})
    assert await is_outdated(strict, session)


@both
async def test_event_with_lost_response_while_others_appended(server: Server, variant: Variant) -> None:
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS, stale="error") as strict,
        SessiondSessionService(server.address) as others,
    ):
        session = variant(await strict.create_session(**KEY, state={"gone": 1}))

        async def meanwhile() -> None:
            await others.append_event(await read(others), event("theirs"))

        mine = event("mine")
        # For a session without a sequence, the append begins with a read. The response of that read is not to be lost.
        call = strict._client.call

        async def lossy_call(method: object, request: object) -> object:
            if "AppendEvent" in type(request).__name__:
                proxy.lose_responses(1, meanwhile)
            return await call(method, request)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(strict._client, "call", lossy_call)
            await strict.append_event(session, mine, operations=[Remove("gone")])
        assert proxy.lost == 1
        assert (ids(session), session.state) == (["mine"], {"mine": 1})
        assert session.last_update_time == mine.timestamp
        assert await is_outdated(strict, session)
        assert ids(session) == ["mine", "theirs", "next"]


async def session_with(service: SessiondSessionService, events: int) -> Session:
    """A new session with this number of events."""
    writer = await service.create_session(**KEY)
    for number in range(events):
        await service.append_event(writer, event(f"before{number}"))
    return writer


@both
@pytest.mark.parametrize("before", [0, 1, 2])
async def test_event_that_another_object_stored_after_a_gap(
    strict: SessiondSessionService, variant: Variant, before: int
) -> None:
    """Adding it to this object would make the object look current and hide the events in between."""
    writer = await session_with(strict, before)
    session = variant(await read(strict))
    had = ids(session), dict(session.state)
    await strict.append_event(writer, event("theirs"))
    shared = event("shared")
    await strict.append_event(writer, shared)
    await strict.append_event(session, shared.model_copy(deep=True))
    assert (ids(session), session.state) == had
    assert await is_outdated(strict, session)


@both
@pytest.mark.parametrize("before", [0, 1, 2])
async def test_event_that_another_object_stored_next(
    strict: SessiondSessionService, variant: Variant, before: int
) -> None:
    """Without a gap it is the object's own next event, as after a lost response."""
    await session_with(strict, before)
    session = variant(await read(strict))
    shared = event("shared")
    await strict.append_event(await read(strict), shared)
    await strict.append_event(session, shared.model_copy(deep=True))
    assert session == await read(strict)
    assert not await is_outdated(strict, session)


@both
async def test_repetition_without_other_writers(strict: SessiondSessionService, variant: Variant) -> None:
    session = variant(await strict.create_session(**KEY))
    first, second = event("first"), event("second")
    for one in (first, second, first, second, second):
        await strict.append_event(session, one)
    assert ids(session) == ["first", "second"]
    assert not await is_outdated(strict, session)


async def test_repetition_from_an_object_that_was_read_without_the_event(strict: SessiondSessionService) -> None:
    """The object was read with few events and is current. The repetition changes neither."""
    session = await strict.create_session(**KEY)
    first = event("first")
    await strict.append_event(session, first)
    await strict.append_event(session, event("second"))
    few = await read(strict, num_recent_events=1)
    await strict.append_event(few, first.model_copy(deep=True))
    assert ids(few) == ["second"]
    await strict.append_event(few, event("third"))
    assert ids(few) == ["second", "third"]


async def test_object_of_an_earlier_session_with_the_same_id(strict: SessiondSessionService) -> None:
    """Its newest event is not stored, so it is outdated, even after a repetition."""
    session = without_sequence(await strict.create_session(**KEY))
    await strict.append_event(session, event("old"))
    await strict.delete_session(**KEY)
    recreated = await strict.create_session(**KEY)
    shared = event("shared")
    with pytest.raises(SessiondStaleError, match="modified in storage"):
        await strict.append_event(session, shared)
    await strict.append_event(recreated, shared)
    await strict.append_event(session, shared.model_copy(deep=True))
    assert (ids(session), session.state) == (["old"], {"old": 1})
    assert await is_outdated(strict, session)


async def test_repetition_that_the_server_takes_for_another_event(server: Server) -> None:
    """Shared `temp:` keys have left the event: the server refuses its id, and before that the sequence."""
    async with SessiondSessionService(server.address, stale="error", share_temp=True) as strict:
        session = await strict.create_session(**KEY)
        mine = delta_event({"mine": 1, "temp:t": 1}, id="mine", invocation_id="i")
        await strict.append_event(session, mine)
        await strict.append_event(session, mine)
        await strict.append_event(await read(strict), event("theirs"))
        await strict.append_event(session, mine)
        assert (ids(session), session.state) == (["mine"], {"mine": 1, "temp:t": 1})
        del session.state["temp:t"]
        assert await is_outdated(strict, session)
