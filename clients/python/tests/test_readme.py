"""The README's examples run, and its tables are complete."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import Serve, Server, binary
from support import delta_event, text_event

import sessiond_adk
from sessiond_adk import SessiondError, SessiondSessionService, address, credentials

PACKAGE = Path(__file__).resolve().parents[1]
README = (PACKAGE / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def block(text: str) -> str:
    """The first example that contains `text`."""
    found: str = next(one for one in BLOCKS if text in one)
    return found


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
        written, watching = block("service.increment").split("async for item in service.watch", 1)
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


def test_example_of_an_agent_needs_no_key(serve: Serve) -> None:
    """Twice: the second run finds the state of the first."""
    server = serve()
    (command,) = re.findall(r"^python clients/python/(examples/agent\.py --fake)", README, re.MULTILINE)
    program, fake = command.split()
    environment = {name: value for name, value in os.environ.items() if "KEY" not in name}
    for turn in (1, 2):
        ran = subprocess.run(
            [sys.executable, PACKAGE / program, server.address, fake],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert (ran.returncode, ran.stdout) == (0, f"Take the ferry to the islands.\nturn {turn}\n"), ran.stderr


def test_example_of_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca.pem", "agent.pem", "agent.key", "token"):
        (tmp_path / name).write_text("secret")
    names: dict[str, Any] = {}
    exec(block("tls_ca="), names)
    service: SessiondSessionService = names["service"]
    assert service._client.target == "sessions.example.com:50051"
    assert service.call_metadata() == (("authorization", "Bearer secret"),)


def test_variables_of_the_readme_are_complete() -> None:
    assert set(re.findall(r"`(SESSIOND_\w+)`", section("TLS and tokens"))) == set(credentials.VARIABLES.values())


def test_example_of_tests(tmp_path: Path) -> None:
    """The fixture and the test of the README, run by pytest in a folder of their own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sessiond").symlink_to(binary())
    for name in ("conftest.py", "test_agent.py"):
        (tmp_path / name).write_text(block(f"# {name}\n"))
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout + ran.stderr


def test_table_of_settings_is_complete() -> None:
    found = re.search(r"\| argument \| in a URI .*?\n\n", README, re.DOTALL)
    assert found is not None
    lines = [line.split("|")[1:3] for line in found.group().splitlines()[2:] if line]
    arguments = {name for line in lines for name in re.findall(r"`(\w+)`", line[0])}
    expected = set(inspect.signature(SessiondSessionService).parameters) - {"uri", "agents_dir"}
    assert arguments == expected
    in_uri = {name for line in lines for name in re.findall(r"`(\w+)`", line[1]) if name != "true"}
    assert in_uri == set(address._SETTINGS)


def test_recommendation_and_claim_about_writers_of_one_key() -> None:
    text = section("Concurrent writers")
    assert 'We recommend `"conflict"`' in text
    assert "of two values of **the same key**, the last one wins and the other is lost" in text


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
    assert calls - written - reading == {"call_metadata", "close", "flush", "watch"}
    assert written | reading <= calls
