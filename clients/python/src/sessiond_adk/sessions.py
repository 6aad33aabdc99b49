"""Conversion of sessions, and of ADK's event filters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from ._proto import session_service_pb2, types_pb2
from .client import session_key
from .events import decode_event
from .state import SessionState, split_object
from .times import EARLIEST_NANOS, LATEST_NANOS, NANOS, to_nanos, to_seconds

_INT32_MAX = 2**31 - 1


def key_of(session: Session | None, app_name: str, user_id: str, session_id: str) -> types_pb2.SessionKey:
    """The key of `session` if it is given, else of these ids.

    Raises:
      ValueError: both are given, or none is; or as `session_key`.
    """
    if session is None:
        return session_key(app_name, user_id, session_id)
    if app_name or user_id or session_id:
        raise ValueError("A session and ids are given. Pass one or the other.")
    return session_key(session.app_name, session.user_id, session.id)


def precondition_of(session: Session | None) -> types_pb2.Precondition | None:
    """The condition that a write through `session` sends: its session was not deleted, and created anew under its id.

    None for an object that this package has not read, because it does not hold the uid.
    """
    if session is None or not isinstance(session.state, SessionState) or not session.state.uid:
        return None
    return types_pb2.Precondition(uid=session.state.uid)


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
    values = split_object(stored.state_json or "{}", stored.versions)
    session.state = SessionState(values, stored.last_sequence, stored.uid)
    return session
