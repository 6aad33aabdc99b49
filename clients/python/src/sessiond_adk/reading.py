"""Reads of sessions and state, shared by the ADK interface and the extensions."""

from __future__ import annotations

import grpc
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from . import errors
from ._proto import event_service_pb2, session_service_pb2, state_service_pb2, types_pb2
from .client import TEXT, Client, scope_of, session_key
from .sessions import decode_session, select_events
from .state import StoredValue, join_object, split_object
from .text import require_sendable

# A read in pages begins anew if its session was deleted and created again between two of them.
_READ_ATTEMPTS = 5


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

    State and events belong to one moment, however many pages the events fill; state that does not fit into a response
    may be newer. `include_versions` also reads the version of each key.
    """
    require_sendable(app_name=app_name, user_id=user_id, session_id=session_id)
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
    attempts = 0
    while True:
        attempts += 1
        try:
            response = await client.call(lambda to: to.sessions.GetSession, request)
            events = list(response.events)
            if response.next_page_token:
                rest = event_service_pb2.ListEventsRequest(
                    key=key, selection=selection, page_token=response.next_page_token
                )
                events += [event async for event in client.list_events(rest)]
            await complete_state(client, response.session, as_of_sequence, include_versions=include_versions)
            return decode_session(response.session, events)
        except errors.SessiondNotFoundError:
            # Also if it was deleted between two pages.
            return None
        except errors.SessiondError as error:
            if error.reason not in (errors.SESSION_REPLACED, "BAD_PAGE_TOKEN") or attempts == _READ_ATTEMPTS:
                raise


async def read_stored_session(
    client: Client,
    key: types_pb2.SessionKey,
    as_of_sequence: int | None = None,
    *,
    include_versions: bool = False,
    uid: str = "",
) -> types_pb2.Session:
    """The stored session with merged state and without events, now or as of an event.

    Raises:
      SessiondNotFoundError: it does not exist.
      SessiondStaleError: another session than that of `uid` has the key.
    """
    request = session_service_pb2.GetSessionRequest(
        key=key, as_of_sequence=as_of_sequence, include_versions=include_versions, json_form=TEXT
    )
    stored: types_pb2.Session = (await client.call(lambda to: to.sessions.GetSession, request)).session
    if uid and stored.uid != uid:
        raise errors.session_replaced(key.app_name, key.user_id, key.session_id)
    await complete_state(client, stored, as_of_sequence, include_versions=include_versions)
    return stored


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


async def complete_state(
    client: Client, stored: types_pb2.Session, as_of_sequence: int | None = None, *, include_versions: bool = False
) -> None:
    """Adds the state that did not fit into the response with `stored`, and warns of damaged keys.

    Raises:
      SessiondNotFoundError, SessiondStaleError: the session was deleted or replaced since that response.
      SessiondError: ANSWER_TOO_LARGE, for the state of the past, which has no pages.
    """
    key = stored.key
    client.warn_of_damage(key, stored.damaged_keys)
    if not stored.state_omitted:
        return
    if as_of_sequence is not None:
        message = f"The state of session {key.session_id!r} as of event {as_of_sequence} does not fit into a response."
        raise errors.SessiondError(
            errors.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, message, "ANSWER_TOO_LARGE", {"retryable": "no"})
        )
    scope = scope_of(key.app_name, key.user_id, key.session_id)
    state = await read_state(client, scope, include_versions=include_versions, uid=stored.uid)
    stored.state_json = join_object({name: item.text for name, item in state.items()})
    stored.versions.update({name: item.seen.version for name, item in state.items() if item.seen.version is not None})


async def read_state(
    client: Client, scope: types_pb2.Scope, invocation_id: str = "", *, include_versions: bool = False, uid: str = ""
) -> dict[str, StoredValue]:
    """The merged state of a scope with prefixed keys, and the shared `temp:` keys of an invocation.

    State that does not fit into one response is read in pages: a key that changes meanwhile has its old or its new
    value.

    Raises:
      SessiondNotFoundError: the scope is a session that does not exist.
      SessiondStaleError: the scope is another session than that of `uid`.
    """
    require_sendable(invocation_id=invocation_id)
    request = state_service_pb2.GetStateRequest(
        scope=scope, invocation_id=invocation_id, include_versions=include_versions, json_form=TEXT
    )
    state: dict[str, StoredValue] = {}
    while True:
        page = await client.call(lambda to: to.state.GetState, request)
        if uid and page.uid != uid:
            raise errors.session_replaced(scope.app_name, scope.user_id, scope.session_id)
        client.warn_of_damage(scope, page.damaged_keys)
        state |= split_object(page.state_json or "{}", page.versions)
        if not page.next_page_token:
            return state
        request.page_token = page.next_page_token
