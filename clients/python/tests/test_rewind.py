"""`Runner.rewind_async`: the session's own keys get the values that they had, also those that the creation has set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import Server
from conversation import ScriptedModel, said
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.runners import Runner
from google.genai import types
from support import KEY, delta_event, read

from sessiond_adk import Remove, SessiondSessionService

CREATION: dict[str, Any] = {
    "tenant": "acme",
    "nested": {"a": [1, None], "exact": 12345678901234567890123},
    "changed": "at creation",
    "changed before": "at creation",
    "removed": "at creation",
    "nothing": None,
    "app:motto": "shared",
    "user:name": "Ann",
}
# Of each turn.
CHANGES: list[dict[str, Any]] = [
    {"changed before": "turn 1", "app:turn": 1, "by turn 1": 1},
    {"changed": "turn 2", "nested": {}, "app:turn": 2, "user:name": "Bob", "by turn 2": 2, "by turn 1": 2},
    {"changed": "turn 3", "tenant": "other", "app:turn": 3, "by turn 3": 3},
]


@pytest.fixture(params=["merge", "conflict", "error"])
async def service(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[SessiondSessionService]:
    async with SessiondSessionService(server.address, stale=request.param) as connected:
        yield connected


async def talk(service: SessiondSessionService) -> tuple[Runner, list[str], list[dict[str, Any]]]:
    """Three turns. The runner, the ids of the invocations, and the state after the creation and each turn."""
    model = ScriptedModel()
    model.script([said("one"), said("two"), said("three")])
    turns = iter(CHANGES)

    def change(callback_context: CallbackContext) -> None:
        callback_context.state.update(next(turns))

    agent = LlmAgent(name="agent", model=model, before_agent_callback=change)
    runner = Runner(agent=agent, app_name=KEY["app_name"], session_service=service)
    session = await service.create_session(**KEY, state=CREATION)
    states, invocations = [dict(session.state)], []
    for text in ("a", "b", "c"):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in runner.run_async(user_id=KEY["user_id"], session_id=KEY["session_id"], new_message=message):
            invocation = event.invocation_id
        invocations.append(invocation)
        states.append(dict((await read(service)).state))
    return runner, invocations, states


def own(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if not key.startswith(("app:", "user:"))}


async def rewind(runner: Runner, invocation: str) -> None:
    await runner.rewind_async(
        user_id=KEY["user_id"], session_id=KEY["session_id"], rewind_before_invocation_id=invocation
    )


@pytest.mark.parametrize("turn", [0, 1, 2])
async def test_rewind_restores_what_the_creation_has_set(service: SessiondSessionService, turn: int) -> None:
    runner, invocations, states = await talk(service)
    await rewind(runner, invocations[turn])
    state = (await read(service)).state
    # Keys that were new after that point are null, as with ADK's own services.
    new = own(states[3]).keys() - own(states[turn]).keys()
    assert own(state) == own(states[turn]) | dict.fromkeys(new)
    assert (state["app:motto"], state["app:turn"], state["user:name"]) == ("shared", 3, "Bob")


async def test_rewind_of_a_rewind(service: SessiondSessionService) -> None:
    runner, invocations, states = await talk(service)
    await rewind(runner, invocations[2])
    await rewind(runner, invocations[1])
    state = own((await read(service)).state)
    assert state == own(states[1]) | {"by turn 2": None, "by turn 3": None}


async def test_key_that_was_removed_since_comes_back(service: SessiondSessionService) -> None:
    runner, invocations, states = await talk(service)
    await service.append_event(await read(service), delta_event({}), operations=[Remove("removed"), Remove("tenant")])
    await rewind(runner, invocations[1])
    assert own((await read(service)).state) == own(states[1]) | {"by turn 2": None, "by turn 3": None}


async def test_marker_can_be_repeated(service: SessiondSessionService) -> None:
    runner, invocations, _ = await talk(service)
    await rewind(runner, invocations[1])
    stored = await read(service)
    marker = stored.events[-1]
    assert marker.actions.rewind_before_invocation_id == invocations[1]
    assert marker.actions.state_delta["tenant"] == "acme"
    await service.append_event(stored, marker)
    await service.append_event(stored, marker.model_copy(deep=True))
    assert await read(service) == stored


async def test_marker_of_an_unknown_invocation_is_stored_as_it_is(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": 1})
    marker = delta_event({"a": None})
    marker.actions.rewind_before_invocation_id = "unknown"
    await service.append_event(session, marker)
    assert session.state == (await read(service)).state == {"a": None}
