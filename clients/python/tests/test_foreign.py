"""Events that ADK for other languages has written."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from sessiond_adk.events import decode_event
from sessiond_adk.proto import types_pb2
from sessiond_adk.times import to_seconds

FIXTURES = Path(__file__).parent / "fixtures"


def stored_event(body: dict[str, Any] | None, **envelope: Any) -> types_pb2.Event:
    """A stored event as the server sends it."""
    message = types_pb2.Event(event_id="e", author="a", invocation_id="i", **envelope)
    if not message.HasField("event_time"):
        message.event_time.FromNanoseconds(1_700_000_000_000_000_000)
    if body is not None:
        message.body_json = json.dumps(body)
    return message


def stored_turn(name: str) -> list[types_pb2.Event]:
    """Events as `sessiond event list` prints them, after a turn of the agent in another adapter's examples/together."""
    events = []
    for line in (FIXTURES / name).read_text().splitlines():
        item = json.loads(line)
        event = stored_event(item.get("body"))
        event.event_id, event.author = item["event_id"], item["author"]
        event.invocation_id = item.get("invocation_id", "")
        event.event_time.FromJsonString(item["event_time"])
        if "state_delta" in item:
            event.state_delta.set_json = json.dumps(item["state_delta"]["set"])
        events.append(event)
    return events


@pytest.mark.parametrize(
    ("name", "texts", "delta"),
    [
        ("go-turn.jsonl", ["will it rain?", "go heard will it rain?"], {"go:turn": "will it rain?"}),
        ("rust-turn.jsonl", ["and in Rust?", "rust heard and in Rust?"], {"rust:turn": "and in Rust?"}),
    ],
)
def test_turn_of_another_kit_is_read_without_a_warning(
    caplog: pytest.LogCaptureFixture, name: str, texts: list[str], delta: dict[str, Any]
) -> None:
    stored = stored_turn(name)
    with caplog.at_level(logging.WARNING):
        events = [decode_event(event) for event in stored]
    assert caplog.messages == []
    found = [part.text for event in events if event.content for part in event.content.parts or []]
    assert found == texts
    changes: dict[str, Any] = {}
    for event, message in zip(events, stored, strict=True):
        assert event.timestamp == to_seconds(message.event_time.ToNanoseconds())
        assert (event.id, event.author) == (message.event_id, message.author)
        changes |= event.actions.state_delta
    assert changes.items() >= delta.items()


