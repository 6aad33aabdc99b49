"""A TCP proxy in front of the server that loses responses and cuts connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

Meanwhile = Callable[[], Awaitable[None]]

_HEADERS = 1
_PING = 6


class Proxy:
    """Forwards bytes between clients and a server, and counts connections."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._losing = 0
        self._meanwhile: Meanwhile | None = None
        self._dead: set[asyncio.StreamReader] = set()
        self._sources: set[asyncio.StreamReader] = set()
        self.connections = 0
        self.pings = 0
        self.lost = 0
        self.address = ""

    @property
    def open_connections(self) -> int:
        # One task for each direction.
        return len(self._tasks) // 2

    async def __aenter__(self) -> Proxy:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose_responses(self, count: int, meanwhile: Meanwhile | None = None) -> None:
        """Loses the next `count` responses, each with its connection, after the server has applied the calls.

        `meanwhile` runs after the server's response and before the connection is cut.
        """
        self._losing = count
        self._meanwhile = meanwhile

    def cut(self) -> None:
        for writer in self._writers:
            # close() would send what is still buffered.
            with suppress(RuntimeError):
                writer.transport.abort()
        self._writers.clear()

    def lose_everything(self) -> None:
        """Forwards nothing more on the present connections, which stay open."""
        self._dead |= self._sources

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        host, _, port = self._server.rpartition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, server_writer)
        self._writers += pair
        self._sources |= {reader, server_reader}
        for source, sink, from_server in ((reader, server_writer, False), (server_reader, writer, True)):
            task = asyncio.create_task(self._forward(source, sink, pair, from_server))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        from_server: bool,
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if not from_server:
                    self.pings += _frames(data).count(_PING)
                if source in self._dead:
                    continue
                if from_server and self._losing and _HEADERS in _frames(data):
                    self._losing -= 1
                    self.lost += 1
                    if self._meanwhile is not None:
                        await self._meanwhile()
                    break
                sink.write(data)
                await sink.drain()
        for writer in pair:
            writer.transport.abort()


def _frames(data: bytes) -> list[int]:
    """The types of the HTTP/2 frames, without acknowledgements. Only a HEADERS frame of a server begins a response."""
    kinds = []
    while len(data) >= 9:
        length, kind, flags = int.from_bytes(data[:3]), data[3], data[4]
        if kind != _PING or not flags & 1:
            kinds.append(kind)
        data = data[9 + length :]
    return kinds
