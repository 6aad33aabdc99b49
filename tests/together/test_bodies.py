"""The turn that docs/bodies.md shows: all ADKs read the same in its bodies, with their own classes."""

import json
import re
from pathlib import Path
from typing import Any

from test_together import LANGUAGES, address, adk, server, sessiond

__all__ = ["address", "server"]  # fixtures

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/bodies.md").read_text(encoding="utf-8")


def test_all_kits_read_the_same_in_the_documented_bodies(address: str) -> None:
    bodies = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)]
    assert len(bodies) == 4
    for number, body in enumerate(bodies, start=1):
        author = "user" if number == 1 else "weather_agent"
        sessiond(address, "event", "append", "--author", author, "--invocation", "turn-1", "--body", json.dumps(body))
    for language in LANGUAGES:
        written = [what_it_says(language, number, body) for number, body in enumerate(bodies, start=1)]
        read = json.loads(adk(language, address, "bodies"))
        assert read == written, f"{language} reads something else"


def what_it_says(language: str, number: int, body: dict[str, Any]) -> dict[str, Any]:
    """The expected reading of a body."""
    parts = body["content"]["parts"]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return {
        "author": "user" if number == 1 else "weather_agent",
        # The ADK for Rust has a role of its own for results.
        "role": "function" if language == "rust" and responses else body["content"]["role"],
        "text": "".join(part.get("text", "") for part in parts),
        "calls": calls,
        "responses": responses,
        "tokens": body.get("usageMetadata", {}).get("totalTokenCount", 0),
        "artifacts": body.get("actions", {}).get("artifactDelta", {}),
        "final": not calls and not responses,
    }
