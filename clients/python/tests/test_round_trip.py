"""Round trips: every field of an event, every state value, every time."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from full_event import FREE, full_event
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import BaseModel
from support import KEY, field_by_field, read, text_event

from sessiond_adk import SessiondSessionService, StateValueError
from sessiond_adk._proto import event_service_pb2, types_pb2
from sessiond_adk.client import session_key
from sessiond_adk.events import decode_event, encode_event


def unset(model: BaseModel, path: str = "") -> list[str]:
    """Paths of fields that are None, at any depth."""
    found = []
    for name in type(model).model_fields:
        value = getattr(model, name)
        if value is None:
            found.append(f"{path}{name}")
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                found += unset(item, f"{path}{name}.")
    return found


def test_full_event_has_every_field() -> None:
    """The next test needs that."""
    event = full_event()
    top = [name for name in unset(event) if "." not in name]
    assert top == ["partial"], "a partial event is not stored"
    assert [name for name in unset(event.actions) if "." not in name] == []
    assert event.content is not None
    assert event.content.parts is not None
    part = event.content.parts[0]
    assert part.function_call is not None
    assert part.function_response is not None
    assert part.inline_data is not None
    assert part.inline_data.data is not None
    assert event.grounding_metadata is not None
    assert event.usage_metadata is not None
    assert event.actions.compaction is not None


async def test_every_field_round_trips(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    event, twin = full_event(), full_event()
    assert event == twin
    assert await service.append_event(session, event) is event
    assert event == twin, "appending changes nothing but temp: keys"
    stored = await read(service)
    assert stored.events == [twin]
    assert stored.events[0].model_dump() == twin.model_dump()
    assert stored.state == twin.actions.state_delta
    assert stored == session


async def test_half_surrogate_pairs_of_a_body_are_replaced(service: SessiondSessionService) -> None:
    """As they come from a text that was cut between the halves of an emoji."""
    session = await service.create_session(**KEY)
    event = text_event(
        "a\ud83d b\ude00 \U0001f600 \ud83d\ude00", custom_metadata={"k": {"\udc00": ["\ud83d"], "n": 0.5}}
    )
    await service.append_event(session, event)
    await service.append_event(session, event)
    (stored,) = (await read(service)).events
    assert stored.content == text_event("a\ufffd b\ufffd \U0001f600 \U0001f600").content
    assert stored.custom_metadata == {"k": {"\ufffd": ["\ufffd"], "n": 0.5}}
    assert session.events == [event]
    assert event.custom_metadata == {"k": {"\udc00": ["\ud83d"], "n": 0.5}}


def test_body_with_half_a_surrogate_pair_is_written_as_any_other() -> None:
    """pydantic cannot write it."""
    event, twin = full_event(), full_event()
    for one, text in ((event, "cut \ud83d"), (twin, "cut \ufffd")):
        one.error_message = text
        one.custom_metadata = {"bytes": b"\xfb\xff", "infinite": float("inf"), "set": {1}, "float": 1e22}
    assert encode_event(event).message == encode_event(twin).message


def test_body_without_a_json_form_is_refused() -> None:
    with pytest.raises(ValueError, match="Unable to serialize unknown type"):
        encode_event(text_event("x", custom_metadata={"f": print, "text": "\ud83d"}))


async def test_body_is_the_events_own_json_without_its_delta(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    event = full_event()
    await service.append_event(session, event)
    request = event_service_pb2.ListEventsRequest(key=session_key(**KEY))
    (stored,) = [item async for item in service._client.list_events(request)]
    whole = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert json.loads(stored.state_delta.set_json) == whole["actions"].pop("stateDelta") == event.actions.state_delta
    field_by_field(json.loads(stored.body_json), whole)
    assert (stored.event_id, stored.author, stored.invocation_id) == (event.id, event.author, event.invocation_id)
    assert stored.branch == "root.one.two"


TIMES = [
    1_700_000_000.1234567,
    1_795_190_851.2509241,
    1_795_190_851.0,
    0.1,
    1 / 3,
    0.0,
    -1.5,
    1e-12,
    253_402_300_799.0,
    -62_135_596_800.0,
    4_102_444_800.999_999_9,
]


@pytest.mark.parametrize("seconds", TIMES)
async def test_times_round_trip_as_the_same_float(service: SessiondSessionService, seconds: float) -> None:
    session = await service.create_session(**KEY)
    await service.append_event(session, Event(author="a", timestamp=seconds))
    stored = await read(service)
    assert stored.events[0].timestamp == seconds
    assert stored.last_update_time == seconds
    assert session.last_update_time == seconds


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e12, -1e12])
async def test_invalid_times_are_refused_before_anything_is_sent(seconds: float) -> None:
    unconnected = SessiondSessionService("127.0.0.1:1")
    session = Session(id="s", app_name="a", user_id="u")
    with pytest.raises(ValueError, match=r"time|outside the years"):
        await unconnected.append_event(session, Event(author="a", timestamp=seconds))


async def test_values_keep_their_types_and_digits(service: SessiondSessionService) -> None:
    state: dict[str, Any] = {
        "int": 2**53 + 1,
        "beyond 64 bits": 10**40,
        "float": 1.0,
        "small": 5e-324,
        "large": 1.7976931348623157e308,
        "bool": True,
        "null": None,
        "empty": [{}, [], ""],
        "text": 'quote " and \\ and \u2028 and \U0001f600 and \x00',
        "ключ \U0001f511": FREE,
        " spaces ": 1,
        'a"quote': 2,
    }
    session = await service.create_session(**KEY, state=state)
    assert session.state == state
    stored = await read(service)
    assert stored.state == state
    # As text: Python treats 1, 1.0 and True as equal, at any depth.
    assert json.dumps(stored.state, sort_keys=True) == json.dumps(state, sort_keys=True)


class Model(BaseModel):
    """A model as a state value."""

    size: int = 3


async def test_values_are_converted_as_in_the_database_service(service: SessiondSessionService) -> None:
    import datetime

    from google.adk.sessions import DatabaseSessionService

    state = {
        "date": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "set": {1},
        "tuple": (1, 2),
        "model": Model(),
        "bytes": b"abc",
        "keys": {1: "a"},
    }
    session = await service.create_session(**KEY)
    await service.append_event(session, Event(author="a", actions=EventActions(state_delta=dict(state))))
    assert session.state["model"] == Model(), "the caller keeps its own object, as in ADK's services"
    async with DatabaseSessionService("sqlite+aiosqlite:///:memory:") as database:
        kept = await database.create_session(**KEY)
        await database.append_event(kept, Event(author="a", actions=EventActions(state_delta=dict(state))))
        expected = await database.get_session(**KEY)
    assert expected is not None
    assert (await read(service)).state == expected.state


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"deep": float("-inf")}, object(), print, b"\xff"],
    ids=["nan", "inf", "deep", "object", "function", "bytes"],
)
async def test_values_without_a_json_form_are_refused_before_anything_is_sent(value: object) -> None:
    """ADK's database service would store their `repr`."""
    unconnected = SessiondSessionService("127.0.0.1:1")
    session = Session(id="s", app_name="a", user_id="u")
    event = Event(author="a", actions=EventActions(state_delta={"fine": 1, "user:bad": value, "temp:t": 1}))
    for attempt in (
        lambda: unconnected.append_event(session, event),
        lambda: unconnected.create_session(app_name="a", user_id="u", state={"user:bad": value}),
    ):
        with pytest.raises(StateValueError, match="'user:bad'") as refused:
            await attempt()
        assert refused.value.key == "user:bad"
    assert session.state == {}
    assert session.events == []
    assert "temp:t" in event.actions.state_delta, "the event is unchanged"


