"""What the service offers beyond ADK's interface: operations, state without a session, history, expiry, watches."""

from __future__ import annotations

import copy
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from . import errors
from ._proto import event_service_pb2, session_service_pb2, state_service_pb2, types_pb2
from .append import Appender
from .client import PAGE_SIZE, TEXT, Client, scope_of, session_key
from .operations import Delta, Increment, ListAppend, MergePatch, Operation, Remove, SetIfAbsent, encode_delta
from .reading import complete_state, read_possibly_created, read_session, read_state, read_stored_session
from .sessions import decode_session, key_of, precondition_of
from .state import SessionState, is_temp, split_object, values_of, with_prefix, without_prefix
from .stored import StoredEvent, decode_ref, decode_stored, encode_ref
from .text import require_sendable
from .times import to_nanos, to_seconds
from .watch import Start, Watch


class Extensions:
    """The methods of the service beyond ADK's interface."""

    _client: Client
    _appender: Appender

    async def _read(
        self, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session now, with what appends from it need. None if it does not exist."""
        return await read_session(
            self._client, app_name, user_id, session_id, config, include_versions=self._appender.checks_keys
        )

    # Operations through a session object. Each appends an event, as every change of a session's state does.

    async def change(self, session: Session, delta: Delta, *, author: str = "system", invocation_id: str = "") -> Event:
        """Changes state that is visible from `session` with an event without content, and updates `session`.

        Returns the event. Its `state_delta` has the new value of each key, None for removed keys.

        Raises:
          SessiondError: TYPE_MISMATCH (code FAILED_PRECONDITION) if an operation does not fit the stored value;
            otherwise as `append_event`.
        """
        event = Event(author=author, invocation_id=invocation_id, actions=EventActions(state_delta=dict(delta.values)))
        await self._appender.append(session, event, delta.operations)
        return event

    async def _operate(self, session: Session, operation: Operation) -> Any:
        """Appends an event with one operation, and returns the value of its key right after that commit.

        Raises:
          ValueError: a `temp:` key, which no event stores; nothing was sent.
        """
        if is_temp(operation.key):
            raise ValueError(f"{operation.key!r} belongs to an invocation. Pass the operation to append_event.")
        event = Event(author="system")
        response = await self._appender.append(session, event, [operation])
        if operation.key in event.actions.state_delta:
            # A copy: the caller may change it, and the event is in session.events.
            return copy.deepcopy(event.actions.state_delta[operation.key])
        # The commit did not change the key. The state of a replay is that of now, so it is read as of the commit.
        committed = response.session
        if response.replayed or not committed.HasField("state_json"):
            committed = await read_stored_session(
                self._client, committed.key, response.event.sequence, uid=committed.uid
            )
        stored = split_object(committed.state_json).get(operation.key)
        return stored.value if stored is not None else None

    # These return the result of their own commit, even if others have changed the key since.

    async def increment(self, session: Session, key: str, by: int | float = 1) -> int | float:
        """Adds `by` to a number and returns the sum. No concurrent increment is lost, and no two return one sum."""
        total: int | float = await self._operate(session, Increment(key, by))
        return total

    async def append_to_list(self, session: Session, key: str, values: Sequence[Any], max_length: int = 0) -> list[Any]:
        """Appends `values` to a list, keeps its newest `max_length` items (0: all), and returns it."""
        items: list[Any] = await self._operate(session, ListAppend(key, values, max_length))
        return items

    async def set_if_absent(self, session: Session, key: str, value: Any) -> Any:
        """Sets a key that has no value, and returns its value, whether this call or another has set it."""
        return await self._operate(session, SetIfAbsent(key, value))

    async def merge(self, session: Session, key: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Merges `patch` into an object (RFC 7396: None removes a member), and returns it."""
        merged: dict[str, Any] = await self._operate(session, MergePatch(key, patch))
        return merged

    async def remove(self, session: Session, *keys: str) -> None:
        """Removes keys. Setting a key to None stores a null instead."""
        await self.change(session, Delta(operations=[Remove(key) for key in keys]))

    async def refresh(self, session: Session) -> None:
        """Updates `session` in place to what is stored, including the events of others.

        Uncommitted changes of its state are lost. `temp:` keys stay.

        Raises:
          SessionNotFoundError: the session does not exist any more.
          StaleSessionError: it was deleted, and another session has its id.
        """
        # Without the lock, the session that is read could lack an event that an in-flight append adds to `session`.
        async with self._appender.lock(session):
            fresh = await self._read(session.app_name, session.user_id, session.id)
            if fresh is None:
                raise errors.session_not_found(session.app_name, session.user_id, session.id)
            known, found = precondition_of(session), precondition_of(fresh)
            if known and known != found:
                raise errors.session_replaced(session.app_name, session.user_id, session.id)
            temp = {key: value for key, value in session.state.items() if key.startswith(State.TEMP_PREFIX)}
            # In place if possible: an agent's contexts hold the dict, not the session.
            if isinstance(session.state, SessionState) and isinstance(fresh.state, SessionState):
                session.state.replace_with(fresh.state)
            else:
                session.state = fresh.state
            session.state.update(temp)
            session.events[:] = fresh.events
            session.last_update_time = fresh.last_update_time

    # State without a session object.

    async def get_state(
        self, *, app_name: str, user_id: str | None = None, session_id: str | None = None, invocation_id: str = ""
    ) -> dict[str, Any]:
        """Reads the merged state of an application, a user or a session, with prefixed keys.

        With `invocation_id` also the `temp:` keys that were shared in that invocation.

        Raises:
          SessionNotFoundError: the session does not exist. An application or user without state has an empty dict.
        """
        return values_of(await read_state(self._client, scope_of(app_name, user_id, session_id), invocation_id))

    async def update_state(
        self,
        delta: Delta,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        author: str = "",
    ) -> dict[str, Any]:
        """Changes state outside an invocation, and returns the merged state of the scope with prefixed keys.

        An application's scope accepts `app:` keys; a user's, `app:` and `user:` keys; a session's, all but `temp:`
        keys. A change through a session is an event of its log; `change` makes it through a session object. Retries
        within the call apply the delta once.

        Raises:
          SessiondInvalidError: a key is outside the scope (KEY_OUTSIDE_SCOPE).
        """
        require_sendable(author=author)
        scope = scope_of(app_name, user_id, session_id)
        request = state_service_pb2.UpdateStateRequest(
            scope=scope, delta=encode_delta(delta), author=author, request_id=uuid.uuid4().hex, json_form=TEXT
        )
        response = await self._client.call(lambda to: to.state.UpdateState, request)
        if response.state_omitted:
            return values_of(await read_state(self._client, scope))
        self._client.warn_of_damage(scope, response.damaged_keys)
        return values_of(split_object(response.state_json))

    async def get_app_state(self, *, app_name: str) -> dict[str, Any]:
        """Reads an application's state. Keys come without `app:`."""
        return without_prefix(await read_state(self._client, scope_of(app_name)), State.APP_PREFIX)

    async def update_app_state(self, values: Mapping[str, Any], *, app_name: str) -> None:
        """Sets keys of an application's state. Pass them without `app:`."""
        await self.update_state(Delta(with_prefix(values, State.APP_PREFIX)), app_name=app_name)

    async def update_user_state(self, values: Mapping[str, Any], *, app_name: str, user_id: str) -> None:
        """Sets keys of a user's state. Pass them without `user:`."""
        await self.update_state(Delta(with_prefix(values, State.USER_PREFIX)), app_name=app_name, user_id=user_id)

    async def end_invocation(self, session: Session, invocation_id: str) -> None:
        """Drops the `temp:` keys that were shared in an invocation. Otherwise they expire after an hour without use."""
        require_sendable(invocation_id=invocation_id)
        request = state_service_pb2.EndInvocationRequest(
            key=session_key(session.app_name, session.user_id, session.id), invocation_id=invocation_id
        )
        await self._client.call(lambda to: to.state.EndInvocation, request)

    # History and expiry.

    async def get_session_as_of(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        sequence: int,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Reads the session as it was right after an event, with the state of all scopes. 0: as it was created.

        Raises:
          SessiondError: BEYOND_LAST_SEQUENCE (code OUT_OF_RANGE).
        """
        return await read_session(self._client, app_name, user_id, session_id, config, as_of_sequence=sequence)

    async def list_events(
        self, *, app_name: str, user_id: str, session_id: str, after_sequence: int = 0, include_rewound: bool = False
    ) -> AsyncIterator[StoredEvent]:
        """Yields a session's events with their sequences, oldest first, page by page.

        Raises:
          SessionNotFoundError: the session does not exist.
        """
        request = event_service_pb2.ListEventsRequest(
            key=session_key(app_name, user_id, session_id),
            selection=session_service_pb2.EventSelection(
                after_sequence=after_sequence, include_rewound=include_rewound
            ),
        )
        async for stored in self._client.list_events(request):
            yield decode_stored(stored)

    async def get_events(
        self, refs: Sequence[str | int], *, app_name: str, user_id: str, session_id: str
    ) -> tuple[list[StoredEvent], list[str | int]]:
        """Reads events of a session by their ids (`str`) and sequences (`int`), also those that a rewind hid.

        Returns the events in the order of `refs`, one that is named twice twice, and the refs that name no event.
        Without refs it sends nothing.

        Raises:
          SessionNotFoundError: the session does not exist.
          TypeError, ValueError: a ref is neither an id nor a sequence.
          SessiondInvalidError: an id is empty or a sequence negative (INVALID_ARGUMENT).
        """
        if isinstance(refs, str):
            raise TypeError(f"refs is the text {refs!r}. Pass a list.")
        key = session_key(app_name, user_id, session_id)
        encoded = [encode_ref(ref) for ref in refs]
        found: list[StoredEvent] = []
        missing: list[str | int] = []
        for start in range(0, len(encoded), PAGE_SIZE):
            request = event_service_pb2.BatchGetEventsRequest(
                key=key, refs=encoded[start : start + PAGE_SIZE], json_form=TEXT
            )
            while True:
                page = await self._client.call(lambda to: to.events.BatchGetEvents, request)
                found += map(decode_stored, page.events)
                missing += map(decode_ref, page.missing)
                if not page.next_page_token:
                    break
                request.page_token = page.next_page_token
        return found, missing

    # Each takes a session object or its ids. With the object, another session that was created under its id since then
    # is never written to.

    async def fork_session(
        self,
        session: Session | None = None,
        *,
        app_name: str = "",
        user_id: str = "",
        session_id: str = "",
        up_to_sequence: int | None = None,
        new_session_id: str | None = None,
    ) -> Session:
        """Creates a session with the events of another up to a sequence (None: all), and its state as of then.

        Returns the new session without events; `get_session` reads them. It has the display name, labels and expiry of
        its source. Without `new_session_id` its id is a UUID.

        Raises:
          SessionNotFoundError: the session does not exist.
          StaleSessionError: `session` was deleted, and another session has its id.
          AlreadyExistsError: the new id is taken.
        """
        source = key_of(session, app_name, user_id, session_id)
        target = session_key(source.app_name, source.user_id, new_session_id or str(uuid.uuid4()))
        request = session_service_pb2.ForkSessionRequest(
            key=source,
            up_to_sequence=up_to_sequence,
            session_id=target.session_id,
            json_form=TEXT,
            precondition=precondition_of(session),
        )
        try:
            forked = (await self._client.call(lambda to: to.sessions.ForkSession, request)).session
        except errors.SessiondAlreadyExistsError as error:
            # The response of an earlier attempt may be lost. A fork has no creation label, but it names its source.
            found = await read_possibly_created(self._client, error, target)
            if found is None or found.forked_from.key != source:
                raise
            if up_to_sequence is not None and found.forked_from.sequence != up_to_sequence:
                raise
            forked = found
        await complete_state(self._client, forked)
        return decode_session(forked)

    async def rewind_session(
        self,
        session: Session | None = None,
        *,
        app_name: str = "",
        user_id: str = "",
        session_id: str = "",
        to_sequence: int,
        author: str = "",
    ) -> Session:
        """Rewinds a session to an event (0: as created), and reads it.

        `get_session` no longer shows the events after it; `list_events(include_rewound=True)` does, and a rewind can be
        rewound. Application and user state stay. Unlike ADK's own `Runner.rewind_async`, this removes keys that were
        new instead of setting them to None. A session object is not changed; `refresh` does that.

        Raises:
          SessionNotFoundError: the session does not exist.
          StaleSessionError: `session` was deleted, and another session has its id.
        """
        require_sendable(author=author)
        key = key_of(session, app_name, user_id, session_id)
        request = session_service_pb2.RewindSessionRequest(
            key=key,
            to_sequence=to_sequence,
            event_id=str(uuid.uuid4()),
            author=author,
            precondition=precondition_of(session),
            json_form=TEXT,
        )
        await self._client.call(lambda to: to.sessions.RewindSession, request)
        rewound = await self._read(key.app_name, key.user_id, key.session_id)
        if rewound is None:
            raise errors.session_not_found(key.app_name, key.user_id, key.session_id)
        return rewound

    async def expire_session(
        self,
        session: Session | None = None,
        *,
        app_name: str = "",
        user_id: str = "",
        session_id: str = "",
        at: float | None = None,
        after_seconds: float | None = None,
    ) -> float | None:
        """Sets when a session expires: `at` a time, `after_seconds` from the commit, or never (neither is given).

        An expired session is as if deleted: its events and its own state are gone, application and user state stay.
        Using the session does not postpone the expiry; calling this again does. Returns the expiry in seconds since
        1970 on the server's clock, which `at` refers to as well; None for never.

        Raises:
          SessionNotFoundError: the session does not exist.
          StaleSessionError: `session` was deleted, and another session has its id.
          SessiondInvalidError: the time is not in the future.
          ValueError: both arguments are given, or one is not finite; nothing was sent.
        """
        if at is not None and after_seconds is not None:
            raise ValueError("Both at and after_seconds are given. Pass at most one.")
        request = session_service_pb2.UpdateSessionRequest(
            key=key_of(session, app_name, user_id, session_id),
            session=types_pb2.Session(),
            precondition=precondition_of(session),
        )
        if at is not None:
            request.session.expire_time.FromNanoseconds(to_nanos(at))
        elif after_seconds is not None:
            request.session.ttl.FromNanoseconds(to_nanos(after_seconds))
        request.update_mask.paths.append("expire_time" if after_seconds is None else "ttl")
        updated = (await self._client.call(lambda to: to.sessions.UpdateSession, request)).session
        return to_seconds(updated.expire_time.ToNanoseconds()) if updated.HasField("expire_time") else None

    def watch(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        cursor: str = "",
        start: Start = "snapshot",
        reconnect_seconds: float = 60.0,
    ) -> Watch:
        """Watches the committed changes of a session, a user or an application: `async for item in service.watch(…)`.

        `Watch` describes the items, and how a watch resumes when the connection breaks.
        """
        return Watch(
            self._client, scope_of(app_name, user_id, session_id), cursor, start, reconnect_seconds=reconnect_seconds
        )
