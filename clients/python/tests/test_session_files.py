"""Files of `sessiond export` are read by ADK's own tools, and `sessiond import` reads what those write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Server, binary
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SESSION = ("--app", "files", "--user", "user", "--session", "s")

# An agent that needs no model.
AGENT = """
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        count = ctx.session.state.get("count", 0) + 1
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=f"echo {text}")]),
            actions=EventActions(state_delta={"count": count, "user:name": "x", "app:theme": "dark"}),
        )

root_agent = Echo(name="echo")
"""


def sessiond(server: Server, *arguments: str, fails: bool = False) -> tuple[list[Any], str]:
    """Runs a command. Returns the JSON values that it prints, and its errors."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}
    result = subprocess.run(
        [binary(), *arguments, "--server", server.address],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (result.returncode != 0) == fails, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def export(server: Server, tmp_path: Path, *session: str) -> tuple[Path, str]:
    """The file of a session and the warnings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}
    path = tmp_path / "exported.session.json"
    with path.open("w") as file:
        result = subprocess.run(
            [binary(), "export", *session, "--server", server.address],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=True,
        )
    return path, result.stderr


def append(server: Server, body: dict[str, Any], *more: str) -> None:
    sessiond(server, "event", "append", *SESSION, "--author", "agent", "--body", json.dumps(body), *more)


def agent(tmp_path: Path) -> Path:
    """The folder of an agent that finds the service."""
    folder = tmp_path / "echo"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "agent.py").write_text(AGENT)
    shutil.copy(EXAMPLES / "services.py", folder)
    return folder


def adk_run(folder: Path, *arguments: str, typed: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "google.adk.cli", "run", *arguments, str(folder)],
        input=typed,
        capture_output=True,
        text=True,
        cwd=folder.parent,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_session_of_the_demo_is_a_session_of_adk(server: Server, tmp_path: Path) -> None:
    subprocess.run([binary(), "demo", "--server", server.address], check=True, capture_output=True)
    listed, _ = sessiond(server, "session", "list", "--app", "demo")
    assert len(listed) == 4
    for entry in listed:
        key = entry["key"]
        path, _ = export(server, tmp_path, "--app", "demo", "--user", key["user_id"], "--session", key["session_id"])
        session = Session.model_validate_json(path.read_text())
        assert (session.id, session.user_id) == (key["session_id"], key["user_id"])
        # Nothing that ADK would write in another way.
        file = json.loads(path.read_text())
        assert sorted(file) == ["appName", "events", "id", "lastUpdateTime", "state", "userId"]
        assert (
            json.loads(session.model_dump_json(by_alias=True, include=set(Session.model_fields)))["state"]
            == file["state"]
        )
        visible, _ = sessiond(
            server, "event", "list", "--app", "demo", "--user", key["user_id"], "--session", key["session_id"]
        )
        assert [event.id for event in session.events] == [event["event_id"] for event in visible]


def test_what_adk_refuses_is_left_out_with_one_warning(server: Server, tmp_path: Path) -> None:
    sessiond(server, "session", "create", *SESSION, "--label", "tier=gold", "--set", "gone=1")
    append(server, {"text": "a body of another form"})
    append(
        server, {"timestamp": "2026-11-20T12:07:31+02:00", "actions": {"endInvocation": True, "transferToAgent": "b"}}
    )
    append(
        server, {"content": {"parts": [{"text": "t", "later": 1}], "role": "model"}, "customMetadata": [{"key": "k"}]}
    )
    append(server, {"function_call": 1, "content": {"parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}}]}})
    append(server, {}, "--remove", "gone")
    path, warnings = export(server, tmp_path, *SESSION)
    session = Session.model_validate_json(path.read_text())
    assert len(session.events) == 5
    assert session.events[1].actions.transfer_to_agent == "b"
    call = session.events[3].get_function_calls()[0]
    assert (call.name, call.args) == ("f", {"a_b": 1})
    assert len(warnings.splitlines()) == 1
    for lost in ("labels", "removals", "endInvocation", "customMetadata", "later", "--format sessiond"):
        assert lost in warnings


@pytest.mark.parametrize(
    ("model", "wrap"),
    [
        (EventActions, lambda members: {"actions": members}),
        (types.Part, lambda members: {"content": {"parts": [members]}}),
        (types.Content, lambda members: {"content": members}),
    ],
)
def test_export_knows_every_member_of_this_version(server: Server, tmp_path: Path, model: Any, wrap: Any) -> None:
    """A newer ADK has more members than the export knows: add them to crates/adk-files/src/form.rs."""
    sessiond(server, "session", "create", *SESSION)
    members: dict[str, Any] = {
        field.alias or name: [] if name == "parts" else 1 for name, field in model.model_fields.items()
    }
    append(server, wrap(members))
    _, warnings = export(server, tmp_path, *SESSION)
    assert warnings == ""


def test_adk_run_resumes_an_exported_session(server: Server, tmp_path: Path) -> None:
    subprocess.run([binary(), "demo", "--server", server.address], check=True, capture_output=True)
    path, _ = export(server, tmp_path, "--app", "demo", "--user", "alice", "--session", "rain-shoes")
    printed = adk_run(agent(tmp_path), "--resume", str(path), typed="exit\n")
    assert "Puddles are the point." in printed


def test_a_session_saved_by_adk_run_imports_as_nothing_new(server: Server, tmp_path: Path) -> None:
    folder = agent(tmp_path)
    uri = f"sessiond://{server.address}"
    adk_run(
        folder, "--session_service_uri", uri, "--save_session", "--session_id", "saved", typed="hello\nagain\nexit\n"
    )
    path = str(folder / "saved.session.json")
    [report], notes = sessiond(server, "import", path)
    assert (report["created"], report["events_imported"], report["events_already_there"]) == (False, 0, 4)
    assert (report["state_keys_corrected"], report["shared_keys_set"]) == (0, 0)
    assert notes == ""
    # The same on a server that does not have the session, twice.
    other = Server("memory:", tmp_path)
    try:
        [report], _ = sessiond(other, "import", path)
        assert (report["created"], report["events_imported"], report["shared_keys_set"]) == (True, 4, 2)
        [report], _ = sessiond(other, "import", path)
        assert (report["events_imported"], report["shared_keys_kept"]) == (0, 2)
    finally:
        other.kill()
