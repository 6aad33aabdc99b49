"""Calls and watches carry the trace context of the caller's span."""

from __future__ import annotations

import asyncio

from opentelemetry import trace
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
