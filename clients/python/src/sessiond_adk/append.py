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
          StateValueError, ValueError: something that cannot be sent, before anything is.
          SessiondError: refused or failed.
        """
        if not event.id:
            # An id makes a retry safe; the kit gives one to every event, unless it was taken away.
            event.id = Event.new_id()
        sent = encode_event(event, operations, share_temp=self._share_temp)
        key = _key_of(session)
        async with self.turn(session):
            request = event_service_pb2.AppendEventRequest(
                key=key, event=sent.message, return_state=True, json_form=TEXT
            )
            if self._stale == "error":
                request.precondition.expected_sequence = await self._expected_sequence(session, key, event)
            answer = await self._commit(request, sent)
            if operations:
                _take_results(event, operations, decode_delta(answer.event.state_delta))
            _settle(session, event, sent, answer)
            return answer

    async def _commit(
        self, request: event_service_pb2.AppendEventRequest, sent: Sent
    ) -> event_service_pb2.AppendEventResponse:
        try:
            return await self._client.call(lambda to: to.events.AppendEvent, request)
        except errors.SessiondAlreadyExistsError:
            stored = await self._find_equal(request.key, sent)
            if stored is None:
                raise
            session = await self._present(request.key)
            return event_service_pb2.AppendEventResponse(event=stored, replayed=True, session=session)

    async def _expected_sequence(self, session: Session, key: types_pb2.SessionKey, event: Event) -> int:
        """The sequence that `session` was read at.

        A session that was not read through this package does not say; then it counts as up to date when its newest
        event is the stored one, as in the kit's own services.

        Raises:
          SessiondStaleError: it is not.
        """
        if isinstance(session.state, SessionState):
            return session.state.sequence
        request = session_service_pb2.GetSessionRequest(
            key=key, events=session_service_pb2.EventSelection(recent=1), without_state=True, json_form=TEXT
        )
        found = await self._client.call(lambda to: to.sessions.GetSession, request)
        newest = found.events[-1].event_id if found.events else None
        mine = session.events[-1].id if session.events else None
        if newest not in (mine, event.id):
            raise errors.stale("of its own events", found.session.last_sequence)
        return found.session.last_sequence

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

    async def _present(self, key: types_pb2.SessionKey) -> types_pb2.Session:
        request = session_service_pb2.GetSessionRequest(key=key, json_form=TEXT)
        return (await self._client.call(lambda to: to.sessions.GetSession, request)).session


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


def _settle(session: Session, event: Event, sent: Sent, answer: event_service_pb2.AppendEventResponse) -> None:
    """Brings the caller's session and event to what is stored now."""
    stored = answer.session
    delta = event.actions.state_delta
    kept = {key: value for key, value in delta.items() if not is_temp(key)}
    # `temp:` keys live in the caller's session for the rest of the invocation, and leave the event.
    session.state.update({key: value for key, value in delta.items() if is_temp(key)})
    event.actions.state_delta = kept
    if stored.HasField("state_json"):
        known = split_object(stored.state_json)
        bring_up_to_date(session.state, known, stored.last_sequence, own=delta, own_texts=sent.texts)
    else:
        # The state is too large for an answer: what the event itself has set is known all the same.
        session.state.update(kept)
        if isinstance(session.state, SessionState):
            session.state.sequence = stored.last_sequence
    if not (answer.replayed and any(known.id == event.id for known in session.events)):
        session.events.append(event)
    # For the newest event the same moment as a float, which is what the kit's services keep.
    nanos = stored.last_event_time.ToNanoseconds()
    session.last_update_time = event.timestamp if to_nanos(event.timestamp) == nanos else to_seconds(nanos)
