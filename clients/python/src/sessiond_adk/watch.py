"""Watches: the committed changes of a scope, across broken connections and restarts of the server."""

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
from .channel import WatchChannel
from .client import TEXT, Client
from .events import decode_event, rewind_of
from .reading import read_state
from .state import join_object
from .times import to_seconds

Start = Literal["snapshot", "beginning", "now"]

_STARTS = {
    "snapshot": watch_service_pb2.WATCH_START_SNAPSHOT,
    "beginning": watch_service_pb2.WATCH_START_BEGINNING,
    "now": watch_service_pb2.WATCH_START_NOW,
}

# Three of the server's heartbeats, which come every 10 seconds.
IDLE_SECONDS = 30.0

# How the server ends an open stream whose credential has expired or was removed.
_CREDENTIAL_ENDED = ("CREDENTIAL_EXPIRED", "CREDENTIAL_INVALID")


@dataclass(frozen=True)
class Snapshot:
    """The state at the start, with prefixed keys, and the sequence of the session's newest event."""

    state: dict[str, Any]
    last_sequence: int
    cursor: str


@dataclass(frozen=True)
class Appended:
    """An event of the session, with its sequence and its commit time on the server's clock (seconds since 1970).

    `rewind_to_sequence` is set on the marker of a rewind: the last event that stays visible. `rewound`: hidden from
    `get_session` when the server read it, by a rewind or as the marker of one.
    """

    event: Event
    sequence: int
    commit_time: float
    cursor: str
    rewind_to_sequence: int | None = None
    rewound: bool = False


@dataclass(frozen=True)
class Changed:
    """A change of user or application state by another session or by `update_state`: new values and removed keys."""

    values: dict[str, Any]
    removed: tuple[str, ...]
    commit_time: float
    cursor: str


@dataclass(frozen=True)
class CaughtUp:
    """Everything that was stored before the watch has been delivered. Comes once."""

    cursor: str


@dataclass(frozen=True)
class Deleted:
    """The session was deleted or has expired. The watch ends."""

    cursor: str


WatchItem = Snapshot | Appended | Changed | CaughtUp | Deleted