def decoded(body: dict[str, Any]) -> dict[str, Any]:
    """The decoded event's own members."""
    event = decode_event(stored_event(body))
    assert (event.id, event.author, event.timestamp) == ("e", "a", 1_700_000_000.0)
    dumped: dict[str, Any] = event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    for name in ("id", "author", "invocationId", "timestamp"):
        dumped.pop(name, None)
    dumped.get("actions", {}).pop("stateDelta", None)
    return dumped


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            {
                "id": "other",
                "timestamp": "2026-11-20T12:07:31.250924+02:00",
                "content": {"parts": [{"text": "a < b"}], "role": "model"},
                "routes": ["left", "right"],
                "actions": {"transferToAgent": "b"},
                "branch": "",
                "longRunningToolIds": None,
            },
            {
                "content": {"parts": [{"text": "a < b"}], "role": "model"},
                "actions": {"transferToAgent": "b", "route": ["left", "right"]},
                "branch": "",
            },
            id="Go",
        ),
        pytest.param({"routes": ["a"], "timestamp": "x"}, {"actions": {"route": ["a"]}}, id="Go without actions"),
        pytest.param({"actions": {"routes": ["a"]}}, {"actions": {"route": ["a"]}}, id="Go's routes of actions"),
        pytest.param(
            {
                "content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "+/8="}}], "role": "user"},
                "customMetadata": [
                    {"key": "text", "stringValue": "s"},
                    {"key": "number", "numericValue": 1.5},
                    {"key": "list", "stringListValue": {"values": ["a", "b"]}},
                    {"key": "nothing"},
                ],
                "timestamp": 1795190851250,
            },
            {
                "content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "-_8="}}], "role": "user"},
                "customMetadata": {"text": "s", "number": 1.5, "list": ["a", "b"], "nothing": None},
            },
            id="Java",
        ),
        pytest.param(
            {
                "invocation_id": "x",
                "branch": "",
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "hi"},
                        {"thinking": "hm", "signature": "c2ln"},
                        {"mime_type": "image/png", "data": [251, 255]},
                        {"mime_type": "text/plain", "file_uri": "gs://b/f"},
                        {"name": "f", "args": {"name": "n"}, "id": "c1", "thought_signature": "c2ln"},
                        {"functionResponse": {"name": "f", "response": {"ok": True}}, "id": "c1"},
                    ],
                },
                "usage_metadata": None,
                "turn_complete": True,
                "actions": {"artifact_delta": {"a": 1}, "skip_summarization": False, "transfer_to_agent": None},
                "long_running_tool_ids": ["c1"],
            },
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "hi"},
                        {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
                        {"inlineData": {"mimeType": "image/png", "data": "-_8="}},
                        {"fileData": {"mimeType": "text/plain", "fileUri": "gs://b/f"}},
                        {"functionCall": {"name": "f", "args": {"name": "n"}, "id": "c1"}, "thoughtSignature": "c2ln"},
                        {"functionResponse": {"id": "c1", "name": "f", "response": {"ok": True}}},
                    ],
                },
                "branch": "",
                "turnComplete": True,
                "actions": {"artifactDelta": {"a": 1}, "skipSummarization": False},
                "longRunningToolIds": ["c1"],
            },
            id="Rust",
        ),
    ],
)
def test_members_that_kits_write_differently(
    caplog: pytest.LogCaptureFixture, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    with caplog.at_level(logging.WARNING):
        assert decoded(body) == expected
    assert caplog.messages == []


@pytest.mark.parametrize("result", ["sunny", [1, 2], 7, False, None], ids=repr)
@pytest.mark.parametrize("call_id", [{}, {"id": "c1"}], ids=["without id", "with id"])
def test_result_of_a_tool_that_is_no_object_is_wrapped(
    caplog: pytest.LogCaptureFixture, call_id: dict[str, str], result: object
) -> None:
    """As ADK wraps what a function returns."""
    part = {"functionResponse": {"name": "f", "response": result}, **call_id}
    body = {"timestamp": "2026-11-20T12:07:31Z", "content": {"role": "function", "parts": [part]}}
    event = decode_event(stored_event(body))
    (response,) = event.get_function_responses()
    assert (response.id, response.name, response.response) == (call_id.get("id"), "f", {"result": result})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("timestamp", "times", "seconds"),
    [
        pytest.param(
            1_700_000_000_000, (1_699_999_000_123, 1_699_999_999_999), (1_699_999_000.123, 1_699_999_999.999), id="Java"
        ),
        pytest.param(1_700_000_000_000, (1, 2_500), (0.001, 2.5), id="Java, of 1970"),
        pytest.param(
            None, (1_699_999_000_123, 1_699_999_999_999), (1_699_999_000.123, 1_699_999_999.999), id="Java's magnitude"
        ),
        pytest.param("x", (1_699_999_000_123, 9.5), (1_699_999_000.123, 9.5), id="text"),
        pytest.param(1_700_000_000.0, (1.5, 1_699_999_999.25), (1.5, 1_699_999_999.25), id="Python"),
        pytest.param(1_700_000_000.0, (1e12, 2e12), (1e12, 2e12), id="Python, of a distant year"),
        pytest.param(None, (1.5, 1_699_999_999.25), (1.5, 1_699_999_999.25), id="Python's magnitude"),
    ],
)
def test_times_of_a_compaction_are_seconds(
    timestamp: object, times: tuple[float, float], seconds: tuple[float, float]
) -> None:
    content = {"role": "model", "parts": [{"text": "summary"}]}
    compaction = {"startTimestamp": times[0], "endTimestamp": times[1], "compactedContent": content}
    body: dict[str, Any] = {"actions": {"compaction": compaction}}
    if timestamp is not None:
        body["timestamp"] = timestamp
    event = decode_event(stored_event(body))
    read = event.actions.compaction
    assert read is not None
    assert (read.start_timestamp, read.end_timestamp) == seconds
    assert event.timestamp == 1_700_000_000.0


@pytest.mark.parametrize(
    ("body", "omitted"),
    [
        ({"actions": {"endInvocation": True}, "timestamp": "x"}, "actions.endInvocation"),
        ({"content": {"parts": [{"text": "x", "mood": "good"}]}}, "content.parts.0.mood"),
        (
            {"customMetadata": [1], "content": {"parts": [{"mime_type": "x", "data": [256]}]}},
            "content.parts.0.mime_type",
        ),
        ({"content": {"parts": [1]}, "actions": 3}, "actions"),
        ({"content": {"parts": [{"text": "a"}, 1, {"text": "b"}]}}, "content.parts.1"),
    ],
)
def test_what_no_kit_converts_is_named_in_one_warning(
    caplog: pytest.LogCaptureFixture, body: dict[str, Any], omitted: str
) -> None:
    with caplog.at_level(logging.WARNING):
        decode_event(stored_event(body))
    assert len(caplog.messages) == 1
    assert omitted in caplog.messages[0]
    assert "timestamp" not in caplog.messages[0]


# What is beside the record that cannot be read, and has to stay.
KEPT = {
    "artifactDelta": {"refund.pdf": 2},
    "transferToAgent": "billing",
    "escalate": True,
    "requestedToolConfirmations": {"c1": {"hint": "h", "confirmed": False}},
}
SUMMARY = {"role": "model", "parts": [{"text": "Summary"}]}
AUTH = {"authScheme": {"type": "apiKey", "in": "header", "name": "x"}}


