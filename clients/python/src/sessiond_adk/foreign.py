"""Bodies of events that ADK for other languages has written, in the form of ADK for Python.

The kits agree on most of an event's JSON. Where they do not, a member is renamed or converted here. What this version
of ADK still cannot read is left out by `events.py`, with one warning.
"""

from __future__ import annotations

import base64
from typing import Any

from google.adk.events.event import Event
from google.protobuf.timestamp_pb2 import Timestamp

from .times import to_seconds

Json = dict[str, Any]

# Times after 1970: seconds stay below it until the year 5138, milliseconds are above it since 1973.
_LEAST_MILLIS = 1e11

_TIMES = ("startTimestamp", "start_timestamp", "endTimestamp", "end_timestamp")

# The kits round an event's time to their own precision.
_ROUNDING_SECONDS = 0.002


def convert_body(body: Json) -> bool:
    """Converts the members that the kits write differently, in place.

    Returns whether the times of a compaction are seconds now, because they were text or TypeScript's.
    """
    # Text in Go and Rust. The envelope has the time as well.
    if not isinstance(body.get("timestamp"), int | float):
        body.pop("timestamp", None)
    _convert_route(body)
    metadata = body.get("customMetadata")
    if isinstance(metadata, list):
        body["customMetadata"] = {entry.get("key", ""): _metadata_value(entry) for entry in _objects(metadata)}
    _convert_content(body.get("content"))
    if body.get("isCompacted") is True:
        _move_compaction(body)
        return True
    actions = body.get("actions")
    compaction = actions.get("compaction") if isinstance(actions, dict) else None
    return isinstance(compaction, dict) and _convert_written_compaction(compaction)


def _convert_content(content: Any) -> None:
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        content["parts"] = [_convert_part(part) if isinstance(part, dict) else part for part in content["parts"]]


def _move_compaction(body: Json) -> None:
    """TypeScript's compaction is the event itself, with milliseconds and a text."""
    written = {name: body.pop(name, None) for name in ("isCompacted", "startTime", "endTime", "compactedContent")}
    body.pop("isScratchpad", None)
    times = written["startTime"], written["endTime"]
    if isinstance(written["compactedContent"], str) and all(isinstance(time, int | float) for time in times):
        actions = body.get("actions")
        if not isinstance(actions, dict):
            actions = body["actions"] = {}
        actions["compaction"] = {
            "startTimestamp": times[0] / 1000,
            "endTimestamp": times[1] / 1000,
            "compactedContent": {"role": "model", "parts": [{"text": written["compactedContent"]}]},
        }


def _convert_written_compaction(compaction: Json) -> bool:
    """Rust's parts, and times as text, which become seconds. Returns whether a time was text."""
    for name in ("compactedContent", "compacted_content"):
        _convert_content(compaction.get(name))
    texts = {name: time for name, time in compaction.items() if name in _TIMES and isinstance(time, str)}
    for name, text in texts.items():
        time = Timestamp()
        try:
            time.FromJsonString(text)
        except ValueError:
            # Is left out, and the compaction with it.
            continue
        compaction[name] = to_seconds(time.ToNanoseconds())
    return bool(texts)


def convert_compaction(event: Event, seconds: float) -> None:
    """Converts the times of a compaction from Java's milliseconds to seconds.

    `event` still has the time of the body; `seconds` is that of the envelope.
    """
    compaction = event.actions.compaction
    if compaction is None:
        return
    written = event.timestamp if "timestamp" in event.model_fields_set else None
    if _is_millis(compaction.start_timestamp, written, seconds):
        compaction.start_timestamp /= 1000
    if _is_millis(compaction.end_timestamp, written, seconds):
        compaction.end_timestamp /= 1000


def _is_millis(time: float, written: float | None, seconds: float) -> bool:
    """Whether a time of a body is in milliseconds. The body's `timestamp` tells the unit; without it, the magnitude."""
    if written is not None:
        if abs(written - seconds) < _ROUNDING_SECONDS:
            return False
        if abs(written / 1000 - seconds) < _ROUNDING_SECONDS:
            return True
    return abs(time) >= _LEAST_MILLIS


def _objects(items: list[Any]) -> list[Json]:
    return [item for item in items if isinstance(item, dict)]


def _convert_route(body: Json) -> None:
    """Go and TypeScript have the route in the event, Python in its actions. Go may write it inside of them."""
    actions = body.get("actions")
    for owner in (body, actions):
        for name in ("routes", "route") if owner is body else ("routes",):
            if isinstance(owner, dict) and name in owner:
                route = owner.pop(name)
                if not isinstance(actions, dict):
                    actions = body["actions"] = {}
                actions.setdefault("route", route)


def _metadata_value(entry: Json) -> Any:
    """The value of an entry of Java's `customMetadata`, a list of keys with typed values."""
    texts = entry.get("stringListValue")
    if isinstance(texts, dict):
        return texts.get("values")
    return entry.get("stringValue", entry.get("numericValue"))


def _convert_part(part: Json) -> Json:
    """Rust's parts are objects of their own, told apart by their members."""
    given = part.get("signature") or part.get("thought_signature")
    signature = {"thoughtSignature": given} if given else {}
    if isinstance(part.get("thinking"), str):
        return {"text": part["thinking"], "thought": True, **signature}
    if isinstance(part.get("name"), str) and "args" in part:
        call = {name: part[name] for name in ("id", "name", "args") if part.get(name) is not None}
        return {"functionCall": call, **signature}
    answer = part.get("functionResponse")
    if isinstance(answer, dict):
        if not isinstance(answer.get("response", {}), dict):
            # A tool in Rust may return any JSON. ADK wraps what is not an object in this way.
            answer = {**answer, "response": {"result": answer["response"]}}
        rest = {name: value for name, value in part.items() if name != "id"}
        call_id = {"id": part["id"]} if "id" in part else {}
        return {**rest, "functionResponse": {**call_id, **answer}}
    if "mime_type" in part and _is_bytes(part.get("data")):
        data = base64.b64encode(bytes(part["data"])).decode()
        return {"inlineData": {"mimeType": part["mime_type"], "data": data}}
    if isinstance(part.get("file_uri"), str):
        return {"fileData": {"mimeType": part.get("mime_type"), "fileUri": part["file_uri"]}}
    return part


def _is_bytes(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and 0 <= item < 256 for item in value)
