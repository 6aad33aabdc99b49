"""gRPC channels, one per event loop, and further ones for many watches.

A grpc.aio channel belongs to the loop that it was created on, and ADK runs agents on several: `Runner.run` starts a
thread with its own loop, and test runners create one per test. Every loop therefore gets a channel at its first call.
Channels of closed loops are dropped.

A channel has one connection, on which the server allows 256 streams. gRPC would let a watch beyond them wait in
silence, so a loop with more than 200 watches gets further channels.

A process that is forked while a channel exists cannot use grpc.aio: its threads are gone, and every call would hang.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import grpc
from grpc import aio

from . import errors
from ._proto.event_service_pb2_grpc import EventServiceStub
from ._proto.session_service_pb2_grpc import SessionServiceStub
from ._proto.state_service_pb2_grpc import StateServiceStub
from ._proto.watch_service_pb2_grpc import WatchServiceStub
from .metadata import CallMetadata

ChannelOptions = Sequence[tuple[str, Any]]
# Makes a channel for the running event loop, with a connection of its own.
Connect = Callable[[], aio.Channel]

DEFAULT_OPTIONS: ChannelOptions = (
    # A sidecar restarts quickly. With gRPC's own backoff (1 s to 2 minutes) the channel would stay down long after the
    # server is back.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name, the timeout of one attempt to connect.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # retry.py does the retries, as it knows which calls may be sent again.
    ("grpc.enable_retries", 0),
    # Otherwise the channels of one process to one target share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
    # A connection with calls in flight is pinged after this long without data, and closed if it stays silent as long
    # again.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # The same for the pings by which gRPC measures the bandwidth: no other is sent until they are answered.
    ("grpc.http2.ping_timeout_ms", 20_000),
    # Otherwise a watch, which sends nothing after its request, is pinged twice only.
    ("grpc.http2.max_pings_without_data", 0),
    # The server is local; HTTP proxies of the environment are meant for other hosts.
    ("grpc.enable_http_proxy", 0),
)

# An open watch takes one of the 256 streams of a connection. The rest is for the unary calls on the first channel.
WATCHES_PER_CHANNEL = 200

# gRPC sends the path of a socket as the authority, which the server's HTTP/2 rejects as malformed.
UNIX_OPTIONS: ChannelOptions = (("grpc.default_authority", "localhost"),)


def connect_to(
    target: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions
) -> Callable[[], aio.Channel]:
    """Makes channels to `target`, with TLS if there are credentials. `options` override the defaults."""
    defaults = [*DEFAULT_OPTIONS, *UNIX_OPTIONS] if target.startswith("unix:") else DEFAULT_OPTIONS
    # gRPC would use the first of two options with the same name.
    merged = list(dict([*defaults, *options]).items())

    def connect() -> aio.Channel:
        if credentials is None:
            return aio.insecure_channel(target, options=merged)
        return aio.secure_channel(target, credentials, options=merged)

    return connect


class Stoppable(Protocol):
    """A reader of a channel that can be stopped."""

    def stop(self) -> None:
        """Stops reading. Idempotent; to be called on the channel's loop."""


class WatchChannel:
    """A channel and the watches that read from it, which keep it alive: grpc.aio closes a channel that is dropped."""

    def __init__(self, channel: aio.Channel) -> None:
        self.channel = channel
        self.stub = WatchServiceStub(channel)
        self.watches: weakref.WeakSet[Stoppable] = weakref.WeakSet()


class Stubs:
    """The generated stubs of a channel: `sessions`, `events`, `state` and `watch`."""

    def __init__(self, channel: aio.Channel) -> None:
        self.sessions = SessionServiceStub(channel)
        self.events = EventServiceStub(channel)
        self.state = StateServiceStub(channel)
        self.watch = WatchServiceStub(channel)


# The connections of this process, or of the one that it was forked from. With the last channel, grpc.aio ends its
# threads.
_existing: weakref.WeakSet[Connection] = weakref.WeakSet()
_process_id = 0


def _is_forked() -> bool:
    """Whether the existing connections are those of another process."""
    global _process_id
    if not _existing:
        _process_id = os.getpid()
    return _process_id != os.getpid()


