"""Two processes with eight writers on one session: no event or update is lost or applied twice."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import writer
from conftest import Server
from support import KEY, read

from sessiond_adk import SessiondSessionService
from sessiond_adk.state import SessionState


async def test_eight_writers_in_two_processes(server: Server) -> None:
    async with SessiondSessionService(server.address) as service:
        await service.create_session(**KEY)
        mine = await read(service)
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                str(Path(writer.__file__)),
                server.address,
                name,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=2**24,
            )
            for name in "ab"
        ]

        async def line(process: asyncio.subprocess.Process) -> str:
            assert process.stdout is not None
            return (await process.stdout.readline()).decode()

        def signal_go() -> None:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(b"go\n")

        assert [await line(process) for process in processes] == ["ready\n"] * 2
        signal_go()
        results: list[dict[str, Any]] = [one for process in processes for one in json.loads(await line(process))]
        signal_go()
        states = [json.loads(await line(process)) for process in processes]
        assert [await process.wait() for process in processes] == [0, 0]

        total = 2 * writer.WRITERS * writer.APPENDS
        names = [f"{process}{i}" for process in "ab" for i in range(writer.WRITERS)]
        stored = await read(service)
        ids = [event.id for event in stored.events]
        assert sorted(ids) == sorted(f"{name}-{n}" for name in names for n in range(1, writer.APPENDS + 1))
        for name, result in zip(names, results, strict=True):
            expected = [f"{name}-{n}" for n in range(1, writer.APPENDS + 1)]
            assert result["own"] == expected
            assert [one for one in ids if one.startswith(f"{name}-")] == expected, "each writer's own order"
            assert result["counts"] == sorted(set(result["counts"]))
        # Every increment returned another value, so none was lost or applied twice.
        assert sorted(n for result in results for n in result["counts"]) == list(range(1, total + 1))
        assert [event.actions.state_delta["count"] for event in stored.events] == list(range(1, total + 1))
        assert stored.state["count"] == total
        assert stored.state["app:count"] == 2 * total
        for name in names:
            last = writer.APPENDS
            scopes = (stored.state[name], stored.state[f"app:{name}"], stored.state[f"user:{name}"])
            assert scopes == (last, [last], {"n": last})
        assert len(stored.state["user:writers"]) == 10
        assert isinstance(stored.state, SessionState)
        assert stored.state.sequence == total
        # All objects end with the same state, including one that was read before the first append.
        assert states == [stored.state, stored.state]
        await service.refresh(mine)
        assert mine == stored
