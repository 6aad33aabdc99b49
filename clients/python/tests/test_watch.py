"""Watches: every item once, in order, across broken connections and restarts."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from conftest import Serve, Server
from google.adk.errors.session_not_found_error import SessionNotFoundError
from proxy import Proxy
from scripted_server import (
    Failure,
    ScriptedWatch,
    appended,
    caught_up,
    deleted,
    draining,
    heartbeat,
    status_details,
)
from support import KEY, MANY_ATTEMPTS, delta_event, text_event

from sessiond_adk import (
    Appended,
    CaughtUp,
    Changed,
    Deleted,
    RetryPolicy,
    SessiondError,
    SessiondSessionService,
    SessiondUnauthenticatedError,
    SessiondUnavailableError,
    Snapshot,
    Watch,
    WatchItem,
)
from sessiond_adk import watch as watch_module

QUICK = RetryPolicy(first_delay_seconds=0.001, max_delay_seconds=0.002)


async def take(watch: Watch, count: int) -> list[WatchItem]:
    return [await anext(watch) for _ in range(count)]


def sequences(items: list[WatchItem]) -> list[int]:
    return [item.sequence for item in items if isinstance(item, Appended)]


async def test_items_of_a_session_watch(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY, state={"a": 1, "app:b": 2})
    async with service.watch(**KEY) as watch:
        snapshot, caught_up = await take(watch, 2)
        assert isinstance(snapshot, Snapshot)
        assert (snapshot.state, snapshot.last_sequence) == ({"a": 1, "app:b": 2}, 0)
        assert isinstance(caught_up, CaughtUp)
        event = delta_event({"a": 2, "user:c": 3, "temp:d": 4})
        await service.append_event(session, event)
        (appended,) = await take(watch, 1)
        assert isinstance(appended, Appended)
        assert (appended.event, appended.sequence, appended.rewind_to_sequence) == (event, 1, None)
        assert not appended.rewound
        await service.update_user_state({"c": None, "x": [1]}, app_name="app", user_id="user")
        (changed,) = await take(watch, 1)
        assert isinstance(changed, Changed)
        assert (changed.values, changed.removed) == ({"user:c": None, "user:x": [1]}, ())
        await service.rewind_session(**KEY, to_sequence=0)
        (marker,) = await take(watch, 1)
        assert isinstance(marker, Appended)
        assert (marker.sequence, marker.rewind_to_sequence, marker.rewound) == (2, 0, True)
        async with service.watch(**KEY, start="beginning") as again:
            told = [item for item in await take(again, 2) if isinstance(item, Appended)]
        assert [(item.sequence, item.rewound) for item in told] == [(1, True), (2, True)]
        await service.delete_session(**KEY)
        assert isinstance((await take(watch, 1))[0], Deleted)
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_start_positions(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    for number in range(5):
        await service.append_event(session, delta_event({"n": number}))
    async with service.watch(**KEY, start="beginning") as watch:
        items = await take(watch, 6)
    assert sequences(items) == [1, 2, 3, 4, 5]
    assert [item.event for item in items if isinstance(item, Appended)] == session.events
    assert isinstance(items[5], CaughtUp)
    async with service.watch(**KEY, cursor=items[2].cursor) as watch:
        assert sequences(await take(watch, 2)) == [4, 5]
    async with service.watch(**KEY, start="now") as watch:
        assert isinstance((await take(watch, 1))[0], CaughtUp)
        await service.append_event(session, text_event("x"))
        assert sequences(await take(watch, 1)) == [6]
    with pytest.raises(ValueError, match="yesterday"):
        service.watch(**KEY, start="yesterday")  # type: ignore[arg-type]


async def test_watches_of_wider_scopes(service: SessiondSessionService) -> None:
    app, user = service.watch(app_name="app"), service.watch(app_name="app", user_id="user")
    async with app, user:
        assert [type(item) for item in await take(app, 2) + await take(user, 2)] == [Snapshot, CaughtUp] * 2
        await service.create_session(**KEY, state={"app:a": 1, "user:b": 2, "c": 3})
        (item,) = await take(app, 1)
        assert isinstance(item, Changed)
        assert item.values == {"app:a": 1}
        seen: dict[str, object] = {}
        while len(seen) < 2:
            (item,) = await take(user, 1)
            assert isinstance(item, Changed)
            seen.update(item.values)
        assert seen == {"app:a": 1, "user:b": 2}


async def test_watch_resumes_when_the_connection_breaks(server: Server) -> None:
    """The connection is cut repeatedly while events are written."""
    total = 300
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(server.address) as writer,
        SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as reader,
    ):
        session = await writer.create_session(**KEY)

        async def write() -> None:
            for number in range(total):
                await writer.append_event(session, delta_event({"n": number}))

        writing = asyncio.create_task(write())
        items: list[WatchItem] = []
        async with reader.watch(**KEY, start="beginning") as watch:
            async for item in watch:
                items.append(item)
                if len(items) % 40 == 0:
                    proxy.cut()
                if sequences(items)[-1:] == [total]:
                    break
        await writing
        assert sequences(items) == list(range(1, total + 1))
        assert sum(isinstance(item, CaughtUp) for item in items) <= 1
        assert proxy.connections >= 5


@pytest.mark.parametrize("graceful", [True, False], ids=["drained", "killed"])
async def test_watch_resumes_when_the_server_restarts(serve: Serve, graceful: bool) -> None:
    server = serve("sqlite:test.db")
    async with SessiondSessionService(server.address, timeout=60, retry=MANY_ATTEMPTS) as service:
        session = await service.create_session(**KEY)
        async with service.watch(**KEY) as watch:
            await take(watch, 2)
            for number in range(1, 5):
                await service.append_event(session, delta_event({"n": number}))
                assert sequences(await take(watch, 1)) == [number]
                waiting = asyncio.create_task(anext(watch))
                await asyncio.sleep(0)
                await asyncio.to_thread(server.stop if graceful else server.kill)
                await asyncio.to_thread(server.start_again)
                await service.update_app_state({"restarts": number}, app_name="app")
                item = await waiting
                assert isinstance(item, Changed)
                assert item.values == {"app:restarts": number}


async def test_every_outage_has_its_own_reconnect_time(server: Server) -> None:
    """`reconnect_seconds` counts from the start of the current outage."""
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=MANY_ATTEMPTS) as service:
        session = await service.create_session(**KEY)
        async with service.watch(**KEY, start="now", reconnect_seconds=1000) as watch:
            await take(watch, 1)
            for number in (1, 2):
                proxy.cut()
                # As if the earlier outage had been long ago.
                watch._failing_since -= 1001
                await service.append_event(session, text_event("x"))
                assert sequences(await take(watch, 1)) == [number]


async def test_watch_ends_when_the_server_stays_away(serve: Serve) -> None:
    server = serve("sqlite:test.db")
    async with SessiondSessionService(server.address) as service:
        await service.create_session(**KEY)
        watch = service.watch(**KEY, reconnect_seconds=0.2)
        (_, last) = await take(watch, 2)
        server.kill()
        with pytest.raises(SessiondUnavailableError):
            await anext(watch)
        assert watch.cursor == last.cursor
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
        server.start_again()
        async with service.watch(**KEY, cursor=watch.cursor) as again:
            assert isinstance((await take(again, 1))[0], CaughtUp)


async def test_silence_counts_as_a_broken_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three missed heartbeats the watch opens a new stream."""
    monkeypatch.setattr(watch_module, "IDLE_SECONDS", 0.05)
    async with SessiondSessionService(server.address, retry=MANY_ATTEMPTS) as service:
        session = await service.create_session(**KEY)
        async with service.watch(**KEY) as watch:
            await take(watch, 2)
            streams = 0
            open_stream = watch._open

            def counting_open() -> object:
                nonlocal streams
                streams += 1
                return open_stream()

            monkeypatch.setattr(watch, "_open", counting_open)
            waiting = asyncio.create_task(anext(watch))
            async with asyncio.timeout(30):
                while streams < 3:
                    await asyncio.sleep(0.01)
            await service.append_event(session, text_event("x"))
            assert sequences([await waiting]) == [1]


