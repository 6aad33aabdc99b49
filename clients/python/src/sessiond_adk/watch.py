"""Following what is committed, across broken connections and restarts."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import grpc
from google.adk.events.event import Event
from grpc import aio

from . import errors
from ._proto import types_pb2, watch_service_pb2
from .client import TEXT, Client
from .events import decode_event
from .times import to_seconds

Start = Literal["snapshot", "beginning", "now"]

_STARTS = {
    "snapshot": watch_service_pb2.WATCH_START_SNAPSHOT,
    "beginning": watch_service_pb2.WATCH_START_BEGINNING,
    "now": watch_service_pb2.WATCH_START_NOW,
}

# The server says every 10 seconds that it is there. After three that did not come the connection is dead, whatever the
# network says.
IDLE_SECONDS = 30.0


@dataclass(frozen=True)
class Snapshot:
    """The state at the start, keys with their prefixes, and the sequence of the session's newest event."""

    state: dict[str, Any]
    last_sequence: int
    cursor: str


@dataclass(frozen=True)
class Appended:
    """An event of the session, with its sequence and its commit on the server's clock (seconds since 1970).

    `rewind_to_sequence` is set on the marker of a rewind: the last event that stayed visible.
    """

    event: Event
    sequence: int
    commit_time: float
    cursor: str
    rewind_to_sequence: int | None = None


@dataclass(frozen=True)
class Changed:
    """What keys of the user's or the application's state have become by a change made elsewhere."""

    values: dict[str, Any]
    removed: tuple[str, ...]
    commit_time: float
    cursor: str


@dataclass(frozen=True)
class CaughtUp:
    """Nothing is left to catch up on. Comes once."""

    cursor: str


@dataclass(frozen=True)
class Deleted:
    """The session was deleted or has expired; the watch ends."""

    cursor: str


WatchItem = Snapshot | Appended | Changed | CaughtUp | Deleted


