"""What sessiond can do and the kit has no word for: operations, state outside of a turn, the past, expiration,
watches."""

from __future__ import annotations

import copy
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from . import errors
from ._proto import event_service_pb2, session_service_pb2, state_service_pb2, types_pb2
from .append import Appender
from .client import TEXT, Client, scope_of, session_key
from .events import decode_event
from .operations import Delta, Increment, ListAppend, MergePatch, Operation, Remove, SetIfAbsent, encode_delta
from .reading import already_made, read_session, read_state, read_stored
from .retry import RetriedError
from .sessions import decode_session, trimmed
from .state import SessionState, is_temp, split_object, values_of, with_prefix, without_prefix
from .times import to_nanos, to_seconds
from .watch import Start, Watch


@dataclass(frozen=True)
class StoredEvent:
    """An event, and what only the store knows about it.

    Attributes:
      event: the kit's object.
      sequence: its place in the session's log, from 1.
      commit_time: the server's clock at the commit, in seconds since 1970.
      rewound: a rewind hides it from `get_session`.
    """

    event: Event
    sequence: int
    commit_time: float
    rewound: bool


class Beyond:
    """The part of the service that goes beyond the kit's interface."""

    _client: Client
    _appender: Appender

    # Operations through a session object. Each appends an event, which is what any change of a session's state is.

    async def change(self, session: Session, delta: Delta, *, author: str = "system", invocation_id: str = "") -> Event:
        """Changes state that is visible from `session` by an event without content, and brings `session` up to date.

        Answers the event; its `state_delta` holds what the keys became, None for those that were removed.

        Raises:
          SessiondError: with TYPE_MISMATCH (code FAILED_PRECONDITION) where an operation meets a value that it cannot
            work on; as `append_event` otherwise.
        """
        event = Event(author=author, invocation_id=invocation_id, actions=EventActions(state_delta=dict(delta.values)))
        await self._appender.append(session, event, delta.operations)
        return event

    async def _operate(self, session: Session, operation: Operation) -> Any:
        """Appends an event of one operation, and answers what its key was right after that very commit.

        Raises:
          ValueError: a `temp:` key, which no event stores; nothing was sent.
        """
        if is_temp(operation.key):
            raise ValueError(f"{operation.key!r} belongs to an invocation: give the operation to an event of it")
        event = Event(author="system")
        answer = await self._appender.append(session, event, [operation])
        if operation.key in event.actions.state_delta:
            # Not the event's own object, which the caller may change.
            return copy.deepcopy(event.actions.state_delta[operation.key])
        # The commit left the key as it was. A replay's state is of now, and the key may have changed since.
        committed = answer.session
        if answer.replayed or not committed.HasField("state_json"):
            committed = await read_stored(self._client, committed.key, answer.event.sequence)
        known = split_object(committed.state_json).get(operation.key)
        return known.value if known is not None else None

    # What these answer is what the commit of their own event made of the key, whatever others have done since.

    async def increment(self, session: Session, key: str, by: int | float = 1) -> int | float:
        """Adds `by` to a number and answers the sum. No concurrent increment is lost, and no two get the same sum."""
        total: int | float = await self._operate(session, Increment(key, by))
        return total

    async def append_to_list(self, session: Session, key: str, values: Sequence[Any], max_length: int = 0) -> list[Any]:
        """Adds `values` to the end of a list, keeps its newest `max_length` items (0: all), and answers it."""
        items: list[Any] = await self._operate(session, ListAppend(key, values, max_length))
        return items

    async def set_if_absent(self, session: Session, key: str, value: Any) -> Any:
        """Sets a key that has no value, and answers the value that it has then, whoever has set it."""
        return await self._operate(session, SetIfAbsent(key, value))

    async def merge(self, session: Session, key: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Merges `patch` into an object (RFC 7396: None removes a member), and answers it."""
        merged: dict[str, Any] = await self._operate(session, MergePatch(key, patch))
        return merged

    async def remove(self, session: Session, *keys: str) -> None:
        """Removes keys, which setting them to None does not."""
        await self.change(session, Delta(operations=[Remove(key) for key in keys]))

    async def refresh(self, session: Session) -> None:
        """Brings `session` to what is stored now, in place, with the events of others.

        Uncommitted changes of its state are lost, `temp:` keys stay.

        Raises:
          SessionNotFoundError: there is no such session any more.
        """
        # An append of this very object may be under way, which the session that is read may lack.
        async with self._appender.turn(session):
            fresh = await read_session(self._client, session.app_name, session.user_id, session.id)
            if fresh is None:
                raise errors.missing(session.app_name, session.user_id, session.id)
            temp = {key: value for key, value in session.state.items() if key.startswith(State.TEMP_PREFIX)}
            # In place where it can be: an agent's contexts hold the dict, not the session.
            if isinstance(session.state, SessionState) and isinstance(fresh.state, SessionState):
                session.state.become(fresh.state)
            else:
                session.state = fresh.state
            session.state.update(temp)
            session.events[:] = fresh.events
            session.last_update_time = fresh.last_update_time

    # State outside of a turn, and without a session.

    async def get_state(
        self, *, app_name: str, user_id: str | None = None, session_id: str | None = None, invocation_id: str = ""
    ) -> dict[str, Any]:
        """What is visible from an application, a user or a session, keys with their prefixes.

        With `invocation_id` also its `temp:` keys, as far as they were shared.

        Raises:
          SessionNotFoundError: there is no such session. An application or user that nobody wrote to has empty state.
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
        """Changes state outside of a turn and answers what is visible from the scope then, keys with their prefixes.

        An application's scope takes `app:` keys, a user's `app:` and `user:` keys, a session's all but `temp:` ones;
        there the change is an event of the session's log. Carried out once, however often it has to be sent.

        Raises:
          SessiondInvalidError: a key outside of the scope (KEY_OUTSIDE_SCOPE).
        """
        request = state_service_pb2.UpdateStateRequest(
            scope=scope_of(app_name, user_id, session_id),
            delta=encode_delta(delta),
            author=author,
            request_id=uuid.uuid4().hex,
            json_form=TEXT,
        )
        answer = await self._client.call(lambda to: to.state.UpdateState, request)
        return values_of(split_object(answer.state_json))

    async def get_app_state(self, *, app_name: str) -> dict[str, Any]:
        """An application's state, keys without `app:`."""
        return without_prefix(await read_state(self._client, scope_of(app_name)), State.APP_PREFIX)

    async def update_app_state(self, values: Mapping[str, Any], *, app_name: str) -> None:
        """Sets keys of an application's state, written without `app:`."""
        await self.update_state(Delta(with_prefix(values, State.APP_PREFIX)), app_name=app_name)

    async def update_user_state(self, values: Mapping[str, Any], *, app_name: str, user_id: str) -> None:
        """Sets keys of a user's state, written without `user:`."""
        await self.update_state(Delta(with_prefix(values, State.USER_PREFIX)), app_name=app_name, user_id=user_id)

    async def end_invocation(self, session: Session, invocation_id: str) -> None:
        """Drops what `share_temp` has shared of an invocation; by itself it is gone after an hour without use."""
        request = state_service_pb2.EndInvocationRequest(
            key=session_key(session.app_name, session.user_id, session.id), invocation_id=invocation_id
        )
        await self._client.call(lambda to: to.state.EndInvocation, request)

    # The past, and the end.

    async def get_session_as_of(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        sequence: int,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session as it was right after an event, its state in all scopes included; 0: as it was created.

        Raises:
          SessiondError: with BEYOND_LAST_SEQUENCE (code OUT_OF_RANGE).
        """
        return await read_session(self._client, app_name, user_id, session_id, config, as_of_sequence=sequence)

    async def list_events(
        self, *, app_name: str, user_id: str, session_id: str, after_sequence: int = 0, include_rewound: bool = False
    ) -> AsyncIterator[StoredEvent]:
        """A session's events with their sequences, oldest first, page by page.

        Raises:
          SessionNotFoundError: there is no such session.
        """
        request = event_service_pb2.ListEventsRequest(
            key=session_key(app_name, user_id, trimmed(session_id)),
            selection=session_service_pb2.EventSelection(
                after_sequence=after_sequence, include_rewound=include_rewound
            ),
        )
        async for stored in self._client.list_events(request):
            commit_time = to_seconds(stored.commit_time.ToNanoseconds())
            yield StoredEvent(decode_event(stored), stored.sequence, commit_time, stored.rewound)

    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        up_to_sequence: int | None = None,
        new_session_id: str | None = None,
    ) -> Session:
        """Makes a new session of another one's past: its events up to a sequence (None: all) and its state as of then.

        Answers the new session without events; `get_session` reads them.

        Raises:
          SessionNotFoundError: there is no such session.
          AlreadyExistsError: the new id is taken.
        """
        source = session_key(app_name, user_id, trimmed(session_id))
        target = session_key(app_name, user_id, trimmed(new_session_id) or str(uuid.uuid4()))
        request = session_service_pb2.ForkSessionRequest(
            key=source, up_to_sequence=up_to_sequence, session_id=target.session_id, json_form=TEXT
        )
        try:
            answered = await self._client.call_knowing(lambda to: to.sessions.ForkSession, request)
            forked = answered.answer.session
        except RetriedError as refused:
            # A second attempt finds what the first one made. A fork cannot carry a mark, but says where it is from.
            found = await already_made(self._client, refused, target)
            if found is None or found.forked_from.key != source:
                raise refused.error from refused.error.__cause__
            if up_to_sequence is not None and found.forked_from.sequence != up_to_sequence:
                raise refused.error from refused.error.__cause__
            forked = found
        return decode_session(forked)

    async def rewind_session(
        self, *, app_name: str, user_id: str, session_id: str, to_sequence: int, author: str = ""
    ) -> Session:
        """Takes a session back to an event (0: as created) without forgetting anything, and reads it.

        The events behind it no longer show in `get_session`; `list_events(include_rewound=True)` has them all, and a
        rewind can be rewound. Application and user state stay as they are. Unlike the kit's own `Runner.rewind_async`,
        keys that were new are removed, not set to None.

        Raises:
          SessionNotFoundError: there is no such session.
        """
        request = session_service_pb2.RewindSessionRequest(
            key=session_key(app_name, user_id, trimmed(session_id)),
            to_sequence=to_sequence,
            event_id=str(uuid.uuid4()),
            author=author,
            json_form=TEXT,
        )
        await self._client.call(lambda to: to.sessions.RewindSession, request)
        session = await read_session(self._client, app_name, user_id, session_id)
        if session is None:
            raise errors.missing(app_name, user_id, session_id)
        return session

    async def expire_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        at: float | None = None,
        after_seconds: float | None = None,
    ) -> float | None:
        """Lets a session cease to exist `at` a time, or `after_seconds` from the commit on; with neither it stays.

        From then on it is as if it had been deleted: its events and its own state are gone, application and user state
        stay. Using it does not put that off; calling this again does. Answers when it will be, in seconds since 1970
        on the server's clock, as `at` is; None for never.

        Raises:
          SessionNotFoundError: there is no such session.
          SessiondInvalidError: the time is not in the future.
          ValueError: both are given, or one is no time; nothing was sent.
        """
        if at is not None and after_seconds is not None:
            raise ValueError("a session expires at a time or after some seconds, not both")
        request = session_service_pb2.UpdateSessionRequest(
            key=session_key(app_name, user_id, trimmed(session_id)), session=types_pb2.Session()
        )
        if at is not None:
            request.session.expire_time.FromNanoseconds(to_nanos(at))
        elif after_seconds is not None:
            request.session.ttl.FromNanoseconds(to_nanos(after_seconds))
        request.update_mask.paths.append("expire_time" if after_seconds is None else "ttl")
        updated = (await self._client.call(lambda to: to.sessions.UpdateSession, request)).session
        return to_seconds(updated.expire_time.ToNanoseconds()) if updated.HasField("expire_time") else None

    # What happens now.

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
        """Follows what is committed in a session, a user or an application: `async for item in service.watch(…)`.

        See `Watch` for what comes, and for how it goes on when the connection breaks.
        """
        return Watch(
            self._client, scope_of(app_name, user_id, session_id), cursor, start, reconnect_seconds=reconnect_seconds
        )