async def test_cancelled_wait_loses_no_item(service: SessiondSessionService) -> None:
    session = await service.create_session(**KEY)
    async with service.watch(**KEY, start="now") as watch:
        await take(watch, 1)
        found: list[int] = []
        for number in range(1, 30):
            waiting = asyncio.create_task(anext(watch))
            # Cancelled at different moments: before, during and after the item's arrival.
            append = asyncio.create_task(service.append_event(session, text_event("x")))
            for _ in range(number % 7):
                await asyncio.sleep(0)
            if number % 3 == 0:
                await append
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            if not waiting.cancelled():
                found += sequences([waiting.result()])
            await append
        while found[-1:] != [29]:
            found += sequences(await take(watch, 1))
        assert found == list(range(1, 30))


async def test_end_of_a_stream_counts_as_a_broken_connection() -> None:
    """A proxy may end a stream without an error. Only `Deleted` ends a watch."""
    script = ScriptedWatch(
        [caught_up("c0"), appended(1, "c1")],
        [],
        [appended(2, "c2")],
        [caught_up("c3"), appended(3, "c4"), deleted("c5")],
    )
    async with script, SessiondSessionService(script.address, retry=QUICK) as service:
        items = [item async for item in service.watch(**KEY)]
    assert [type(item) for item in items] == [CaughtUp, Appended, Appended, Appended, Deleted]
    assert sequences(items) == [1, 2, 3]
    assert script.cursors == ["", "c1", "c1", "c2"]


async def test_watch_ends_when_streams_keep_ending() -> None:
    script = ScriptedWatch([appended(1, "c1")])
    async with script, SessiondSessionService(script.address, retry=QUICK) as service:
        watch = service.watch(**KEY, reconnect_seconds=0.1)
        assert sequences(await take(watch, 1)) == [1]
        with pytest.raises(SessiondUnavailableError, match="ended before its session"):
            await anext(watch)
        assert watch.cursor == "c1"
        with pytest.raises(StopAsyncIteration):
            await anext(watch)
    assert set(script.cursors[1:]) == {"c1"}