@pytest.mark.parametrize(
    ("actions", "omitted"),
    [
        pytest.param({"compaction": 5}, ["compaction"], id="no record"),
        pytest.param({"compaction": {}}, ["compaction"], id="an empty record"),
        pytest.param(
            {"compaction": {"startTimestamp": [], "endTimestamp": "x", "compactedContent": 1, "other": 2}},
            ["compaction.startTimestamp", "compaction"],
            id="several errors in one record",
        ),
        pytest.param({"agentState": [1]}, ["agentState"], id="another record"),
        pytest.param(
            {"requestedToolConfirmations": {"c1": {"hint": "h", "confirmed": False}, "c2": 3}},
            ["requestedToolConfirmations.c2"],
            id="an entry",
        ),
        pytest.param(
            {"requestedToolConfirmations": {"c1": {"hint": ["h"], "confirmed": False, "more": {"a": 1}}}},
            ["requestedToolConfirmations.c1.hint", "requestedToolConfirmations.c1.more"],
            id="members of an entry",
        ),
        pytest.param({"artifactDelta": {"refund.pdf": 2, "x": "y"}}, ["artifactDelta.x"], id="an entry of numbers"),
        pytest.param(
            {"requestedAuthConfigs": {"a": AUTH, "b": {"authScheme": {"type": 1}}}},
            ["requestedAuthConfigs.b"],
            id="auth",
        ),
    ],
)
def test_only_what_cannot_be_read_is_left_out_of_actions(
    caplog: pytest.LogCaptureFixture, actions: dict[str, Any], omitted: list[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        event = decode_event(stored_event({"actions": {**KEPT, **actions}}))
    assert event.actions.transfer_to_agent == "billing"
    assert event.actions.escalate is True
    assert event.actions.artifact_delta == {"refund.pdf": 2}
    assert list(event.actions.requested_tool_confirmations) == ["c1"]
    assert list(event.actions.requested_auth_configs) == (["a"] if "requestedAuthConfigs" in actions else [])
    assert event.actions.compaction is None
    (message,) = caplog.messages
    assert set(message.split(": ", 2)[2].split(", ")) >= {f"actions.{name}" for name in omitted}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            {
                "compaction": {
                    "startTimestamp": 1_699_999_000.5,
                    "endTimestamp": 1_699_999_999.25,
                    "compactedContent": SUMMARY,
                }
            },
            id="Python",
        ),
        pytest.param(
            {
                "compaction": {
                    "startTimestamp": 1_699_999_000_500,
                    "endTimestamp": 1_699_999_999_250,
                    "compactedContent": SUMMARY,
                },
                "timestamp": 1_700_000_000_000,
            },
            id="Java",
        ),
        pytest.param(
            {
                "compaction": {
                    "startTimestamp": "2023-11-14T23:56:40.5+02:00",
                    "endTimestamp": "2023-11-14T22:13:19.25Z",
                    "compactedContent": SUMMARY,
                    "excludedEvents": ["e1"],
                },
                "timestamp": "2023-11-14T22:13:20Z",
            },
            id="Go",
        ),
        pytest.param(
            {
                "isCompacted": True,
                "startTime": 1_699_999_000_500,
                "endTime": 1_699_999_999_250,
                "compactedContent": "Summary",
                "isScratchpad": False,
                "timestamp": 1_700_000_000_000,
            },
            id="TypeScript",
        ),
        pytest.param(
            {
                "compaction": {
                    "start_timestamp": "2023-11-14T21:56:40.500000000Z",
                    "end_timestamp": "2023-11-14T22:13:19.250Z",
                    "compacted_content": {"role": "model", "parts": [{"thinking": "hm"}, {"text": "Summary"}]},
                },
                "timestamp": "2023-11-14T22:13:20Z",
            },
            id="Rust",
        ),
    ],
)
def test_compaction_of_every_kit_is_read(body: dict[str, Any]) -> None:
    actions = {**KEPT, **({"compaction": body.pop("compaction")} if "compaction" in body else {})}
    event = decode_event(stored_event({**body, "actions": actions}))
    read = event.actions.compaction
    assert read is not None
    assert (read.start_timestamp, read.end_timestamp) == (1_699_999_000.5, 1_699_999_999.25)
    assert [part.text for part in read.compacted_content.parts or [] if not part.thought] == ["Summary"]
    assert (event.actions.transfer_to_agent, event.actions.artifact_delta) == ("billing", {"refund.pdf": 2})


def test_text_times_of_a_compaction_are_not_taken_for_milliseconds() -> None:
    """The body's own time is in milliseconds."""
    compaction = {"startTimestamp": "2023-11-14T21:56:40Z", "endTimestamp": "2023-11-14T22:13:19Z"}
    body = {"actions": {"compaction": {**compaction, "compactedContent": SUMMARY}}, "timestamp": 1_700_000_000_000}
    read = decode_event(stored_event(body)).actions.compaction
    assert read is not None
    assert (read.start_timestamp, read.end_timestamp) == (1_699_999_000.0, 1_699_999_999.0)
