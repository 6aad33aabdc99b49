"""The client that the whole package calls the server through: deadlines, retries, errors, addresses."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

from google.adk.sessions.state import State

from ._proto import event_service_pb2, types_pb2
from .channel import Connect, Connection, Connections
from .metadata import CallMetadata
from .retry import Outage, RetryPolicy, call_with_retries
from .text import require_sendable

logger = logging.getLogger(__name__)

Response = TypeVar("Response")
Method = Callable[[Any], Awaitable[Response]]

# The server's maximum, which is also the most refs of a request. It also cuts pages at the size of a message.
PAGE_SIZE = 1000
TEXT = types_pb2.JSON_FORM_TEXT

# Of damaged keys that were named in the log. One that is forgotten is named again.
_MOST_NAMED = 1000


class Client:
    """Calls the server at one target. Connects at the first call."""

    def __init__(
        self,
        target: str,
        connect: Connect,
        *,
        timeout_seconds: float,
        retry: RetryPolicy,
        metadata: CallMetadata,
        absent_seconds: float = math.inf,
    ) -> None:
        """`target` is the server's address in messages; `connect` makes the channel of an event loop.

        `absent_seconds` is the timeout while the server has never responded.
        """
        if not 0 < timeout_seconds < math.inf:
            raise ValueError(f"timeout is {timeout_seconds} seconds. It must be positive and finite.")
        self.target = target
        self.timeout_seconds = timeout_seconds
        self.absent_seconds = absent_seconds
        self.retry = retry
        self.outage = Outage(target)
        self.metadata = metadata
        self.connections = Connections(connect, metadata)
        self._damaged: set[tuple[str, str, str]] = set()

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
            absent_seconds=self.absent_seconds,
        )

    def warn_of_damage(self, owner: types_pb2.SessionKey | types_pb2.Scope, keys: Iterable[str]) -> None:
        """Logs the shared keys that the server left out because their stored values are damaged, each once."""
        shared_by = {key: "" if key.startswith(State.APP_PREFIX) else owner.user_id for key in keys}
        new = {key: (owner.app_name, user, key) for key, user in shared_by.items()}
        new = {key: named for key, named in new.items() if named not in self._damaged}
        if not new:
            return
        if len(self._damaged) + len(new) > _MOST_NAMED:
            self._damaged.clear()
        self._damaged.update(new.values())
        logger.warning(
            "application %s, user %s: left out of the state, because the stored values are damaged: %s",
            owner.app_name,
            owner.user_id,
            ", ".join(new),
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
    """The full key of a session. Ids are sent as they are.

    Raises:
      ValueError: a part is empty, or has half a surrogate pair. The server would look up a bare session id among the
        sessions of all users.
    """
    require_sendable(app_name=app_name, user_id=user_id, session_id=session_id)
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        if not value:
            raise ValueError(f"{name} is empty.")
    return types_pb2.SessionKey(app_name=app_name, user_id=user_id, session_id=session_id)


def scope_of(app_name: str, user_id: str | None = None, session_id: str | None = None) -> types_pb2.Scope:
    """The scope of an application, a user or a session.

    Raises:
      ValueError: a part is empty or has half a surrogate pair, or a session comes without its user.
    """
    if session_id is not None and user_id is None:
        raise ValueError("session_id needs a user_id.")
    require_sendable(app_name=app_name, user_id=user_id, session_id=session_id)
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        if value == "":
            raise ValueError(f"{name} is empty.")
    return types_pb2.Scope(app_name=app_name, user_id=user_id or "", session_id=session_id or "")
