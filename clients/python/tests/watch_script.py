"""A server that watches by a script, for what the real one does not do by itself: streams that end without a reason,
messages without a cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode, aio

from sessiond_adk._proto import watch_service_pb2
from sessiond_adk._proto.watch_service_pb2_grpc import WatchServiceServicer, add_WatchServiceServicer_to_server

Message = watch_service_pb2.WatchResponse


def caught_up(cursor: str) -> Message:
    """The watch is live."""
    return Message(caught_up=watch_service_pb2.CaughtUp(), cursor=cursor)


def appended(sequence: int, cursor: str) -> Message:
    """An event of this sequence."""
    message = Message(cursor=cursor)
    message.event.sequence = sequence
    message.event.event_id = f"e{sequence}"
    return message


def deleted(cursor: str) -> Message:
    """The session is gone."""
    return Message(session_deleted=watch_service_pb2.SessionDeleted(), cursor=cursor)


def heartbeat() -> Message:
    """The watch is alive; says nothing of where it stands."""
    return Message(heartbeat=watch_service_pb2.Heartbeat())


def draining(cursor: str | None) -> bytes:
    """The details of the status that ends a stream when the server stops; with None they hold no cursor."""
    info = error_details_pb2.ErrorInfo(domain="sessiond", reason="DRAINING")
    if cursor is not None:
        info.metadata["cursor"] = cursor
    packed = any_pb2.Any()
    packed.Pack(info)
    details: bytes = status_pb2.Status(code=14, message="stops", details=[packed]).SerializeToString()
    return details


class ScriptedWatch(WatchServiceServicer):
    """Says in each stream what the script says: messages, then the end, with details of an UNAVAILABLE or without.

    Behind the script every stream ends at once.
    """

    def __init__(self, *streams: Sequence[Message | bytes]) -> None:
        """The streams in turn."""
        self._streams = list(streams)
        self.cursors: list[str] = []
        self.address = ""

    async def Watch(
        self, request: watch_service_pb2.WatchRequest, context: aio.ServicerContext[object, object]
    ) -> AsyncIterator[Message]:
        """The next stream of the script."""
        self.cursors.append(request.cursor)
        for item in self._streams.pop(0) if self._streams else []:
            if isinstance(item, bytes):
                await context.abort(StatusCode.UNAVAILABLE, "stops", (("grpc-status-details-bin", item),))
            else:
                yield item

    async def __aenter__(self) -> ScriptedWatch:
        """Listens."""
        self._server = aio.server()
        add_WatchServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends what is left."""
        await self._server.stop(None)
