"""A process of test_two_processes.py: four writers on one session, each with its own session object."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from google.adk.sessions.session import Session
from support import delta_event, read

from sessiond_adk import Increment, ListAppend, Operation, SessiondSessionService

WRITERS = 4
APPENDS = 200


async def write(service: SessiondSessionService, session: Session, name: str) -> dict[str, Any]:
    """Appends 200 events. Returns the events of the writer's session and the results of its increments."""
    counts: list[int] = []
    for number in range(1, APPENDS + 1):
        event = delta_event(
            {name: number, f"app:{name}": [number], f"user:{name}": {"n": number}}, author=name, id=f"{name}-{number}"
        )
        operations: list[Operation] = [
            Increment("count"),
            Increment("app:count", 2),
            ListAppend("user:writers", [name], 10),
        ]
        await service.append_event(session, event, operations=operations)
        counts.append(event.actions.state_delta["count"])
        assert session.state["count"] >= counts[-1]
    return {"own": [event.id for event in session.events], "counts": counts}


async def main(address: str, process: str) -> None:
    """Prints "ready", waits for a line, writes, and prints the results and the final state."""
    async with SessiondSessionService(address, timeout=120) as service:
        # Read before the first write, so that each object learns of the others only through its own appends.
        sessions = [await read(service) for _ in range(WRITERS)]
        print("ready", flush=True)
        assert await asyncio.to_thread(sys.stdin.readline)
        results = await asyncio.gather(
            *(write(service, session, f"{process}{i}") for i, session in enumerate(sessions))
        )
        print(json.dumps(results), flush=True)
        # The state is final when both processes have written.
        assert await asyncio.to_thread(sys.stdin.readline)
        for session in sessions:
            await service.refresh(session)
        assert all(session == sessions[0] for session in sessions)
        print(json.dumps(sessions[0].state, sort_keys=True), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
