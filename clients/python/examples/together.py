"""One of the agents that share a session: `python together.py ADDRESS APP USER SESSION COMMAND [ARGUMENTS]`.

tests/together starts its counterparts in the other languages against the same server. The commands are:

    turn TEXT       one turn of an agent with a scripted model
    increment N     increments `user:turns` N times
    put KEY JSON    sets a key
    dump            prints the events and the state as this ADK sees them
    bodies          prints what this ADK reads in the bodies of the events
    compactions     prints the compactions that this ADK reads, in milliseconds, and what is beside them
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types

from sessiond_adk import Delta, SessiondSessionService

LANGUAGE = "python"


def text_of(content: types.Content | None) -> str:
    """The text of a message."""
    return "".join(part.text or "" for part in content.parts or []) if content else ""


class Echo(BaseLlm):
    """Repeats the last message."""

    model: str = "echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        answer = f"{LANGUAGE} heard {text_of(llm_request.contents[-1])}"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=answer)]))


def remember_turn(callback_context: CallbackContext) -> None:
    """Writes what the user said into the session's state."""
    callback_context.state[f"{LANGUAGE}:turn"] = text_of(callback_context.user_content)


async def turn(sessions: SessiondSessionService, session: Session, text: str) -> None:
    """Runs one turn."""
    agent = LlmAgent(name=f"{LANGUAGE}_agent", model=Echo(), before_agent_callback=remember_turn)
    runner = Runner(agent=agent, app_name=session.app_name, session_service=sessions)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id=session.user_id, session_id=session.id, new_message=message):
        pass


def as_json(event: Event) -> dict[str, Any]:
    """What the test compares of an event."""
    return {"id": event.id, "author": event.author, "text": text_of(event.content)}


def body_of(event: Event) -> dict[str, Any]:
    """What ADK's own methods read in a body."""
    usage = event.usage_metadata
    return {
        "author": event.author,
        "role": event.content.role if event.content else None,
        "text": text_of(event.content),
        "calls": [{"id": call.id, "name": call.name, "args": call.args} for call in event.get_function_calls()],
        "responses": [
            {"id": result.id, "name": result.name, "response": result.response}
            for result in event.get_function_responses()
        ],
        "tokens": usage.total_token_count if usage else 0,
        "artifacts": event.actions.artifact_delta,
        "final": event.is_final_response(),
    }


def compaction_of(event: Event) -> dict[str, Any]:
    """The compaction of an event, and what its actions have beside it."""
    compaction = event.actions.compaction
    return {
        "start": round(compaction.start_timestamp * 1000) if compaction else None,
        "end": round(compaction.end_timestamp * 1000) if compaction else None,
        "text": text_of(compaction.compacted_content) if compaction else None,
        "transfer": event.actions.transfer_to_agent,
        "artifacts": event.actions.artifact_delta,
    }


async def main(address: str, app: str, user: str, session_id: str, command: str, *arguments: str) -> None:
    """Runs one command."""
    async with SessiondSessionService(address, timeout=120) as sessions:
        session = await sessions.get_session(app_name=app, user_id=user, session_id=session_id)
        if session is None:
            sys.exit(f"session {session_id} not found")
        match command, arguments:
            case "turn", [text]:
                await turn(sessions, session, text)
            case "increment", [count]:
                for _ in range(int(count)):
                    await sessions.increment(session, "user:turns")
            case "put", [key, value]:
                await sessions.change(session, Delta({key: json.loads(value)}))
            case "dump", []:
                print(json.dumps({"events": [as_json(event) for event in session.events], "state": session.state}))
            case "bodies", []:
                print(json.dumps([body_of(event) for event in session.events]))
            case "compactions", []:
                print(json.dumps([compaction_of(event) for event in session.events]))
            case _:
                sys.exit(__doc__)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
