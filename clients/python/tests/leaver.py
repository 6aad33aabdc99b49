"""A process of test_exit.py: opens watches, closes the service, and ends its event loop at once."""

from __future__ import annotations

import asyncio
import sys

from sessiond_adk import CaughtUp, SessiondSessionService, Watch


async def catch_up(watch: Watch) -> None:
    while not isinstance(await anext(watch), CaughtUp):
        pass


async def main(address: str, count: int, state: str) -> None:
    """`state` of the watches when the service closes: idle, stopped, or cut off as the loop ends within `close`."""
    service = SessiondSessionService(address)
    watches = [service.watch(app_name="app", start="now") for _ in range(count)]
    await asyncio.gather(*map(catch_up, watches))
    if state == "stopped":
        for watch in watches:
            await watch.aclose()
    closing = asyncio.create_task(service.close())
    await asyncio.sleep(0)
    if state != "cut off":
        await closing


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
