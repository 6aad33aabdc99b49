"""A turn of a Python agent is one trace: from the ADK's own spans over the calls of the adapter down to the flush."""

import asyncio
import importlib.util
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from collector import Span, collector
from test_together import APP, ENVIRONMENT, SERVER, SESSION, TIMEOUT_SECS, USER, sessiond

AGENT = Path(__file__).resolve().parents[2] / "clients/python/examples/together.py"
APPEND = "sessiond.v1.EventService/AppendEvent"


@pytest.fixture
def agent() -> Iterator[ModuleType]:
    """The program of the Python agent, as a module."""
    spec = importlib.util.spec_from_file_location("agent", AGENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["agent"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["agent"]


def path_to(span: Span, spans: dict[str, Span]) -> list[str]:
    """The names of the spans from the root down to a span."""
    above = path_to(spans[span.parent_id], spans) if span.parent_id in spans else []
    return [*above, span.name]


def test_a_turn_is_one_trace_down_to_the_flush(agent: ModuleType, tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with collector() as collected:
        command = [SERVER, "serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", "sqlite:traces.db"]
        # Calls that are in no trace, such as those of the command line, begin none.
        environment = ENVIRONMENT | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collected.address,
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        }
        with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None
                listens = re.search(rb"listens on (\S+)", server.stdout.readline())
                assert listens is not None
                address = listens.group(1).decode()
                sessiond(address, "session", "create")
                with trace.get_tracer("test").start_as_current_span("conversation") as span:
                    asyncio.run(agent.main(address, APP, USER, SESSION, "turn", "hello"))
                lines = sessiond(address, "event", "list").splitlines()
                # It exports the last spans before it exits.
                server.send_signal(signal.SIGTERM)
                assert server.wait(TIMEOUT_SECS) == 0
            finally:
                server.kill()
    trace_id = f"{span.get_span_context().trace_id:032x}"
    events = [json.loads(line) for line in lines]
    assert len(events) >= 2
    assert {event.get("trace_id") for event in events} == {trace_id}

    spans = {received.span_id: received for received in collected.spans}
    for own in exporter.get_finished_spans():
        context = own.get_span_context()
        parent = f"{own.parent.span_id:016x}" if own.parent else ""
        spans[f"{context.span_id:016x}"] = Span(f"{context.trace_id:032x}", f"{context.span_id:016x}", parent, own.name)
    assert {received.trace_id for received in collected.spans} == {trace_id}
    appends = [received for received in collected.spans if received.name == APPEND]
    assert len(appends) == len(events)
    for append in appends:
        above = path_to(append, spans)
        assert above[0] == "conversation", above
        stages = [it for it in collected.spans if it.parent_id == append.span_id]
        assert sorted(it.name for it in stages) == ["commit", "decode", "queue", "reply"]
        commit = next(it for it in stages if it.name == "commit")
        assert [it.name for it in collected.spans if it.parent_id == commit.span_id] == ["flush"]
