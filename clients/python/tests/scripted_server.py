"""Servers that follow a script, for what the real one does not do on request: statuses, streams that end early,
messages without a cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode, aio

from sessiond_adk._proto import state_service_pb2, watch_service_pb2
from sessiond_adk._proto.state_service_pb2_grpc import StateServiceServicer, add_StateServiceServicer_to_server
from sessiond_adk._proto.watch_service_pb2_grpc import WatchServiceServicer, add_WatchServiceServicer_to_server

Message = watch_service_pb2.WatchResponse
Failure = tuple[grpc.StatusCode, bytes | None]


def status_details(
    code: grpc.StatusCode,
    reason: str = "",
    retryable: str | None = None,
    *,
    retry_after: float | None = None,
    domain: str = "sessiond",
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """The encoded details of a status: ErrorInfo if there is a reason, RetryInfo if there is a delay in seconds."""
    details: list[any_pb2.Any] = []

    def add(message: Any) -> None:
        packed = any_pb2.Any()
        packed.Pack(message)
        details.append(packed)

    if reason:
        info = error_details_pb2.ErrorInfo(domain=domain, reason=reason, metadata=metadata)
        if retryable is not None:
            info.metadata["retryable"] = retryable
        add(info)
    if retry_after is not None:
        delay = duration_pb2.Duration(seconds=int(retry_after), nanos=round(retry_after % 1 * 1e9))
        add(error_details_pb2.RetryInfo(retry_delay=delay))
    encoded: bytes = status_pb2.Status(code=code.value[0], message="why", details=details).SerializeToString()
    return encoded


async def abort(context: aio.ServicerContext[Any, Any], code: grpc.StatusCode, details: bytes | None) -> None:
    await context.abort(code, "why", () if details is None else (("grpc-status-details-bin", details),))


class Scripted:
    """A gRPC server with one service on a free port."""

    _register: Callable[[Any, aio.Server], None]

    async def __aenter__(self) -> Self:
        self._server = aio.server()
        type(self)._register(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)


class ScriptedState(Scripted, StateServiceServicer):
    """Fails as the script says, one failure per request, and then returns the delta's own values as the state."""

    _register = staticmethod(add_StateServiceServicer_to_server)

    def __init__(self, *failures: Failure) -> None:
        self._failures = list(failures)
        self.request_ids: list[str] = []

    async def UpdateState(
        self, request: state_service_pb2.UpdateStateRequest, context: aio.ServicerContext[Any, Any]
    ) -> state_service_pb2.UpdateStateResponse:
        self.request_ids.append(request.request_id)
        if self._failures:
            await abort(context, *self._failures.pop(0))
        return state_service_pb2.UpdateStateResponse(state_json=request.delta.set_json)


def caught_up(cursor: str) -> Message:
    return Message(caught_up=watch_service_pb2.CaughtUp(), cursor=cursor)


def appended(sequence: int, cursor: str) -> Message:
    message = Message(cursor=cursor)
    message.event.sequence = sequence
    message.event.event_id = f"e{sequence}"
    return message


def deleted(cursor: str) -> Message:
    return Message(session_deleted=watch_service_pb2.SessionDeleted(), cursor=cursor)


def heartbeat() -> Message:
    return Message(heartbeat=watch_service_pb2.Heartbeat())


def draining(cursor: str | None) -> Failure:
    """What ends a stream when the server drains; None: without a cursor."""
    metadata = {} if cursor is None else {"cursor": cursor}
    return StatusCode.UNAVAILABLE, status_details(StatusCode.UNAVAILABLE, "DRAINING", "yes", metadata=metadata)


class ScriptedWatch(Scripted, WatchServiceServicer):
    """Sends the messages of the script, one sequence per stream. A failure ends its stream.

    After the script, every stream ends at once.
    """

    _register = staticmethod(add_WatchServiceServicer_to_server)

    def __init__(self, *streams: Sequence[Message | Failure]) -> None:
        self._streams = list(streams)
        self.cursors: list[str] = []
        self.tokens: list[str | bytes | None] = []

    async def Watch(
        self, request: watch_service_pb2.WatchRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Message]:
        self.cursors.append(request.cursor)
        self.tokens.append(dict(context.invocation_metadata() or ()).get("authorization"))
        for item in self._streams.pop(0) if self._streams else []:
            if isinstance(item, Message):
                yield item
            else:
                await abort(context, *item)
