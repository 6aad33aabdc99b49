"""Writes through a session object mean the session that it was read from, and not another that has its id now."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import pytest
from conftest import Server
from google.adk.errors import StaleSessionError
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from proxy import Proxy
from support import KEY, MANY_ATTEMPTS, delta_event, ids, read, text_event

from sessiond_adk import Delta, Increment, Remove, SessiondNotFoundError, SessiondSessionService, SessiondStaleError

MODES: tuple[Literal["merge", "conflict", "error"], ...] = ("merge", "conflict", "error")


@pytest.fixture(params=MODES)
async def service(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[SessiondSessionService]:
    """The service in each mode, on each kind of store."""
    async with SessiondSessionService(server.address, stale=request.param) as connected:
        yield connected


async def replaced(service: SessiondSessionService) -> tuple[Session, Session]:
    """An object of a session that was deleted, and one of the session that has its id now.

    Sequences and versions agree, so that nothing but the uid tells the two apart.
    """
    old = await service.create_session(**KEY, state={"cart": ["old"], "n": 1})
    await service.append_event(old, delta_event({"cart": ["old", "secret"]}, id="e1"))
    await service.delete_session(old)
    new = await service.create_session(**KEY, state={"cart": ["new"], "n": 1})
    await service.append_event(new, delta_event({"cart": ["new"]}, id="f1"))
    return old, new


Write = Callable[[SessiondSessionService, Session], Awaitable[Any]]

WRITES: dict[str, Write] = {
    "append": lambda on, old: on.append_event(old, delta_event({"cart": ["late"]})),
    "append without a delta": lambda on, old: on.append_event(old, text_event("late")),
    "append of an event that the old session has": lambda on, old: on.append_event(old, old.events[0]),
    "append of an event that the new session has": lambda on, old: on.append_event(
        old, delta_event({"cart": ["new"]}, id="f1")
    ),
    "append of shared state": lambda on, old: on.append_event(old, delta_event({"app:x": 1, "user:y": 1})),
    "append of operations": lambda on, old: on.append_event(old, delta_event({}), operations=[Increment("n")]),
    "change": lambda on, old: on.change(old, Delta({"cart": []}, [Remove("n")])),
    "increment": lambda on, old: on.increment(old, "n"),
    "append_to_list": lambda on, old: on.append_to_list(old, "cart", ["late"]),
    "set_if_absent": lambda on, old: on.set_if_absent(old, "n", 5),
    "merge": lambda on, old: on.merge(old, "profile", {"a": 1}),
    "remove": lambda on, old: on.remove(old, "cart"),
    "fork_session": lambda on, old: on.fork_session(old, new_session_id="fork"),
    "rewind_session": lambda on, old: on.rewind_session(old, to_sequence=0),
    "expire_session": lambda on, old: on.expire_session(old, after_seconds=60),
    "refresh": lambda on, old: on.refresh(old),
    "rewind of ADK": lambda on, old: rewind_with_adk(on, old),
}


async def rewind_with_adk(service: SessiondSessionService, session: Session) -> None:
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions

    actions = EventActions(rewind_before_invocation_id=session.events[0].invocation_id, state_delta={"cart": None})
    await service.append_event(session, Event(author="user", actions=actions))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_write_through_an_object_of_a_deleted_session_is_refused(
    service: SessiondSessionService, write: Write
) -> None:
    old, new = await replaced(service)
    before, stored = old.model_copy(deep=True), await read(service)
    with pytest.raises(SessiondStaleError, match="modified in storage") as refused:
        await write(service, old)
    assert isinstance(refused.value, StaleSessionError)
    assert (refused.value.reason, refused.value.keys) == ("SESSION_REPLACED", ())
    assert old == before
    assert await read(service) == stored == new
    listed = (await service.list_sessions(app_name=KEY["app_name"])).sessions
    assert [session.id for session in listed] == [KEY["session_id"]]
    assert await service.get_app_state(app_name=KEY["app_name"]) == {}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_write_through_an_object_of_a_session_that_is_gone(service: SessiondSessionService, write: Write) -> None:
    old = await service.create_session(**KEY, state={"cart": ["old"], "n": 1})
    await service.append_event(old, delta_event({"cart": ["old", "secret"]}, id="e1"))
    await service.delete_session(old)
    with pytest.raises(SessiondNotFoundError):
        await write(service, old)


async def test_deletion_through_an_object_deletes_its_session_only(service: SessiondSessionService) -> None:
    old, new = await replaced(service)
    await service.delete_session(old)
    await service.delete_session(old)
    assert await read(service) == new
    await service.delete_session(new)
    assert await service.get_session(**KEY) is None
    await service.delete_session(new)


async def test_repeated_deletion_with_a_lost_response_leaves_the_next_session(server: Server) -> None:
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service,
        SessiondSessionService(server.address) as others,
    ):
        session = await service.create_session(**KEY)

        async def meanwhile() -> None:
            await others.create_session(**KEY, state={"new": 1})

        proxy.lose_responses(1, meanwhile)
        await service.delete_session(session)
        assert proxy.lost == 1
        assert (await read(others)).state == {"new": 1}


@pytest.mark.parametrize(
    "source",
    [
        lambda on: recreated(on),
        lambda on: read(on),
        lambda on: read(on, num_recent_events=0),
        lambda on: on.get_session_as_of(**KEY, sequence=1),
        lambda on: listed(on),
        lambda on: appended(on),
        lambda on: refreshed(on),
        lambda on: on.rewind_session(**KEY, to_sequence=1),
        lambda on: copied(on, lambda session: session.model_copy()),
        lambda on: copied(on, lambda session: session.model_copy(deep=True)),
        lambda on: copied(on, copy.copy),
        lambda on: copied(on, copy.deepcopy),
        lambda on: copied(on, lambda session: pickle.loads(pickle.dumps(session))),
    ],
    ids=[
        "created",
        "read",
        "read without events",
        "past",
        "listed",
        "appended",
        "refreshed",
        "rewound",
        "shallow model copy",
        "deep model copy",
        "copy",
        "deepcopy",
        "pickle",
    ],
)
async def test_every_object_of_this_service_and_every_copy_knows_its_session(
    server: Server, source: Callable[[SessiondSessionService], Awaitable[Session]]
) -> None:
    async with SessiondSessionService(server.address) as service:
        first = await service.create_session(**KEY)
        await service.append_event(first, text_event("x"))
        session = await source(service)
        await service.delete_session(**KEY)
        new = await service.create_session(**KEY)
        with pytest.raises(SessiondStaleError) as refused:
            await service.append_event(session, text_event("late"))
        assert refused.value.reason == "SESSION_REPLACED"
        assert ids(await read(service)) == []
        await service.append_event(new, text_event("mine"))


async def recreated(service: SessiondSessionService) -> Session:
    await service.delete_session(**KEY)
    return await service.create_session(**KEY)


async def listed(service: SessiondSessionService) -> Session:
    (session,) = (await service.list_sessions(app_name=KEY["app_name"])).sessions
    return session


async def appended(service: SessiondSessionService) -> Session:
    session = await read(service)
    await service.append_event(session, text_event("x"))
    return session


async def refreshed(service: SessiondSessionService) -> Session:
    session = await read(service)
    await service.refresh(session)
    return session


async def copied(service: SessiondSessionService, how: Callable[[Session], Session]) -> Session:
    return how(await read(service))


async def test_object_made_by_hand_has_no_uid_and_is_written(server: Server) -> None:
    async with SessiondSessionService(server.address) as service:
        await replaced(service)
        by_hand = Session(**{name: value for name, value in KEY.items() if name != "session_id"}, id=KEY["session_id"])
        await service.append_event(by_hand, text_event("hello"))
        await service.refresh(by_hand)
        assert len(by_hand.events) == 2
        # Reading has told it which session it is of.
        await service.delete_session(by_hand)
        assert await service.get_session(**KEY) is None


async def test_object_without_a_sequence_is_not_appended_to_a_session_that_replaced_the_one_it_was_compared_with(
    server: Server,
) -> None:
    """With stale="error", its position is read before the append."""
    async with SessiondSessionService(server.address, stale="error") as service:
        session = Session.model_validate((await service.create_session(**KEY)).model_dump())
        call = service._client.call

        async def replace_before_append(method: Any, request: Any) -> Any:
            if type(request).__name__ == "AppendEventRequest":
                await service.delete_session(**KEY)
                await service.create_session(**KEY)
            return await call(method, request)

        service._client.call = replace_before_append  # type: ignore[method-assign]
        with pytest.raises(SessiondStaleError) as refused:
            await service.append_event(session, text_event("late"))
        assert refused.value.reason == "SESSION_REPLACED"
        assert ids(await read(service)) == []


async def test_turn_that_runs_on_a_deleted_session_ends(server: Server) -> None:
    """The user resets the conversation while the model thinks."""
    from conversation import ScriptedModel, said
    from google.adk.agents import LlmAgent
    from google.genai import types

    async with SessiondSessionService(server.address) as service:
        await service.create_session(**KEY)

        class Slow(ScriptedModel):
            async def generate_content_async(self, *arguments: Any, **more: Any) -> Any:
                await service.delete_session(**KEY)
                await service.create_session(**KEY, state={"answer": None})
                async for response in super().generate_content_async(*arguments, **more):
                    yield response

        model = Slow()
        model.script([said("the old secret")])
        agent = LlmAgent(name="agent", model=model, output_key="answer")
        runner = Runner(agent=agent, app_name=KEY["app_name"], session_service=service)
        message = types.Content(role="user", parts=[types.Part(text="hello")])
        with pytest.raises(StaleSessionError):
            async for _ in runner.run_async(user_id=KEY["user_id"], session_id=KEY["session_id"], new_message=message):
                pass
        fresh = await read(service)
        assert (fresh.events, fresh.state) == ([], {"answer": None})


PADDED = ["s", "s\n", " s", "  ", "\u2003s"]


async def test_listed_id_addresses_its_session_in_every_call(server: Server) -> None:
    """Ids that clients of other languages have made: nothing of them is trimmed."""
    async with SessiondSessionService(server.address) as service:
        for name in PADDED:
            await service._create("app", "user", name, {"name": name})
        for listed_one in (await service.list_sessions(app_name="app")).sessions:
            name = listed_one.id
            key: dict[str, Any] = {"app_name": "app", "user_id": "user", "session_id": name}
            assert listed_one.state == {"name": name}
            session = await service.get_session(**key)
            assert session is not None
            await service.append_event(session, delta_event({"name": [name]}, id=name))
            await service.refresh(session)
            assert (await service.get_state(**key))["name"] == [name]
            await service.update_state(Delta({"more": name}), **key)
            past = await service.get_session_as_of(**key, sequence=1)
            assert past is not None
            assert past.state == {"name": [name]}
            assert [stored.event.id async for stored in service.list_events(**key)][:1] == [name]
            fork = await service.fork_session(**key, new_session_id=f"\t{name} ")
            assert (fork.id, fork.state["name"]) == (f"\t{name} ", [name])
            await service.delete_session(fork)
            assert await service.expire_session(**key, after_seconds=60) is not None
            rewound = await service.rewind_session(**key, to_sequence=0)
            assert (rewound.id, rewound.state) == (name, {"name": name})
            async with service.watch(**key) as watch:
                snapshot = await anext(watch)
            assert getattr(snapshot, "state", None) == {"name": name}
        for name in PADDED:
            await service.delete_session(app_name="app", user_id="user", session_id=name)
            left = {session.id for session in (await service.list_sessions(app_name="app")).sessions}
            assert left == set(PADDED[PADDED.index(name) + 1 :])
