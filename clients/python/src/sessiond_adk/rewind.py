"""The marker of ADK's own rewind, `Runner.rewind_async`, with the values that the session had at that point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.events.event import Event

from ._proto import event_service_pb2, types_pb2
from .client import TEXT, Client
from .reading import read_stored_session
from .state import StoredValue, is_own, split_object


async def values_before(
    client: Client, key: types_pb2.SessionKey, event: Event, state: Mapping[str, Any]
) -> dict[str, StoredValue]:
    """The session's own values before the invocation that the marker `event` takes it back to.

    ADK puts the marker's delta together from the deltas of earlier events. It does not know what the creation has set,
    and sets these keys to None. The result has the keys of that delta, and those whose values differ in `state`; it is
    empty for other events. The same marker gives the same values again, so that its append can be repeated.
    """
    invocation_id = event.actions.rewind_before_invocation_id
    if not invocation_id:
        return {}
    request = event_service_pb2.ListEventsRequest(key=key, invocation_id=invocation_id, page_size=1, json_form=TEXT)
    first = await _first_event(client, request)
    if first is None:
        return {}
    stored = await read_stored_session(client, key, first.sequence - 1)
    delta = event.actions.state_delta
    return {
        name: item
        for name, item in split_object(stored.state_json or "{}").items()
        if is_own(name) and (name in delta or name not in state or state[name] != item.value)
    }


async def _first_event(client: Client, request: event_service_pb2.ListEventsRequest) -> types_pb2.Event | None:
    """The first event of a list. It need not be on the first page: a page may be empty and still have a token."""
    while True:
        page: event_service_pb2.ListEventsResponse = await client.call(lambda to: to.events.ListEvents, request)
        if page.events:
            return page.events[0]
        if not page.next_page_token:
            return None
        request.page_token = page.next_page_token
