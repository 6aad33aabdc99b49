"""Exceptions of failed calls. Each carries the server's reason, and is an ADK exception where ADK has one for the case.

A failed call raises a `SessiondError`. Code written for other session services keeps working: `except
AlreadyExistsError`, `except SessionNotFoundError`, `except StaleSessionError`. A request that cannot be encoded raises
a plain ValueError or TypeError before anything is sent; `StateValueError` if a state value is the cause.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "sessiond"
SESSION_REPLACED = "SESSION_REPLACED"


@dataclass(frozen=True)
class Status:
    """A gRPC status with its details.

    Attributes:
      reason: `ErrorInfo.reason` (see docs/errors.md); "" if the status has no ErrorInfo from sessiond.
      metadata: `ErrorInfo.metadata`: the variable parts of the message as texts, lists as JSON arrays.
      field_violations: pairs of field path and description, from BadRequest.
      retry_after_seconds: the delay of RetryInfo.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    field_violations: Sequence[tuple[str, str]] = ()
    retry_after_seconds: float | None = None

    @property
    def retryable(self) -> str:
        """Whether the call may be sent again: "yes", "same_id" (only with the same event or request id) or "no"."""
        if not self.reason:
            # A status of the transport. If the connection was lost, the call may have been applied.
            return "same_id" if self.code is grpc.StatusCode.UNAVAILABLE else "no"
        value = self.metadata.get("retryable", "no")
        # A value that a newer server adds must not cause retries.
        return value if value in ("yes", "same_id") else "no"


class SessiondError(Exception):
    """A call to sessiond failed. Base class of all errors that a call of this package raises.

    Attributes:
      code: the gRPC status code.
      reason: the server's reason, such as `STATE_TOO_LARGE`; "" if the transport failed, not the server.
      metadata: the variable parts of the message, as texts.
      field_violations: for an invalid request, pairs of field path and description.
      retry_after_seconds: the delay that the server asks for, or None.
      attempts: how often the call was sent. After more than one attempt, an earlier one may have been applied.
    """

    def __init__(self, status: Status, attempts: int = 1) -> None:
        # The server's message describes the first violation only.
        others = "".join(f"; {path}: {text}" for path, text in status.field_violations[1:])
        self.message = f"{status.message}{others} [{status.reason or status.code.name}]"
        Exception.__init__(self, self.message)
        self._status = status
        self.code = status.code
        self.reason = status.reason
        self.metadata = dict(status.metadata)
        self.field_violations = tuple(status.field_violations)
        self.retry_after_seconds = status.retry_after_seconds
        self.attempts = attempts

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles and copies are made by a call with these arguments, by default with the message alone.
        return type(self), (self._status, self.attempts), self.__dict__


class SessiondNotFoundError(SessiondError, SessionNotFoundError):
    """The session does not exist."""


class SessiondAlreadyExistsError(SessiondError, AlreadyExistsError):
    """The session id, the event id or the request id is taken."""


class SessiondStaleError(SessiondError, StaleSessionError):
    """The session has been modified in storage since it was loaded. Nothing was written.

    With the reason `SESSION_REPLACED`, in every mode: it was deleted, and another session has its id.

    Attributes:
      keys: with `stale="conflict"`, the keys that the event writes and that others have changed; otherwise empty.
    """

    @property
    def keys(self) -> tuple[str, ...]:
        try:
            names = json.loads(self.metadata.get("keys", "[]"))
        except ValueError:
            # A server of another version may write the list differently.
            return ()
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


class SessiondInvalidError(SessiondError, ValueError):
    """The request breaks a rule or a limit. `field_violations` names every field."""


class SessiondUnavailableError(SessiondError, ConnectionError):
    """The server could not be reached or could not serve the call, and the retries are used up.

    With a `reason` the last attempt was not applied, but an earlier one may have been. An append can be called again.
    """


class SessiondUnauthenticatedError(SessiondError, PermissionError):
    """The server does not accept the credentials: they are missing, unknown or expired."""


class SessiondPermissionDeniedError(SessiondError, PermissionError):
    """The server knows the caller, who may not do this."""


class SessiondDeadlineError(SessiondError, TimeoutError):
    """The deadline expired. A write may have been applied; an append can be called again."""


class SessiondClosedError(SessiondError, RuntimeError):
    """The service was closed during the call. A write may have been applied; an append can be called again."""


class StateValueError(ValueError):
    """A state value has no JSON form. Raised before anything is sent.

    Attributes:
      key: the key of the value, with its prefix.
    """

    def __init__(self, key: object, cause: str) -> None:
        super().__init__(f"The value of state key {key!r} cannot be stored: {cause}")
        self.key = key
        self._cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self._cause), self.__dict__


# After these, a series of calls is not continued: the next one would not fare better.
ENDS_A_SERIES = (
    SessiondUnavailableError,
    SessiondDeadlineError,
    SessiondClosedError,
    SessiondUnauthenticatedError,
)

