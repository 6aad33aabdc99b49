"""An agent with sessions in sessiond, and a counter that all users share.

Needs the key of a model in the environment, and a running server: `python agent.py 127.0.0.1:50051`.
"""

import asyncio
import sys

from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessiond_adk import SessiondSessionService


def remember_city(city: str, tool_context: ToolContext) -> str:
    """Remembers where the user lives, in all of the user's sessions."""
    tool_context.state["user:city"] = city
    return "noted"


agent = LlmAgent(
    name="guide",
    model="gemini-2.5-flash",
    instruction="Recommend something to do. The user lives in {user:city?}.",
    tools=[remember_city],
)


async def main(address: str) -> None:
    """Runs one turn, and counts the turns of all users."""
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
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"))
