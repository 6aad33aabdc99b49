"""A real Runner: state and events are the same through sessiond and through ADK's own services."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import Serve, Server
from conversation import APP, SESSION, TURNS, USER, Conversation, ScriptedModel, called, said
from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from support import MANY_ATTEMPTS, field_by_field

from sessiond_adk import SessiondSessionService


async def test_conversation_equals_that_of_the_memory_service(service: SessiondSessionService) -> None:
    expected = await Conversation(InMemorySessionService()).run()
    field_by_field(await Conversation(service).run(), expected)


@pytest.mark.parametrize("stale", ["conflict", "error"])
async def test_conversation_without_other_writers_is_never_refused(
    server: Server, stale: Literal["conflict", "error"]
) -> None:
    """The own events of a runner and its parallel agents make no object outdated."""
    memory = InMemorySessionService()
    async with SessiondSessionService(server.address, stale=stale) as service:
        assert await fan_out(service) == await fan_out(memory)
        field_by_field(await Conversation(service).run(), await Conversation(memory).run())


async def test_script_covers_what_it_compares() -> None:
    """A script that does nothing would pass the comparison too."""
    seen = await Conversation(InMemorySessionService()).run()
    after_order, after_notes, after_rewind = seen[1], seen[2], seen[4]
    assert after_order["state"]["basket"] == {"soup": 2}
    assert after_order["state"]["app:orders"] == 1
    assert after_order["other state"]["user:favourite"] == "soup"
    assert after_notes["state"]["note2"] == "t2"
    assert after_notes["state"]["last"] == "Three things."
    assert "Favourite: soup. Turn 3. Orders of all: 1. Said: Two soups, noted.." in after_notes["instructions"][-1]
    assert seen[3]["state"]["basket"] is None
    assert after_rewind["state"]["basket"] == {"soup": 2}
    assert after_rewind["state"]["note2"] is None
    assert after_rewind["events"][-1]["actions"]["rewind_before_invocation_id"]
    assert not any(key.startswith("temp:") for key in seen[-1]["state"])
    assert not any("temp:" in str(event["actions"]["state_delta"]) for event in seen[-1]["events"])


async def test_crash_between_turns_changes_nothing(serve: Serve) -> None:
    """SIGKILL and a restart with the same port and file after every turn."""
    server = serve("sqlite:test.db")
    expected = await Conversation(InMemorySessionService()).run()

    async def crash(_turn: int) -> None:
        server.kill()
        server.start_again()

    async with SessiondSessionService(server.address) as service:
        field_by_field(await Conversation(service).run(crash), expected)


async def test_turn_waits_for_a_server_that_is_down(serve: Serve) -> None:
    server = serve("sqlite:test.db")
    async with SessiondSessionService(server.address, timeout=60, retry=MANY_ATTEMPTS) as service:
        conversation = Conversation(service)
        await conversation.begin()
        await conversation.take(TURNS[0])
        server.kill()
        turn = asyncio.create_task(conversation.take(TURNS[1]))
        # The turn cannot finish before the server is back.
        done, _ = await asyncio.wait([turn], timeout=0.2)
        assert not done
        await asyncio.to_thread(server.start_again)
        await turn
        assert (await conversation.stored()).state["basket"] == {"soup": 2}


async def test_conversation_equals_that_of_the_database(service: SessiondSessionService, tmp_path: Path) -> None:
    """Except for `last_update_time`, which a database rounds to microseconds."""
    async with DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path / 'adk.db'}") as database:
        expected = await Conversation(database).run()
    found = await Conversation(service).run()
    for seen in found:
        assert seen["last_update_time"] is True
    for seen in found + expected:
        # The database's rounding is visible only for some clock values.
        del seen["last_update_time"]
    field_by_field(found, expected)


async def test_agents_in_parallel_and_in_sequence(service: SessiondSessionService) -> None:
    """Parallel branches append to one session object, and an agent passes a `temp:` key to the next."""
    expected = await fan_out(InMemorySessionService())
    found = await fan_out(service)
    assert found == expected
    assert expected["state"] == {f"part{i}": f"part {i}" for i in range(4)} | {"end": "all of it"}
    assert expected["instruction"].count("from temp: hidden") == 1


async def fan_out(service: Any) -> dict[str, Any]:
    models = [ScriptedModel() for _ in range(6)]
    for i in range(4):
        models[i].script([said(f"part {i}")])
    models[4].script([said("hidden")])
    models[5].script([said("all of it")])
    parts = [LlmAgent(name=f"p{i}", model=models[i], output_key=f"part{i}") for i in range(4)]
    root = SequentialAgent(
        name="root",
        sub_agents=[
            ParallelAgent(name="all", sub_agents=list(parts)),
            LlmAgent(name="hider", model=models[4], output_key="temp:secret"),
            LlmAgent(name="teller", model=models[5], instruction="from temp: {temp:secret}", output_key="end"),
        ],
    )
    runner = Runner(agent=root, app_name=APP, session_service=service)
    await service.create_session(app_name=APP, user_id=USER, session_id="fan")
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async for _ in runner.run_async(user_id=USER, session_id="fan", new_message=message):
        pass
    session = await service.get_session(app_name=APP, user_id=USER, session_id="fan")
    authors = [event.author for event in session.events]
    # Branches end in any order.
    return {
        "state": session.state,
        "authors": sorted(authors),
        "end": authors[-2:],
        "branches": sorted(str(event.branch) for event in session.events),
        "instruction": models[5]._instructions[0],
    }


async def test_synchronous_runner(service: SessiondSessionService) -> None:
    """`Runner.run` uses an event loop in its own thread, not the one that created the session."""
    conversation = Conversation(service)
    await conversation.begin()
    conversation.model.script([called(("order", {"dish": "soup", "count": 1})), said("ok")])
    message = types.Content(role="user", parts=[types.Part(text="soup")])
    events = await asyncio.to_thread(
        lambda: list(conversation.runner.run(user_id=USER, session_id=SESSION, new_message=message))
    )
    stored = await conversation.stored()
    assert [event.id for event in stored.events[1:]] == [event.id for event in events]
    assert stored.state["basket"] == {"soup": 1}


@pytest.mark.parametrize("wanted", [2, 0])
async def test_runner_that_reads_few_events(service: SessiondSessionService, wanted: int) -> None:
    """`RunConfig.get_session_config` limits what a turn reads. Its append still comes after all stored events."""
    conversation = Conversation(service)
    await conversation.begin()
    for turn in TURNS[:2]:
        await conversation.take(turn)
    before = len((await conversation.stored()).events)
    conversation.model.script([said("short")])
    async for _ in conversation.runner.run_async(
        user_id=USER,
        session_id=SESSION,
        new_message=types.Content(role="user", parts=[types.Part(text="again")]),
        run_config=RunConfig(get_session_config=GetSessionConfig(num_recent_events=wanted)),
    ):
        pass
    events = (await conversation.stored()).events
    assert len(events) > before
    assert events[-1].author == "waiter"


async def test_auto_creation(server: Server) -> None:
    """A runner creates a missing session if it is configured to."""
    async with SessiondSessionService(server.address) as service:
        conversation = Conversation(service)
        conversation.runner.auto_create_session = True
        await conversation.take(TURNS[0])
        assert (await conversation.stored()).state["last"] == "Good day."
