"""The canonical form of an event's body (docs/bodies.md), which ADK for Python writes and reads.

`to_canonical` reads the variants: ADK files of other languages, older ADK files, and clients without an adapter.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from .times import to_seconds

Json = dict[str, Any]

# The members whose own members have canonical names. What others hold may be data of the application.
_RECORDS = {
    *("actions", "citationMetadata", "compactedContent", "compaction", "content", "fileData", "functionCall"),
    *("functionResponse", "groundingMetadata", "inlineData", "nodeInfo", "parts", "usageMetadata"),
}

# Names of one ADK, in camelCase, for members that the others have too; and reasons to finish of ADK for Rust.
_RENAMED = {
    **{name: name.upper() for name in ("Stop", "Safety", "Recitation", "Other")},
    "MaxTokens": "MAX_TOKENS",
    "cacheReadInputTokenCount": "cachedContentTokenCount",
    "citationSources": "citations",
    "routes": "route",
    "thinkingTokenCount": "thoughtsTokenCount",
}

# ADK for Rust writes these parts without a member around them: the member, what tells the part, and its members.
_BARE_PARTS = (
    ("functionCall", {"name", "args"}, ("id", "name", "args")),
    ("inlineData", {"mimeType", "data"}, ("mimeType", "data")),
    ("fileData", {"fileUri"}, ("mimeType", "fileUri")),
)

# Variants that ADK reads without an error, as something else.
_HIDDEN_VARIANT = re.compile(r'"(?:compaction|function|isCompacted|routes?)"')

# Times after 1970: seconds stay below it until the year 5138, milliseconds are above it since 1973.
_LEAST_MILLIS = 1e11


def may_be_variant(text: str) -> bool:
    """Whether ADK could misread the body without an error. A false alarm costs only time."""
    return _HIDDEN_VARIANT.search(text) is not None


def to_canonical(body: Json) -> Json:
    """A copy of `body` in the canonical form. Members that no rule names are kept."""
    body = _rename(body)
    actions = body.get("actions", {})
    if isinstance(actions, dict):
        if "route" in body:
            actions.setdefault("route", body.pop("route"))
        if body.pop("isCompacted", None) is True:
            _move_compaction(body, actions)
        for time in ("startTimestamp", "endTimestamp"):
            compaction = actions.get("compaction")
            if isinstance(compaction, dict) and time in compaction:
                compaction[time] = _seconds(compaction[time])
        if actions:
            body["actions"] = actions
    metadata = body.get("customMetadata")
    if isinstance(metadata, list):
        body["customMetadata"] = {
            entry.get("key", ""): _metadata_value(entry) for entry in metadata if isinstance(entry, dict)
        }
    reason = body.get("finishReason")
    if isinstance(reason, str):
        body["finishReason"] = _RENAMED.get(reason, reason)
    return body


def _rename(node: Any) -> Any:
    """The node with canonical names and parts, and without members that are null."""
    if isinstance(node, list):
        return [_rename(item) for item in node]
    if not isinstance(node, dict):
        return node
    renamed: Json = {}
    for given, value in node.items():
        camel = re.sub("(?<=[A-Za-z0-9])_+([A-Za-z0-9])", lambda found: found[1].upper(), given)
        name = _RENAMED.get(camel, camel)
        # Of two spellings, the canonical one counts.
        if (name == given or name not in node) and (value is not None or name in ("args", "response")):
            renamed[name] = _rename(value) if name in _RECORDS else value
    if isinstance(renamed.get("parts"), list):
        renamed["parts"] = [_part(part) if isinstance(part, dict) else part for part in renamed["parts"]]
        if renamed.get("role") == "function":
            renamed["role"] = "user"
    return renamed


def _part(part: Json) -> Json:
    """A part with its kind as a member around it."""
    if isinstance(part.get("thinking"), str):
        part["text"], part["thought"] = part.pop("thinking"), True
        if "signature" in part:
            part["thoughtSignature"] = part.pop("signature")
    for kind, required, members in _BARE_PARTS:
        if required <= part.keys():
            part[kind] = {name: part.pop(name) for name in members if name in part}
    call, answer, blob = (part.get(kind) for kind in ("functionCall", "functionResponse", "inlineData"))
    if isinstance(call, dict) and call.get("args", {}) is None:
        call["args"] = {}
    if isinstance(answer, dict):
        if "id" in part:
            answer["id"] = part.pop("id")
        # A tool in Rust may return any JSON. ADK for Python wraps what is not an object in this way.
        if not isinstance(answer.get("response", {}), dict):
            answer["response"] = {"result": answer["response"]}
    if isinstance(blob, dict) and _is_bytes(blob.get("data")):
        blob["data"] = base64.b64encode(bytes(blob["data"])).decode()
    return part


def _is_bytes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and 0 <= item < 256 for item in value)


def _move_compaction(body: Json, actions: Json) -> None:
    """ADK for TypeScript has the compaction in the event itself, with milliseconds and a text."""
    start, end, text = (body.pop(name, None) for name in ("startTime", "endTime", "compactedContent"))
    if isinstance(start, int | float) and isinstance(end, int | float) and isinstance(text, str):
        content = {"role": "model", "parts": [{"text": text}]}
        actions["compaction"] = {
            "startTimestamp": start / 1000,
            "endTimestamp": end / 1000,
            "compactedContent": content,
        }


def _seconds(time: Any) -> Any:
    """A time in seconds. ADK for Java has milliseconds, ADK for Go and Rust a text. Other values stay as they are."""
    if isinstance(time, str):
        parsed = Timestamp()
        try:
            parsed.FromJsonString(time)
        except ValueError:
            return time
        return to_seconds(parsed.ToNanoseconds())
    return time / 1000 if isinstance(time, int | float) and abs(time) >= _LEAST_MILLIS else time


def _metadata_value(entry: Json) -> Any:
    """The value of an entry of Java's `customMetadata`, a list of keys with typed values."""
    texts = entry.get("stringListValue")
    if isinstance(texts, dict):
        return texts.get("values")
    return entry.get("stringValue", entry.get("numericValue"))
