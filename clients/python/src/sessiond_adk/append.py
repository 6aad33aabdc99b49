"""Appending an event: what is sent, what a second attempt means, and what the caller's session is afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from google.adk.events.event import Event
from google.adk.sessions.session import Session

from . import errors
from ._proto import event_service_pb2, session_service_pb2, types_pb2
from .client import TEXT, Client, session_key
from .events import Sent, decode_delta, decode_event, encode_event
from .operations import Operation
from .reading import read_stored
from .state import SessionState, bring_up_to_date, is_temp, split_object
from .times import to_nanos, to_seconds
from .turns import Turns

Stale = Literal["merge", "error"]


class Appender:
    """Appends events to sessions of one server."""

    def __init__(self, client: Client, *, stale: Stale, share_temp: bool) -> None:
        """With `stale="error"` an append from a session that is behind is refused; `share_temp` sends `temp:` keys."""
        if stale not in ("merge", "error"):
            raise ValueError(f'stale is {stale!r} and can be "merge" or "error"')
        self._client = client
        self._stale = stale
        self._share_temp = share_temp
        self._turns = Turns()

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncIterator[None]:
        """Waits until nobody else changes `session` to what an answer of the server says.

        By its state, which shallow copies of a session share.
        """
        while True:
            held = session.state
            async with self._turns.at(held):
                if session.state is held:
                    yield
                    return
            # Whoever had the turn before has given the session another dict.

    async def append(
        self, session: Session, event: Event, operations: Sequence[Operation]
    ) -> event_service_pb2.AppendEventResponse:
        """Appends `event` with its delta and `operations`, and brings `session` and `event` up to date.

        Answers what the server has stored: the event as it was committed, and the session as it was right after that,
        or as it is now where the event had been stored before (`replayed`).

        Until the server has answered, neither `session` nor `event` is changed: a call that fails can be repeated with
        the same event, and takes effect once.

        Raises:
          StateValueError, ValueError: something that cannot be sent, or, an operation on a `temp:` key that is not
            shared, may not be; before anything is.
          SessiondError: refused or failed.
        """
        for operation in operations:
            if is_temp(operation.key) and not self._share_temp:
                raise ValueError(f"{operation.key!r} stays in this process: the server could not change it")
        if not event.id:
            # An id makes a retry safe; the kit gives one to every event, unless it was taken away.
            event.id = Event.new_id()
        sent = encode_event(event, operations, share_temp=self._share_temp)
        key = _key_of(session)
        async with self.turn(session):
            request = event_service_pb2.AppendEventRequest(
                key=key, event=sent.message, return_state=True, json_form=TEXT
            )
            read_at: int | None = None
            if self._stale == "error":
                read_at = await self._read_at(session, key, event)
                request.precondition.expected_sequence = max(read_at, 0)
            answer = await self._commit(request, sent)
            if operations:
                _take_results(event, operations, decode_delta(answer.event.state_delta))
            _settle(session, event, sent, answer, read_at)
            return answer

    async def _commit(
        self, request: event_service_pb2.AppendEventRequest, sent: Sent
    ) -> event_service_pb2.AppendEventResponse:
        try:
            return await self._client.call(lambda to: to.events.AppendEvent, request)
        except (errors.SessiondAlreadyExistsError, errors.SessiondStaleError):
            # The sequence is checked before the id: an event that is stored may be refused for either.
            stored = await self._find_equal(request.key, sent)
            if stored is None:
                raise
            session = await read_stored(self._client, request.key)
            return event_service_pb2.AppendEventResponse(event=stored, replayed=True, session=session)

    async def _read_at(self, session: Session, key: types_pb2.SessionKey, event: Event) -> int:
        """The sequence that `session` was read at; -1 where it is behind and nobody knows by how much.

        A session that was not read through this package does not say. Then it counts as up to date when its newest
        event is the stored one, as in the kit's own services, or the one before `event` where that is stored already.

        Raises:
          SessiondStaleError: it has events where none is stored.
        """
        if isinstance(session.state, SessionState):
            return session.state.sequence
        request = session_service_pb2.GetSessionRequest(
            key=key, events=session_service_pb2.EventSelection(recent=2), without_state=True, json_form=TEXT
        )
        found = await self._client.call(lambda to: to.sessions.GetSession, request)
        last = found.session.last_sequence
        mine = session.events[-1].id if session.events else None
        # Newest first; before the oldest there is nothing.
        stored = [*((one.event_id, one.sequence) for one in reversed(found.events)), (None, 0)]
        newest = stored[0][0]
        if newest == mine:
            return last
        if newest == event.id and stored[1][0] == mine:
            return stored[0][1] - 1
        if last == 0:
            raise errors.stale("of its own events", last)
        # The log has gone on. The server refuses what is not stored already, as it does from a session read at 0.
        return 0 if mine is None else -1

    async def _find_equal(self, key: types_pb2.SessionKey, sent: Sent) -> types_pb2.Event | None:
        """The stored event of this id, where it equals the one sent.

        The server says EVENT_ID_REUSED also for an event that differs only in what does not outlive its first append:
        `temp:` keys, operations, or what another version of the kit writes differently.
        """
        request = event_service_pb2.ListEventsRequest(
            key=key,
            author=sent.message.author,
            invocation_id=sent.message.invocation_id,
            selection=session_service_pb2.EventSelection(include_rewound=True),
        )
        async for stored in self._client.list_events(request):
            if stored.event_id == sent.message.event_id:
                again = encode_event(decode_event(stored))
                texts = {name: text for name, text in sent.texts.items() if not is_temp(name)}
                equal = again.message.body_json == sent.message.body_json and again.texts == texts
                return stored if equal else None
        return None


def _key_of(session: Session) -> types_pb2.SessionKey:
    return session_key(session.app_name, session.user_id, session.id)


def _take_results(event: Event, operations: Sequence[Operation], became: Mapping[str, Any]) -> None:
    """Makes the event say of the keys of its operations what the stored one says, which is what they `became`."""
    for operation in operations:
        if operation.key in became:
            event.actions.state_delta[operation.key] = became[operation.key]
        elif not is_temp(operation.key):
            # It made nothing of it, and undid what the event itself has set: removing a key that is new.
            event.actions.state_delta.pop(operation.key, None)


def _settle(
    session: Session,
    event: Event,
    sent: Sent,
    answer: event_service_pb2.AppendEventResponse,
    read_at: int | None,
) -> None:
    """Brings the caller's event, and `session` with it, to what is stored now.

    Where stale is an error, `session` was `read_at` a sequence, and comes no further than its own events go: a replay
    is answered long after others may have appended, and must not hide that from the next append.
    """
    delta = event.actions.state_delta
    kept = {key: value for key, value in delta.items() if not is_temp(key)}
    # `temp:` keys live in the caller's session for the rest of the invocation, and leave the event.
    session.state.update({key: value for key, value in delta.items() if is_temp(key)})
    event.actions.state_delta = kept
    now, place = answer.session, answer.event.sequence
    reached, had = now.last_sequence, False
    if read_at is not None:
        reached, had = (place if place == read_at + 1 else read_at), place <= read_at
    up_to_date = reached == now.last_sequence
    if not up_to_date and (had or reached != place):
        # The event is one that the session had, or would stand in it behind a gap.
        return
    if up_to_date and now.HasField("state_json"):
        known = split_object(now.state_json)
        bring_up_to_date(session.state, known, reached, own=delta, own_texts=sent.texts)
    else:
        # Also where the state is too large for an answer: what the event itself has made is known all the same.
        session.state.update(kept)
        for key in answer.event.state_delta.remove:
            session.state.pop(key, None)
        if isinstance(session.state, SessionState):
            session.state.sequence = reached
    if not had and not (answer.replayed and any(other.id == event.id for other in session.events)):
        session.events.append(event)
    # For the newest event the same moment as a float, which is what the kit's services keep.
    nanos = now.last_event_time.ToNanoseconds()
    newest = not up_to_date or to_nanos(event.timestamp) == nanos
    session.last_update_time = event.timestamp if newest else to_seconds(nanos)
