"""Appends an event once, even if the call is repeated, and updates the caller's session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, get_args

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from . import errors
from ._proto import event_service_pb2, session_service_pb2, types_pb2
from .client import TEXT, Client, session_key
from .events import EncodedEvent, decode_delta, decode_event, encode_event
from .locks import ObjectLocks
from .operations import Operation, Remove
from .reading import read_stored_session
from .rewind import values_before
from .sessions import precondition_of
from .state import SessionState, apply_stored_state, is_temp, split_object
from .times import to_nanos, to_seconds

Stale = Literal["merge", "conflict", "error"]


class Appender:
    """Appends events to sessions of one server."""

    def __init__(self, client: Client, *, stale: Stale, share_temp: bool) -> None:
        """`stale` is the answer to appends from outdated sessions. `share_temp` sends `temp:` keys."""
        if stale not in get_args(Stale):
            raise ValueError(f'stale is {stale!r}. It must be "merge", "conflict" or "error".')
        self._client = client
        self._stale = stale
        self._share_temp = share_temp
        self._locks = ObjectLocks()

    @property
    def checks_keys(self) -> bool:
        """Whether appends need the versions of keys, which the calls before them then ask for."""
        return self._stale == "conflict"

    @asynccontextmanager
    async def lock(self, session: Session) -> AsyncIterator[None]:
        """Excludes other appends and refreshes of `session`.

        The lock is that of the state dict, which shallow copies of a session share.
        """
        while True:
            state = session.state
            async with self._locks.hold(state):
                if session.state is state:
                    yield
                    return
            # The previous holder has given the session another dict.

    async def append(
        self, session: Session, event: Event, operations: Sequence[Operation]
    ) -> event_service_pb2.AppendEventResponse:
        """Appends `event` with its delta and `operations`, and updates `session` and `event`.

        Returns the stored event, and the session right after the commit. If the event had been stored before
        (`replayed`), that is the session as of now.

        `session` and `event` change only after the server has responded. A failed call can be repeated with the same
        event and takes effect once.

        Raises:
          StateValueError, ValueError: the request cannot be sent, or an operation is on a `temp:` key that is not
            shared. Nothing was sent.
          SessiondError: the call failed.
        """
        for operation in operations:
            if is_temp(operation.key) and not self._share_temp:
                raise ValueError(
                    f"The server cannot change {operation.key!r}, which is not shared. Pass share_temp=True."
                )
        if not event.id:
            # Every ADK event has an id unless it was removed. Retries need one.
            event.id = Event.new_id()
        key = session_key(session.app_name, session.user_id, session.id)
        restored = await values_before(self._client, key, event, session.state)
        encoded = encode_event(event, operations, share_temp=self._share_temp, restored=restored)
        async with self.lock(session):
            request = event_service_pb2.AppendEventRequest(
                key=key,
                event=encoded.message,
                precondition=precondition_of(session),
                return_state=True,
                json_form=TEXT,
            )
            read_at: int | None = None
            if self._stale == "conflict" and isinstance(session.state, SessionState):
                request.precondition.keys.extend(_unchanged_keys(session.state, encoded, operations))
                request.include_versions = True
            elif self._stale != "merge":
                # The keys of a session that this package has not read are unknown, so it must be current.
                read_at, request.precondition.uid = await self._position(session, key, event)
                request.precondition.expected_sequence = max(read_at, 0)
            response = await self._commit(request, encoded)
            self._client.warn_of_damage(key, response.session.damaged_keys)
            if operations:
                _add_results(encoded.delta, operations, decode_delta(response.event.state_delta))
            _update_caller(session, event, encoded, response, read_at)
            return response

    async def _commit(
        self, request: event_service_pb2.AppendEventRequest, encoded: EncodedEvent
    ) -> event_service_pb2.AppendEventResponse:
        try:
            return await self._client.call(lambda to: to.events.AppendEvent, request)
        except (errors.SessiondAlreadyExistsError, errors.SessiondStaleError) as error:
            # The server checks the sequence before the id: an event that is stored already can fail for either. What
            # another session of this id holds does not answer it.
            replaced = error.reason == errors.SESSION_REPLACED
            stored = None if replaced else await self._find_stored(request.key, encoded)
            if stored is None:
                raise
            session = await read_stored_session(
                self._client, request.key, include_versions=request.include_versions, uid=request.precondition.uid
            )
            return event_service_pb2.AppendEventResponse(event=stored, replayed=True, session=session)

    async def _position(self, session: Session, key: types_pb2.SessionKey, event: Event) -> tuple[int, str]:
        """The sequence that `session` was read at, and its uid; -1 if it is behind by an unknown number of events.

        A session that this package has not read does not hold its sequence. It counts as current if its newest event is
        the newest stored one, as in ADK's own services, or the one before `event` if that is stored already.

        Raises:
          SessiondStaleError: it has events, and the stored session has none.
        """
        if isinstance(session.state, SessionState):
            return session.state.sequence, session.state.uid
        request = session_service_pb2.GetSessionRequest(
            key=key, events=session_service_pb2.EventSelection(recent=2), without_state=True, json_form=TEXT
        )
        response = await self._client.call(lambda to: to.sessions.GetSession, request)
        last_sequence, uid = response.session.last_sequence, response.session.uid
        newest_here = session.events[-1].id if session.events else None
        # Newest first. The pair (None, 0) is the position before the first event.
        stored = [*((one.event_id, one.sequence) for one in reversed(response.events)), (None, 0)]
        newest_stored = stored[0][0]
        if newest_stored == newest_here:
            return last_sequence, uid
        if newest_stored == event.id and stored[1][0] == newest_here:
            return stored[0][1] - 1, uid
        if last_sequence == 0:
            raise errors.stale_session("of its own events", last_sequence)
        # The log has moved on. An expected sequence of 0 makes the server refuse every event that is not stored yet.
        return (0 if newest_here is None else -1), uid

    async def _find_stored(self, key: types_pb2.SessionKey, encoded: EncodedEvent) -> types_pb2.Event | None:
        """The stored event with the id of `encoded`, if the content is equal.

        The server's EVENT_ID_REUSED also covers events that differ only in what is not stored with them: `temp:` keys,
        operations, or fields that another version of ADK writes differently.
        """
        request = event_service_pb2.ListEventsRequest(
            key=key,
            author=encoded.message.author,
            invocation_id=encoded.message.invocation_id,
            selection=session_service_pb2.EventSelection(include_rewound=True),
        )
        async for stored in self._client.list_events(request):
            if stored.event_id == encoded.message.event_id:
                again = encode_event(decode_event(stored))
                texts = {name: text for name, text in encoded.texts.items() if not is_temp(name)}
                equal = again.message.body_json == encoded.message.body_json and again.texts == texts
                return stored if equal else None
        return None


def _unchanged_keys(
    state: SessionState, encoded: EncodedEvent, operations: Sequence[Operation]
) -> Iterator[types_pb2.KeyCheck]:
    """The conditions that no key that the event sets or removes has changed since the session was read.

    Operations other than removals are evaluated in the commit and lose nothing.
    """
    removed = (operation.key for operation in operations if isinstance(operation, Remove))
    for key in dict.fromkeys([*encoded.texts, *removed]):
        if is_temp(key):
            continue
        seen = state.seen.get(key)
        if seen is None:
            yield types_pb2.KeyCheck(key=key, exists=False)
        elif seen.version is not None:
            yield types_pb2.KeyCheck(key=key, version=seen.version)
        else:
            # The response had no versions: of an older server, a fork, a read of the past, an append without state.
            yield types_pb2.KeyCheck(key=key, value_json=seen.text)


def _add_results(delta: dict[str, Any], operations: Sequence[Operation], stored_delta: Mapping[str, Any]) -> None:
    """Makes an event's delta equal to the stored one for the keys of its operations."""
    for operation in operations:
        if operation.key in stored_delta:
            delta[operation.key] = stored_delta[operation.key]
        elif not is_temp(operation.key):
            # The operation removed a new key that the event itself had set.
            delta.pop(operation.key, None)


