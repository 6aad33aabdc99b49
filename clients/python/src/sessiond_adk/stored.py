"""Events with their places in the log, and their names."""

from __future__ import annotations

from dataclasses import dataclass

from google.adk.events.event import Event

from ._proto import event_service_pb2, types_pb2
from .events import decode_event, rewind_of
from .text import require_sendable
from .times import to_seconds


@dataclass(frozen=True)
class StoredEvent:
    """An event with its place in the log.

    Attributes:
      event: the ADK event.
      sequence: its number in the session's log, from 1.
      commit_time: time of the commit on the server's clock, in seconds since 1970.
      rewound: hidden from `get_session`, by a rewind or as the marker of one.
      rewind_to_sequence: on the marker of a rewind, the last event that stays visible.
    """

    event: Event
    sequence: int
    commit_time: float
    rewound: bool
    rewind_to_sequence: int | None = None


def decode_stored(stored: types_pb2.Event) -> StoredEvent:
    commit_time = to_seconds(stored.commit_time.ToNanoseconds())
    return StoredEvent(decode_event(stored), stored.sequence, commit_time, stored.rewound, rewind_of(stored))


def encode_ref(ref: str | int) -> event_service_pb2.EventRef:
    """The message of an event's id or sequence.

    Raises:
      TypeError: neither a text nor an integer.
      ValueError: an id with half a surrogate pair, or an integer of more than 64 bits.
    """
    if isinstance(ref, str):
        require_sendable(event_id=ref)
        return event_service_pb2.EventRef(event_id=ref)
    if isinstance(ref, bool):
        raise TypeError(f"{ref} is neither an id nor a sequence.")
    return event_service_pb2.EventRef(sequence=ref)


def decode_ref(ref: event_service_pb2.EventRef) -> str | int:
    return ref.event_id if ref.HasField("event_id") else ref.sequence
