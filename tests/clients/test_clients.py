"""The programs of docs/clients.md, built with the document's own commands: in each language they print what it shows,
append once whatever is lost, and go on with a watch.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import grpc
import pytest
from faults import Fault, FaultyProxy
from proxy import Proxy

ROOT = Path(__file__).resolve().parents[2]
SERVER = os.environ["SESSIOND_TEST_PROGRAM"]
DOCUMENT = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
LANGUAGES = ["Python", "Go", "TypeScript", "Java"]
# Generous for busy machines, and the first build downloads.
TIMEOUT_SECS = 900
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}
# What a working copy may have beside the files.
MADE = [*(ROOT / "examples/clients/.gitignore").read_text().split(), "node_modules", "target"]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(language: str) -> str:
    """The part of the document about a language."""
    found = re.search(rf"^## {language}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{language} has no section"
    return found.group(1)


[SHOWN] = blocks(DOCUMENT, "text")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files, with all programs built by the first commands of their sections."""
    copy = tmp_path_factory.mktemp("checkout")
    for tree in ("proto", "third_party"):
        shutil.copytree(ROOT / tree, copy / tree)
    shutil.copytree(ROOT / "examples/clients", copy / "examples/clients", ignore=shutil.ignore_patterns(*MADE))

    def build(language: str) -> subprocess.CompletedProcess[str]:
        commands = blocks(section(language), "sh")[0]
        retried = [ROOT / "tests/tools/retry", "bash", "-euc", commands]
        return subprocess.run(
            retried, cwd=copy, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_SECS, check=False
        )

    with ThreadPoolExecutor(len(LANGUAGES)) as pool:
        for language, built in zip(LANGUAGES, pool.map(build, LANGUAGES), strict=True):
            assert built.returncode == 0, f"{language} was not built:\n{built.stdout}{built.stderr}"
    return copy


class Server:
    """A server on a free port, with an empty store."""

    def __init__(self) -> None:
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts it, again on the same port."""
        serve = [SERVER, "serve", "--http-listen", "off", "--listen", self.address, "--store", "memory:"]
        self.process = subprocess.Popen(serve, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        listens = re.search(rb"listens on (\S+)", self.process.stdout.readline())
        assert listens is not None
        self.address = listens.group(1).decode()

    def kill(self) -> None:
        """Kills it, as a crash does."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for one test: the user's state counts the questions of a program."""
    server = Server()
    yield server
    server.kill()


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """Each language in turn."""
    return str(request.param)


class Program:
    """A built program of one language."""

    def __init__(self, language: str, checkout: Path) -> None:
        shown = shlex.split(blocks(section(language), "sh")[1])
        assert shown[-1] == "127.0.0.1:50051"
        self.command = shown[:-1]
        self.folder = checkout / "examples/clients" / language.lower()

    def start(self, address: str) -> subprocess.Popen[str]:
        """Starts it against a server."""
        return subprocess.Popen(
            [*self.command, address],
            cwd=self.folder,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, address: str) -> tuple[str, list[str]]:
        """What it prints, and after which failures it repeated a call."""
        return outcome(self.start(address))


def outcome(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """What a program printed when it ended, which has to be a success."""
    try:
        printed, errors = process.communicate(timeout=TIMEOUT_SECS)
    finally:
        process.kill()
    assert process.returncode == 0, f"{printed}{errors}"
    return printed, re.findall(r"^retrying after (.*)$", errors, re.MULTILINE)


@pytest.fixture
def program(language: str, checkout: Path) -> Program:
    """The program of a language."""
    return Program(language, checkout)


def test_a_program_prints_what_the_document_shows(program: Program, server: Server) -> None:
    assert program.run(server.address) == (SHOWN, [])


def test_an_append_is_stored_once_and_a_refused_call_is_not_repeated(program: Program, server: Server) -> None:
    overloaded = Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "yes", retry_delay_ms=500)
    unknown = Fault(grpc.StatusCode.UNKNOWN, "OUTCOME_UNKNOWN", "same_id", applied=True)
    lost = Fault(grpc.StatusCode.UNAVAILABLE, applied=True)
    with FaultyProxy(server.address, AppendEvent=[overloaded, unknown, lost]) as proxy:
        printed, retries = program.run(proxy.address)
    first = "appended event 1 by user\n"
    assert printed == SHOWN.replace(first, first.rstrip() + ", which an earlier attempt had stored\n")
    assert [retry.upper() for retry in retries] == ["OVERLOADED", "OUTCOME_UNKNOWN", "UNAVAILABLE"]
    calls = proxy.calls["AppendEvent"]
    assert len(calls) == 3 + 2 + 1, "three faults, two appends and the refused one"
    assert calls[1] - calls[0] >= 0.5, "RetryInfo was ignored"


def test_an_error_that_no_retry_helps_ends_the_program(program: Program, server: Server) -> None:
    aborted = Fault(grpc.StatusCode.ABORTED, "SEQUENCE_CONFLICT", "no")
    with FaultyProxy(server.address, AppendEvent=[aborted]) as proxy, program.start(proxy.address) as process:
        _, errors = process.communicate(timeout=TIMEOUT_SECS)
    assert process.returncode != 0
    assert "retrying" not in errors
    assert len(proxy.calls["AppendEvent"]) == 1


def test_a_watch_goes_on_by_its_cursor(program: Program, server: Server) -> None:
    draining = Fault(grpc.StatusCode.UNAVAILABLE, "DRAINING", "yes", after_messages=1)
    cut = Fault(grpc.StatusCode.UNAVAILABLE, after_messages=1)
    with FaultyProxy(server.address, Watch=[draining, cut]) as proxy:
        printed, retries = program.run(proxy.address)
    assert printed == SHOWN
    assert [retry.upper() for retry in retries] == ["DRAINING", "UNAVAILABLE"]
    assert len(proxy.calls["Watch"]) == 3


def test_a_program_waits_for_a_server_that_starts_later(program: Program, server: Server) -> None:
    server.kill()
    with program.start(server.address) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("retrying after"):
                break
        server.start()
        printed, _ = outcome(process)
    assert printed == SHOWN


@pytest.mark.asyncio
async def test_a_lost_connection_is_repaired(program: Program, server: Server) -> None:
    async with Proxy(server.address) as proxy:
        proxy.lose_responses(2)
        printed, retries = await asyncio.to_thread(program.run, proxy.address)
    assert printed == SHOWN
    assert proxy.lost == 2
    assert len(retries) >= 2


def test_the_vendored_messages_are_those_of_the_package() -> None:
    vendored = ROOT / "third_party/googleapis/google/rpc"
    names = sorted(path.name for path in vendored.iterdir())
    assert names == ["error_details.proto", "status.proto"]
    for name in names:
        assert (vendored / name).read_text() == (files("google.rpc") / name).read_text()
