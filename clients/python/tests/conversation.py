"""A conversation of a real Runner with a scripted model, to compare session services."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import PrivateAttr

from sessiond_adk import SessiondSessionService

APP, USER, SESSION = "conversation", "alice", "talk"
Turn = tuple[str, list[LlmResponse]]


def said(text: str) -> LlmResponse:
    """A model response with a text."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def called(*calls: tuple[str, dict[str, Any]]) -> LlmResponse:
    """A model response with parallel tool calls."""
    parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in calls]
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=7)
    return LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


class ScriptedModel(BaseLlm):
    """Returns responses from a list, and records the instructions."""

    model: str = "scripted"
    _responses: list[LlmResponse] = PrivateAttr(default_factory=list)
    _instructions: list[str] = PrivateAttr(default_factory=list)

    def script(self, responses: list[LlmResponse]) -> None:
        """Sets the next responses."""
        assert not self._responses, f"unused responses: {self._responses}"
        self._responses.extend(responses)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._instructions.append(str(llm_request.config.system_instruction))
        yield self._responses.pop(0)


def order(dish: str, count: int, tool_context: ToolContext) -> dict[str, Any]:
    """Writes to every scope."""
    state = tool_context.state
    state["basket"] = {**state.get("basket", {}), dish: count}
    state["user:favourite"] = dish
    state["app:orders"] = state.get("app:orders", 0) + 1
    state["temp:draft"] = {"dish": dish}
    return {"dish": dish, "in_draft": state["temp:draft"]["dish"], "nothing": None}


def forget(tool_context: ToolContext) -> dict[str, Any]:
    """Sets a key to None, which stores a null."""
    tool_context.state["basket"] = None
    return {"favourite": tool_context.state.get("user:favourite"), "draft": tool_context.state.get("temp:draft")}


async def note(text: str, key: str, tool_context: ToolContext) -> dict[str, Any]:
    """Writes a key of its own. Several calls run in parallel."""
    tool_context.state[key] = text
    tool_context.state[f"user:{key}"] = [text, 1, 2.5, True, None, {"deep": [{"er": 10**20}]}]
    return {"key": key}


def before_agent(callback_context: CallbackContext) -> None:
    """Counts turns in session and application state."""
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
    callback_context.state["app:turns"] = callback_context.state.get("app:turns", 0) + 1
    callback_context.state["temp:began"] = True


def after_agent(callback_context: CallbackContext) -> None:
    """Reads a `temp:` key of the turn."""
    callback_context.state["saw_temp"] = callback_context.state.get("temp:began")


TURNS: list[Turn] = [
    ("hello", [said("Good day.")]),
    ("two soups", [called(("order", {"dish": "soup", "count": 2})), said("Two soups, noted.")]),
    (
        "remember three things",
        [
            called(*(("note", {"text": f"t{i}", "key": f"note{i}"}) for i in range(3))),
            said("Three things."),
        ],
    ),
    ("and a tea, then forget", [called(("order", {"dish": "tea", "count": 1})), called(("forget", {})), said("Done.")]),
]

TABLE = 7

Between = Callable[[int], Awaitable[None]]


class Conversation:
    """A runner on one session."""

    def __init__(self, service: BaseSessionService) -> None:
        self.service = service
        self.model = ScriptedModel()
        agent = LlmAgent(
            name="waiter",
            model=self.model,
            instruction="Favourite: {user:favourite?}. Turn {turns}. Orders of all: {app:orders?}. Said: {last?}.",
            output_key="last",
            tools=[order, forget, note],
            before_agent_callback=before_agent,
            after_agent_callback=after_agent,
        )
        self.runner = Runner(agent=agent, app_name=APP, session_service=service)

    async def begin(self) -> None:
        """Creates the session, and another of the same user."""
        state = {"app:house": "Luigi's", "user:language": "it", "table": TABLE, "temp:gone": 1}
        await self.service.create_session(app_name=APP, user_id=USER, session_id=SESSION, state=state)
        await self.service.create_session(app_name=APP, user_id=USER, session_id="other", state={"own": True})

    async def take(self, turn: Turn) -> str:
        """Runs one turn. Returns its invocation id."""
        text, responses = turn
        self.model.script(responses)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        invocation = ""
        async for event in self.runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
            invocation = event.invocation_id
        return invocation

    async def stored(self, session_id: str = SESSION) -> Session:
        session = await self.service.get_session(app_name=APP, user_id=USER, session_id=session_id)
        assert session is not None
        return session

    async def run(self, between: Between | None = None) -> list[dict[str, Any]]:
        """Runs all turns, rewinds, and runs one more. Returns what is stored after each step.

        ADK's own services null the table at the rewind, because the creation and no event has set it. Here it stays.
        """
        seen = []
        await self.begin()
        invocations = []
        for number, turn in enumerate(TURNS):
            invocations.append(await self.take(turn))
            seen.append(await self.observe())
            if between is not None:
                await between(number)
        await self.runner.rewind_async(user_id=USER, session_id=SESSION, rewind_before_invocation_id=invocations[2])
        seen.append(await self.observe())
        await self.take(("and now?", [said("Two soups, as before.")]))
        seen.append(await self.observe())
        if isinstance(self.service, SessiondSessionService):
            return seen
        assert seen[4]["state"]["table"] is None
        return [*seen[:4], *(with_table(one) for one in seen[4:])]

    async def observe(self) -> dict[str, Any]:
        """Everything that can be read from the services, in a form that can be compared."""
        names = Names()
        session = await self.stored()
        other = await self.stored("other")
        listed = await self.service.list_sessions(app_name=APP)
        return {
            "state": session.state,
            "events": [normal(event.model_dump(), names) for event in session.events],
            "order": [event.timestamp for event in session.events]
            == sorted(event.timestamp for event in session.events),
            "last_update_time": session.last_update_time == session.events[-1].timestamp,
            "other state": other.state,
            "listed": [(found.user_id, found.id, found.state, found.events) for found in listed.sessions],
            "user state": await self.service.get_user_state(app_name=APP, user_id=USER),
            "instructions": list(self.model._instructions),
        }


def with_table(observed: Any) -> Any:
    """What was observed, with the table where it is null."""
    if isinstance(observed, dict):
        return {key: TABLE if (key, value) == ("table", None) else with_table(value) for key, value in observed.items()}
    if isinstance(observed, list | tuple):
        return type(observed)(with_table(item) for item in observed)
    return observed


class Names:
    """Replaces random ids by numbers in the order of their first appearance, so that two runs can be compared."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, random: str) -> str:
        return self._known.setdefault(random, f"#{len(self._known)}")


# Ids that are random in every run: of events, invocations and tool calls.
_RANDOM = frozenset({"id", "invocation_id", "rewind_before_invocation_id"})


def normal(dumped: Any, names: Names, field: str = "") -> Any:
    """An event's dump with random ids and times replaced."""
    if isinstance(dumped, dict):
        return {key: normal(value, names, key) for key, value in dumped.items()}
    if isinstance(dumped, list):
        return [normal(item, names, field) for item in dumped]
    if field in _RANDOM and isinstance(dumped, str):
        return names.of(dumped)
    return "a time" if field == "timestamp" else dumped
