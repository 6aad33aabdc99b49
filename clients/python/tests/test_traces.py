"""Calls and watches carry the trace context of the caller's span."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from opentelemetry import propagate, trace
from opentelemetry.propagators import textmap
from opentelemetry.sdk.trace import TracerProvider
from recorder import call_and_watch, recorder

from sessiond_adk import SessiondSessionService

TRACER = TracerProvider().get_tracer("tests")


def traceparent(span: trace.Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def test_calls_and_watches_carry_the_callers_span() -> None:
    async with recorder() as server, SessiondSessionService(server.address) as service:
        with TRACER.start_as_current_span("caller") as span:
            await call_and_watch(service)
        assert [metadata.get("traceparent") for metadata in server.seen] == [traceparent(span)] * 2


async def test_sync_calls_carry_the_span_of_their_thread() -> None:
    async with recorder() as server, SessiondSessionService(server.address) as service:
        with TRACER.start_as_current_span("caller") as span:
            await asyncio.to_thread(service.list_sessions_sync, app_name="app")
        assert [metadata.get("traceparent") for metadata in server.seen] == [traceparent(span)]


async def test_without_a_span_nothing_is_sent() -> None:
    async with recorder() as server, SessiondSessionService(server.address) as service:
        await call_and_watch(service)
        assert not any("traceparent" in metadata for metadata in server.seen)


async def test_callers_own_traceparent_wins() -> None:
    async with recorder() as server:
        async with SessiondSessionService(server.address, metadata=[("traceparent", "mine")]) as service:
            with TRACER.start_as_current_span("caller"):
                await service.list_sessions(app_name="app")
        assert [metadata.get("traceparent") for metadata in server.seen] == ["mine"]


class Injects(textmap.TextMapPropagator):
    """A propagator of the application that sets these entries, and then fails if it is told to."""

    def __init__(self, entries: dict[Any, Any], failure: Exception | None = None) -> None:
        self.entries, self.failure = entries, failure

    def extract(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def inject(self, carrier: Any, *_: Any, **__: Any) -> None:
        carrier.update(self.entries)
        if self.failure is not None:
            raise self.failure

    @property
    def fields(self) -> set[str]:
        return set(self.entries)


@pytest.mark.parametrize(
    ("propagator", "sent"),
    [
        pytest.param(Injects({}, RuntimeError("exporter is gone")), {}, id="exception"),
        pytest.param(Injects({"traceparent": "00-1"}, KeyError("late")), {}, id="exception after an entry"),
        pytest.param(
            Injects({"traceparent": "00-1", "baggage": "city=Oslo\n"}), {"traceparent": "00-1"}, id="line break"
        ),
        pytest.param(Injects({"traceparent": "00-1", "x": "é"}), {"traceparent": "00-1"}, id="not ASCII"),
        pytest.param(Injects({"traceparent": "00-1", "x": 5}), {"traceparent": "00-1"}, id="no text"),
        pytest.param(Injects({"traceparent": "00-1", "a name": "x"}), {"traceparent": "00-1"}, id="name"),
        pytest.param(Injects({"traceparent": "00-1", "x-bin": "x"}), {"traceparent": "00-1"}, id="binary name"),
        pytest.param(Injects({"traceparent": "00-1", 7: "x"}), {"traceparent": "00-1"}, id="name that is no text"),
        pytest.param(Injects({"TraceParent": "00-1"}), {"traceparent": "00-1"}, id="capital letters"),
    ],
)
async def test_propagator_that_fails_ends_no_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, propagator: Injects, sent: dict[str, str]
) -> None:
    monkeypatch.setattr(propagate, "get_global_textmap", lambda: propagator)
    with caplog.at_level(logging.WARNING, "sessiond_adk.metadata"):
        async with recorder() as server, SessiondSessionService(server.address) as service:
            await call_and_watch(service)
            await call_and_watch(service)
    found = [
        {name: metadata[name] for name in ("traceparent", "x", "baggage") if name in metadata}
        for metadata in server.seen
    ]
    assert found == [sent] * 4
    assert len(caplog.messages) == (0 if "TraceParent" in propagator.entries else 1), "one warning, not one per call"
