"""What a refused or failed call raises: the kit's own types where it has one, always with the server's reason.

Whatever fails once a call is under way is a `SessiondError`. Where the kit has a type for what happened, the error is
that as well, so that code written for other session services keeps working: `except AlreadyExistsError`, `except
SessionNotFoundError`, `except StaleSessionError`. What cannot be sent is a ValueError or a TypeError before that, which
is no `SessiondError`: a `StateValueError` where a value of state is at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import grpc
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "sessiond"


@dataclass(frozen=True)
class Refusal:
    """What a status says.

    `reason` is one of the project's docs/errors.md, or "" where the transport made the status; `metadata` holds the
    variable parts of the message as texts, lists as JSON arrays; `faults` are pairs of field and description.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[tuple[str, str]] = ()
    retry_after_seconds: float | None = None


class SessiondError(Exception):
    """A call to sessiond failed; base of all errors of this package that a call raises.

    Attributes:
      code: the gRPC status code.
      reason: the server's reason, such as `STATE_TOO_LARGE`; "" where the transport failed and not the server.
      metadata: the variable parts of the message, as texts.
      faults: for a refused request, every field at fault with what is wrong.
      retry_after_seconds: when the server wants to be asked again, where it said so.
    """

    def __init__(self, refusal: Refusal) -> None:
        """Makes the error that `refusal` tells of."""
        shown = refusal.reason or refusal.code.name
        # The message of the server names the first fault; the others would be lost without this.
        others = "".join(f"; {field}: {text}" for field, text in refusal.faults[1:])
        self.message = f"{refusal.message}{others} [{shown}]"
        Exception.__init__(self, self.message)
        self.code = refusal.code
        self.reason = refusal.reason
        self.metadata = dict(refusal.metadata)
        self.faults = tuple(refusal.faults)
        self.retry_after_seconds = refusal.retry_after_seconds

    def __str__(self) -> str:
        """The sentence, all faults, and the reason in brackets."""
        return self.message


class SessiondNotFoundError(SessiondError, SessionNotFoundError):
    """There is no such session."""


class SessiondAlreadyExistsError(SessiondError, AlreadyExistsError):
    """The session id, the event id or the request id is taken."""


class SessiondStaleError(SessiondError, StaleSessionError):
    """With `stale="error"`: the session has been modified in storage since it was loaded."""


class SessiondInvalidError(SessiondError, ValueError):
    """The request breaks a rule or a limit; `faults` names every field."""


class SessiondUnavailableError(SessiondError, ConnectionError):
    """The server could not be reached, or could not work, for as long as retries were allowed.

    A `reason` says that the last attempt was not applied; one before it may have been. An append can be called again.
    """


class SessiondDeadlineError(SessiondError, TimeoutError):
    """The call took longer than its deadline. A write may have been applied; an append can be called again."""


class SessiondClosedError(SessiondError, RuntimeError):
    """The service was closed during the call. A write may have been applied; an append can be called again."""


class StateValueError(ValueError):
    """A value of state that JSON cannot hold. Raised before anything is sent.

    Attributes:
      key: the key of the value, with its prefix.
    """

    def __init__(self, key: object, why: str) -> None:
        """Names the key and what is wrong with its value."""
        super().__init__(f"the value of state key {key!r} cannot be stored: {why}")
        self.key = key


def read(error: grpc.aio.AioRpcError) -> Refusal:
    """What the status behind `error` says, with its details."""
    reason = ""
    metadata: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    retry_after = None
    for name, value in error.trailing_metadata() or ():
        if name != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        # What something between here and the server has made of the details must not take the place of the error.
        with suppress(DecodeError):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                retry = error_details_pb2.RetryInfo()
                bad = error_details_pb2.BadRequest()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    reason, metadata = info.reason, dict(info.metadata)
                elif detail.Unpack(retry):
                    retry_after = retry.retry_delay.ToTimedelta().total_seconds()
                elif detail.Unpack(bad):
                    faults = [(fault.field, fault.description) for fault in bad.field_violations]
    return Refusal(error.code(), error.details() or "", reason, metadata, faults, retry_after)


def stale(expected: object, actual: object) -> SessiondStaleError:
    """The error for a session of `expected` sequence where the server is at `actual`; the kit looks for these words."""
    return SessiondStaleError(
        Refusal(
            grpc.StatusCode.ABORTED,
            "The session has been modified in storage since it was loaded"
            f" (expected sequence {expected}, found {actual}). Reload it before appending more events.",
            "SEQUENCE_CONFLICT",
            {"expected": str(expected), "actual": str(actual)},
        )
    )


def raised_for(refusal: Refusal) -> SessiondError:
    """The exception to raise for a status: by reason where there is one, else by code."""
    if refusal.reason == "SEQUENCE_CONFLICT":
        return stale(refusal.metadata.get("expected", "?"), refusal.metadata.get("actual", "?"))
    kind = {
        grpc.StatusCode.NOT_FOUND: SessiondNotFoundError,
        grpc.StatusCode.ALREADY_EXISTS: SessiondAlreadyExistsError,
        grpc.StatusCode.INVALID_ARGUMENT: SessiondInvalidError,
        grpc.StatusCode.UNAVAILABLE: SessiondUnavailableError,
        grpc.StatusCode.DEADLINE_EXCEEDED: SessiondDeadlineError,
    }.get(refusal.code, SessiondError)
    return kind(refusal)


def closed() -> SessiondClosedError:
    """The error of a call that closing the service has ended."""
    return SessiondClosedError(Refusal(grpc.StatusCode.CANCELLED, "The service was closed during the call."))


def missing(app_name: str, user_id: str, session_id: str) -> SessiondNotFoundError:
    """The error for a session that is not there."""
    address = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    return SessiondNotFoundError(
        Refusal(
            grpc.StatusCode.NOT_FOUND,
            f"There is no session {session_id!r} of user {user_id!r} in application {app_name!r}.",
            "SESSION_NOT_FOUND",
            address,
        )
    )
