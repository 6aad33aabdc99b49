"""Event loops, threads, closing and reconnecting."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from contextlib import suppress
from typing import Any

import pytest
from conftest import Serve, Server
from google.adk.sessions.session import Session
from support import KEY, delta_event, read, text_event

from sessiond_adk import RetryPolicy, SessiondClosedError, SessiondSessionService
from sessiond_adk._proto import session_service_pb2
from sessiond_adk.locks import ObjectLocks


@pytest.fixture
def plain(serve: Serve) -> Server:
    """A server for tests that run their own event loops."""
    return serve("memory:")


def test_loops_in_sequence(plain: Server) -> None:
    """One loop per call, as synchronous callers and test runners do. Channels of closed loops are dropped."""
    service = SessiondSessionService(plain.address)
    session = asyncio.run(service.create_session(**KEY))
    for number in range(5):
        asyncio.run(service.append_event(session, delta_event({"n": number})))
    assert len(service._client.connections) == 1
    stored = asyncio.run(service.get_session(**KEY))
    assert stored == session
    assert len(session.events) == 5
    asyncio.run(service.close())
    assert len(service._client.connections) == 0


async def test_new_loop_with_the_id_of_a_closed_one(plain: Server) -> None:
    """It must not get the channel of the old loop."""
    service = SessiondSessionService(plain.address)
    await asyncio.to_thread(asyncio.run, service.create_session(**KEY))
    connections = service._client.connections
    (old,) = connections._by_loop.values()
    connections._by_loop = {id(asyncio.get_running_loop()): old}
    async with service:
        assert await service.get_session(**KEY) is not None
        assert connections.current() is not old


def test_loops_in_parallel(plain: Server) -> None:
    """Threads with their own loops append through one service."""
    service = SessiondSessionService(plain.address)
    asyncio.run(service.create_session(**KEY))
    failures: list[BaseException] = []

    async def write(name: str) -> None:
        session = await read(service)
        for number in range(30):
            await service.append_event(session, delta_event({name: number}))

    def run(name: str) -> None:
        try:
            asyncio.run(write(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    stored = asyncio.run(service.get_session(**KEY))
    assert stored is not None
    assert len(stored.events) == 120
    assert stored.state == {f"t{i}": 29 for i in range(4)}


def test_closing_closes_the_channels_of_other_loops(plain: Server) -> None:
    """A pending watch on another thread's loop ends as well."""
    service = SessiondSessionService(plain.address)
    asyncio.run(service.create_session(**KEY))
    watching = threading.Event()
    ended: list[str] = []

    async def follow() -> None:
        async for _ in service.watch(**KEY):
            watching.set()
        ended.append("ended")

    thread = threading.Thread(target=lambda: asyncio.run(follow()))
    thread.start()
    assert watching.wait(60)
    asyncio.run(service.close())
    thread.join(60)
    assert ended == ["ended"]
    assert len(service._client.connections) == 0


async def test_closed_service_reconnects(plain: Server) -> None:
    async with SessiondSessionService(plain.address) as service:
        session = await service.create_session(**KEY)
    await service.close()
    await service.append_event(session, text_event("x"))
    async with service as again:
        assert again is service
        assert await service.get_session(**KEY) == session
    assert len(service._client.connections) == 0


async def test_in_flight_calls_finish_when_the_service_closes(plain: Server) -> None:
    async with SessiondSessionService(plain.address, close_grace=600) as service:
        session = await service.create_session(**KEY)
        appends = [asyncio.create_task(service.append_event(session, text_event(str(i)))) for i in range(10)]
        await asyncio.sleep(0)
        first = asyncio.create_task(service.get_session(**KEY))
        await asyncio.sleep(0)
        await service.close()
        assert await first is not None
        done = await asyncio.gather(*appends, return_exceptions=True)
    # In-flight appends finish. Those that waited for the lock use a new connection.
    assert [type(one) for one in done if isinstance(one, BaseException)] == []


