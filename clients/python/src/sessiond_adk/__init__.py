"""A session service for Google's Agent Development Kit (ADK) that stores sessions in sessiond.

    from sessiond_adk import SessiondSessionService

    runner = Runner(agent=agent, app_name="my_app", session_service=SessiondSessionService("127.0.0.1:50051"))

Layout, from the top down:

* `service.py` implements ADK's `BaseSessionService`; `extensions.py` adds what that interface lacks.
* `append.py` appends an event and updates the caller's session, one append at a time (`locks.py`).
* `watch.py` follows a scope; `reading.py` reads sessions and state.
* `events.py`, `stored.py`, `sessions.py`, `operations.py`, `state.py` and `times.py` convert between ADK objects and
  messages; `canonical.py` brings the bodies of other writers into the canonical form.
* `client.py` calls the server: `channel.py` keeps a channel per event loop, `retry.py` has deadlines and retries,
  `loop_thread.py` an event loop for callers without one. `credentials.py` reads TLS and token files, and `metadata.py`
  makes the metadata of a call.
* `errors.py` maps statuses to exceptions; `address.py` parses addresses.
* `proto.py` has the generated messages and stubs; `move.py` is a program that copies sessions of another service.
"""

from .errors import (
    SessiondAlreadyExistsError,
    SessiondClosedError,
    SessiondDeadlineError,
    SessiondError,
    SessiondInvalidError,
    SessiondNotFoundError,
    SessiondPermissionDeniedError,
    SessiondStaleError,
    SessiondUnauthenticatedError,
    SessiondUnavailableError,
    StateValueError,
)
from .operations import Delta, Increment, ListAppend, MergePatch, Operation, Remove, SetIfAbsent
from .retry import RetryPolicy
from .service import SessiondSessionService
from .stored import StoredEvent
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
    "SessiondPermissionDeniedError",
    "SessiondSessionService",
    "SessiondStaleError",
    "SessiondUnauthenticatedError",
    "SessiondUnavailableError",
    "SetIfAbsent",
    "Snapshot",
    "StateValueError",
    "StoredEvent",
    "Watch",
    "WatchItem",
]
