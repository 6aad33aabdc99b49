"""A conversation of a real Runner with a scripted model, to be held with several session services and compared."""

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

APP, USER, SESSION = "conversation", "alice", "talk"
Turn = tuple[str, list[LlmResponse]]


def said(text: str) -> LlmResponse:
    """The model answers with a text."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


def called(*calls: tuple[str, dict[str, Any]]) -> LlmResponse:
    """The model calls tools, all at once."""
    parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in calls]
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, total_token_count=7)
    return LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


class ScriptedModel(BaseLlm):
    """Answers from a list, and keeps what it was instructed to do."""

    model: str = "scripted"
    _answers: list[LlmResponse] = PrivateAttr(default_factory=list)
    _instructions: list[str] = PrivateAttr(default_factory=list)

    def script(self, answers: list[LlmResponse]) -> None:
        """What to answer next."""
        assert not self._answers, f"never said: {self._answers}"
        self._answers.extend(answers)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The next answer."""
        self._instructions.append(str(llm_request.config.system_instruction))
        yield self._answers.pop(0)


def order(dish: str, count: int, tool_context: ToolContext) -> dict[str, Any]:
    """Writes into every scope."""
    state = tool_context.state
    state["basket"] = {**state.get("basket", {}), dish: count}
    state["user:favourite"] = dish
    state["app:orders"] = state.get("app:orders", 0) + 1
    state["temp:draft"] = {"dish": dish}
    return {"dish": dish, "in_draft": state["temp:draft"]["dish"], "nothing": None}


def forget(tool_context: ToolContext) -> dict[str, Any]:
    """Sets a key to nothing, which stores a null."""
    tool_context.state["basket"] = None
    return {"favourite": tool_context.state.get("user:favourite"), "draft": tool_context.state.get("temp:draft")}


async def note(text: str, key: str, tool_context: ToolContext) -> dict[str, Any]:
    """Writes a key of its own; several of these run in parallel."""
    tool_context.state[key] = text
    tool_context.state[f"user:{key}"] = [text, 1, 2.5, True, None, {"deep": [{"er": 10**20}]}]
    return {"key": key}


def before_agent(callback_context: CallbackContext) -> None:
    """Counts turns, in state of the session and of the application."""
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1
    callback_context.state["app:turns"] = callback_context.state.get("app:turns", 0) + 1
    callback_context.state["temp:began"] = True


def after_agent(callback_context: CallbackContext) -> None:
    """Reads what lives during the turn only."""
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

Between = Callable[[int], Awaitable[None]]


class Conversation:
    """One runner, one session, turn by turn."""

    def __init__(self, service: BaseSessionService) -> None:
        """An agent with tools, callbacks, an output key, and an instruction made from state."""
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
        """Creates the session, and another of the same user that sees the wider scopes."""
        state = {"app:house": "Luigi's", "user:language": "it", "table": 7, "temp:gone": 1}
        await self.service.create_session(app_name=APP, user_id=USER, session_id=SESSION, state=state)
        await self.service.create_session(app_name=APP, user_id=USER, session_id="other", state={"own": True})

    async def take(self, turn: Turn) -> str:
        """One turn; answers its invocation id."""
        text, answers = turn
        self.model.script(answers)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        invocation = ""
        async for event in self.runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
            invocation = event.invocation_id
        return invocation

    async def stored(self, session_id: str = SESSION) -> Session:
        """The session as it is stored now."""
        session = await self.service.get_session(app_name=APP, user_id=USER, session_id=session_id)
        assert session is not None
        return session

    async def hold(self, between: Between | None = None) -> list[dict[str, Any]]:
        """All turns, and one taken back. Answers what is stored after each."""
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
        return seen

    async def observe(self) -> dict[str, Any]:
        """Everything that the services can be asked, in a form that can be compared."""
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


class Names:
    """Gives random ids the numbers of their first appearance, so that two runs can be compared."""

    def __init__(self) -> None:
        """None seen."""
        self._known: dict[str, str] = {}

    def of(self, random: str) -> str:
        """The number of a random id."""
        return self._known.setdefault(random, f"#{len(self._known)}")


# What a run makes at random: ids of events, of invocations, and of the calls of tools that the model has not named.
_RANDOM = frozenset({"id", "invocation_id", "rewind_before_invocation_id"})


def normal(dumped: Any, names: Names, field: str = "") -> Any:
    """An event's dump without what is random: ids become numbers, clock times a word."""
    if isinstance(dumped, dict):
        return {key: normal(value, names, key) for key, value in dumped.items()}
    if isinstance(dumped, list):
        return [normal(item, names, field) for item in dumped]
    if field in _RANDOM and isinstance(dumped, str):
        return names.of(dumped)
    return "a time" if field == "timestamp" else dumped
