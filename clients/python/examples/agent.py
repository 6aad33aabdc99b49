"""An agent with sessions in sessiond, and a counter that all users share.

Needs a running server, and the key of a model in the environment: `python agent.py 127.0.0.1:50051`. With `--fake` a
scripted model takes the place of the real one, and no key is needed.
"""

import argparse
import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessiond_adk import SessiondSessionService


def remember_city(city: str, tool_context: ToolContext) -> str:
    """Remembers where the user lives, in all of the user's sessions."""
    tool_context.state["user:city"] = city
    return "noted"


class FakeModel(BaseLlm):
    """Calls the tool, and then answers."""

    model: str = "fake"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """One response to the last message."""
        last = llm_request.contents[-1].parts or []
        if any(part.function_response for part in last):
            part = types.Part(text="Take the ferry to the islands.")
        else:
            part = types.Part(function_call=types.FunctionCall(name="remember_city", args={"city": "Oslo"}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main(address: str, model: str | BaseLlm) -> None:
    """Runs one turn, and counts the turns of all users."""
    agent = LlmAgent(
        name="guide",
        model=model,
        instruction="Recommend something to do. The user lives in {user:city?}.",
        tools=[remember_city],
    )
    async with SessiondSessionService(address) as sessions:
        runner = Runner(agent=agent, app_name="guide", session_service=sessions)
        session = await sessions.create_session(app_name="guide", user_id="alice")
        message = types.Content(role="user", parts=[types.Part(text="I live in Oslo. What should I do today?")])
        async for event in runner.run_async(user_id="alice", session_id=session.id, new_message=message):
            if event.is_final_response() and event.content and event.content.parts:
                print(event.content.parts[0].text)
        await sessions.refresh(session)
        turn = await sessions.increment(session, "app:turns")
        print(f"turn {turn}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs one turn of an agent.")
    parser.add_argument("address", nargs="?", default="127.0.0.1:50051")
    parser.add_argument("--fake", action="store_true", help="use a scripted model, which needs no key")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.address, FakeModel() if arguments.fake else "gemini-2.5-flash"))
