"""A gRPC proxy in front of the server that fails as a test says, and counts the calls."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

DETAILS = "grpc-status-details-bin"


@dataclass(frozen=True)
class Fault:
    """How one call fails. Without a reason, as the transport fails."""

    code: grpc.StatusCode
    reason: str = ""
    retryable: str = ""
    retry_delay_ms: int = 0
    # Whether the server applies the call before.
    applied: bool = False
    # Messages of a stream that arrive before.
    after_messages: int = 0

    def details(self) -> tuple[tuple[str, bytes], ...]:
        """The trailers of the status."""
        if not self.reason:
            return ()
        info = error_details_pb2.ErrorInfo(domain="sessiond", reason=self.reason)
        info.metadata["retryable"] = self.retryable
        status = status_pb2.Status(code=self.code.value[0], message="a fault", details=[packed(info)])
        if self.retry_delay_ms:
            delay = duration_pb2.Duration(nanos=self.retry_delay_ms * 1_000_000)
            status.details.append(packed(error_details_pb2.RetryInfo(retry_delay=delay)))
        return ((DETAILS, status.SerializeToString()),)


def packed(message: object) -> any_pb2.Any:
    """A detail of a status."""
    detail = any_pb2.Any()
    detail.Pack(message)
    return detail


class FaultyProxy(grpc.GenericRpcHandler):
    """Forwards every call of the contract. The faults of a method apply to its next calls, one each."""

    def __init__(self, server: str, **faults: list[Fault]) -> None:
        self._channel = grpc.insecure_channel(server)
        self._faults = {method: deque(planned) for method, planned in faults.items()}
        self._lock = threading.Lock()
        # When each method was called, on the monotonic clock.
        self.calls: dict[str, list[float]] = defaultdict(list)

    def __enter__(self) -> Self:
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=[self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._channel.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """The handler of a call, on messages as bytes."""
        path = handler_call_details.method
        if path.endswith("/Watch"):
            return grpc.unary_stream_rpc_method_handler(partial(self._stream, path))
        return grpc.unary_unary_rpc_method_handler(partial(self._unary, path))

    def _begin(self, path: str) -> Fault | None:
        method = path.rpartition("/")[2]
        with self._lock:
            self.calls[method].append(time.monotonic())
            planned = self._faults.get(method)
            return planned.popleft() if planned else None

    def _unary(self, path: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        fault = self._begin(path)
        try:
            if fault is None or fault.applied:
                response: bytes = self._channel.unary_unary(path)(request, timeout=60)
        except grpc.RpcError as error:
            pass_on(error, context)
        if fault is not None:
            context.set_trailing_metadata(fault.details())
            context.abort(fault.code, "a fault")
        return response

    def _stream(self, path: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        fault = self._begin(path)
        messages = self._channel.unary_stream(path)(request)
        context.add_callback(messages.cancel)
        try:
            for index, message in enumerate(messages):
                if fault is not None and index == fault.after_messages:
                    context.set_trailing_metadata(fault.details())
                    context.abort(fault.code, "a fault")
                yield message
        except grpc.RpcError as error:
            pass_on(error, context)


def pass_on(error: grpc.RpcError, context: grpc.ServicerContext) -> None:
    """Fails as the server did."""
    trailers = [(key, value) for key, value in error.trailing_metadata() or () if key == DETAILS]
    context.set_trailing_metadata(trailers)
    context.abort(error.code(), error.details())
