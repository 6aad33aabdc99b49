"""The README's examples run, and its tables are complete."""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from conftest import Server
from support import delta_event, text_event

import sessiond_adk
from sessiond_adk import SessiondError, SessiondSessionService

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_first_example() -> None:
    from google.adk.agents import LlmAgent

    names: dict[str, Any] = {"agent": LlmAgent(name="a", model="scripted")}
    exec(BLOCKS[0], names)
    assert isinstance(names["runner"].session_service, SessiondSessionService)


async def test_example_of_extensions(server: Server) -> None:
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
        while not service._client.connections.current().watches:
            await asyncio.sleep(0)
        # Closing ends the loop of the example.
        await service.close()
        await watched
        assert await service.get_app_state(app_name="my_app") == {"tickets": 2, "theme": "dark"}
        assert await service.get_user_state(app_name="my_app", user_id="alice") == {
            "seen": ["a"],
            "language": "en",
            "plan": "pro",
        }


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)^## ", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1)


def rows(text: str, head: str) -> list[str]:
    """The first cells of the table whose head begins with `head`."""
    lines = text.split(f"| {head}", 1)[1].split("\n\n", 1)[0].splitlines()
    return [line.split("|")[1] for line in lines[2:]]


def test_table_of_errors_is_complete() -> None:
    """Each is a SessiondError, except the one that the table excludes."""
    named = {
        name: row for row in rows(section("Errors and retries"), "| is also") for name in re.findall(r"`(\w+)`", row)
    }
    exported = {name for name in sessiond_adk.__all__ if name.endswith("Error")}
    assert named.keys() == exported
    for name in exported:
        is_one = issubclass(getattr(sessiond_adk, name), SessiondError)
        assert is_one is ("no `SessiondError`" not in named[name]) or name == "SessiondError"
    assert issubclass(sessiond_adk.StateValueError, ValueError)


def test_table_of_repeated_calls_is_complete() -> None:
    text = section("Errors and retries")
    written = {name for row in rows(text, "repeated after") for name in re.findall(r"`(\w+)`", row)}
    reading = set(re.findall(r"`(\w+)`", text.split("Calls that only read", 1)[1].split(" can always ", 1)[0]))
    assert not written & reading
    calls = {name for name, _ in inspect.getmembers(SessiondSessionService, callable) if not name.startswith("_")}
    # These send nothing, or nothing that could be repeated.
    assert calls - written - reading == {"close", "flush", "watch"}
    assert written | reading <= calls