async def test_message_without_a_cursor_keeps_the_last_one() -> None:
    script = ScriptedWatch(
        [appended(1, "c1"), appended(2, ""), heartbeat(), draining("")],
        [draining(None)],
        [draining("c2")],
        [appended(3, ""), deleted("")],
    )
    async with script, SessiondSessionService(script.address, retry=QUICK) as service:
        async with service.watch(**KEY) as watch:
            items = [item async for item in watch]
        assert watch.cursor == "c2"
    assert script.cursors == ["", "c1", "c1", "c2"]
    assert [item.cursor for item in items] == ["c1", "c1", "c2", "c2"]
    assert sequences(items) == [1, 2, 3]


@pytest.mark.parametrize(("retryable", "ends"), [("yes", False), ("same_id", False), ("no", True), (None, True)])
async def test_server_decides_whether_a_watch_resumes(retryable: str | None, ends: bool) -> None:
    code = grpc.StatusCode.UNAVAILABLE
    details = status_details(code, "STORE_UNAVAILABLE", retryable)
    script = ScriptedWatch([appended(1, "c1"), (code, details)], [deleted("c2")])
    async with script, SessiondSessionService(script.address, retry=QUICK) as service:
        watch = service.watch(**KEY)
        assert sequences(await take(watch, 1)) == [1]
        if ends:
            with pytest.raises(SessiondUnavailableError) as refused:
                await anext(watch)
            assert refused.value.reason == "STORE_UNAVAILABLE"
        else:
            assert isinstance(await anext(watch), Deleted)
    assert script.cursors == (["", "c1"] if not ends else [""])


def credential(reason: str) -> Failure:
    code = grpc.StatusCode.UNAUTHENTICATED
    return code, status_details(code, reason, "no")


async def test_watch_goes_on_with_a_new_credential() -> None:
    script = ScriptedWatch(
        [appended(1, "c1"), credential("CREDENTIAL_EXPIRED")],
        [caught_up("c2"), credential("CREDENTIAL_INVALID")],
        [deleted("c3")],
    )
    tokens = iter(["first", "second", "third"])
    async with (
        script,
        SessiondSessionService(
            script.address, retry=QUICK, metadata=lambda: [("authorization", next(tokens))]
        ) as service,
    ):
        items = [item async for item in service.watch(**KEY)]
    assert [type(item) for item in items] == [Appended, CaughtUp, Deleted]
    assert script.cursors == ["", "c1", "c2"]
    assert script.tokens == ["first", "second", "third"]


@pytest.mark.parametrize("reason", ["CREDENTIAL_EXPIRED", "CREDENTIAL_INVALID"])
async def test_credential_that_is_refused_at_once_ends_a_watch(reason: str) -> None:
    script = ScriptedWatch(
        [credential(reason)], [appended(1, "c1"), credential(reason)], [credential(reason)], [deleted("c2")]
    )
    async with script, SessiondSessionService(script.address, retry=QUICK) as service:
        with pytest.raises(SessiondUnauthenticatedError):
            await anext(service.watch(**KEY))
        watch = service.watch(**KEY)
        assert sequences(await take(watch, 1)) == [1]
        with pytest.raises(SessiondUnauthenticatedError) as refused:
            await anext(watch)
        assert refused.value.reason == reason
        assert watch.cursor == "c1"
    assert script.cursors == ["", "", "c1"]


async def test_errors_that_end_a_watch(service: SessiondSessionService) -> None:
    with pytest.raises(SessionNotFoundError):
        await anext(service.watch(**KEY))
    await service.create_session(**KEY)
    with pytest.raises(SessiondError) as refused:
        await anext(service.watch(**KEY, cursor="nonsense"))
    assert refused.value.reason == "BAD_CURSOR"
    assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_closing_the_service_ends_its_watches(service: SessiondSessionService) -> None:
    await service.create_session(**KEY)
    waiting_watch, idle, fresh = (service.watch(**KEY) for _ in range(3))
    await take(waiting_watch, 2)
    await take(idle, 2)
    waiting = asyncio.create_task(anext(waiting_watch))
    await asyncio.sleep(0)
    await service.close()
    with pytest.raises(StopAsyncIteration):
        await waiting
    with pytest.raises(StopAsyncIteration):
        await anext(idle)
    # A watch that has not begun connects again, as every call does.
    assert isinstance((await take(fresh, 1))[0], Snapshot)


async def test_closing_a_watch_ends_a_pending_wait(service: SessiondSessionService) -> None:
    await service.create_session(**KEY)
    watch = service.watch(**KEY)
    await take(watch, 2)
    items: list[WatchItem] = []

    async def follow() -> None:
        async for item in watch:
            items.append(item)

    following = asyncio.create_task(follow())
    await asyncio.sleep(0)
    await watch.aclose()
    await following
    assert items == []
