"""Channels to the server, one for each event loop.

A channel of grpc.aio belongs to the loop that it was made on. The kit runs agents on several: `Runner.run` starts a
thread with a loop of its own, test runners make one for each test. So every loop gets a channel when it first needs
one, and those of loops that have been closed are forgotten.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from grpc import aio

from . import errors
from ._proto.event_service_pb2_grpc import EventServiceStub
from ._proto.session_service_pb2_grpc import SessionServiceStub
from ._proto.state_service_pb2_grpc import StateServiceStub
from ._proto.watch_service_pb2_grpc import WatchServiceStub

ChannelOptions = Sequence[tuple[str, Any]]

# A sidecar restarts within moments: gRPC's own pace (1 s at first, 2 minutes at most) would keep a channel failing for
# long after the server is back, whatever the retries above it do.
DEFAULT_OPTIONS: ChannelOptions = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    # How long an attempt to connect may take, whatever its name says.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Retries are this package's own, which knows what it may repeat.
    ("grpc.enable_retries", 0),
    # Without this, channels of one process to one target share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
    # The server is beside the agent; a proxy set for the way outside is not meant for it.
    ("grpc.enable_http_proxy", 0),
)


# gRPC names the path of a socket as the authority of a call, which the server's HTTP/2 refuses as malformed.
UNIX_OPTIONS: ChannelOptions = (("grpc.default_authority", "localhost"),)


class Stoppable(Protocol):
    """Something that reads from a channel until it is stopped."""

    def stop(self) -> None:
        """Ends the reading; may be called more than once, on the loop of the channel only."""


class Connection:
    """One loop's channel, its stubs, and the watches that read from it."""

    def __init__(self, target: str, options: ChannelOptions) -> None:
        """Opens a channel on the running loop; connecting waits for the first call."""
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self.watches: weakref.WeakSet[Stoppable] = weakref.WeakSet()
        own = [*DEFAULT_OPTIONS, *UNIX_OPTIONS] if target.startswith("unix:") else DEFAULT_OPTIONS
        self._channel = aio.insecure_channel(target, options=[*own, *options])
        self.sessions = SessionServiceStub(self._channel)
        self.events = EventServiceStub(self._channel)
        self.state = StateServiceStub(self._channel)
        self.watch = WatchServiceStub(self._channel)

    async def close(self, grace_seconds: float) -> None:
        """Stops the watches, lets calls finish for `grace_seconds`, and closes the channel."""
        for watch in list(self.watches):
            watch.stop()
        await self._channel.close(grace=grace_seconds)

    async def invoke(self, method: Callable[..., Awaitable[Any]], request: object, timeout_seconds: float) -> Any:
        """One call of a stub's method.

        Raises:
          grpc.aio.AioRpcError: it failed.
          SessiondClosedError: closing the service cut it off, which grpc.aio tells by a cancellation that nobody asked
            for.
        """
        task = asyncio.current_task()
        asked_before = task.cancelling() if task else 0
        try:
            return await method(request, timeout=timeout_seconds)
        except asyncio.CancelledError:
            if not self.closed or (task is not None and task.cancelling() > asked_before):
                raise
            raise errors.closed() from None
        except aio.UsageError:
            # The channel was closed between being looked up and being used.
            raise errors.closed() from None


class Connections:
    """The connections of all loops to one target. Safe to use from several threads."""

    def __init__(self, target: str, options: ChannelOptions) -> None:
        """Opens nothing yet."""
        self._target = target
        self._options = options
        self._guard = threading.Lock()
        self._by_loop: dict[int, Connection] = {}

    def here(self) -> Connection:
        """The connection of the running loop, made when it is first asked for."""
        loop = asyncio.get_running_loop()
        with self._guard:
            found = self._by_loop.get(id(loop))
            # An id may be that of an earlier loop, which is gone; its connection is of no use to this one.
            if found is not None and found.loop is loop:
                return found
            self._forget_closed_loops()
            made = self._by_loop[id(loop)] = Connection(self._target, self._options)
            return made

    def _forget_closed_loops(self) -> None:
        for key, connection in list(self._by_loop.items()):
            if connection.loop.is_closed():
                del self._by_loop[key]

    async def close(self, grace_seconds: float) -> None:
        """Closes what every loop has open. A loop that runs elsewhere closes its own; one that stands still cannot."""
        with self._guard:
            connections = list(self._by_loop.values())
            self._by_loop.clear()
        here = asyncio.get_running_loop()
        for connection in connections:
            connection.closed = True
            if connection.loop is here:
                await connection.close(grace_seconds)
            elif connection.loop.is_running():
                await _close_elsewhere(connection, grace_seconds)

    def __len__(self) -> int:
        """How many loops have a connection."""
        return len(self._by_loop)


async def _close_elsewhere(connection: Connection, grace_seconds: float) -> None:
    """Closes a connection on its own loop, in another thread, which may end at any moment and then never answers."""
    closing = connection.close(grace_seconds)
    try:
        closed = asyncio.run_coroutine_threadsafe(closing, connection.loop)
    except RuntimeError:
        # The loop was closed just now, and what it had open with it.
        closing.close()
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(closed), grace_seconds + 1.0)