_ERRORS_BY_CODE = {
    grpc.StatusCode.NOT_FOUND: SessiondNotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: SessiondAlreadyExistsError,
    grpc.StatusCode.INVALID_ARGUMENT: SessiondInvalidError,
    grpc.StatusCode.UNAVAILABLE: SessiondUnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: SessiondDeadlineError,
    grpc.StatusCode.UNAUTHENTICATED: SessiondUnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: SessiondPermissionDeniedError,
}


def parse_status(error: grpc.aio.AioRpcError) -> Status:
    """Reads the status of a failed call with its details. Details that cannot be decoded are ignored."""
    reason = ""
    metadata: dict[str, str] = {}
    violations: list[tuple[str, str]] = []
    retry_after = None
    for name, value in error.trailing_metadata() or ():
        if name != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        # A proxy may have damaged the details. The caller still needs the status itself.
        with suppress(DecodeError):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                retry = error_details_pb2.RetryInfo()
                bad_request = error_details_pb2.BadRequest()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    reason, metadata = info.reason, dict(info.metadata)
                elif detail.Unpack(retry):
                    retry_after = retry.retry_delay.ToTimedelta().total_seconds()
                elif detail.Unpack(bad_request):
                    violations = [(one.field, one.description) for one in bad_request.field_violations]
    return Status(error.code(), error.details() or "", reason, metadata, violations, retry_after)


def with_advice(status: Status, target: str, timeout_seconds: float) -> Status:
    """The status with a message that names the server and says what to do, if the transport made it.

    The messages of gRPC name neither sessiond nor the setting that matters.
    """
    if status.reason:
        return status
    match status.code:
        case grpc.StatusCode.UNAVAILABLE:
            message = (
                f"sessiond at {target} is unreachable ({status.message})."
                " Check the address, or start the server with `sessiond serve`."
            )
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            message = (
                f"sessiond at {target} did not respond within {timeout_seconds:g} s ({status.message})."
                " Check the server's log, or raise `timeout`."
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            message = (
                f"The server at {target} does not have this call ({status.message})."
                " Check that it is sessiond, and as new as this package."
            )
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            message = (
                f"The server at {target} refuses the credentials ({status.message}). Check `token_file` and `tls_cert`."
            )
        case _:
            return status
    return replace(status, message=message)


def from_status(status: Status, attempts: int = 1) -> SessiondError:
    """The exception for a status: by reason for a conflict, else by code."""
    if status.reason == "SEQUENCE_CONFLICT":
        return stale_session(status.metadata.get("expected", "?"), status.metadata.get("actual", "?"), attempts)
    if status.reason == "KEY_CONFLICT":
        return _key_conflict(status, attempts)
    if status.reason == SESSION_REPLACED:
        return SessiondStaleError(replace(status, message=_REPLACED), attempts)
    return _ERRORS_BY_CODE.get(status.code, SessiondError)(status, attempts)


def _key_conflict(status: Status, attempts: int) -> SessiondStaleError:
    error = SessiondStaleError(status, attempts)
    keys = ", ".join(error.keys) or "keys that the event writes"
    message = (
        f"The session has been modified in storage since it was loaded: others have changed {keys}."
        " Reload it before appending this event."
    )
    return SessiondStaleError(replace(status, message=message), attempts)


def stale_session(expected: object, actual: object, attempts: int = 1) -> SessiondStaleError:
    """The error of a session object at sequence `expected` while the server is at `actual`.

    Callers of ADK services look for "modified in storage" in the message.
    """
    status = Status(
        grpc.StatusCode.ABORTED,
        "The session has been modified in storage since it was loaded"
        f" (expected sequence {expected}, found {actual}). Reload it before appending more events.",
        "SEQUENCE_CONFLICT",
        {"expected": str(expected), "actual": str(actual)},
    )
    return SessiondStaleError(status, attempts)


_REPLACED = (
    "The session has been modified in storage since it was loaded: it was deleted, and another session has its id."
    " This object cannot be used any more; get_session reads the other session."
)


def session_replaced(app_name: str, user_id: str, session_id: str) -> SessiondStaleError:
    """The error of a read through a session object whose id belongs to another session now."""
    address = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    return SessiondStaleError(Status(grpc.StatusCode.ABORTED, _REPLACED, SESSION_REPLACED, address))


def service_closed() -> SessiondClosedError:
    return SessiondClosedError(Status(grpc.StatusCode.CANCELLED, "The service was closed during the call."))


def session_not_found(app_name: str, user_id: str, session_id: str) -> SessiondNotFoundError:
    """The error of a read that found nothing, as the server words it."""
    return SessiondNotFoundError(
        Status(
            grpc.StatusCode.NOT_FOUND,
            f"There is no session {session_id!r} of user {user_id!r} in application {app_name!r}.",
            "SESSION_NOT_FOUND",
            {"app_name": app_name, "user_id": user_id, "session_id": session_id},
        )
    )
