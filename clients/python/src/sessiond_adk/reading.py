"""Reads of sessions and state, shared by the ADK interface and the extensions."""

from __future__ import annotations

from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from . import errors
from ._proto import event_service_pb2, session_service_pb2, state_service_pb2, types_pb2
from .client import TEXT, Client, session_key
from .sessions import decode_session, select_events, trimmed
from .state import StoredValue, split_object


async def read_session(
    client: Client,
    app_name: str,
    user_id: str,
    session_id: str,
    config: GetSessionConfig | None = None,
    as_of_sequence: int | None = None,
    *,
    include_versions: bool = False,
) -> Session | None:
    """The ADK session, now or as of an event, with the events that `config` selects. None if it does not exist.

    State and events belong to one moment, however many pages the events fill. `include_versions` also reads the version
    of each key.
    """
    session_id = trimmed(session_id)
    if not (app_name and user_id and session_id):
        # No session has such a key. The server would look up a bare session id among the sessions of all users.
        return None
    key = session_key(app_name, user_id, session_id)
    selection = select_events(config)
    request = session_service_pb2.GetSessionRequest(
        key=key,
        events=selection,
        as_of_sequence=as_of_sequence,
        include_versions=include_versions,
        json_form=TEXT,
    )
    try:
        response = await client.call(lambda to: to.sessions.GetSession, request)
        events = list(response.events)
        if response.next_page_token:
            rest = event_service_pb2.ListEventsRequest(
                key=key, selection=selection, page_token=response.next_page_token
            )
            events += [event async for event in client.list_events(rest)]
    except errors.SessiondNotFoundError:
        # Also if it was deleted between two pages.
        return None
    return decode_session(response.session, events)


async def read_stored_session(
    client: Client, key: types_pb2.SessionKey, as_of_sequence: int | None = None, *, include_versions: bool = False
) -> types_pb2.Session:
    """The stored session with merged state and without events, now or as of an event.

    Raises:
      SessiondNotFoundError: it does not exist.
    """
    request = session_service_pb2.GetSessionRequest(
        key=key, as_of_sequence=as_of_sequence, include_versions=include_versions, json_form=TEXT
    )
    return (await client.call(lambda to: to.sessions.GetSession, request)).session


async def read_possibly_created(
    client: Client, error: errors.SessiondError, key: types_pb2.SessionKey, *, include_versions: bool = False
) -> types_pb2.Session | None:
    """The session at `key` if an earlier attempt of the failed call may have created it, else None."""
    if error.attempts == 1 or error.reason != "SESSION_EXISTS":
        return None
    try:
        return await read_stored_session(client, key, include_versions=include_versions)
    except errors.SessiondNotFoundError:
        return None


async def read_state(client: Client, scope: types_pb2.Scope, invocation_id: str = "") -> dict[str, StoredValue]:
    """The merged state of a scope with prefixed keys, and the shared `temp:` keys of an invocation.

    Raises:
      SessiondNotFoundError: the scope is a session that does not exist.
    """
    request = state_service_pb2.GetStateRequest(scope=scope, invocation_id=invocation_id, json_form=TEXT)
    return split_object((await client.call(lambda to: to.state.GetState, request)).state_json)
