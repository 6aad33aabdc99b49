"""The client that the whole package calls the server through: deadlines, retries, errors, addresses."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from ._proto import event_service_pb2, types_pb2
from .channel import Connect, Connection, Connections
from .metadata import CallMetadata
from .retry import Outage, RetryPolicy, call_with_retries

Response = TypeVar("Response")
Method = Callable[[Any], Awaitable[Response]]

# The server's maximum. It also cuts pages at the size of a message.
PAGE_SIZE = 1000
TEXT = types_pb2.JSON_FORM_TEXT


class Client:
    """Calls the server at one target. Connects at the first call."""

    def __init__(
        self, target: str, connect: Connect, *, timeout_seconds: float, retry: RetryPolicy, metadata: CallMetadata
    ) -> None:
        """`target` is the server's address in messages; `connect` makes the channel of an event loop."""
        if not 0 < timeout_seconds < math.inf:
            raise ValueError(f"timeout is {timeout_seconds} seconds. It must be positive and finite.")
        self.target = target
        self.timeout_seconds = timeout_seconds
        self.retry = retry
        self.outage = Outage(target)
        self.metadata = metadata
        self.connections = Connections(connect, metadata)

    async def call(self, method: Callable[[Connection], Method[Response]], request: object) -> Response:
        """Calls `method(connection)` with `request`.

        Raises:
          SessiondError: the call failed, or the service was closed during the call.
        """
        # All attempts use one connection, so that closing the service between two attempts ends the call.
        connection = self.connections.current()

        async def attempt(seconds_left: float) -> Response:
            response: Response = await connection.invoke(method(connection), request, seconds_left)
            return response

        return await call_with_retries(
            attempt,
            timeout_seconds=self.timeout_seconds,
            policy=self.retry,
            target=self.target,
            outage=self.outage,
        )

    async def list_events(self, request: event_service_pb2.ListEventsRequest) -> AsyncIterator[types_pb2.Event]:
        """Yields all events from the page of `request` on. Changes `request`."""
        request.page_size = PAGE_SIZE
        request.json_form = TEXT
        while True:
            page = await self.call(lambda to: to.events.ListEvents, request)
            for event in page.events:
                yield event
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def session_key(app_name: str, user_id: str, session_id: str) -> types_pb2.SessionKey:
    """The full key of a session.

    Raises:
      ValueError: a part is empty. The server would look up a bare session id among the sessions of all users.
    """
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        if not value:
            raise ValueError(f"{name} is empty.")
    return types_pb2.SessionKey(app_name=app_name, user_id=user_id, session_id=session_id)


def scope_of(app_name: str, user_id: str | None = None, session_id: str | None = None) -> types_pb2.Scope:
    """The scope of an application, a user or a session, whose id is trimmed.

    Raises:
      ValueError: a part is empty, or a session comes without its user.
    """
    if session_id is not None and user_id is None:
        raise ValueError("session_id needs a user_id.")
    session_id = session_id and session_id.strip()
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        if value == "":
            raise ValueError(f"{name} is empty.")
    return types_pb2.Scope(app_name=app_name, user_id=user_id or "", session_id=session_id or "")
