"""The calls of one replica, with the stubs of the Python adapter."""

import sys
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

# The stubs alone: the adapter itself needs ADK.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients" / "python" / "src" / "sessiond_adk"))

from _proto import event_service_pb2 as events
from _proto import event_service_pb2_grpc, session_service_pb2_grpc, watch_service_pb2_grpc
from _proto import session_service_pb2 as sessions
from _proto import types_pb2 as types
from _proto import watch_service_pb2 as watches

# Seconds that a call may take.
DEADLINE = 5
# A client connects again soon to a replica that was away. The minimum is the time that connecting may take.
BACKOFF = {"initial": 100, "min": 3000, "max": 200}
RECONNECT = [(f"grpc.{name}_reconnect_backoff_ms", millis) for name, millis in BACKOFF.items()]


def failure(error: grpc.RpcError) -> str:
    """The code of a failed call, and its reason if a replica gave one."""
    code: str = error.code().name
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            info = error_details_pb2.ErrorInfo()
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(info):
                    return f"{code} {info.reason}"
    return code


def session_key(app: str, session: str) -> types.SessionKey:
    return types.SessionKey(app_name=app, user_id="user", session_id=session)


class Client:
    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, RECONNECT)
        self.sessions = session_service_pb2_grpc.SessionServiceStub(self.channel)
        self.events = event_service_pb2_grpc.EventServiceStub(self.channel)
        self.watches = watch_service_pb2_grpc.WatchServiceStub(self.channel)
        # An empty request is about the whole server. The answer has one number.
        self.check: Any = self.channel.unary_unary("/grpc.health.v1.Health/Check")

    def is_serving(self) -> bool:
        try:
            # A channel connects only while a call waits for it.
            return bool(self.check(b"", timeout=1, wait_for_ready=True) == b"\x08\x01")
        except grpc.RpcError:
            return False

    def create(self, key: types.SessionKey) -> None:
        request = sessions.CreateSessionRequest(app_name=key.app_name, user_id=key.user_id, session_id=key.session_id)
        self.sessions.CreateSession(request, timeout=DEADLINE)

    def append(self, key: types.SessionKey, event_id: str) -> int:
        """The sequence of an event that counts in its session and in the application."""
        event = types.Event(event_id=event_id, author="user", body_json="{}")
        for name in ("n", "app:n"):
            event.state_delta.operations.add(key=name).increment.by = 1
        request = events.AppendEventRequest(key=key, event=event, json_form=types.JSON_FORM_TEXT)
        return int(self.events.AppendEvent(request, timeout=DEADLINE).event.sequence)

    def get(self, key: types.SessionKey) -> types.Session:
        request = sessions.GetSessionRequest(key=key, json_form=types.JSON_FORM_TEXT)
        return self.sessions.GetSession(request, timeout=DEADLINE).session

    def list_events(self, key: types.SessionKey) -> list[types.Event]:
        found: list[types.Event] = []
        request = events.ListEventsRequest(key=key, page_size=1000, json_form=types.JSON_FORM_TEXT)
        while True:
            page = self.events.ListEvents(request, timeout=DEADLINE)
            found += page.events
            request.page_token = page.next_page_token
            if not request.page_token:
                return found

    def watch(self, key: types.SessionKey, cursor: str) -> Any:
        """A stream from a cursor, or from the beginning."""
        scope = types.Scope(app_name=key.app_name, user_id=key.user_id, session_id=key.session_id)
        start, form = watches.WATCH_START_BEGINNING, types.JSON_FORM_TEXT
        return self.watches.Watch(watches.WatchRequest(scope=scope, cursor=cursor, start=start, json_form=form))
