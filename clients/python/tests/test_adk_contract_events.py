"""What ADK expects of a session service: events, `temp:` keys, redelivery, templates, and changes of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Serve, Server
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from google.adk.utils.instructions_utils import inject_session_state
from google.genai import types
from support import KEY, delta_event, ids, read, same_as_memory, text_event

from sessiond_adk import CaughtUp, Deleted, ListAppend, SessiondError, SessiondSessionService
from sessiond_adk._proto import event_service_pb2, state_service_pb2, types_pb2
from sessiond_adk.client import session_key


async def test_temp_stays_in_the_callers_session(service: SessiondSessionService) -> None:
    """ADK moves `temp:` keys from the event into the caller's session before it stores the event."""
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
    """The server keeps shared keys until the invocation ends, and stores them in no event."""
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


async def test_temp_is_never_on_disk(serve: Serve) -> None:
    """No file of the server has a byte of it, neither while the server runs nor afterwards."""
    server = serve("sqlite:test.db")

    def on_disk(text: str) -> bool:
        return any(text.encode() in path.read_bytes() for path in server.directory.rglob("*") if path.is_file())

    async with (
        SessiondSessionService(server.address) as private,
        SessiondSessionService(server.address, share_temp=True) as shared,
    ):
        session = await private.create_session(**KEY, state={"temp:hush-a": "hush-b", "kept-a": "kept-b"})
        await private.append_event(session, delta_event({"temp:hush-c": "hush-d", "kept-c": "kept-d"}))
        event = delta_event({"temp:hush-e": "hush-f", "kept-e": "kept-f"}, invocation_id="i")
        await shared.append_event(session, event, operations=[ListAppend("temp:hush-g", ["hush-h"])])
        shown = await private.get_state(**KEY, invocation_id="i")
        assert (shown["temp:hush-e"], shown["temp:hush-g"]) == ("hush-f", ["hush-h"])
        for killed in (False, True):
            if killed:
                server.kill()
            assert all(on_disk(f"kept-{letter}") for letter in "abcdef")
            assert not on_disk("hush-")


async def test_keys_similar_to_temp_are_stored(service: SessiondSessionService) -> None:
    """Prefixes are case-sensitive."""

    async def scenario(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY)
        await on.append_event(session, delta_event({"Temp:a": 1, "temp": 2, "x:temp:": 3, "APP:b": 4, "_adk:c": 5}))
        return (await read(on)).state

    assert len(await same_as_memory(service, scenario)) == 5


async def test_partial_events_are_ignored(service: SessiondSessionService) -> None:
    """They are not stored and change no state."""

    async def scenario(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY)
        event = delta_event({"a": 1, "temp:b": 2}, partial=True)
        assert await on.append_event(session, event) is event
        return session.state, session.events, event.actions.state_delta, (await read(on)).state, (await read(on)).events

    assert await same_as_memory(service, scenario) == ({}, [], {"a": 1, "temp:b": 2}, {}, [])


async def test_null_in_a_delta_is_stored(service: SessiondSessionService) -> None:

    async def scenario(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY, state={"a": 1})
        await on.append_event(session, delta_event({"a": None, "user:b": None, "app:c": [None]}))
        return session.state, (await read(on)).state, (await read(on)).events[0].actions.state_delta

    expected = {"a": None, "user:b": None, "app:c": [None]}
    assert await same_as_memory(service, scenario) == (expected, expected, expected)


async def test_ids_of_new_sessions_are_trimmed_and_blank_ids_replaced(service: SessiondSessionService) -> None:

    async def scenario(on: BaseSessionService) -> Any:
        created = await on.create_session(app_name="app", user_id="user", session_id="  padded \n")
        found = await on.get_session(app_name="app", user_id="user", session_id=created.id)
        blank = [await on.create_session(app_name="app", user_id="user", session_id=one) for one in ("", "  ", None)]
        return created.id, found and found.id, len({session.id for session in blank}), [len(s.id) for s in blank]

    assert await same_as_memory(service, scenario) == ("padded", "padded", 3, [36, 36, 36])


async def test_redelivery_of_an_equal_event_is_ignored(service: SessiondSessionService) -> None:

    async def scenario(on: BaseSessionService) -> Any:
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

    *_, stored, state, lasts = await same_as_memory(service, scenario)
    assert (stored, state, lasts) == (["once", "later"], {"a": 5, "app:b": 2}, (8.5, 8.5, 8.5))


