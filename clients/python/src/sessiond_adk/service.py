"""`SessiondSessionService`: ADK's session service interface."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from google.adk.events.event import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from typing_extensions import override

from . import errors
from ._proto import session_service_pb2, types_pb2
from .address import Address, parse_address
from .append import Appender, Stale
from .channel import ChannelOptions
from .client import PAGE_SIZE, TEXT, Client, scope_of, session_key
from .extensions import Extensions
from .operations import Operation
from .reading import read_possibly_created, read_session, read_state
from .retry import RetryPolicy
from .sessions import decode_session, trimmed
from .state import encode_values, is_temp, join_object, without_prefix

# This label names the call that created a session, so that a retry recognizes the session of its first attempt.
CREATION_LABEL = "sessiond-adk/creation"

# Long enough for a server that restarts or is busy, short enough for a user who waits for a response.
DEFAULT_TIMEOUT_SECONDS = 15.0


class SessiondSessionService(Extensions, BaseSessionService):
    """Stores ADK sessions in sessiond: `SessiondSessionService("127.0.0.1:50051")`.

    It can be shared by tasks, threads and event loops, and is an async context manager. Times are seconds since 1970 as
    floats. State values must have a JSON form (see `sessiond_adk.state.encode_value`).

    Every method may raise a `SessiondError`, which is also ADK's own exception where ADK has one. A request that cannot
    be encoded raises a ValueError or a TypeError before anything is sent. A write that fails because the server is
    unreachable or slow may have been applied. Only an append of the same event can always be repeated; the README
    describes the other writes.
    """

    def __init__(
        self,
        uri: str = "127.0.0.1:50051",
        *,
        timeout: float | None = None,
        stale: Stale | None = None,
        retry: RetryPolicy | None = None,
        share_temp: bool = False,
        close_grace: float = 5.0,
        channel_options: ChannelOptions = (),
        agents_dir: str | None = None,
    ) -> None:
        """Does not connect; the first call does.

        Args:
          uri: `HOST:PORT`, `unix:/PATH`, `sessiond://HOST:PORT` or `sessiond:///PATH` of a unix socket. A URI may set
            `timeout` and `stale`: `sessiond://127.0.0.1:50051?timeout=5&stale=error`. Arguments take precedence.
          timeout: deadline of a call in seconds, including its retries; 15 by default.
          stale: the append from a session object that others have overtaken. "merge" (default): the server merges
            deltas key by key, and the object is updated. "error": ADK's StaleSessionError.
          retry: number and delays of the attempts of a call.
          share_temp: also sends `temp:` keys, for other processes that work on the same invocation. They are never
            stored. By default they stay in this process.
          close_grace: seconds that `close` waits for in-flight calls.
          channel_options: gRPC channel options, added to the defaults.
          agents_dir: ignored. ADK's service registry passes it to every service.

        Raises:
          ValueError: an invalid address or setting.
        """
        del agents_dir
        address = parse_address(uri)
        settings = _settings(address)
        chosen = timeout if timeout is not None else settings.get("timeout", DEFAULT_TIMEOUT_SECONDS)
        self._client = Client(
            address.target, timeout_seconds=float(chosen), retry=retry or RetryPolicy(), options=channel_options
        )
        self._appender = Appender(self._client, stale=stale or settings.get("stale", "merge"), share_temp=share_temp)
        self._close_grace = close_grace

    @override
    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Creates a session. The id is trimmed; a blank id or None becomes a UUID. `temp:` keys are dropped.

        Raises:
          AlreadyExistsError: the id is taken.
          StateValueError: a value has no JSON form; nothing was sent.
        """
        key = session_key(app_name, user_id, trimmed(session_id) or platform_uuid.new_uuid())
        stored_keys = {name: value for name, value in (state or {}).items() if not is_temp(name)}
        creation = uuid.uuid4().hex
        request = session_service_pb2.CreateSessionRequest(
            app_name=app_name,
            user_id=user_id,
            session_id=key.session_id,
            state_json=join_object(encode_values(stored_keys)),
            session=types_pb2.Session(labels={CREATION_LABEL: creation}),
            json_form=TEXT,
        )
        try:
            created = (await self._client.call(lambda to: to.sessions.CreateSession, request)).session
        except errors.SessiondAlreadyExistsError as error:
            # The response of an earlier attempt may be lost. Its session has the label of this call.
            found = await read_possibly_created(self._client, error, key)
            if found is None or found.labels.get(CREATION_LABEL) != creation:
                raise
            created = found
        return decode_session(created)

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Reads a session with the events that `config` selects, oldest first. Returns None if it does not exist.

        State and events belong to one moment, however many pages the events fill.
        """
        return await read_session(self._client, app_name, user_id, session_id, config)

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Lists the sessions of a user, or of all users (None), with merged state and without events.

        The least recently used session comes first. Ties are ordered by user id and session id.
        """
        if not app_name or user_id == "":
            return ListSessionsResponse()
        request = session_service_pb2.ListSessionsRequest(
            app_name=app_name,
            user_id=user_id or "",
            page_size=PAGE_SIZE,
            include_state=True,
            json_form=TEXT,
        )
        found: dict[tuple[str, str], Session] = {}
        while True:
            page = await self._client.call(lambda to: to.sessions.ListSessions, request)
            for stored in page.sessions:
                # A session that is used between two pages is in both. The later one is newer.
                found[(stored.key.user_id, stored.key.session_id)] = decode_session(stored)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        ordered = sorted(found.values(), key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=ordered)

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events and its own state. A missing session is no error."""
        session_id = trimmed(session_id)
        if not (app_name and user_id and session_id):
            return
        request = session_service_pb2.DeleteSessionRequest(
            key=session_key(app_name, user_id, session_id), allow_missing=True
        )
        await self._client.call(lambda to: to.sessions.DeleteSession, request)

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Reads a user's state. Keys come without `user:`. A user without state has an empty dict."""
        if not app_name or not user_id:
            return {}
        stored = await read_state(self._client, scope_of(app_name, user_id))
        return without_prefix(stored, State.USER_PREFIX)

    @override
    async def append_event(self, session: Session, event: Event, *, operations: Sequence[Operation] = ()) -> Event:
        """Appends an event with its delta in one durable commit, and returns `event`.

        `session` is updated in place: its state becomes the server's state after the commit, including the changes and
        removals of others, and `event` is added to its events. Events of others are not added; `get_session` and
        `refresh` read them. `temp:` keys move from `event` into `session`. A partial event is returned unchanged and
        changes nothing.

        An event that is stored already, with the same id and the same content, is not stored again. With
        `stale="error"`, repeating it advances an outdated `session` no further than its own events.

        Args:
          session: a session of this service, or any other object with the same key.
          event: an event with an id that is unique within the session.
          operations: operations that the server evaluates in the same commit, after the event's `state_delta`. Their
            results are added to the delta. On `temp:` keys only with `share_temp`.

        Raises:
          SessionNotFoundError: the session does not exist.
          StaleSessionError: with `stale="error"`, others have appended since the session was read.
          AlreadyExistsError: the session has another event with this id.
          StateValueError: a value has no JSON form; nothing was sent.
        """
        if event.partial:
            return event
        await self._appender.append(session, event, operations)
        return event

    @override
    async def flush(self) -> None:
        """Does nothing: every append that has returned is durable."""

    async def close(self) -> None:
        """Ends watches, waits `close_grace` seconds for in-flight calls, and closes the channels of all event loops.

        The next call connects again.
        """
        await self._client.connections.close(self._close_grace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _settings(address: Address) -> dict[str, Any]:
    unknown = address.settings.keys() - {"timeout", "stale"}
    if unknown:
        raise ValueError(f"Unknown settings in the address: {', '.join(sorted(unknown))}. Use timeout or stale.")
    settings: dict[str, Any] = dict(address.settings)
    if "timeout" in settings:
        try:
            settings["timeout"] = float(settings["timeout"])
        except ValueError as error:
            raise ValueError(f"timeout is {settings['timeout']!r} in the address. It must be a number.") from error
    return settings
