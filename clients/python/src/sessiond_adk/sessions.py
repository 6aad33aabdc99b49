"""Sessions: the kit's objects from the contract's messages, and the kit's filters as the contract's."""

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
    """The id without white space around it, as the kit's own services take it; "" for none."""
    return session_id.strip() if session_id else ""


def select_events(config: GetSessionConfig | None) -> session_service_pb2.EventSelection | None:
    """Which events `config` asks for; None: none at all.

    No config, or None in it, is no filter; `num_recent_events=0` is no events; `after_timestamp=0` is
    no filter. Both together: the newest so many of those that are not older.
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
    """The kit's session. Its `last_update_time` is the newest event's time, or that of the creation."""
    decoded: list[Event] = [decode_event(event) for event in events]
    session = Session(
        id=stored.key.session_id,
        app_name=stored.key.app_name,
        user_id=stored.key.user_id,
        events=decoded,
        last_update_time=to_seconds(stored.last_event_time.ToNanoseconds()),
    )
    # The newest event knows its time as the float that it was; the session knows it to the nanosecond.
    if events and events[-1].sequence == stored.last_sequence:
        session.last_update_time = decoded[-1].timestamp
    # Assigned, because the constructor would make a plain dict of it.
    session.state = SessionState(split_object(stored.state_json or "{}"), stored.last_sequence)
    return session
