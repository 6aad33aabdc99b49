"""A server that keeps the metadata of its calls and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from grpc import aio
from support import KEY

from sessiond_adk import SessiondSessionService
from sessiond_adk.proto import (
    session_service_pb2,
    session_service_pb2_grpc,
    watch_service_pb2,
    watch_service_pb2_grpc,
)


class Recorder(session_service_pb2_grpc.SessionServiceServicer, watch_service_pb2_grpc.WatchServiceServicer):
    """Has no sessions, and ends every watch at once."""

    def __init__(self, listen: str = "127.0.0.1:0") -> None:
        self._listen = listen
        self.seen: list[dict[str, Any]] = []

    async def __aenter__(self) -> Recorder:
        self._server = aio.server()
        session_service_pb2_grpc.add_SessionServiceServicer_to_server(self, self._server)
        watch_service_pb2_grpc.add_WatchServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(self._listen)
        self.address = self._listen.replace(":0", f":{port}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    def _record(self, context: aio.ServicerContext[Any, Any]) -> None:
        self.seen.append(dict(context.invocation_metadata() or ()))

    async def ListSessions(
        self, request: session_service_pb2.ListSessionsRequest, context: aio.ServicerContext[Any, Any]
    ) -> session_service_pb2.ListSessionsResponse:
        self._record(context)
        return session_service_pb2.ListSessionsResponse()

    async def Watch(
        self, request: watch_service_pb2.WatchRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[watch_service_pb2.WatchResponse]:
        self._record(context)
        yield watch_service_pb2.WatchResponse(session_deleted=watch_service_pb2.SessionDeleted(), cursor="c")

    def tokens(self) -> list[Any]:
        return [metadata.get("authorization") for metadata in self.seen]


def recorder(listen: str = "127.0.0.1:0") -> Recorder:
    # Only the stubs of the types are abstract.
    return Recorder(listen)  # type: ignore[abstract]


async def call_and_watch(service: SessiondSessionService) -> None:
    await service.list_sessions(app_name="app")
    assert [type(item).__name__ async for item in service.watch(**KEY)] == ["Deleted"]
