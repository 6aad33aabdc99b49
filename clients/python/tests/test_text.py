"""Half a surrogate pair: mended in values and bodies, refused in keys, ids and names."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conversation import ScriptedModel, said
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import BaseModel
from support import KEY, delta_event, read, text_event

from sessiond_adk import (
    Delta,
    Increment,
    ListAppend,
    MergePatch,
    Remove,
    SessiondSessionService,
    SetIfAbsent,
    StateValueError,
)

HALF = "\ud83d"


class Answer(BaseModel):
    """A value of a class."""

    text: str


MENDED = [
    pytest.param(f"cut {HALF}", "cut \ufffd", "user:k", id="text"),
    pytest.param([1, {"a": f"{HALF}!"}], [1, {"a": "\ufffd!"}], "user:k.1.a", id="nested text"),
    pytest.param({f"n{HALF}": {"x": 1}}, {"n\ufffd": {"x": 1}}, "user:k.n\ufffd", id="name of a member"),
    pytest.param(Answer(text=HALF), {"text": "\ufffd"}, "user:k.text", id="model"),
    pytest.param(
        {"m": [Answer(text=HALF)], HALF: 1}, {"m": [{"text": "\ufffd"}], "\ufffd": 1}, "user:k.m.0.text", id="both"
    ),
]


@pytest.mark.parametrize(("value", "stored", "path"), MENDED)
async def test_value_is_mended_with_one_warning(
    service: SessiondSessionService, caplog: pytest.LogCaptureFixture, value: object, stored: object, path: str
) -> None:
    session = await service.create_session(**KEY)
    event = delta_event({"user:k": value, "fine": 1})
    with caplog.at_level(logging.WARNING):
        await service.append_event(session, event)
    (message,) = caplog.messages
    assert "state key user:k: " in message
    assert path in message
    # What the caller holds is what is stored, so nothing is mended again.
    assert session.state == {"user:k": stored, "fine": 1} == (await read(service)).state
    assert event.actions.state_delta == {"user:k": stored, "fine": 1}
    caplog.clear()
    await service.append_event(session, text_event("on"))
    assert session.state["user:k"] == stored
    assert caplog.messages == []


async def test_values_of_other_writes_are_mended(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": HALF})
    assert session.state == {"a": "\ufffd"}
    assert await service.append_to_list(session, "list", [HALF]) == ["\ufffd"]
    assert await service.set_if_absent(session, "b", {HALF: HALF}) == {"\ufffd": "\ufffd"}
    assert await service.merge(session, "c", {HALF: HALF}) == {"\ufffd": "\ufffd"}
    state = await service.update_state(Delta({"app:d": HALF}), app_name="app")
    assert state == {"app:d": "\ufffd"}


async def test_uncommitted_value_warns_when_it_is_committed_only(
    service: SessiondSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    session = await service.create_session(**KEY, state={"k": 1})
    session.state["k"] = HALF
    with caplog.at_level(logging.WARNING):
        await service.append_event(session, delta_event({"other": 1}))
        assert caplog.messages == []
        await service.append_event(session, delta_event({"k": HALF}))
    assert len(caplog.messages) == 1
    assert session.state["k"] == "\ufffd"


async def test_answer_of_a_turn_with_an_output_key_is_stored(
    service: SessiondSessionService, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer was cut in the middle of an emoji."""
    model = ScriptedModel()
    model.script([said(f"Sunny {HALF}"), said("Again.")])
    agent = LlmAgent(name="agent", model=model, output_key="answer")
    runner = Runner(agent=agent, app_name=KEY["app_name"], session_service=service)
    await service.create_session(**KEY)
    with caplog.at_level(logging.WARNING, "sessiond_adk"):
        for text in ("How is it?", "And now?"):
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for _ in runner.run_async(user_id=KEY["user_id"], session_id=KEY["session_id"], new_message=message):
                pass
            if text == "How is it?":
                stored = await read(service)
                assert stored.state["answer"] == "Sunny \ufffd"
                assert stored.events[-1].content == types.Content(role="model", parts=[types.Part(text="Sunny \ufffd")])
    assert (await read(service)).state["answer"] == "Again."
    assert [line for line in caplog.messages if "state key answer" in line] == [
        "state key answer: replaced half a surrogate pair by U+FFFD in answer"
    ]
    assert [line for line in caplog.messages if "content.parts.0.text" in line], "the body names its member"


