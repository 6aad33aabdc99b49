"""One way to call the server, for everything in this package: deadline, retries, errors, messages of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from ._proto import event_service_pb2, types_pb2
from .channel import ChannelOptions, Connection, Connections
from .retry import Answered, RetriedError, RetryPolicy, call

Answer = TypeVar("Answer")
Method = Callable[[Any], Awaitable[Answer]]

# Items of one page: as many as the server gives at once, which also cuts pages by what a message can hold.
PAGE_SIZE = 1000
TEXT = types_pb2.JSON_FORM_TEXT


class Client:
    """Calls the server at one target."""

    def __init__(self, target: str, *, timeout_seconds: float, retry: RetryPolicy, options: ChannelOptions) -> None:
        """Opens nothing yet."""
        if not timeout_seconds > 0:
            raise ValueError(f"the timeout is {timeout_seconds} seconds and must be more than none")
        self.target = target
        self.timeout_seconds = timeout_seconds
        self.retry = retry
        self.connections = Connections(target, options)

    async def call_knowing(self, method: Callable[[Connection], Method[Answer]], request: object) -> Answered[Answer]:
        """Calls `method(connection)` with `request` and tells whether an earlier attempt may have been carried out.

        Raises:
          RetriedError: holding the SessiondError, and the same knowledge.
          SessiondClosedError: the service was closed meanwhile.
        """
        # One connection for all attempts: a service that is closed between two of them ends the call, as a closed
        # channel refuses the next one.
        connection = self.connections.here()

        async def attempt(seconds_left: float) -> Answer:
            answer: Answer = await connection.invoke(method(connection), request, seconds_left)
            return answer

        return await call(attempt, timeout_seconds=self.timeout_seconds, policy=self.retry)

    async def call(self, method: Callable[[Connection], Method[Answer]], request: object) -> Answer:
        """Calls `method(connection)` with `request`.

        Raises:
          SessiondError: it failed.
        """
        try:
            return (await self.call_knowing(method, request)).answer
        except RetriedError as error:
            raise error.error from error.error.__cause__

    async def list_events(self, request: event_service_pb2.ListEventsRequest) -> AsyncIterator[types_pb2.Event]:
        """All events from `request`'s page on, page by page."""
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
    """The address of a session.

    Raises:
      ValueError: a part is empty. A bare session id would be looked up among everybody's sessions.
    """
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        if not value:
            raise ValueError(f"{name} is empty")
    return types_pb2.SessionKey(app_name=app_name, user_id=user_id, session_id=session_id)


def scope_of(app_name: str, user_id: str | None = None, session_id: str | None = None) -> types_pb2.Scope:
    """An application's scope, a user's, or a session's.

    Raises:
      ValueError: a part that is given is empty, or a session comes without its user.
    """
    if session_id is not None and user_id is None:
        raise ValueError("a session's scope needs its user_id")
    for name, value in (("app_name", app_name), ("user_id", user_id), ("session_id", session_id)):
        if value == "":
            raise ValueError(f"{name} is empty")
    return types_pb2.Scope(app_name=app_name, user_id=user_id or "", session_id=session_id or "")
