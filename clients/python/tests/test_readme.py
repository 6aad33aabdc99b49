"""What the README shows works."""

from __future__ import annotations

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

from conftest import Server
from tests_support import delta_event, text_event

from sessiond_adk import SessiondSessionService

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_line_to_change() -> None:
    from google.adk.agents import LlmAgent

    names: dict[str, Any] = {"agent": LlmAgent(name="a", model="scripted")}
    exec(BLOCKS[0], names)
    assert isinstance(names["runner"].session_service, SessiondSessionService)


async def test_what_goes_beyond_the_kit(server: Server) -> None:
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(app_name="my_app", user_id="alice", session_id="s")
        for _ in range(12):
            await service.append_event(session, text_event("x"))
        names: dict[str, Any] = {"service": service, "session": session, "event": delta_event({"a": 1})}
        written, watching = BLOCKS[1].split("async for item in service.watch", 1)
        head = written.splitlines()[0]
        watching = f"{head}\nasync for item in service.watch{watching}"
        for name, body in (("written", written), ("watched", watching)):
            exec(f"async def {name}():\n{textwrap.indent(body, '    ')}", names)
        await names["written"]()
        watched = asyncio.create_task(names["watched"]())
        while not service._client.connections.here().watches:
            await asyncio.sleep(0)
        # Closing ends the loop of the example, which would follow for ever.
        await service.close()
        await watched
        assert await service.get_app_state(app_name="my_app") == {"tickets": 2, "theme": "dark"}
        assert await service.get_user_state(app_name="my_app", user_id="alice") == {
            "seen": ["a"],
            "language": "en",
            "plan": "pro",
        }
