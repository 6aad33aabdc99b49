"""Where stale is an error: what counts as behind, and that an event which is stored already does not hide it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from conftest import Server
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from proxy import Proxy
from tests_support import KEY, PATIENT, delta_event, ids, read

from sessiond_adk import Remove, SessiondSessionService, SessiondStaleError


@pytest.fixture
async def strict(server: Server) -> AsyncIterator[SessiondSessionService]:
    """The service under test, on each kind of store."""
    async with SessiondSessionService(server.address, stale="error") as made:
        yield made


def as_read(session: Session) -> Session:
    """The session itself, which remembers the sequence that it was read at."""
    return session


def by_hand(session: Session) -> Session:
    """One of the same content that remembers nothing, as another service or a copy by its fields makes it."""
    return Session.model_validate(session.model_dump())


Made = Callable[[Session], Session]
both = pytest.mark.parametrize("made", [as_read, by_hand])


def event(name: str) -> Event:
    """An event that sets the key of its own name, under the id of that name."""
    return delta_event({name: 1}, id=name)


async def is_behind(service: SessiondSessionService, session: Session) -> bool:
    """Whether the next append is refused; where it is, the session is left as it was, and read anew it is not."""
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
async def test_an_event_that_was_stored_before_others_appended(strict: SessiondSessionService, made: Made) -> None:
    """Repeated from an object that has it."""
    session = made(await strict.create_session(**KEY))
    mine = event("mine")
    await strict.append_event(session, mine)
    await strict.append_event(await read(strict), event("theirs"))
    session.state["mine"] = "set and not committed"
    await strict.append_event(session, mine)
    assert (ids(session), session.state) == (["mine"], {"mine": "set and not committed"})
    assert await is_behind(strict, session)


@both
async def test_an_event_whose_answer_was_lost_while_others_appended(server: Server, made: Made) -> None:
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=PATIENT, stale="error") as strict,
        SessiondSessionService(server.address) as others,
    ):
        session = made(await strict.create_session(**KEY, state={"gone": 1}))

        async def meanwhile() -> None:
            await others.append_event(await read(others), event("theirs"))

        mine = event("mine")
        # An object that does not say what it was read at asks before it appends; that answer is not the one to lose.
        call = strict._client.call

        async def losing(method: object, request: object) -> object:
            if "AppendEvent" in type(request).__name__:
                proxy.lose_answers(1, meanwhile)
            return await call(method, request)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(strict._client, "call", losing)
            await strict.append_event(session, mine, operations=[Remove("gone")])
        assert proxy.lost == 1
        assert (ids(session), session.state) == (["mine"], {"mine": 1})
        assert session.last_update_time == mine.timestamp
        assert await is_behind(strict, session)
        assert ids(session) == ["mine", "theirs", "next"]


async def written(service: SessiondSessionService, events: int) -> Session:
    """A new session with so many events."""
    writer = await service.create_session(**KEY)
    for number in range(events):
        await service.append_event(writer, event(f"before{number}"))
    return writer


@both
@pytest.mark.parametrize("before", [0, 1, 2])
async def test_an_event_that_another_object_has_stored_behind_a_gap(
    strict: SessiondSessionService, made: Made, before: int
) -> None:
    """Put into this object it would be the newest of both, and what lies between would never be seen."""
    writer = await written(strict, before)
    session = made(await read(strict))
    had = ids(session), dict(session.state)
    await strict.append_event(writer, event("theirs"))
    shared = event("shared")
    await strict.append_event(writer, shared)
    await strict.append_event(session, shared.model_copy(deep=True))
    assert (ids(session), session.state) == had
    assert await is_behind(strict, session)


@both
@pytest.mark.parametrize("before", [0, 1, 2])
async def test_an_event_that_another_object_has_stored_next(
    strict: SessiondSessionService, made: Made, before: int
) -> None:
    """Without a gap it is the object's own next event, as after an answer that was lost."""
    await written(strict, before)
    session = made(await read(strict))
    shared = event("shared")
    await strict.append_event(await read(strict), shared)
    await strict.append_event(session, shared.model_copy(deep=True))
    assert session == await read(strict)
    assert not await is_behind(strict, session)


@both
async def test_a_repetition_where_nobody_else_appended(strict: SessiondSessionService, made: Made) -> None:
    session = made(await strict.create_session(**KEY))
    first, second = event("first"), event("second")
    for one in (first, second, first, second, second):
        await strict.append_event(session, one)
    assert ids(session) == ["first", "second"]
    assert not await is_behind(strict, session)


async def test_a_repetition_from_an_object_that_was_read_without_the_event(strict: SessiondSessionService) -> None:
    """It was asked for few events, and is up to date: neither is changed by what it has been told before."""
    session = await strict.create_session(**KEY)
    first = event("first")
    await strict.append_event(session, first)
    await strict.append_event(session, event("second"))
    few = await read(strict, num_recent_events=1)
    await strict.append_event(few, first.model_copy(deep=True))
    assert ids(few) == ["second"]
    await strict.append_event(few, event("third"))
    assert ids(few) == ["second", "third"]


async def test_an_object_of_an_earlier_session_of_the_same_id(strict: SessiondSessionService) -> None:
    """Its newest event is not stored, so it is behind, whatever is repeated from it."""
    session = by_hand(await strict.create_session(**KEY))
    await strict.append_event(session, event("old"))
    await strict.delete_session(**KEY)
    anew = await strict.create_session(**KEY)
    shared = event("shared")
    with pytest.raises(SessiondStaleError, match="modified in storage"):
        await strict.append_event(session, shared)
    await strict.append_event(anew, shared)
    await strict.append_event(session, shared.model_copy(deep=True))
    assert (ids(session), session.state) == (["old"], {"old": 1})
    assert await is_behind(strict, session)


async def test_a_repetition_that_the_server_takes_for_another_event(server: Server) -> None:
    """With `temp:` keys that were shared and have left it: refused for its id, and before that for the sequence."""
    async with SessiondSessionService(server.address, stale="error", share_temp=True) as strict:
        session = await strict.create_session(**KEY)
        mine = delta_event({"mine": 1, "temp:t": 1}, id="mine", invocation_id="i")
        await strict.append_event(session, mine)
        await strict.append_event(session, mine)
        await strict.append_event(await read(strict), event("theirs"))
        await strict.append_event(session, mine)
        assert (ids(session), session.state) == (["mine"], {"mine": 1, "temp:t": 1})
        del session.state["temp:t"]
        assert await is_behind(strict, session)
