"""Agents of five ADKs share one session on one server: in turn, at once, and with values that not every ADK can hold.

Each ADK's part is a small program beside its adapter (`together`), with an agent on the ADK's own runner. `run` builds
the programs and starts this file.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

# The programs by language, as `run` has built them.
PROGRAMS: dict[str, list[str]] = json.loads(os.environ["SESSIOND_TEST_TOGETHER"])
SERVER = os.environ["SESSIOND_TEST_PROGRAM"]
LANGUAGES = list(PROGRAMS)
APP, USER, SESSION = "together", "alice", "trip"
INCREMENTS = 200
# Generous for busy machines. No test measures time.
TIMEOUT_SECS = 600
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}


def output(command: list[str]) -> str:
    """What a program prints. A program that fails fails the test."""
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_SECS, check=False)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


class Server:
    """A server on a free port, with an empty session."""

    def __init__(self, store: str, directory: Path) -> None:
        self.store, self.directory, self.address = store, directory, "127.0.0.1:0"
        self.start()
        sessiond(self.address, "session", "create")

    def start(self) -> None:
        """Starts it, again on the same port."""
        serve = [SERVER, "serve", "--http-listen", "off", "--listen", self.address, "--store", self.store]
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                serve, cwd=self.directory, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        listens = re.search(rb"listens on (\S+)", self.process.stdout.readline())
        assert listens is not None, (self.directory / "server.log").read_text()
        self.address = listens.group(1).decode()

    def kill(self) -> None:
        """Kills it, as a crash does."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=["memory:", "sqlite:together.db"], ids=["memory", "sqlite"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server, once on each kind of store."""
    server = Server(request.param, tmp_path)
    yield server
    server.kill()


@pytest.fixture
def address(server: Server) -> str:
    """The server's address."""
    return server.address


def sessiond(address: str, *command: str) -> str:
    """Runs a command of the server's own command line on the session."""
    key = ["--app", APP, "--user", USER, "--session", SESSION]
    return output([SERVER, *command, *key, "--server", address])


def adk(language: str, address: str, *command: str) -> str:
    """Runs a command of one ADK's program on the session."""
    return output([*PROGRAMS[language], address, APP, USER, SESSION, *command])


def said(events: list[dict[str, str]]) -> list[str]:
    """The texts of a conversation."""
    return [event["text"] for event in events if event["text"]]


def at_once(address: str, *command: str) -> list[str]:
    """Runs one command in all ADKs at the same time, and returns what they print."""
    with ThreadPoolExecutor(len(LANGUAGES)) as pool:
        return list(pool.map(lambda language: adk(language, address, *command), LANGUAGES))


def everybody_sees_the_same(address: str) -> dict[str, Any]:
    """Asserts that all ADKs see the same events and state, and returns them."""
    expected, *others = map(json.loads, at_once(address, "dump"))
    for language, seen in zip(LANGUAGES[1:], others, strict=True):
        assert seen == expected, f"{language} and {LANGUAGES[0]} see different sessions"
    return cast("dict[str, Any]", expected)


def test_everybody_reads_what_the_others_said(address: str) -> None:
    conversation = []
    for language in LANGUAGES:
        adk(language, address, "turn", f"hello, {language}")
        conversation += [f"hello, {language}", f"{language} heard hello, {language}"]
        seen = everybody_sees_the_same(address)
        assert said(seen["events"]) == conversation
    assert seen["state"] == {f"{language}:turn": f"hello, {language}" for language in LANGUAGES}


def test_turns_at_the_same_time_are_all_kept(address: str) -> None:
    at_once(address, "turn", "all together")
    seen = everybody_sees_the_same(address)
    answers = sorted(text for text in said(seen["events"]) if "heard" in text)
    assert answers == sorted(f"{language} heard all together" for language in LANGUAGES)
    assert said(seen["events"]).count("all together") == len(LANGUAGES)
    assert seen["state"] == {f"{language}:turn": "all together" for language in LANGUAGES}


def test_no_increment_is_lost(address: str) -> None:
    at_once(address, "increment", str(INCREMENTS))
    seen = everybody_sees_the_same(address)
    assert seen["state"]["user:turns"] == INCREMENTS * len(LANGUAGES)


@pytest.mark.parametrize("server", ["sqlite:together.db"], indirect=True)
def test_a_killed_server_loses_and_doubles_nothing(server: Server) -> None:
    total = INCREMENTS * len(LANGUAGES)

    def turns() -> int:
        state = json.loads(sessiond(server.address, "state", "get", "--key", "user:turns"))
        counted: int = state.get("state", state).get("user:turns", 0)
        return counted

    with ThreadPoolExecutor(1) as pool:
        incrementing = pool.submit(at_once, server.address, "increment", str(INCREMENTS))
        for crash in (total // 4, total // 2):
            while turns() < crash:
                assert not incrementing.done(), incrementing.result()
            server.kill()
            server.start()
        incrementing.result()
    seen = everybody_sees_the_same(server.address)
    assert seen["state"]["user:turns"] == total
    assert len(seen["events"]) == total


# As JSON text, for the test holds what is stored against the same text.
HARD_VALUES = {
    "beyond 2^53": "9007199254740993",
    "beyond 64 bits": "123456789012345678901234567890",
    "negative zero": "-0.0",
    "exponent": "1e3",
    "many digits": "0.1000000000000000055511151231257827",
    "null": "null",
    "null inside": '{"a":null,"b":[null]}',
    "an odd key": '{"__proto__":{"a":1}," ":2}',
    "text": '"\\u0000\\u2028 é 👩‍👩‍👧‍👦 </script>"',
    "deep": "[" * 60 + "]" * 60,
}


def test_a_value_that_a_kit_cannot_hold_survives_it(address: str) -> None:
    sets = [word for key, value in HARD_VALUES.items() for word in ("--set", f"{key}={value}")]
    sessiond(address, "event", "append", "--author", "importer", *sets)

    def stored() -> str:
        return sessiond(address, "state", "get", *(word for key in HARD_VALUES for word in ("--key", key)))

    before = stored()
    for language in LANGUAGES:
        adk(language, address, "turn", "go on")
        adk(language, address, "put", f"{language}:noted", "true")
        # Java's state cannot hold a null.
        assert HARD_VALUES.keys() - {"null"} <= json.loads(adk(language, address, "dump"))["state"].keys()
        assert stored() == before, f"{language} has changed a value"
