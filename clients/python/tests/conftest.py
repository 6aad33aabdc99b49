"""Fixtures: real servers on free ports that end with the test."""

from __future__ import annotations

import logging
import os
import platform
import re
import select
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from sessiond_adk import SessiondSessionService
from sessiond_adk import credentials as credentials_module
from sessiond_adk import service as service_module

ROOT = Path(__file__).resolve().parents[3]
# Timeout of a start or stop, generous for busy machines.
START_SECONDS = 300.0


def binary() -> Path:
    """The server binary: SESSIOND_TEST_PROGRAM, or the newest build of cargo.

    Raises:
      FileNotFoundError: The server program was not found. No test is skipped without it.
    """
    named = os.environ.get("SESSIOND_TEST_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"SESSIOND_TEST_PROGRAM is {named!r}, which is not executable.")
        return Path(named).absolute()
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    suffix = ".exe" if platform.system() == "Windows" else ""
    built = [path for kind in ("release", "debug") if (path := target / kind / f"sessiond{suffix}").is_file()]
    if not built:
        raise FileNotFoundError(f"No sessiond in {target}. Run `cargo build`, or set SESSIOND_TEST_PROGRAM.")
    return max(built, key=lambda path: path.stat().st_mtime)


class Server:
    """A running `sessiond serve`."""

    def __init__(self, store: str, directory: Path, listen: str = "127.0.0.1:0", *more: str) -> None:
        """Starts it and waits until it prints its address. `more` are further arguments of `serve`."""
        self.store = store
        self.directory = directory
        self._more = more
        self._start(listen)

    def _start(self, listen: str) -> None:
        # The environment may configure a sessiond of its own, which must not affect the tests.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [binary(), "serve", "--http-listen", "off", "--listen", listen, "--store", self.store, *self._more],
                cwd=self.directory,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.address = self._await_address()

    def _await_address(self) -> str:
        assert self.process.stdout is not None
        output = b""
        deadline = time.monotonic() + START_SECONDS
        while not (found := re.search(rb"listen(?:s|ing) on (\S+)", output)):
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(left, 0))
            chunk = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not chunk:
                self.kill()
                log = (self.directory / "server.log").read_text()
                raise AssertionError(f"the server did not start: {output.decode()}{log}")
            output += chunk
        return found.group(1).decode()

    def kill(self) -> None:
        """Kills it, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stops it gracefully and waits."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(START_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def start_again(self) -> None:
        """Starts it with the same address and store."""
        self._start(self.address)


Serve = Callable[..., Server]


@pytest.fixture(autouse=True, scope="session")
def without_the_lines_of_grpcs_poller() -> None:
    """gRPC's poller logs a read that would block, on busy machines. Tests that count lines do not mean that one."""
    logging.getLogger("asyncio").addFilter(lambda record: "PollerCompletionQueue" not in record.getMessage())


@pytest.fixture(autouse=True)
def generous_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls may be slow on a busy machine, and no test measures them."""
    monkeypatch.setattr(service_module, "DEFAULT_TIMEOUT_SECONDS", 600.0)
    monkeypatch.setattr(service_module, "DEFAULT_ABSENT_SECONDS", 600.0)


@pytest.fixture(autouse=True)
def no_credentials_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment may have credentials for a sessiond of its own, which must not affect the tests."""
    for variable in credentials_module.VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers that end with the test: `serve("memory:")`, `serve("sqlite:test.db")`."""
    servers: list[Server] = []

    def start(store: str = "memory:", listen: str = "127.0.0.1:0", *more: str) -> Server:
        directory = tmp_path / f"server-{len(servers)}"
        directory.mkdir()
        server = Server(store, directory, listen, *more)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.kill()


STORES = ["memory:", "sqlite:test.db"]


@pytest.fixture(params=STORES, ids=["memory", "sqlite"])
def server(request: pytest.FixtureRequest, serve: Serve) -> Server:
    """A server, once on each kind of store."""
    store: str = request.param
    return serve(store)


@pytest.fixture
async def service(server: Server) -> AsyncIterator[SessiondSessionService]:
    """The service under test, on each kind of store."""
    async with SessiondSessionService(server.address) as connected:
        yield connected