class Connection(Stubs):
    """The channels of one loop, the stubs of the first one, and the watches. Connects at the first call."""

    def __init__(self, connect: Connect, metadata: CallMetadata) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        # Called for each attempt.
        self.metadata = metadata
        self._connect = connect
        self._first = WatchChannel(connect())
        self._channels = weakref.WeakSet([self._first])
        super().__init__(self._first.channel)
        _existing.add(self)

    @property
    def watches(self) -> list[Stoppable]:
        """The watches that have begun and not ended."""
        return [watch for channel in self._channels for watch in channel.watches]

    def watch_channel(self) -> WatchChannel:
        """A channel for one more watch: the fullest that takes one, so that others empty and close, or a new one."""
        free = [channel for channel in self._channels if len(channel.watches) < WATCHES_PER_CHANNEL]
        if free:
            return max(free, key=lambda channel: len(channel.watches))
        further = WatchChannel(self._connect())
        self._channels.add(further)
        return further

    async def close(self, grace_seconds: float) -> None:
        """Stops the watches, waits up to `grace_seconds` for in-flight calls, and closes the channels."""
        for watch in self.watches:
            watch.stop()
        await self._first.channel.close(grace=grace_seconds)

    async def invoke(self, method: Callable[..., Awaitable[Any]], request: object, timeout_seconds: float) -> Any:
        """Calls a stub's method once.

        Raises:
          grpc.aio.AioRpcError: the call failed.
          SessiondClosedError: closing the service cut the call off. grpc.aio reports that as a cancellation.
        """
        task = asyncio.current_task()
        cancellations = task.cancelling() if task else 0
        try:
            return await method(request, timeout=timeout_seconds, metadata=tuple(self.metadata(request)))
        except asyncio.CancelledError:
            if not self.closed or (task is not None and task.cancelling() > cancellations):
                raise
            raise errors.service_closed() from None
        except aio.UsageError:
            # The channel was closed after `current` returned this connection.
            raise errors.service_closed() from None


class Connections:
    """The connections of all loops to one server. Thread-safe."""

    def __init__(self, connect: Connect, metadata: CallMetadata) -> None:
        self._connect = connect
        self._metadata = metadata
        self._guard = threading.Lock()
        self._by_loop: dict[int, Connection] = {}

    def current(self) -> Connection:
        """The connection of the running loop. Created on first use.

        Raises:
          RuntimeError: the process was forked from one that had a connection.
        """
        loop = asyncio.get_running_loop()
        if _is_forked():
            raise RuntimeError(
                f"Process {os.getpid()} was forked from process {_process_id}, which had an open service, and gRPC does"
                " not survive that. Close the service before the fork, or start processes with spawn."
            )
        with self._guard:
            connection = self._by_loop.get(id(loop))
            # A new loop can have the id of one that is gone. The old connection does not work on it.
            if connection is not None and connection.loop is loop:
                return connection
            self._drop_closed_loops()
            connection = self._by_loop[id(loop)] = Connection(self._connect, self._metadata)
            return connection

    def _drop_closed_loops(self) -> None:
        for key, connection in list(self._by_loop.items()):
            if connection.loop.is_closed():
                del self._by_loop[key]

    async def close(self, grace_seconds: float) -> None:
        """Closes the connections of all loops that run. A connection can only be closed on its own loop.

        In a forked process there is nothing to close: the connections are the parent's.
        """
        if _is_forked():
            return
        with self._guard:
            connections = list(self._by_loop.values())
            self._by_loop.clear()
        current_loop = asyncio.get_running_loop()
        for connection in connections:
            connection.closed = True
            if connection.loop is current_loop:
                await connection.close(grace_seconds)
            elif connection.loop.is_running():
                await _close_on_own_loop(connection, grace_seconds)

    def __len__(self) -> int:
        return len(self._by_loop)


async def _close_on_own_loop(connection: Connection, grace_seconds: float) -> None:
    """Closes the connection of another thread's loop. That loop may end at any moment and then never responds."""
    closing = connection.close(grace_seconds)
    try:
        closed = asyncio.run_coroutine_threadsafe(closing, connection.loop)
    except RuntimeError:
        # The loop has just been closed, and its connections with it.
        closing.close()
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(closed), grace_seconds + 1.0)
