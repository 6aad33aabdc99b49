"""A compaction that one ADK writes is read by the others, with what is beside it in the event's actions."""

import json
from typing import Any

import pytest

from test_together import APP, LANGUAGES, PROGRAMS, SERVER, USER, address, output, server

__all__ = ["address", "server"]  # fixtures

START_MILLIS, END_MILLIS = 1_795_683_600_500, 1_795_685_400_250
SUMMARY = {"role": "model", "parts": [{"text": "They talked about refunds."}]}
BESIDE = {"transferToAgent": "billing", "artifactDelta": {"refund.pdf": 2}}
TIMES = {"startTimestamp": "2026-11-26T09:00:00.5Z", "endTimestamp": "2026-11-26T10:30:00.25+01:00"}

# The bodies as the ADKs write them. ADK for Go has announced its compactions and has none in this version.
BODIES: dict[str, dict[str, Any]] = {
    "python": {
        "content": SUMMARY,
        "actions": BESIDE
        | {
            "compaction": {
                "startTimestamp": START_MILLIS / 1000,
                "endTimestamp": END_MILLIS / 1000,
                "compactedContent": SUMMARY,
            }
        },
    },
    "java": {
        "content": SUMMARY,
        "actions": BESIDE
        | {
            "compaction": {
                "startTimestamp": START_MILLIS,
                "endTimestamp": END_MILLIS,
                "compactedContent": SUMMARY,
            }
        },
    },
    "go": {
        "content": SUMMARY,
        "actions": BESIDE | {"compaction": {**TIMES, "compactedContent": SUMMARY, "excludedEvents": ["e1"]}},
    },
    "typescript": {
        "isCompacted": True,
        "startTime": START_MILLIS,
        "endTime": END_MILLIS,
        "compactedContent": "They talked about refunds.",
        "content": SUMMARY,
        "actions": BESIDE,
    },
    "rust": {
        "content": SUMMARY,
        "actions": {
            "transfer_to_agent": "billing",
            "artifact_delta": {"refund.pdf": 2},
            "escalate": False,
            "skip_summarization": False,
            "state_delta": {},
            "compaction": {
                "start_timestamp": TIMES["startTimestamp"],
                "end_timestamp": "2026-11-26T09:30:00.250Z",
                "compacted_content": SUMMARY,
            },
        },
    },
}


@pytest.mark.parametrize("server", ["memory:"], indirect=True, ids=["memory"])
@pytest.mark.parametrize("reader", LANGUAGES)
@pytest.mark.parametrize("writer", BODIES)
def test_compaction_of_a_kit_is_read_by_the_others(address: str, writer: str, reader: str) -> None:
    key = ["--app", APP, "--user", USER, "--session", writer, "--server", address]
    output([SERVER, "session", "create", *key])
    body = json.dumps(BODIES[writer])
    output([SERVER, "event", "append", "--author", "agent", "--invocation", "i", "--body", body, *key])
    (read,) = json.loads(output([*PROGRAMS[reader], address, APP, USER, writer, "compactions"]))
    compaction: dict[str, Any] = {"start": START_MILLIS, "end": END_MILLIS, "text": "They talked about refunds."}
    if reader == "go":
        # Its events have no member for a compaction. What is beside it has to come all the same.
        compaction = dict.fromkeys(compaction)
    assert read == {**compaction, "transfer": "billing", "artifacts": {"refund.pdf": 2}}
