"""Measures one session service through ADK's interface, and prints a JSON object for each measurement.

    python benchmarks/compare.py SECONDS sqlite:PATH | HOST:PORT

The first is ADK's `DatabaseSessionService` on a file in WAL mode with `synchronous=FULL`, the second a sessiond. An
append changes two keys of the session and one of its user and has 1 KiB of text; a session for each caller. A read
returns the newest 20 of 200 events. `benches/run` calls it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from sessiond_adk import SessiondSessionService

APP = "bench"
CALLERS = (1, 16)
NEWEST = GetSessionConfig(num_recent_events=20)

Call = Callable[[], Awaitable[object]]


def event(number: int) -> Event:
    """An event with text, and state changes in two scopes."""
    return Event(
        author="agent",
        invocation_id=f"turn-{number // 4}",
        content=types.Content(role="model", parts=[types.Part(text="x" * 1024)]),
        actions=EventActions(state_delta={"step": number, "topic": "weather", "user:last": number}),
    )


def open_service(target: str) -> SessiondSessionService | DatabaseSessionService:
    """The service at a target."""
    path = target.removeprefix("sqlite:")
    if path == target:
        return SessiondSessionService(target, timeout=60)
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA journal_mode = WAL")
    return DatabaseSessionService(f"sqlite+aiosqlite:///{path}")


def appender(service: BaseSessionService, session: Session) -> Call:
    """An append from the caller's session object, whose list of events is kept empty."""

    async def call() -> object:
        appended = await service.append_event(session, event(0))
        session.events.clear()
        return appended

    return call


def reader(service: BaseSessionService, session: Session) -> Call:
    """A read of the newest events."""

    async def call() -> object:
        found = await service.get_session(app_name=APP, user_id=session.user_id, session_id=session.id, config=NEWEST)
        assert found is not None
        assert len(found.events) == 20
        return found

    return call


async def measure(workload: str, callers: list[Call], seconds: float) -> None:
    """Runs every caller in a loop, and prints the result."""
    latencies: list[float] = []
    began = time.perf_counter()

    async def loop(call: Call) -> None:
        while (sent := time.perf_counter()) < began + seconds:
            await call()
            latencies.append(time.perf_counter() - sent)

    await asyncio.gather(*(loop(call) for call in callers))
    per_second = len(latencies) / (time.perf_counter() - began)
    latencies.sort()
    p50, p99 = (int(latencies[int((len(latencies) - 1) * q)] * 1e6) for q in (0.5, 0.99))
    row = {"workload": workload, "in_flight": len(callers), "per_second": per_second}
    print(json.dumps(row | {"p50_micros": p50, "p99_micros": p99}), flush=True)


async def main(seconds: float, target: str) -> None:
    """Runs all workloads on one service."""
    async with open_service(target) as service:
        sessions = [await service.create_session(app_name=APP, user_id=f"user-{i}") for i in range(CALLERS[-1])]
        for callers in CALLERS:
            await measure("append", [appender(service, session) for session in sessions[:callers]], seconds)
        session = await service.create_session(app_name=APP, user_id="reader")
        for number in range(200):
            await service.append_event(session, event(number))
        for callers in CALLERS:
            await measure("read", [reader(service, session)] * callers, seconds)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), sys.argv[2]))