def hand_made() -> Session:
    return Session(id="s", app_name="a", user_id="u")


Attempt = Callable[[SessiondSessionService], Awaitable[Any]]

REFUSED: list[tuple[str, Attempt]] = [
    ("app_name", lambda on: on.create_session(app_name=HALF, user_id="u")),
    ("user_id", lambda on: on.create_session(app_name="a", user_id=HALF)),
    ("session_id", lambda on: on.create_session(app_name="a", user_id="u", session_id=HALF)),
    ("session_id", lambda on: on.get_session(app_name="a", user_id="u", session_id=HALF)),
    ("session_id", lambda on: on.delete_session(app_name="a", user_id="u", session_id=HALF)),
    ("user_id", lambda on: on.list_sessions(app_name="a", user_id=HALF)),
    ("user_id", lambda on: on.get_user_state(app_name="a", user_id=HALF)),
    ("app_name", lambda on: on.get_app_state(app_name=HALF)),
    ("invocation_id", lambda on: on.get_state(app_name="a", invocation_id=HALF)),
    ("invocation_id", lambda on: on.end_invocation(hand_made(), HALF)),
    ("session_id", lambda on: on.get_session_as_of(app_name="a", user_id="u", session_id=HALF, sequence=0)),
    ("session_id", lambda on: on.fork_session(app_name="a", user_id="u", session_id="s", new_session_id=HALF)),
    ("session_id", lambda on: on.rewind_session(app_name="a", user_id="u", session_id=HALF, to_sequence=0)),
    ("author", lambda on: on.rewind_session(app_name="a", user_id="u", session_id="s", to_sequence=0, author=HALF)),
    ("session_id", lambda on: on.expire_session(app_name="a", user_id="u", session_id=HALF)),
    ("user_id", lambda on: on.update_state(Delta({"app:k": 1}), app_name="a", user_id=HALF)),
    ("author", lambda on: on.update_state(Delta({"app:k": 1}), app_name="a", author=HALF)),
    ("session_id", lambda on: on.refresh(Session(id=HALF, app_name="a", user_id="u"))),
    ("event_id", lambda on: on.append_event(hand_made(), Event(author="a", id=HALF))),
    ("author", lambda on: on.append_event(hand_made(), Event(author=HALF))),
    ("invocation_id", lambda on: on.append_event(hand_made(), Event(author="a", invocation_id=HALF))),
    ("branch", lambda on: on.append_event(hand_made(), Event(author="a", branch=HALF))),
    ("state key", lambda on: on.create_session(app_name="a", user_id="u", state={f"k{HALF}": 1})),
    ("state key", lambda on: on.append_event(hand_made(), delta_event({f"k{HALF}": 1}))),
    ("state key", lambda on: on.update_state(Delta({f"app:{HALF}": 1}), app_name="a")),
    ("state key", lambda on: on.remove(hand_made(), HALF)),
    ("state key", lambda on: on.increment(hand_made(), HALF)),
    ("state key", lambda on: on.append_event(hand_made(), Event(author="a"), operations=[ListAppend(HALF, [])])),
    ("state key", lambda on: on.append_event(hand_made(), Event(author="a"), operations=[SetIfAbsent(HALF, 1)])),
    ("state key", lambda on: on.append_event(hand_made(), Event(author="a"), operations=[MergePatch(HALF, {})])),
    ("state key", lambda on: on.update_state(Delta(operations=[Remove(HALF), Increment("app:k")]), app_name="a")),
]


@pytest.mark.parametrize(("name", "attempt"), REFUSED, ids=[f"{n}-{name}" for n, (name, _) in enumerate(REFUSED)])
async def test_key_id_or_name_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, name: str, attempt: Attempt
) -> None:
    unconnected = SessiondSessionService("127.0.0.1:1")
    monkeypatch.setattr(unconnected._client.connections, "current", lambda: pytest.fail("the call was sent"))
    with pytest.raises(ValueError, match=f"{name} .*half a surrogate pair") as refused:
        await attempt(unconnected)
    assert isinstance(refused.value, StateValueError) == (name == "state key")
    # A message that has the half pair itself cannot be printed.
    str(refused.value).encode()


async def test_watch_of_such_an_id_is_refused() -> None:
    with pytest.raises(ValueError, match=r"session_id is .*half a surrogate pair"):
        SessiondSessionService("127.0.0.1:1").watch(app_name="a", user_id="u", session_id=HALF)