def _update_caller(
    session: Session,
    event: Event,
    encoded: EncodedEvent,
    response: event_service_pb2.AppendEventResponse,
    read_at: int | None,
) -> None:
    """Updates the caller's `event` and `session` to what is stored.

    With `stale="error"`, `session` was read at `read_at` and advances no further than its own events. A replay can be
    answered long after others have appended, and must not hide their events from the next append.
    """
    delta = encoded.delta
    kept = {key: value for key, value in delta.items() if not is_temp(key)}
    # `temp:` keys move from the event into the caller's session, for the rest of the invocation.
    session.state.update({key: value for key, value in delta.items() if is_temp(key)})
    event.actions.state_delta = kept
    stored, sequence = response.session, response.event.sequence
    reached, contained = stored.last_sequence, False
    if read_at is not None:
        reached, contained = (sequence if sequence == read_at + 1 else read_at), sequence <= read_at
    current = reached == stored.last_sequence
    written = split_object(response.event.state_delta.set_json or "{}")
    removed = response.event.state_delta.remove
    if not current and (contained or reached != sequence):
        # The session contains the event already, or events before it are missing.
        return
    if current and stored.HasField("state_json"):
        apply_stored_state(
            session.state,
            split_object(stored.state_json, stored.versions),
            reached,
            own=delta,
            own_texts=encoded.texts,
            # After a replay, the state is that of now and not that of the event.
            written=() if response.replayed else {*written, *removed},
        )
    else:
        # The response has no state (for one, if it is too large). The event's own changes are known.
        session.state.update(kept)
        for key in removed:
            session.state.pop(key, None)
        if isinstance(session.state, SessionState):
            session.state.sequence = reached
            session.state.record_written(written, removed, sequence)
    if not contained and not (response.replayed and any(other.id == event.id for other in session.events)):
        session.events.append(event)
    # The event's own float if it is the newest, as in ADK's own services.
    nanos = stored.last_event_time.ToNanoseconds()
    newest = not current or to_nanos(event.timestamp) == nanos
    session.last_update_time = event.timestamp if newest else to_seconds(nanos)
