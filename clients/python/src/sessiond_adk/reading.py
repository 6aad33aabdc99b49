"""Reading sessions and state, for the kit's interface and for what goes beyond it."""

from __future__ import annotations

from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from . import errors
from ._proto import event_service_pb2, session_service_pb2, state_service_pb2, types_pb2
from .client import TEXT, Client, session_key
from .retry import RetriedError
from .sessions import decode_session, select_events, trimmed
from .state import Known, split_object


async def read_session(
    client: Client,
    app_name: str,
    user_id: str,
    session_id: str,
    config: GetSessionConfig | None = None,
    as_of_sequence: int | None = None,
) -> Session | None:
    """The kit's session, now or right after an event, with the events that `config` asks for; None where there is none.

    State and events belong to one moment, however many pages the events fill.
    """
    session_id = trimmed(session_id)
    if not (app_name and user_id and session_id):
        # Nothing can be stored there, and a bare session id would be looked up among everybody's.
        return None
    key = session_key(app_name, user_id, session_id)
    selection = select_events(config)
    request = session_service_pb2.GetSessionRequest(
        key=key, events=selection, as_of_sequence=as_of_sequence, json_form=TEXT
    )
    try:
        found = await client.call(lambda to: to.sessions.GetSession, request)
        events = list(found.events)
        if found.next_page_token:
            more = event_service_pb2.ListEventsRequest(key=key, selection=selection, page_token=found.next_page_token)
            events += [event async for event in client.list_events(more)]
    except errors.SessiondNotFoundError:
        # Also where it was deleted between two pages.
        return None
    return decode_session(found.session, events)


async def read_stored(
    client: Client, key: types_pb2.SessionKey, as_of_sequence: int | None = None
) -> types_pb2.Session:
    """The session with its merged state and without events, now or right after an event.

    Raises:
      SessiondNotFoundError: there is none.
    """
    request = session_service_pb2.GetSessionRequest(key=key, as_of_sequence=as_of_sequence, json_form=TEXT)
    return (await client.call(lambda to: to.sessions.GetSession, request)).session


async def already_made(client: Client, refused: RetriedError, key: types_pb2.SessionKey) -> types_pb2.Session | None:
    """The session at `key`, where a retried call was refused for it: an earlier attempt may have made it."""
    if not refused.retried or refused.error.reason != "SESSION_EXISTS":
        return None
    try:
        return await read_stored(client, key)
    except errors.SessiondNotFoundError:
        return None


async def read_state(client: Client, scope: types_pb2.Scope, invocation_id: str = "") -> dict[str, Known]:
    """What is visible from a scope, keys with their prefixes, and the `temp:` keys that an invocation has shared.

    Raises:
      SessiondNotFoundError: the scope is a session's, and there is none.
    """
    request = state_service_pb2.GetStateRequest(scope=scope, invocation_id=invocation_id, json_form=TEXT)
    return split_object((await client.call(lambda to: to.state.GetState, request)).state_json)
