"""Conversion of sessions, and of ADK's event filters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from ._proto import session_service_pb2, types_pb2
from .events import decode_event
from .state import SessionState, split_object
from .times import EARLIEST_NANOS, LATEST_NANOS, NANOS, to_nanos, to_seconds

_INT32_MAX = 2**31 - 1


def trimmed(session_id: str | None) -> str:
    """The id without surrounding white space, as ADK's own services trim it; "" for None."""
    return session_id.strip() if session_id else ""


def select_events(config: GetSessionConfig | None) -> session_service_pb2.EventSelection | None:
    """The events that `config` selects; None selects no event.

    ADK's rules: without a config, or with None in a field, nothing is filtered. `num_recent_events=0` selects no event,
    `after_timestamp=0` filters nothing. With both, the newest of the events that are not older.
    """
    selection = session_service_pb2.EventSelection()
    if config is None:
        return selection
    if config.num_recent_events is not None:
        selection.recent = min(config.num_recent_events, _INT32_MAX)
    after = config.after_timestamp
    if after and not math.isnan(after) and after * NANOS > EARLIEST_NANOS:
        if after * NANOS > LATEST_NANOS:
            return None
        selection.after_time.FromNanoseconds(to_nanos(after))
    return selection


def decode_session(stored: types_pb2.Session, events: Sequence[types_pb2.Event] = ()) -> Session:
    """The ADK session. `last_update_time` is the time of the newest event, or of the creation."""
    decoded: list[Event] = [decode_event(event) for event in events]
    session = Session(
        id=stored.key.session_id,
        app_name=stored.key.app_name,
        user_id=stored.key.user_id,
        events=decoded,
        last_update_time=to_seconds(stored.last_event_time.ToNanoseconds()),
    )
    # An event has its time as the original float; the stored session has it rounded to the nanosecond.
    if events and events[-1].sequence == stored.last_sequence:
        session.last_update_time = decoded[-1].timestamp
    # Assigned afterwards: the constructor would copy it into a plain dict.
    session.state = SessionState(split_object(stored.state_json or "{}", stored.versions), stored.last_sequence)
    return session