async def test_cyclic_value_and_key_that_is_not_a_string() -> None:
    unconnected = SessiondSessionService("127.0.0.1:1")
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(StateValueError, match="'ring'"):
        await unconnected.create_session(app_name="a", user_id="u", state={"ring": ring})
    with pytest.raises(StateValueError, match="not a string"):
        await unconnected.create_session(app_name="a", user_id="u", state={1: 2})  # type: ignore[dict-item]
    event = Event(author="a")
    event.actions.state_delta = {1: 2}  # type: ignore[dict-item]
    with pytest.raises(StateValueError, match="not a string"):
        await unconnected.append_event(Session(id="s", app_name="a", user_id="u"), event)


def test_fields_of_a_newer_adk_are_omitted_from_the_object(caplog: pytest.LogCaptureFixture) -> None:
    """With a warning that names them. A newer ADK reads them from the store."""
    body = json.loads(encode_event(full_event()).message.body_json)
    body["newerField"] = {"a": 1}
    body["actions"]["newerAction"] = [1]
    body["content"]["parts"][0]["newerPart"] = "x"
    message = encode_event(full_event()).message
    message.body_json = json.dumps(body)
    with caplog.at_level(logging.WARNING):
        assert decode_event(message) == full_event()
    assert "actions.newerAction" in caplog.text
    assert "content.parts.0.newerPart" in caplog.text


