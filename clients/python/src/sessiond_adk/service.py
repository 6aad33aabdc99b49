"""The session service that an agent is given."""

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

from ._proto import session_service_pb2, types_pb2
from .address import Address, parse_address
from .append import Appender, Stale
from .beyond import Beyond
from .channel import ChannelOptions
from .client import PAGE_SIZE, TEXT, Client, scope_of, session_key
from .operations import Operation
from .reading import already_made, read_session, read_state
from .retry import RetriedError, RetryPolicy
from .sessions import decode_session, trimmed
from .state import encode_values, is_temp, join_object, without_prefix

# The label that says which call created a session: a second attempt of the same call finds its own mark.
CREATION_LABEL = "sessiond-adk/creation"


# Long enough for a server that is restarted or busy, short enough for a turn that somebody waits for.
DEFAULT_TIMEOUT_SECONDS = 15.0


class SessiondSessionService(Beyond, BaseSessionService):
    """Keeps the kit's sessions in sessiond. In use: `SessiondSessionService("127.0.0.1:50051")`.

    It may be used from any number of tasks, threads and event loops, and as an async context manager. All times are
    seconds since 1970 as floats, all state is what JSON can hold (see `sessiond_adk.state.encode_value`).

    Every method may raise a `SessiondError`; where the kit has a type for what happened, it is that as well. What
    cannot be sent is a ValueError or a TypeError before anything is. A write that fails because the server cannot be
    reached, or takes too long, may have been applied: only an append of the same event can always be called again, any
    other write would be a second one (the README says of each what that means).
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
        """Opens nothing yet: the first call connects.

        Args:
          uri: `HOST:PORT`, `unix:/PATH`, `sessiond://HOST:PORT` or `sessiond:///PATH` of a unix socket. A URI may bring
            `timeout` and `stale` along, as `sessiond://127.0.0.1:50051?timeout=5&stale=error`; arguments win.
          timeout: seconds that a call may take, with all its retries; 15 by default.
          stale: what an append does from a session object that others have overtaken. "merge" (the default): the server
            merges deltas key by key and the object is brought up to date. "error": the kit's StaleSessionError.
          retry: how often and how long to try again on UNAVAILABLE.
          share_temp: also send `temp:` keys, so that other processes that work on the same invocation see them. They
            are never stored, and stay in this process by default.
          close_grace: seconds that `close` lets calls finish.
          channel_options: options of the gRPC channel, added to the package's own.
          agents_dir: ignored; what the kit's registry of services hands to every service.

        Raises:
          ValueError: no such address or setting.
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
        """Creates a session. White space around the id is dropped, and a blank one counts as none: then it is a UUID.

        Raises:
          AlreadyExistsError: the id is taken.
          StateValueError: a value that JSON cannot hold. `temp:` keys are dropped unseen.
        """
        key = session_key(app_name, user_id, trimmed(session_id) or platform_uuid.new_uuid())
        stored = {name: value for name, value in (state or {}).items() if not is_temp(name)}
        mark = uuid.uuid4().hex
        request = session_service_pb2.CreateSessionRequest(
            app_name=app_name,
            user_id=user_id,
            session_id=key.session_id,
            state_json=join_object(encode_values(stored)),
            session=types_pb2.Session(labels={CREATION_LABEL: mark}),
            json_form=TEXT,
        )
        try:
            answered = await self._client.call_knowing(lambda to: to.sessions.CreateSession, request)
            created = answered.answer.session
        except RetriedError as refused:
            # An earlier attempt may have created it and its answer may be lost: then it carries this call's mark.
            found = await already_made(self._client, refused, key)
            if found is None or found.labels.get(CREATION_LABEL) != mark:
                raise refused.error from refused.error.__cause__
            created = found
        return decode_session(created)

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Reads a session with the events that `config` asks for, oldest first; None where there is none.

        State and events belong to one moment, however many pages the events fill.
        """
        return await read_session(self._client, app_name, user_id, session_id, config)

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Lists a user's sessions, or with None everybody's, with their merged state and without events.

        The least recently used comes first; ties are ordered by user and session id.
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
                # A session that is used between two pages comes twice: the later one is newer.
                found[(stored.key.user_id, stored.key.session_id)] = decode_session(stored)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        ordered = sorted(found.values(), key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=ordered)

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events and its own state; where there is none, nothing happens."""
        session_id = trimmed(session_id)
        if not (app_name and user_id and session_id):
            return
        request = session_service_pb2.DeleteSessionRequest(
            key=session_key(app_name, user_id, session_id), allow_missing=True
        )
        await self._client.call(lambda to: to.sessions.DeleteSession, request)

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """A user's state, keys without `user:`; empty for a user that nobody wrote to."""
        if not app_name or not user_id:
            return {}
        known = await read_state(self._client, scope_of(app_name, user_id))
        return without_prefix(known, State.USER_PREFIX)

    @override
    async def append_event(self, session: Session, event: Event, *, operations: Sequence[Operation] = ()) -> Event:
        """Appends an event with its delta in one commit, durable when this returns, and answers `event`.

        `session` is brought up to date in place: its state is what the server has after the commit, with what others
        have changed and without what they have removed; `event` is added to its events. Events that others have
        appended are not: they come with the next `get_session`, or `refresh`. `temp:` keys go into `session` alone, and
        leave `event`. A partial event is answered as it is and changes nothing.

        An event that is stored already, under the same id and with the same content, is not stored again. With
        `stale="error"` it brings a `session` that is behind no further than its own events go.

        Args:
          session: an object that a method of this service has made; any other of the same id works as well.
          event: with an id that is unique within the session.
          operations: changes that the server evaluates in the same commit, on top of the event's `state_delta`; what
            they make of their keys is added to it. Of `temp:` keys only with `share_temp`.

        Raises:
          SessionNotFoundError: there is no such session.
          StaleSessionError: with `stale="error"`, others have appended meanwhile.
          AlreadyExistsError: the session has another event of this id.
          StateValueError: a value that JSON cannot hold; nothing was sent.
        """
        if event.partial:
            return event
        await self._appender.append(session, event, operations)
        return event

    @override
    async def flush(self) -> None:
        """Nothing to do: what has been answered is durable."""

    async def close(self) -> None:
        """Ends watches, lets calls finish for a moment, and closes the channels of all event loops.

        A service that is used afterwards connects anew.
        """
        await self._client.connections.close(self._close_grace)

    async def __aenter__(self) -> Self:
        """The service itself."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the service."""
        await self.close()


def _settings(address: Address) -> dict[str, Any]:
    unknown = address.settings.keys() - {"timeout", "stale"}
    if unknown:
        raise ValueError(f"unknown settings in the address: {', '.join(sorted(unknown))} (there are timeout and stale)")
    settings: dict[str, Any] = dict(address.settings)
    if "timeout" in settings:
        try:
            settings["timeout"] = float(settings["timeout"])
        except ValueError as error:
            raise ValueError(f"the timeout in the address is no number: {settings['timeout']!r}") from error
    return settings
