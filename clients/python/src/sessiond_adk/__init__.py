"""Sessions of Google's Agent Development Kit for Python, kept by sessiond.

    from sessiond_adk import SessiondSessionService

    runner = Runner(agent=agent, app_name="my_app", session_service=SessiondSessionService("127.0.0.1:50051"))

The map: `service.py` is the kit's interface and `beyond.py` what goes beyond it; `reading.py` is what both read;
`append.py` is what an append does to the caller's session, in turns (`turns.py`); `events.py`, `sessions.py`,
`state.py`, `operations.py` and `times.py` convert; `client.py` calls, over `channel.py` (a channel for each event loop)
and `retry.py` (deadlines, and what is tried again); `watch.py` follows.
"""

from .beyond import StoredEvent
from .errors import (
    SessiondAlreadyExistsError,
    SessiondClosedError,
    SessiondDeadlineError,
    SessiondError,
    SessiondInvalidError,
    SessiondNotFoundError,
    SessiondStaleError,
    SessiondUnavailableError,
    StateValueError,
)
from .operations import Delta, Increment, ListAppend, MergePatch, Operation, Remove, SetIfAbsent
from .retry import RetryPolicy
from .service import SessiondSessionService
from .watch import Appended, CaughtUp, Changed, Deleted, Snapshot, Watch, WatchItem

__all__ = [
    "Appended",
    "CaughtUp",
    "Changed",
    "Deleted",
    "Delta",
    "Increment",
    "ListAppend",
    "MergePatch",
    "Operation",
    "Remove",
    "RetryPolicy",
    "SessiondAlreadyExistsError",
    "SessiondClosedError",
    "SessiondDeadlineError",
    "SessiondError",
    "SessiondInvalidError",
    "SessiondNotFoundError",
    "SessiondSessionService",
    "SessiondStaleError",
    "SessiondUnavailableError",
    "SetIfAbsent",
    "Snapshot",
    "StateValueError",
    "StoredEvent",
    "Watch",
    "WatchItem",
]