async def test_redelivery_with_shared_temp_keys_is_ignored(server: Server) -> None:
    """The server counts shared `temp:` keys as content, and the stored event does not have them."""
    async with SessiondSessionService(server.address, share_temp=True) as service:
        session = await service.create_session(**KEY)
        event = delta_event({"a": 1, "temp:b": 2}, id="once", invocation_id="i")
        await service.append_event(session, event)
        assert event.actions.state_delta == {"a": 1}
        await service.append_event(session, event)
        event.actions.state_delta["temp:b"] = 3
        await service.append_event(session, event)
        assert ids(session) == ids(await read(service)) == ["once"]


async def test_redelivery_of_a_rewound_event_is_ignored(server: Server) -> None:
    """A rewound event is still stored."""
    async with SessiondSessionService(server.address, share_temp=True) as service:
        session = await service.create_session(**KEY)
        event = delta_event({"a": 1, "temp:b": 2}, id="once", invocation_id="i")
        await service.append_event(session, event)
        await service.rewind_session(**KEY, to_sequence=0)
        await service.append_event(session, event)
        assert session.state == {"temp:b": 2}
        assert ids(await read(service)) == []


async def test_another_event_with_the_same_id_is_refused(service: SessiondSessionService) -> None:
    """With ADK's AlreadyExistsError. ADK's memory service would store both."""
    session = await service.create_session(**KEY)
    await service.append_event(session, delta_event({"a": 1}, id="once"))
    with pytest.raises(AlreadyExistsError) as refused:
        await service.append_event(session, delta_event({"a": 2}, id="once"))
    assert isinstance(refused.value, SessiondError)
    assert refused.value.reason == "EVENT_ID_REUSED"
    assert session.state == {"a": 1}
    assert (await read(service)).state == {"a": 1}


async def test_event_without_an_id_gets_one(service: SessiondSessionService) -> None:
    """Retries need it."""
    session = await service.create_session(**KEY)
    event = text_event("x")
    event.id = ""
    await service.append_event(session, event)
    assert event.id
    assert ids(await read(service)) == [event.id]