class Watch:
    """An async iterator over `WatchItem`s: every event once, in order; of wider scopes at least the newest values.

    When the connection breaks, the stream ends, or the server restarts, it goes on behind the last item, without gap or
    repetition. It ends behind `Deleted`, when it or the service is closed, and with an error: SessionNotFoundError,
    SessiondInvalidError (BAD_CURSOR), CURSOR_OF_OTHER_STORE, or SessiondUnavailableError when the server stayed away
    for `reconnect_seconds`; `cursor` then is where another watch can go on.

    Use it from one task at a time. A `__anext__` that is cancelled, as by a timeout, loses nothing.
    """

    def __init__(
        self, client: Client, scope: types_pb2.Scope, cursor: str, start: Start, *, reconnect_seconds: float
    ) -> None:
        """Connects when the first item is asked for."""
        if start not in _STARTS:
            raise ValueError(f"start is {start!r} and can be {', '.join(_STARTS)}")
        self._client = client
        self._scope = scope
        self._cursor = cursor
        self._start = start
        self._reconnect_seconds = reconnect_seconds
        self._call: aio.UnaryStreamCall[Any, watch_service_pb2.WatchResponse] | None = None
        self._stopped = asyncio.Event()
        self._caught_up = False
        self._failed = 0
        self._failing_since = 0.0

    @property
    def cursor(self) -> str:
        """Where a watch would go on right behind the last item; "" before the first."""
        return self._cursor

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> WatchItem:
        """The next item."""
        while not self._stopped.is_set():
            try:
                message = await self._next_message()
            except aio.AioRpcError as error:
                self._call = None
                await self._wait_before_next_try(error)
                continue
            if message is None:
                break
            self._failed = 0
            # Without a cursor of its own a message is passed by going on from the one before.
            self._cursor = message.cursor or self._cursor
            item = _decode(message, self._cursor)
            if isinstance(item, Deleted):
                self.stop()
            if isinstance(item, CaughtUp):
                # The server says so once a stream; streams are not the caller's business.
                item = None if self._caught_up else item
                self._caught_up = True
            if item is not None:
                return item
        self.stop()
        raise StopAsyncIteration

    async def _next_message(self) -> watch_service_pb2.WatchResponse | None:
        """The next message of the stream, which is opened where none is; None when the watch is over.

        Raises:
          grpc.aio.AioRpcError: the stream broke or ended, or has been silent for too long.
        """
        task = asyncio.current_task()
        asked_before = task.cancelling() if task else 0
        try:
            seconds = IDLE_SECONDS
            if self._call is None:
                self._call = self._open()
                seconds = self._client.timeout_seconds
            async with asyncio.timeout(seconds):
                message = await self._call.read()
        except TimeoutError:
            self._cancel_call()
            raise _broken("The watch has been silent for too long.") from None
        except asyncio.CancelledError:
            # Of the caller, or of the stream by `stop`. What was under way is lost with the stream and comes again.
            self._cancel_call()
            if self._stopped.is_set() and (task is None or task.cancelling() == asked_before):
                return None
            raise
        except aio.UsageError:
            # The service was closed between two items.
            return None
        if isinstance(message, watch_service_pb2.WatchResponse):
            return message
        if self._stopped.is_set():
            return None
        # Only `Deleted` ends a watch. A stream that ends without it was ended by something between here and the server.
        raise _broken("The watch ended before its session did.")

    def _open(self) -> aio.UnaryStreamCall[Any, watch_service_pb2.WatchResponse]:
        connection = self._client.connections.here()
        connection.watches.add(self)
        request = watch_service_pb2.WatchRequest(
            scope=self._scope, cursor=self._cursor, start=_STARTS[self._start], json_form=TEXT
        )
        return connection.watch.Watch(request)

    async def _wait_before_next_try(self, error: aio.AioRpcError) -> None:
        """Waits a while, or raises what ends the watch."""
        refusal = errors.read(error)
        now = asyncio.get_running_loop().time()
        if self._failed == 0:
            self._failing_since = now
        self._failed += 1
        retryable = refusal.code is grpc.StatusCode.UNAVAILABLE
        if not retryable or now - self._failing_since >= self._reconnect_seconds:
            self.stop()
            raise errors.raised_for(refusal) from error
        if refusal.reason == "DRAINING":
            self._cursor = refusal.metadata.get("cursor") or self._cursor
        delay = self._client.retry.delay_seconds(self._failed, refusal.retry_after_seconds)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), delay)

    def stop(self) -> None:
        """Ends the watch, also while somebody waits for its next item. On its own event loop only."""
        self._stopped.set()
        self._cancel_call()

    def _cancel_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    async def aclose(self) -> None:
        """Ends the watch."""
        self.stop()

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the watch."""
        self.stop()


def _broken(how: str) -> aio.AioRpcError:
    """What a lost connection raises, for what is one and raises nothing by itself."""
    nothing = aio.Metadata()
    return aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, how)


def _decode(message: watch_service_pb2.WatchResponse, cursor: str) -> WatchItem | None:
    """The item that a message stands for; None for a heartbeat, and for kinds that newer servers may add."""
    kind = message.WhichOneof("kind")
    if kind == "snapshot":
        snapshot = message.snapshot
        return Snapshot(json.loads(snapshot.state_json or "{}"), snapshot.last_sequence, cursor)
    if kind == "event":
        stored = message.event
        rewind = stored.rewind_to_sequence if stored.HasField("rewind_to_sequence") else None
        commit_time = to_seconds(stored.commit_time.ToNanoseconds())
        return Appended(decode_event(stored), stored.sequence, commit_time, cursor, rewind)
    if kind == "state_change":
        change = message.state_change
        values = json.loads(change.delta.set_json or "{}")
        commit_time = to_seconds(change.commit_time.ToNanoseconds())
        return Changed(values, tuple(change.delta.remove), commit_time, cursor)
    if kind == "caught_up":
        return CaughtUp(cursor)
    if kind == "session_deleted":
        return Deleted(cursor)
    return None