async def test_call_cut_off_by_closing_raises_closed_error() -> None:
    """Not CancelledError, as the task was not cancelled."""

    cut, left = asyncio.Event(), asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await cut.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        left.set()

    listener = await asyncio.start_server(never, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    service = SessiondSessionService(f"127.0.0.1:{port}", close_grace=0.05)
    calling = asyncio.create_task(service.create_session(**KEY))
    async with asyncio.timeout(60):
        while not len(service._client.connections):
            await asyncio.sleep(0)
    await service.close()
    with pytest.raises(SessiondClosedError):
        await calling
    cut.set()
    await left.wait()
    listener.close()


async def test_closing_ends_a_call_between_two_attempts() -> None:
    service = SessiondSessionService("127.0.0.1:1", timeout=3600, retry=RetryPolicy(attempts=10**6))
    calling = asyncio.create_task(service.list_sessions(app_name="app"))
    async with asyncio.timeout(60):
        while not len(service._client.connections):
            await asyncio.sleep(0)
    await service.close()
    with pytest.raises(SessiondClosedError):
        await calling


async def test_cancelled_call_raises_cancelled_error(plain: Server) -> None:
    async with SessiondSessionService(plain.address) as service:
        calling = asyncio.create_task(service.list_sessions(app_name="app"))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_closing_leaves_no_resources(plain: Server) -> None:
    """No warning about coroutines or resources, and no lock."""
    # Warnings about objects of earlier tests must not fail this one.
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        service = SessiondSessionService(plain.address)
        session = await service.create_session(**KEY)
        await asyncio.gather(*(service.append_event(session, text_event(str(i))) for i in range(20)))
        watch = service.watch(**KEY)
        await anext(watch)
        del watch
        await service.close()
        gc.collect()
    assert len(service._appender._locks) == 0


async def test_appends_from_one_object_are_serialized(plain: Server) -> None:
    """Its events have the order of the calls, which is also the stored order, with both settings of `stale`."""
    for stale in ("merge", "error"):
        async with SessiondSessionService(plain.address, stale=stale) as service:
            session = await service.create_session(app_name="app", user_id="user", session_id=stale)
            events = [delta_event({"n": number}) for number in range(50)]
            await asyncio.gather(*(service.append_event(session, event) for event in events))
            stored = await service.get_session(app_name="app", user_id="user", session_id=stale)
            assert stored is not None
            assert [event.id for event in session.events] == [event.id for event in events]
            assert stored == session
            assert session.state == {"n": 49}


@pytest.mark.parametrize("read", [True, False], ids=["read", "constructed"])
async def test_refresh_takes_the_lock(plain: Server, monkeypatch: pytest.MonkeyPatch, read: bool) -> None:
    """A refresh that was read before an append must not overwrite what the append has left in the object."""
    async with SessiondSessionService(plain.address) as service:
        created = await service.create_session(**KEY)
        session = created if read else Session(id="s", app_name="app", user_id="user")
        fetched, gate = asyncio.Event(), asyncio.Event()
        call = service._client.call

        async def slow_call(method: Any, request: Any) -> Any:
            response = await call(method, request)
            if isinstance(request, session_service_pb2.GetSessionRequest):
                fetched.set()
                await gate.wait()
            return response

        monkeypatch.setattr(service._client, "call", slow_call)
        refreshing = asyncio.create_task(service.refresh(session))
        await fetched.wait()
        held = session.state
        appends = [asyncio.create_task(service.append_event(session, delta_event({"n": n}))) for n in range(2)]
        locks = service._appender._locks
        # The appends wait for the refresh, or finish before it.
        while locks.count(held) < 3 and not all(append.done() for append in appends):
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(refreshing, *appends)
        stored = await service.get_session(**KEY)
        assert session == stored
        assert [event.actions.state_delta for event in session.events] == [{"n": 0}, {"n": 1}]
        assert session.state == {"n": 1}
        assert len(locks) == 0


async def test_lock_follows_a_session_that_gets_another_state_dict() -> None:
    """A refresh replaces the dict of a constructed session. Waiters for the old dict's lock must take the new one."""
    appender = SessiondSessionService("127.0.0.1:1")._appender
    session = Session(id="s", app_name="app", user_id="user")
    inside = 0

    async def change(number: int) -> None:
        nonlocal inside
        async with appender.lock(session):
            inside += 1
            assert inside == 1
            for _ in range(5):
                await asyncio.sleep(0)
            session.state = {"n": number}
            inside -= 1

    tasks = []
    for number in range(10):
        tasks.append(asyncio.create_task(change(number)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert len(appender._locks) == 0


async def test_locks_are_per_object_and_removed_after_use() -> None:
    locks, one, two = ObjectLocks(), object(), object()
    order: list[str] = []

    async def take(target: object, name: str, gate: asyncio.Event | None = None) -> None:
        async with locks.hold(target):
            order.append(f"{name} in")
            if gate is not None:
                await gate.wait()
            order.append(f"{name} out")

    gate = asyncio.Event()
    first = asyncio.create_task(take(one, "a", gate))
    await asyncio.sleep(0)
    second, other = asyncio.create_task(take(one, "b")), asyncio.create_task(take(two, "c"))
    await other
    assert order == ["a in", "c in", "c out"]
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.set()
    await first
    assert order == ["a in", "c in", "c out", "a out"]
    assert len(locks) == 0


class LoopThatEnds:
    """The loop of another thread that ends between `is_running` and `call_soon_threadsafe`."""

    def __init__(self, closed: bool) -> None:
        self.closed = closed
        self.calls = 0

    def is_running(self) -> bool:
        return True

    def call_soon_threadsafe(self, *_: object) -> None:
        self.calls += 1
        if self.closed:
            raise RuntimeError("Event loop is closed")


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "silent"])
async def test_loop_that_ends_while_the_service_closes_does_not_block(
    closed: bool, plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = SessiondSessionService(plain.address, close_grace=0.0)
    await service.create_session(**KEY)
    (connection,) = service._client.connections._by_loop.values()
    loop = LoopThatEnds(closed)
    real = connection.loop
    monkeypatch.setattr(connection, "loop", loop)
    closing = connection.close(0.0)
    monkeypatch.setattr(connection, "close", lambda _grace: closing)
    await service.close()
    assert loop.calls == 1
    assert len(service._client.connections) == 0
    if not closed:
        # The dead loop did not run it. Awaited here so that the channel does not stay open.
        monkeypatch.setattr(connection, "loop", real)
        await closing
