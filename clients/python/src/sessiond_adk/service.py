"""`SessiondSessionService`: ADK's session service interface."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import grpc
from google.adk.events.event import Event
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from typing_extensions import override

from . import errors
from ._proto import session_service_pb2, types_pb2
from .address import parse_address, read_settings
from .append import Appender, Stale
from .channel import ChannelOptions, Connect, Stubs, connect_to
from .client import PAGE_SIZE, TEXT, Client, scope_of, session_key
from .credentials import CredentialFiles, PathLike
from .extensions import Extensions
from .loop_thread import LoopThread
from .metadata import CallMetadata, Metadata, MetadataSource
from .operations import Operation
from .reading import complete_state, read_possibly_created, read_state
from .retry import RetryPolicy
from .sessions import decode_session, key_of, precondition_of
from .state import encode_values, is_temp, join_object, without_prefix
from .text import require_sendable

# This label names the call that created a session, so that a retry recognizes the session of its first attempt.
CREATION_LABEL = "sessiond-adk/creation"

# Long enough for a server that restarts or is busy, short enough for a user who waits for a response.
DEFAULT_TIMEOUT_SECONDS = 15.0

# The same for a server on this machine that has never responded. One that starts together with the agent takes less.
DEFAULT_ABSENT_SECONDS = 3.0


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
        share_temp: bool | None = None,
        close_grace: float = 5.0,
        channel_options: ChannelOptions = (),
        tls_ca: PathLike | None = None,
        tls_cert: PathLike | None = None,
        tls_key: PathLike | None = None,
        token_file: PathLike | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: MetadataSource = (),
        channel: Connect | None = None,
        agents_dir: str | None = None,
    ) -> None:
        """Does not connect; the first call does.

        Args:
          uri: `HOST:PORT`, `unix:/PATH`, `sessiond://HOST:PORT`, `sessiond:///PATH` of a unix socket,
            `http://HOST:PORT`, or `https://HOST:PORT` for TLS. A URI may set `timeout`, `stale`, `share_temp`,
            `attempts`, `first_delay` and `max_delay`: `sessiond://127.0.0.1:50051?timeout=5&stale=conflict`. Arguments
            take precedence.
          timeout: deadline of a call in seconds, including its retries; 15 by default, and 3 while a server at a
            loopback address or a Unix socket has never responded. A call is retried until then.
          stale: the append from a session object that others have overtaken. "merge" (default): the server merges
            deltas key by key, and the object is updated. "conflict": merged as well, but ADK's StaleSessionError if
            others have changed a key that the event sets or removes since the object was read. "error": a
            StaleSessionError if others have appended anything.
          retry: number and delays of the attempts of a call.
          share_temp: also sends `temp:` keys, for other processes that work on the same invocation. They are never
            stored. By default they stay in this process.
          close_grace: seconds that `close` waits for in-flight calls.
          channel_options: gRPC channel options. They override the defaults.
          tls_ca: PEM file with the authority of the server's certificate, for an https address. By default those that
            gRPC comes with are trusted. The default of this argument and of the next three is an environment
            variable: SESSIOND_TLS_CA, SESSIOND_CLIENT_TLS_CERT, SESSIOND_CLIENT_TLS_KEY and SESSIOND_TOKEN_FILE.
          tls_cert: PEM file with the client's certificate, for a server that asks for one.
          tls_key: PEM file with the private key of that certificate.
          token_file: file with a token that is sent with every call. It is read again when it changes. Without TLS
            the address must be a loopback address or a Unix socket.
          credentials: use TLS with these instead of files, for example `grpc.ssl_channel_credentials(…)`.
          metadata: sent with every call, or a function that returns it, which is called for each attempt and must not
            block. Names are in lower case.
          channel: a function that makes the channel, for example with interceptors, instead of files, `credentials` and
            `channel_options`. It is called on each event loop that uses the service, and again there for each 200
            watches: its channels must not share a connection. `uri` is then a name for messages.
          agents_dir: ignored. ADK's service registry passes it to every service.

        Raises:
          ValueError: an invalid address or setting, or a file that cannot be used.
        """
        del agents_dir
        address = parse_address(uri)
        settings = read_settings(address)
        given = {"tls_ca": tls_ca, "tls_cert": tls_cert, "tls_key": tls_key, "token_file": token_file}
        files_are_given = any(path is not None for path in given.values())
        if channel is not None and (credentials is not None or channel_options or files_are_given):
            raise ValueError("channel excludes credentials, files and channel_options. Pass them to your own channel.")
        if credentials is not None and any((tls_ca, tls_cert, tls_key)):
            raise ValueError("credentials exclude tls_ca, tls_cert and tls_key. Use one or the other.")
        token = None
        if channel is None:
            files = CredentialFiles(os.environ, **given)
            if credentials is None:
                credentials = files.channel_credentials(address)
            token = files.token_file(address, encrypted=credentials is not None)
        if timeout is None:
            timeout = settings.get("timeout")
        by_default_and_local = timeout is None and channel is None and address.local
        self._client = Client(
            address.target,
            channel or connect_to(address.target, credentials, channel_options),
            timeout_seconds=DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout,
            absent_seconds=DEFAULT_ABSENT_SECONDS if by_default_and_local else math.inf,
            retry=retry or _retry_policy(settings),
            metadata=CallMetadata(metadata, token),
        )
        if share_temp is None:
            share_temp = settings.get("share_temp", False)
        self._appender = Appender(self._client, stale=stale or settings.get("stale", "merge"), share_temp=share_temp)
        self._loop_thread = LoopThread()
        self._close_grace = close_grace

    @override
    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Creates a session. The id is trimmed; a blank id or None becomes a UUID. `temp:` keys are dropped.

        This is the only call that trims an id, as ADK's in-memory and SQLite services do: the returned session has the
        id that other calls need.

        Raises:
          AlreadyExistsError: the id is taken.
          StateValueError: a value has no JSON form, or a key cannot be sent; nothing was sent.
        """
        return await self._create(app_name, user_id, (session_id or "").strip() or platform_uuid.new_uuid(), state)

    async def _create(self, app_name: str, user_id: str, session_id: str, state: Mapping[str, Any] | None) -> Session:
        """Creates a session with this very id."""
        key = session_key(app_name, user_id, session_id)
        stored_keys = {name: value for name, value in (state or {}).items() if not is_temp(name)}
        creation = uuid.uuid4().hex
        request = session_service_pb2.CreateSessionRequest(
            app_name=app_name,
            user_id=user_id,
            session_id=key.session_id,
            state_json=join_object(encode_values(stored_keys)),
            session=types_pb2.Session(labels={CREATION_LABEL: creation}),
            include_versions=self._appender.checks_keys,
            json_form=TEXT,
        )
        try:
            created = (await self._client.call(lambda to: to.sessions.CreateSession, request)).session
        except errors.SessiondAlreadyExistsError as error:
            # The response of an earlier attempt may be lost. Its session has the label of this call.
            found = await read_possibly_created(self._client, error, key, include_versions=request.include_versions)
            if found is None or found.labels.get(CREATION_LABEL) != creation:
                raise
            created = found
        await complete_state(self._client, created, include_versions=request.include_versions)
        return decode_session(created)

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Reads a session with the events that `config` selects, oldest first. Returns None if it does not exist.

        State and events belong to one moment, however many pages the events fill.
        """
        return await self._read(app_name, user_id, session_id, config)

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Lists the sessions of a user, or of all users (None), with merged state and without events.

        The least recently used session comes first. Ties are ordered by user id and session id.
        """
        require_sendable(app_name=app_name, user_id=user_id)
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
                # Deleted, or replaced by another session, after the page was made: as if before it.
                with suppress(errors.SessiondNotFoundError, errors.SessiondStaleError):
                    await complete_state(self._client, stored)
                    # A session that is used between two pages is in both. The later one is newer.
                    found[(stored.key.user_id, stored.key.session_id)] = decode_session(stored)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        ordered = sorted(found.values(), key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=ordered)

    @override
    async def delete_session(
        self, session: Session | None = None, *, app_name: str = "", user_id: str = "", session_id: str = ""
    ) -> None:
        """Deletes a session with its events and its own state. A missing session is not an error.

        Pass a session object instead of its ids, and another session that was created under its id since then stays,
        also if the call is repeated.
        """
        if session is None and not (app_name and user_id and session_id):
            return
        request = session_service_pb2.DeleteSessionRequest(
            key=key_of(session, app_name, user_id, session_id),
            allow_missing=True,
            precondition=precondition_of(session),
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
          StaleSessionError: with `stale="conflict"`, others have changed a key that the event sets or removes since the
            session was read (`keys`); with `stale="error"`, others have appended anything. Nothing was written.
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

    # ADK's in-memory service has these too. They block the thread, so agents use the methods above.

    def create_session_sync(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """As `create_session`, for scripts and tests without an event loop. Blocks the thread."""
        creation = self.create_session(app_name=app_name, user_id=user_id, state=state, session_id=session_id)
        return self._loop_thread.run(creation)

    def get_session_sync(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """As `get_session`. Blocks the thread."""
        reading = self.get_session(app_name=app_name, user_id=user_id, session_id=session_id, config=config)
        return self._loop_thread.run(reading)

    def list_sessions_sync(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """As `list_sessions`. Blocks the thread."""
        return self._loop_thread.run(self.list_sessions(app_name=app_name, user_id=user_id))

    def delete_session_sync(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """As `delete_session`. Blocks the thread."""
        self._loop_thread.run(self.delete_session(app_name=app_name, user_id=user_id, session_id=session_id))

    @property
    def stubs(self) -> Stubs:
        """The generated stubs on this event loop's channel, for calls that the service has no method for.

        A call through a stub is one attempt: it has no default deadline, is not retried, and raises
        `grpc.aio.AioRpcError`. The messages are in `sessiond_adk.proto`. Pass
        `metadata=service.call_metadata(request)`.
        """
        return self._client.connections.current()

    def call_metadata(self, request: object = None) -> Metadata:
        """The metadata for a call through `stubs` that begins now: `metadata`, the token and the trace context.

        With the `request` of the call, also its hint for load balancers.
        """
        return self._client.metadata(request)

    async def close(self) -> None:
        """Ends watches, waits `close_grace` seconds for in-flight calls, and closes the channels of all event loops.

        The next call connects again.
        """
        await self._client.connections.close(self._close_grace)
        self._loop_thread.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _retry_policy(settings: Mapping[str, Any]) -> RetryPolicy:
    defaults = RetryPolicy()
    return RetryPolicy(
        settings.get("attempts", defaults.attempts),
        settings.get("first_delay", defaults.first_delay_seconds),
        settings.get("max_delay", defaults.max_delay_seconds),
    )
