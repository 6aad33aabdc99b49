"""A TCP proxy before the server, which loses what tests want lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

Meanwhile = Callable[[], Awaitable[None]]


class Proxy:
    """Passes bytes between clients and a server, and counts connections.

    `lose_answers()` cuts each connection at the first answer to a call that follows: the server has carried the call
    out, and the client never hears of it.
    """

    def __init__(self, server: str) -> None:
        """Before the server at HOST:PORT."""
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._losing = 0
        self._meanwhile: Meanwhile | None = None
        self.connections = 0
        self.lost = 0
        self.address = ""

    async def __aenter__(self) -> Proxy:
        """Listens."""
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._listener.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes everything."""
        self._listener.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def lose_answers(self, count: int, meanwhile: Meanwhile | None = None) -> None:
        """Loses the next `count` answers, each with its connection.

        `meanwhile` happens behind the server's answer and before the client can see that the connection is lost.
        """
        self._losing = count
        self._meanwhile = meanwhile

    def cut(self) -> None:
        """Cuts every connection now."""
        for writer in self._writers:
            # Not close(), which would send what is still buffered.
            with suppress(RuntimeError):
                writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        host, _, port = self._server.rpartition(":")
        try:
            server_reader, server_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        both = (writer, server_writer)
        self._writers += both
        for source, sink, answers in ((reader, server_writer, False), (server_reader, writer, True)):
            task = asyncio.create_task(self._pass(source, sink, both, answers))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
        answers: bool,
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if answers and self._losing and _answers_a_call(data):
                    self._losing -= 1
                    self.lost += 1
                    if self._meanwhile is not None:
                        await self._meanwhile()
                    break
                sink.write(data)
                await sink.drain()
        for writer in both:
            writer.transport.abort()


def _answers_a_call(data: bytes) -> bool:
    """Whether HTTP/2 frames of a server begin an answer: a HEADERS frame. The others belong to the connection."""
    while len(data) >= 9:
        length, kind = int.from_bytes(data[:3]), data[3]
        if kind == 1:
            return True
        data = data[9 + length :]
    return False
