"""Compares appends and reads through sessiond with ADK's own services on SQLite, in one run.

    python benchmarks/compare.py --program ../../target/release/sessiond

The fixture is one session of 1,000 events per caller. The benchmark measures single calls of `append_event` (an event
with 1 KiB of text and three state changes) and `get_session` (the newest 20 events), by 1 and by 16 concurrent callers.
The server runs with its defaults: SQLite, every append durable. ADK's services use SQLite's defaults, which are durable
as well, and write one transaction per append.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from sessiond_adk import SessiondSessionService

APP, USER = "bench", "user"
NEWEST = GetSessionConfig(num_recent_events=20)
OURS = "sessiond"


def event(number: int) -> Event:
    """An event with text, and state changes in two scopes."""
    return Event(
        author="agent",
        invocation_id=f"turn-{number // 4}",
        content=types.Content(role="model", parts=[types.Part(text="x" * 1024)]),
        actions=EventActions(state_delta={"step": number, "topic": "weather", "user:last": number}),
    )


def progress(text: str) -> None:
    """Shows what is being done, on standard error: a run takes minutes, and the table comes last."""
    if sys.stderr.isatty():
        # In the place of the last line.
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


async def create_fixture(name: str, service: BaseSessionService, callers: int, events: int) -> list[Session]:
    """Creates a session with events for each caller."""
    # One user per caller: ADK's services lock the row of the user.
    sessions = [
        await service.create_session(app_name=APP, user_id=f"{USER}-{i}", session_id=f"s{i}") for i in range(callers)
    ]

    async def append(session: Session) -> None:
        for number in range(events):
            await service.append_event(session, event(number))

    for number, session in enumerate(sessions, 1):
        await append(session)
        progress(f"fixture of {name}: {number} of {callers} sessions of {events} events")
    return sessions


async def measure(callers: list[Callable[[], Awaitable[object]]], seconds: float) -> tuple[float, float]:
    """Runs every caller in a loop. Returns calls per second, and the median latency in milliseconds."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def loop(call: Callable[[], Awaitable[object]]) -> None:
        while (began := time.perf_counter()) < end:
            await call()
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(loop(call) for call in callers))
    return len(latencies) / (time.perf_counter() - began), statistics.median(latencies) * 1000


def appender(service: BaseSessionService, session: Session) -> Callable[[], Awaitable[object]]:
    """An append from the caller's session object, whose list of events is kept empty."""

    async def call() -> object:
        appended = await service.append_event(session, event(0))
        session.events.clear()
        return appended

    return call


def reader(service: BaseSessionService, session: Session) -> Callable[[], Awaitable[object]]:
    """A read of the newest events."""

    async def call() -> object:
        found = await service.get_session(app_name=APP, user_id=session.user_id, session_id=session.id, config=NEWEST)
        assert found is not None
        assert len(found.events) == 20
        return found

    return call


Row = tuple[str, int, dict[str, tuple[float, float]]]


async def run(services: dict[str, BaseSessionService], max_callers: int, events: int, seconds: float) -> list[Row]:
    """Runs all measurements. The services alternate within a row, so that other load affects all of them."""
    sessions = {name: await create_fixture(name, service, max_callers, events) for name, service in services.items()}
    rows: list[Row] = []
    for what, make in (("get_session", reader), ("append_event", appender)):
        for callers in (1, max_callers):
            row: dict[str, tuple[float, float]] = {}
            for name, service in services.items():
                progress(f"{what} by {callers} callers: {name}, {seconds * 1.1:.0f} s")
                calls = [make(service, session) for session in sessions[name][:callers]]
                await measure(calls, seconds / 10)
                row[name] = await measure(calls, seconds)
            rows.append((what, callers, row))
    return rows


def show(rows: list[Row], names: list[str]) -> None:
    """Prints a Markdown table."""
    if sys.stderr.isatty():
        progress("")
    others = [name for name in names if name != OURS]
    print(f"| | callers | {' | '.join(names)} | {' | '.join(f'ratio to {name}' for name in others)} |")
    print("|---" * (2 + len(names) + len(others)) + "|")
    for what, callers, row in rows:
        cells = [f"{row[name][0]:,.0f}/s, p50 {row[name][1]:.2f} ms" for name in names]
        ratios = [f"{row[OURS][0] / row[name][0]:.1f}x" for name in others]
        print(f"| `{what}` | {callers} | {' | '.join(cells)} | {' | '.join(ratios)} |")


async def compare(address: str, folder: Path, callers: int, events: int, seconds: float) -> None:
    """Runs against a server at `address`, with the files of ADK's services in `folder`."""
    async with (
        SessiondSessionService(address, timeout=60) as ours,
        DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'adk.db'}") as database,
    ):
        services: dict[str, BaseSessionService] = {
            OURS: ours,
            "DatabaseSessionService": database,
            "SqliteSessionService": SqliteSessionService(str(folder / "adk-sqlite.db")),
        }
        show(await run(services, callers, events, seconds), list(services))


def main() -> None:
    """Starts a server, runs the comparison, and stops the server."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", required=True, type=Path, help="the sessiond binary")
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--events", type=int, default=1000, help="events of each session, at least 20")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each measurement")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        command = [arguments.program.resolve(), "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:sessiond.db"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            found = re.search(r"listen(?:s|ing) on (\S+)", server.stdout.readline())
            assert found is not None, "the server did not start"
            numbers = (arguments.callers, arguments.events, arguments.seconds)
            asyncio.run(compare(found.group(1), Path(folder), *numbers))
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
