"""More watches than a connection has streams: further channels, which close again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from conftest import Server
from google.adk.sessions.session import Session
from proxy import Proxy
from support import text_event

from sessiond_adk import Appended, Changed, SessiondSessionService, Watch, WatchItem

APP = "app"
WATCHES = 1000
SESSIONS = 500


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    async with Proxy(server.address) as proxy:
        yield proxy


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def next_of(watches: list[Watch]) -> list[WatchItem]:
    """The next item of each watch. One that waits for a stream would wait for ever."""
    async with asyncio.timeout(60):
        return await asyncio.gather(*map(anext, watches))


async def begin(service: SessiondSessionService, count: int) -> list[Watch]:
    """Watches of the application that have begun."""
    watches = [service.watch(app_name=APP, start="now") for _ in range(count)]
    await next_of(watches)
    return watches


async def test_a_thousand_watches_and_unary_calls(proxy: Proxy) -> None:
    async with SessiondSessionService(proxy.address) as service:

        async def create(number: int) -> Session:
            return await service.create_session(app_name=APP, user_id=f"u{number}", session_id="s")

        sessions = [await create(number) for number in range(SESSIONS)]
        of_sessions = [
            service.watch(app_name=APP, user_id=session.user_id, session_id="s", start="now") for session in sessions
        ]
        await next_of(of_sessions)
        of_app = await begin(service, WATCHES - SESSIONS)
        assert proxy.open_connections == 5

        # More calls at once than a connection has streams.
        events = await asyncio.gather(
            *(service.append_event(session, text_event(session.user_id)) for session in sessions)
        )
        items = await next_of(of_sessions)
        assert [item.event for item in items if isinstance(item, Appended)] == events
        await service.update_app_state({"a": 1}, app_name=APP)
        for item in await next_of(of_sessions + of_app):
            assert isinstance(item, Changed)
            assert item.values == {"app:a": 1}
        assert proxy.connections == 5
    await until(lambda: proxy.open_connections == 0)


async def test_channels_without_watches_close(proxy: Proxy) -> None:
    async with SessiondSessionService(proxy.address) as service:
        watches = await begin(service, 401)
        assert proxy.open_connections == 3
        # A new watch takes a place that is free on a channel with many, and not one beside the last watch of another.
        for watch in watches[:100]:
            await watch.aclose()
        watches += await begin(service, 1)
        await watches[400].aclose()
        await until(lambda: proxy.open_connections == 2)
        # A watch without a reference frees its place as well.
        watches.clear()
        await until(lambda: proxy.open_connections == 1)
        assert await service.get_app_state(app_name=APP) == {}
        assert proxy.connections == 3