class Watch:
    """An async iterator over `WatchItem`s: every event once, in order; of wider scopes at least the newest values.

    When the connection breaks, the stream or its credential ends, or the server restarts, the watch resumes after its
    last item, without gap or repetition. It ends after `Deleted`, when the watch or the service is closed, or with an
    error: SessionNotFoundError, SessiondInvalidError (BAD_CURSOR), CURSOR_OF_OTHER_STORE, or SessiondUnavailableError
    if the server is away for `reconnect_seconds`. Another watch can resume at `cursor`.

    Use it from one task at a time. Cancelling `__anext__`, for example by a timeout, loses nothing.
    """

    def __init__(
        self, client: Client, scope: types_pb2.Scope, cursor: str, start: Start, *, reconnect_seconds: float
    ) -> None:
        """Connects when the first item is requested."""
        if start not in _STARTS:
            raise ValueError(f"start is {start!r}. It must be one of {', '.join(_STARTS)}.")
        self._client = client
        self._scope = scope
        self._cursor = cursor
        self._start = start
        self._reconnect_seconds = reconnect_seconds
        self._channel: WatchChannel | None = None
        self._call: aio.UnaryStreamCall[Any, watch_service_pb2.WatchResponse] | None = None
        self._stopped = asyncio.Event()
        # Whether the current stream has sent a message.
        self._received = False
        self._caught_up = False
        self._failed = 0
        self._failing_since = 0.0

    @property
    def cursor(self) -> str:
        """The position right after the last item; "" before the first."""
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchItem:
        while not self._stopped.is_set():
            try:
                message = await self._next_message()
            except aio.AioRpcError as error:
                self._call = None
                await self._back_off(error)
                continue
            if message is None:
                break
            self._received = True
            self._failed = 0
            self._client.outage.succeeded()
            if message.HasField("snapshot"):
                await self._complete(message.snapshot)
            # A message without a cursor leaves the position where it was.
            self._cursor = message.cursor or self._cursor
            item = _decode(message, self._cursor)
            if isinstance(item, Deleted):
                self.stop()
            if isinstance(item, CaughtUp):
                # The server sends it once per stream; the caller gets it once.
                item = None if self._caught_up else item
                self._caught_up = True
            if item is not None:
                return item
        self.stop()
        raise StopAsyncIteration

    async def _next_message(self) -> watch_service_pb2.WatchResponse | None:
        """Returns the next message, opening a stream if needed. None if the watch is over.

        Raises:
          grpc.aio.AioRpcError: the stream broke or ended, or was silent for too long.
        """
        task = asyncio.current_task()
        cancellations = task.cancelling() if task else 0
        try:
            seconds = IDLE_SECONDS
            if self._call is None:
                self._call = self._open()
                seconds = self._client.timeout_seconds
            async with asyncio.timeout(seconds):
                message = await self._call.read()
        except TimeoutError:
            self._cancel_call()
            raise _connection_lost(f"The watch received nothing for {seconds} seconds.") from None
        except asyncio.CancelledError:
            # Either the caller was cancelled, or `stop` has cancelled the stream. A message that is lost with the
            # stream comes again with the next one.
            self._cancel_call()
            if self._stopped.is_set() and (task is None or task.cancelling() == cancellations):
                return None
            raise
        except aio.UsageError:
            # The service was closed between two items.
            return None
        if isinstance(message, watch_service_pb2.WatchResponse):
            return message
        if self._stopped.is_set():
            return None
        # Only `Deleted` ends a watch. A proxy may end a stream without it.
        raise _connection_lost("The watch ended before its session did.")

    async def _complete(self, snapshot: watch_service_pb2.StateSnapshot) -> None:
        """Adds the state that did not fit into the message, and warns of damaged keys.

        The state may be newer than the message. Changes that it has already come again.
        """
        self._client.warn_of_damage(self._scope, snapshot.damaged_keys)
        if not snapshot.state_omitted:
            return
        try:
            state = await read_state(self._client, self._scope)
        except BaseException:
            # The snapshot comes again with the next stream.
            self._cancel_call()
            raise
        snapshot.state_json = join_object({key: item.text for key, item in state.items()})

    def _open(self) -> aio.UnaryStreamCall[Any, watch_service_pb2.WatchResponse]:
        self._received = False
        connection = self._client.connections.current()
        self._channel = self._channel or connection.watch_channel()
        self._channel.watches.add(self)
        request = watch_service_pb2.WatchRequest(
            scope=self._scope, cursor=self._cursor, start=_STARTS[self._start], json_form=TEXT
        )
        return self._channel.stub.Watch(request, metadata=tuple(connection.metadata(request)))

    async def _back_off(self, failure: aio.AioRpcError) -> None:
        """Waits before the next attempt, or raises the error that ends the watch."""
        status = errors.parse_status(failure)
        now = asyncio.get_running_loop().time()
        if self._failed == 0:
            self._failing_since = now
        self._failed += 1
        # The server had accepted the credential, and there may be a new one. One that is refused at once is wrong.
        replaceable = self._received and status.reason in _CREDENTIAL_ENDED
        if (status.retryable == "no" and not replaceable) or now - self._failing_since >= self._reconnect_seconds:
            self.stop()
            advised = errors.with_advice(status, self._client.target, self._reconnect_seconds)
            raise errors.from_status(advised, self._failed) from failure
        if status.reason == "DRAINING":
            self._cursor = status.metadata.get("cursor") or self._cursor
        delay = self._client.retry.delay_seconds(self._failed, status.retry_after_seconds)
        self._client.outage.retrying(status)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), delay)

    def stop(self) -> None:
        """Ends the watch, and a pending `__anext__`. Must be called on the watch's event loop."""
        self._stopped.set()
        self._cancel_call()
        if self._channel is not None:
            self._channel.watches.discard(self)
            self._channel = None

    def _cancel_call(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    async def aclose(self) -> None:
        """Ends the watch."""
        self.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _connection_lost(message: str) -> aio.AioRpcError:
    """The error of a lost connection, for cases in which grpc.aio raises none."""
    nothing = aio.Metadata()
    return aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, message)


def _decode(message: watch_service_pb2.WatchResponse, cursor: str) -> WatchItem | None:
    """The item of a message; None for a heartbeat, and for kinds that a newer server may add."""
    kind = message.WhichOneof("kind")
    if kind == "snapshot":
        snapshot = message.snapshot
        return Snapshot(json.loads(snapshot.state_json or "{}"), snapshot.last_sequence, cursor)
    if kind == "event":
        stored = message.event
        commit_time = to_seconds(stored.commit_time.ToNanoseconds())
        event, rewind = decode_event(stored), rewind_of(stored)
        return Appended(event, stored.sequence, commit_time, cursor, rewind, stored.rewound)
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
