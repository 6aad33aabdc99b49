"""`adk web` and `adk run` find the service of `--session_service_uri=sessiond://…` through the files of examples/."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Server

from sessiond_adk import SessiondSessionService

PACKAGE = Path(__file__).resolve().parents[1]
EXAMPLES = PACKAGE / "examples"
README = (PACKAGE / "README.md").read_text()

# In a process of its own: ADK's registry and the import of `services` last for the process.
CREATE_SESSION = """
import asyncio, sys
from google.adk.cli.service_registry import load_services_module
from google.adk.cli.utils.service_factory import create_session_service_from_options
folder, uri = sys.argv[1:]
load_services_module(folder)
service = create_session_service_from_options(base_dir=folder, session_service_uri=uri)
from sessiond_adk import SessiondSessionService
assert type(service) is SessiondSessionService, service
assert service._client.timeout_seconds == 10, "the setting in the URI"
async def main():
    async with service:
        await service.create_session(app_name="a", user_id="u", session_id="by the registry")
asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["services.py", "services.yaml", "one line"])
async def test_registry_creates_the_service(server: Server, tmp_path: Path, name: str) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    if name == "one line":
        # As the README says: without a checkout.
        (line,) = re.findall(r"^echo '(import sessiond_adk\.services)' > agents/services\.py$", README, re.MULTILINE)
        (agents / "services.py").write_text(f"{line}\n")
    else:
        shutil.copy(EXAMPLES / name, agents)
    uri = f"sessiond://{server.address}?timeout=10"
    subprocess.run([sys.executable, "-c", CREATE_SESSION, agents, uri], check=True)
    async with SessiondSessionService(uri) as service:
        listed = await service.list_sessions(app_name="a")
        assert [session.id for session in listed.sessions] == ["by the registry"]


# Prints the type that ADK's registry creates for a URI. For None, ADK tries the URI as a database address.
PRINT_TYPE = """
import sys
from google.adk.cli.service_registry import get_service_registry, load_services_module
folder, uri = sys.argv[1:]
load_services_module(folder)
print(type(get_service_registry().create_session_service(uri, agents_dir=folder)).__name__)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("services.py", "SessiondSessionService"), ("services.yaml", "SessiondSessionService"), (None, "NoneType")],
)
def test_scheme_is_unknown_without_the_file(tmp_path: Path, name: str | None, expected: str) -> None:
    """The test above depends on the file."""
    if name is not None:
        shutil.copy(EXAMPLES / name, tmp_path)
    command = [sys.executable, "-c", PRINT_TYPE, str(tmp_path), "sessiond://127.0.0.1:1"]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split() == [expected]


async def test_adk_web_server(server: Server, tmp_path: Path) -> None:
    """The application behind `adk web` and `adk api_server`, over HTTP in this process."""
    code = """
import asyncio, sys
import httpx
from google.adk.cli.fast_api import get_fast_api_app
folder, uri = sys.argv[1:]
app = get_fast_api_app(agents_dir=folder, session_service_uri=uri, web=False)
async def main():
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        created = await client.post("/apps/waiter/users/u/sessions/s1", json={"app:x": 1, "y": [None]})
        assert created.status_code == 200, created.text
        again = await client.post("/apps/waiter/users/u/sessions/s1", json={})
        assert again.status_code == 409, again.text
        got = (await client.get("/apps/waiter/users/u/sessions/s1")).json()
        assert got["state"] == {"app:x": 1, "y": [None]}, got
        patched = await client.patch("/apps/waiter/users/u/sessions/s1", json={"stateDelta": {"y": 2}})
        assert patched.status_code == 200, patched.text
        listed = (await client.get("/apps/waiter/users/u/sessions")).json()
        assert [(one["id"], one["state"]["y"]) for one in listed] == [("s1", 2)], listed
        assert (await client.delete("/apps/waiter/users/u/sessions/s1")).status_code == 200
        assert (await client.get("/apps/waiter/users/u/sessions/s1")).status_code == 404
asyncio.run(main())
"""
    agents = tmp_path / "agents"
    (agents / "waiter").mkdir(parents=True)
    shutil.copy(EXAMPLES / "services.py", agents)
    (agents / "waiter/__init__.py").write_text("from . import agent\n")
    (agents / "waiter/agent.py").write_text(
        "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='waiter', model='scripted')\n"
    )
    subprocess.run([sys.executable, "-c", code, agents, f"sessiond://{server.address}"], check=True)


AGENT = """
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Echo(BaseLlm):
    model: str = "echo"

    async def generate_content_async(self, llm_request, stream=False):
        heard = llm_request.contents[-1].parts[0].text
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=f"heard {heard}")]))


root_agent = LlmAgent(name="waiter", model=Echo())
"""


@pytest.mark.parametrize("name", ["services.py", "services.yaml"])
async def test_adk_run_with_the_file_inside_of_the_agents_folder(server: Server, tmp_path: Path, name: str) -> None:
    agent = tmp_path / "agents/waiter"
    agent.mkdir(parents=True)
    shutil.copy(EXAMPLES / name, agent)
    (agent / "__init__.py").write_text("from . import agent\n")
    (agent / "agent.py").write_text(AGENT)
    adk = str(Path(sys.executable).parent / "adk")
    command = [adk, "run", f"--session_service_uri=sessiond://{server.address}", str(agent)]
    ran = subprocess.run(command, input="tea\nexit\n", check=True, capture_output=True, text=True, timeout=300)
    assert "heard tea" in ran.stdout
    async with SessiondSessionService(server.address) as service:
        (listed,) = (await service.list_sessions(app_name="waiter")).sessions
        found = await service.get_session(app_name="waiter", user_id=listed.user_id, session_id=listed.id)
        assert found is not None
        assert [event.content.parts[0].text for event in found.events if event.content and event.content.parts] == [
            "tea",
            "heard tea",
        ]