async def test_body_is_complete_except_for_the_delta(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    event = delta_event({"a": 1}, custom_metadata={"k": None}, branch="x.y")
    await service.append_event(session, event)
    request = event_service_pb2.ListEventsRequest(key=session_key(**KEY))
    (stored,) = [item async for item in service._client.list_events(request)]
    assert stored.body_json == event.model_dump_json(
        by_alias=True, exclude_none=True, exclude={"actions": {"state_delta"}}
    )
    assert stored.state_delta.set_json == '{"a":1}'


async def test_unknown_fields_of_events_survive(service: SessiondSessionService) -> None:
    """Other languages and newer versions of ADK write fields that this ADK's models forbid. Also through a fork, and
    with an append from here."""
    session = await service.create_session(**KEY)
    text = (
        '{"content":{"parts":[{"text":"hi","mood":"calm"}],"role":"model"},"actions":{"fly":{"high":true}},'
        '"customMetadata":{"a":[1.0,null]},"wings":2}'
    )
    request = event_service_pb2.AppendEventRequest(
        key=session_key(**KEY),
        event=types_pb2.Event(
            event_id="other", author="theirs", body_json=text, state_delta=types_pb2.StateDelta(set_json='{"a":1}')
        ),
    )
    await service._client.call(lambda to: to.events.AppendEvent, request)
    await service.append_event(session, text_event("ours"))
    fork = await service.fork_session(**KEY)
    for session_id in ("s", fork.id):
        found = await read(service, session_id)
        event = found.events[0]
        assert (event.id, event.author, event.custom_metadata) == ("other", "theirs", {"a": [1.0, None]})
        assert event.content == types.Content(role="model", parts=[types.Part(text="hi")])
        assert (event.actions.state_delta, found.state) == ({"a": 1}, {"a": 1})
        request_of_all = event_service_pb2.ListEventsRequest(key=session_key(**{**KEY, "session_id": session_id}))
        stored = [item async for item in service._client.list_events(request_of_all)]
        assert stored[0].body_json == text
        assert len(stored) == 2


TEMPLATES = [
    ("{name}, {app:house}, {user:language}, {temp:draft}", "Ann, Luigi's, it, soup"),
    ("{ name }{\tname\n}", "AnnAnn"),
    ("{name?}{missing?}{app:missing?}{ name? }", "AnnAnn"),
    ("<{empty}{empty?}>", "<>"),
    ("{count} {größe}", "7 L"),
    ("{{name}}", "Ann"),
    ("${name} \\{name} $ {name}", "${name} \\{name} $ Ann"),
    (
        '{} {two words} {1st} {other:name} {app:} {app:a:b} {name ?} {name??} {"a": 1}',
        '{} {two words} {1st} {other:name} {app:} {app:a:b} {name ?} {name??} {"a": 1}',
    ),
    ("{tricky}", "{name}"),
    ("{name", "{name"),
    ("name}", "name}"),
]
STATE = {
    "name": "Ann",
    "app:house": "Luigi's",
    "user:language": "it",
    "empty": None,
    "count": 7,
    "größe": "L",
    "tricky": "{name}",
}


async def render_with_adk(on: BaseSessionService, session: Session, template: str) -> str:
    """Renders as ADK renders an agent's instruction."""
    agent = LlmAgent(name="agent", model="scripted")
    context = InvocationContext(session_service=on, invocation_id="i", agent=agent, session=session)
    return await inject_session_state(template, ReadonlyContext(context))


async def test_templates(server: Server) -> None:
    """ADK renders sessions of this service as it renders its own, and the server renders as ADK does."""
    async with SessiondSessionService(server.address, share_temp=True) as service:

        async def scenario(on: BaseSessionService) -> list[str]:
            session = await on.create_session(**KEY, state=STATE)
            await on.append_event(session, delta_event({"temp:draft": "soup"}, invocation_id="i"))
            for missing in ("{missing}", "{app:name}", "{temp:none}"):
                with pytest.raises(KeyError, match=missing.strip("{}")):
                    await render_with_adk(on, session, missing)
            return [await render_with_adk(on, session, template) for template, _ in TEMPLATES]

        rendered = await same_as_memory(service, scenario)
        assert rendered == [expected for _, expected in TEMPLATES]

        async def render(template: str) -> str:
            request = state_service_pb2.RenderTemplateRequest(
                key=session_key(**KEY), template=template, invocation_id="i"
            )
            response = await service._client.call(lambda to: to.state.RenderTemplate, request)
            text: str = response.text
            return text

        assert [await render(template) for template, _ in TEMPLATES] == rendered
        with pytest.raises(SessiondError) as refused:
            await render("{missing} {name} {app:name}")
        assert refused.value.reason == "MISSING_STATE_KEY"
        assert json.loads(refused.value.metadata["keys"]) == ["missing", "app:name"]


async def test_adk_rewind_is_an_ordinary_event(service: SessiondSessionService) -> None:
    """`Runner.rewind_async` appends a marker with a delta; its nulls are stored."""

    async def scenario(on: BaseSessionService) -> Any:
        session = await on.create_session(**KEY, state={"old": 1})
        await on.append_event(session, delta_event({"new": 1}, id="e1", invocation_id="i1"))
        marker = delta_event({"new": None}, id="e2")
        marker.actions.rewind_before_invocation_id = "i1"
        await on.append_event(session, marker)
        stored = await read(on)
        return stored.state, ids(stored), stored.events[1].actions.rewind_before_invocation_id

    assert await same_as_memory(service, scenario) == ({"old": 1, "new": None}, ["e1", "e2"], "i1")


async def test_uncommitted_state_survives_the_append_of_another_event(
    service: SessiondSessionService,
) -> None:
    """ADK's State writes into the session's dict long before its event is appended."""
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


async def test_app_and_user_changes_are_visible_in_other_sessions(service: SessiondSessionService) -> None:
    one = await service.create_session(**KEY)
    two = await service.create_session(app_name="app", user_id="user", session_id="two")
    await service.append_event(one, delta_event({"app:a": 1, "user:b": 2, "c": 3}))
    await service.append_event(two, text_event("x"))
    assert two.state == {"app:a": 1, "user:b": 2}


async def test_append_to_a_constructed_session(service: SessiondSessionService) -> None:
    """It does not have the earlier stored values, so none of its keys is removed."""
    await service.create_session(**KEY, state={"a": 1, "b": 2})
    foreign = Session(id="s", app_name="app", user_id="user", state={"a": 0, "local": 1})
    await service.append_event(foreign, delta_event({"c": 3}))
    assert foreign.state == {"a": 1, "b": 2, "local": 1, "c": 3}
    assert len(foreign.events) == 1


async def test_expiry(service: SessiondSessionService) -> None:
    """An expired session is as if deleted, and its watches end with `Deleted`."""
    session = await service.create_session(**KEY, state={"own": 1, "user:kept": 2, "app:kept": 3})
    await service.append_event(session, text_event("x"))
    async with service.watch(**KEY, start="now") as watch:
        assert isinstance(await anext(watch), CaughtUp)
        await service.expire_session(**KEY, after_seconds=0.2)
        assert [type(item) async for item in watch] == [Deleted]
    assert await service.get_session(**KEY) is None
    assert (await service.list_sessions(app_name="app")).sessions == []
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, text_event("y"))
    with pytest.raises(SessionNotFoundError):
        await service.expire_session(**KEY)
    again = await service.create_session(**KEY)
    assert (again.state, again.events) == ({"user:kept": 2, "app:kept": 3}, [])
