"""A client that uses the wire contract alone: `python conversation.py [ADDRESS]`."""

import json
import random
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import grpc
from google.rpc import error_details_pb2, status_pb2
from sessiond.v1 import event_service_pb2 as events
from sessiond.v1 import event_service_pb2_grpc, session_service_pb2_grpc, watch_service_pb2_grpc
from sessiond.v1 import session_service_pb2 as sessions
from sessiond.v1 import types_pb2 as types
from sessiond.v1 import watch_service_pb2 as watches

TIMEOUT_SECS = 10.0  # of one call
RETRY_SECS = 60.0  # of one call and its retries
APP, USER = "weather", "alice"

T = TypeVar("T")


@dataclass
class Failure:
    """What sessiond says about a failed call."""

    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    violations: list[tuple[str, str]] = field(default_factory=list)
    retry_delay: timedelta = timedelta()

    @classmethod
    def of(cls, error: grpc.RpcError) -> "Failure":
        failure = cls()
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        info, retry, request = (
            error_details_pb2.ErrorInfo(),
            error_details_pb2.RetryInfo(),
            error_details_pb2.BadRequest(),
        )
        for detail in status_pb2.Status.FromString(details).details:
            if detail.Unpack(info) and info.domain == "sessiond":
                failure.reason, failure.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                failure.retry_delay = retry.retry_delay.ToTimedelta()
            elif detail.Unpack(request):
                failure.violations = [(one.field, one.description) for one in request.field_violations]
        return failure


def may_repeat(error: grpc.RpcError) -> bool:
    """Whether the same call may be sent again. Every write below has an id, so `same_id` suffices."""
    failure = Failure.of(error)
    if failure.reason:
        return failure.metadata.get("retryable") in ("yes", "same_id")
    # The transport failed, and the call may have been applied.
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Backoff:
    """Waits between attempts, longer each time, until the time for retries is over."""

    def __init__(self) -> None:
        self.give_up_at = time.monotonic() + RETRY_SECS
        self.delay_secs = 0.1

    def wait_or_raise(self, error: grpc.RpcError) -> None:
        if not may_repeat(error) or time.monotonic() > self.give_up_at:
            raise error
        failure = Failure.of(error)
        print(f"retrying after {failure.reason or error.code().name}", file=sys.stderr, flush=True)
        time.sleep(max(self.delay_secs * random.uniform(0.5, 1), failure.retry_delay.total_seconds()))
        self.delay_secs = min(self.delay_secs * 2, 2.0)


def with_retries(call: Callable[[], T]) -> T:
    backoff = Backoff()
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            backoff.wait_or_raise(error)


class Client:
    def __init__(self, address: str) -> None:
        # The server is local, and back soon after a restart. By default gRPC waits for up to two minutes.
        reconnect = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
        self.channel = grpc.insecure_channel(address, options=reconnect)
        self.sessions = session_service_pb2_grpc.SessionServiceStub(self.channel)
        self.events = event_service_pb2_grpc.EventServiceStub(self.channel)
        self.watches = watch_service_pb2_grpc.WatchServiceStub(self.channel)

    def create(self, session_id: str, state: dict[str, object]) -> types.Session:
        request = sessions.CreateSessionRequest(
            app_name=APP,
            user_id=USER,
            session_id=session_id,
            state_json=json.dumps(state),
            allow_existing=True,  # makes the call safe to repeat
            json_form=types.JSON_FORM_TEXT,
        )
        return with_retries(lambda: self.sessions.CreateSession(request, timeout=TIMEOUT_SECS)).session

    def append(self, key: types.SessionKey, event: types.Event) -> events.AppendEventResponse:
        """Appends the event once, however often the call has to be sent."""
        event.event_id = event.event_id or str(uuid.uuid4())
        request = events.AppendEventRequest(key=key, event=event, return_state=True, json_form=types.JSON_FORM_TEXT)
        return with_retries(lambda: self.events.AppendEvent(request, timeout=TIMEOUT_SECS))

    def watch(self, key: types.SessionKey) -> None:
        """Prints the events of a session until nothing is left to catch up on."""
        scope = types.Scope(app_name=key.app_name, user_id=key.user_id, session_id=key.session_id)
        request = watches.WatchRequest(scope=scope, start=watches.WATCH_START_BEGINNING, json_form=types.JSON_FORM_TEXT)
        backoff = Backoff()
        while True:
            try:
                for message in self.watches.Watch(request):
                    request.cursor = message.cursor  # goes on from here after a lost connection
                    backoff = Backoff()
                    match message.WhichOneof("kind"):
                        case "event":
                            print(f"watched event {message.event.sequence} by {message.event.author}")
                        case "caught_up" | "session_deleted" as kind:
                            print(kind.replace("_", " "))
                            return
            except grpc.RpcError as error:
                backoff.wait_or_raise(error)


def says(author: str, role: str, text: str, delta: types.StateDelta) -> types.Event:
    body = {"content": {"role": role, "parts": [{"text": text}]}}
    return types.Event(author=author, invocation_id="turn-1", body_json=json.dumps(body), state_delta=delta)


def main(address: str) -> None:
    client = Client(address)
    session = client.create(str(uuid.uuid4()), {"app:theme": "dark", "topic": "the weather"})
    print(f"created a session with {session.state_json}")

    increment = types.StateOperation(key="user:questions", increment=types.Increment(by=1))
    question = says("user", "user", "Will it rain?", types.StateDelta(operations=[increment]))
    answer = says("agent", "model", "Yes, at noon.", types.StateDelta(set_json=json.dumps({"topic": "rain"})))
    for event in (question, answer):
        appended = client.append(session.key, event)
        again = ", which an earlier attempt had stored" if appended.replayed else ""
        print(f"appended event {appended.event.sequence} by {appended.event.author}{again}")
    print(f"the state is {appended.session.state_json}")

    refused = says("user", "user", "Again?", types.StateDelta(set_json="[]"))
    refused.event_id = "x" * 200
    try:
        client.append(session.key, refused)
    except grpc.RpcError as error:
        failure = Failure.of(error)
        print(f"refused with {failure.reason}, retryable: {failure.metadata['retryable']}")
        for name, value in sorted(failure.metadata.items()):
            print(f"  {name} = {value}")
        for path, description in failure.violations:
            print(f"  {path}: {description}")

    client.watch(session.key)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051")
