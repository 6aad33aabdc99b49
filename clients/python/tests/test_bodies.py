"""Bodies of events: the canonical form, its variants, and what ADK cannot read. The cases are in clients/cases."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event

from sessiond_adk.events import decode_event, encode_event
from sessiond_adk.proto import types_pb2

CASES = Path(__file__).parents[2] / "cases/bodies"


def cases(name: str) -> pytest.MarkDecorator:
    """The cases of one file."""
    found = json.loads((CASES / name).read_text(encoding="utf-8"))
    return pytest.mark.parametrize("case", found, ids=[case["name"] for case in found])


def decoded(body: dict[str, Any]) -> Event:
    """The event that ADK has of a stored body."""
    stored = types_pb2.Event(event_id="e", author="a", invocation_id="i", branch="a.b", body_json=json.dumps(body))
    stored.event_time.FromNanoseconds(1_795_690_000_000_000_000)
    event = decode_event(stored)
    assert (event.id, event.author, event.timestamp) == ("e", "a", 1_795_690_000.0)
    return event


def assert_has(found: Any, wanted: Any, lost: list[str], path: str = "") -> None:
    """Asserts that `found` has every member of `wanted`, but for the paths of `lost`."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            at = f"{path}.{name}" if path else name
            if at not in lost:
                assert name in found, at
                assert_has(found[name], value, lost, at)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), path
        for position, pair in enumerate(zip(found, wanted, strict=True)):
            assert_has(*pair, lost, f"{path}.{position}")
    else:
        assert found == wanted, path


@cases("canonical.json")
def test_canonical_body_is_read_and_written(caplog: pytest.LogCaptureFixture, case: dict[str, Any]) -> None:
    written = encode_event(decoded(case["canonical"])).message.body_json
    assert_has(json.loads(written), case["canonical"], case["lost"].get("python", []))
    assert caplog.messages == []


@cases("variants.json")
def test_variant_is_read_as_the_canonical_body(caplog: pytest.LogCaptureFixture, case: dict[str, Any]) -> None:
    if "python" not in case.get("except", []):
        assert decoded(case["body"]) == decoded(case["canonical"])
        assert caplog.messages == []


@cases("unreadable.json")
def test_what_adk_cannot_read_is_omitted_alone(case: dict[str, Any]) -> None:
    assert decoded(case["body"]) == decoded(case["kept"])


@pytest.mark.parametrize(
    ("body", "omitted"),
    [
        ({"actions": {"endInvocation": True}, "timestamp": "x"}, ["actions.endInvocation"]),
        ({"content": {"parts": [{"text": "a"}, 1, {"text": "x", "mood": "good"}]}}, ["content.parts.1"]),
        ({"actions": {"compaction": {"startTimestamp": [], "endTimestamp": "x", "other": 2}}}, ["actions.compaction"]),
        (
            {"actions": {"requestedToolConfirmations": {"c1": {"hint": ["h"], "confirmed": False, "more": {"a": 1}}}}},
            ["actions.requestedToolConfirmations.c1.hint", "actions.requestedToolConfirmations.c1.more"],
        ),
        (
            {"actions": {"requestedAuthConfigs": {"b": {"authScheme": {"type": 1}}}, "agentState": [1]}},
            ["actions.requestedAuthConfigs.b", "actions.agentState"],
        ),
    ],
)
def test_what_is_omitted_is_named_in_one_warning(
    caplog: pytest.LogCaptureFixture, body: dict[str, Any], omitted: list[str]
) -> None:
    auth = {"authScheme": {"type": "apiKey", "in": "header", "name": "x"}}
    body.setdefault("actions", {}).setdefault("requestedAuthConfigs", {})["a"] = auth
    body["actions"]["escalate"] = True
    with caplog.at_level(logging.WARNING):
        event = decoded(body)
    assert (event.actions.escalate, list(event.actions.requested_auth_configs)) == (True, ["a"])
    (message,) = caplog.messages
    assert set(message.split(": ", 2)[2].split(", ")) >= set(omitted)
    assert "timestamp" not in message
