"""An OTLP collector for tests: it keeps the spans that it receives over gRPC."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
# The part of OTLP that the test reads: message -> field -> number and type.
MESSAGES = {
    "Span": {"trace_id": (1, bytes), "span_id": (2, bytes), "parent_span_id": (4, bytes), "name": (5, str)},
    "ScopeSpans": {"spans": (2, "Span")},
    "ResourceSpans": {"scope_spans": (2, "ScopeSpans")},
    "Request": {"resource_spans": (1, "ResourceSpans")},
}


@dataclass(frozen=True)
class Span:
    """A span with its ids as hexadecimal digits."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str


@dataclass
class Collector:
    """The address of a running collector, and what it has received."""

    address: str
    spans: list[Span] = field(default_factory=list)


def message_class() -> type:
    """The class of an ExportTraceServiceRequest. Fields that are not in `MESSAGES` are ignored."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="collector.proto", package="collector", syntax="proto3")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, of) in fields.items():
            if isinstance(of, str):
                described.field.add(
                    name=name,
                    number=number,
                    type=kind.TYPE_MESSAGE,
                    label=kind.LABEL_REPEATED,
                    type_name=f".collector.{of}",
                )
            else:
                scalar = kind.TYPE_BYTES if of is bytes else kind.TYPE_STRING
                described.field.add(name=name, number=number, type=scalar, label=kind.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("collector.Request"))


@contextmanager
def collector() -> Iterator[Collector]:
    """Runs a collector on a free port."""
    request_class = message_class()
    server = grpc.server(futures.ThreadPoolExecutor(1))
    running = Collector(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")

    def export(request: bytes, _: grpc.ServicerContext) -> bytes:
        for resource in request_class.FromString(request).resource_spans:
            for scope in resource.scope_spans:
                running.spans += [
                    Span(span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name)
                    for span in scope.spans
                ]
        # An empty response.
        return b""

    handler = grpc.unary_unary_rpc_method_handler(export)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": handler}),))
    server.start()
    try:
        yield running
    finally:
        server.stop(None).wait()