async def test_fields_of_a_newer_adk_stay_in_the_store(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    text = '{"content":{"parts":[{"text":"hi","shiny":1}],"role":"user"},"actions":{"fly":true},"wings":2}'
    request = event_service_pb2.AppendEventRequest(
        key=session_key(**KEY), event=types_pb2.Event(event_id="new", author="user", body_json=text)
    )
    await service._client.call(lambda to: to.events.AppendEvent, request)
    stored = await read(service)
    assert stored.events[0].content == types.Content(role="user", parts=[types.Part(text="hi")])
    assert stored.events[0].author == "user"
    await service.append_event(session, Event(author="a"))
    again = [item async for item in service._client.list_events(event_service_pb2.ListEventsRequest(key=request.key))]
    assert again[0].body_json == text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"text":"hello"}', {}),
        ("", {}),
        ('{"content":{"parts":[{"text":"t"}],"role":"user"},"actions":{"transfer_to_agent":"b"}}', {"text": "t"}),
        ('{"content":{"parts":[{"text":"t"}]},"timestamp":1700000000123,"Author":"x"}', {"text": "t"}),
        (
            '{"content":{"parts":[{"text":"t"}]},"timestamp":"2026-01-01T00:00:00Z","longRunningToolIds":5}',
            {"text": "t"},
        ),
        ('{"content":5,"actions":7}', {}),
        ('{"content":{"parts":[5]}}', {}),
    ],
)
def test_bodies_of_other_writers_are_read_as_far_as_possible(body: str, expected: dict[str, str]) -> None:
    """The CLI's bodies, snake_case, milliseconds of Java and TypeScript, times as text. The envelope has precedence."""
    message = types_pb2.Event(event_id="e", author="ann", invocation_id="i", branch="b", body_json=body)
    message.event_time.FromNanoseconds(1_700_000_000_123_000_000)
    event = decode_event(message)
    assert (event.id, event.author, event.invocation_id, event.branch) == ("e", "ann", "i", "b")
    assert event.timestamp == 1_700_000_000.123
    parts = (event.content.parts or []) if event.content else []
    assert [part.text for part in parts] == list(expected.values())


async def test_more_events_than_one_response_holds(service: SessiondSessionService) -> None:
    """12 MB of events: the first page of GetSession, then ListEvents, without gap or repetition."""
    session = await service.create_session(**KEY, state={"s": 1})
    for number in range(16):
        text = str(number) + "x" * 750_000
        await service.append_event(session, text_event(text))
    stored = await read(service)
    assert stored.events == session.events
    newest = await read(service, num_recent_events=9)
    assert newest.events == session.events[-9:]
    assert newest.state == {"s": 1}
