"""State as JSON text, and updates of a session object's state."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from google.adk.sessions.session import Session

from sessiond_adk.state import (
    SeenValue,
    SessionState,
    apply_stored_state,
    encode_values,
    join_object,
    split_object,
)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"": None},
        {"a": 1, "b": [1, {"c": "}"}], "d": '\\"}{,:', "e": {"f": {}}, 'q"': "\u2028"},
        {"n": -1.5e-7, "t": True, "big": 10**400},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_split_object_returns_members_with_their_texts(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    stored = split_object(text)
    assert {key: item.value for key, item in stored.items()} == value
    assert all(json.loads(item.text) == item.value for item in stored.values())
    assert split_object(join_object({key: item.text for key, item in stored.items()})) == stored


@pytest.mark.parametrize(
    "text", ["", " ", "[]", "1", '{"a":1', '{"a" 1}', '{"a":1 "b":2}', "{1:2}", '{"a":}', "{a:1}", "{"]
)
def test_split_object_refuses_other_texts(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json raises other messages than this package
        split_object(text)


def merged(
    caller: dict[str, Any], before: dict[str, Any] | None, now: dict[str, Any], own: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The caller's dict after the server's state was `before` and is `now`."""
    state: dict[str, Any] = dict(caller)
    if before is not None:
        state = SessionState(split_object(json.dumps(before)), 1)
        state.clear()
        state.update(caller)
    own = own or {}
    stored = split_object(join_object(encode_values(now)))
    apply_stored_state(state, stored, 2, own=own, own_texts=encode_values(own))
    if isinstance(state, SessionState):
        assert state.sequence == 2
        seen = {key: item.seen for key, item in stored.items() if not key.startswith("temp:")}
        for key in caller.keys() - own.keys():
            # Of a value that is not committed, the stored value that the caller saw before stays.
            if before is not None and key in before and caller[key] != before[key]:
                seen[key] = SeenValue(json.dumps(before[key]))
        assert state.seen == seen
    return dict(state)


@pytest.mark.parametrize(
    ("caller", "before", "now", "expected"),
    [
        # Others have changed, added or removed a key.
        ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, {"a": 1}),
        # Values that are equal in Python and different in JSON.
        ({"a": 1}, {"a": 1}, {"a": True}, {"a": True}),
        ({"a": 1}, {"a": 1}, {"a": 1.0}, {"a": 1.0}),
        # The caller has set keys and not committed them. They stay, even if others have changed or removed them.
        ({"a": 5, "new": 6}, {"a": 1}, {"a": 1}, {"a": 5, "new": 6}),
        ({"a": 5}, {"a": 1}, {"a": 2}, {"a": 5}),
        ({"a": 5}, {"a": 1}, {}, {"a": 5}),
        ({}, {"a": 1}, {"a": 1}, {}),
        # temp: keys are the caller's own.
        ({"temp:t": 1}, {}, {}, {"temp:t": 1}),
        ({"temp:t": 1}, {}, {"temp:t": 2}, {"temp:t": 2}),
        # A plain dict: no key is removed.
        ({"a": 1, "b": 2}, None, {"a": 3}, {"a": 3, "b": 2}),
    ],
)
def test_changes_of_others_are_applied(
    caller: dict[str, Any], before: dict[str, Any] | None, now: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = merged(caller, before, now)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


def test_versions_are_those_of_the_values_that_the_caller_has_seen() -> None:
    before = {"a": 1, "back": 2, "gone": 3, "mine": 4, "mine_back": 5, "written": 6, "operated": 7}
    state = SessionState(split_object(json.dumps(before), dict.fromkeys(before, 1)), 1)
    uncommitted = {"mine": 40, "mine_back": 50, "new": 60, "operated": 70}
    state.update({**uncommitted, "written": 61})
    now = {"a": 10, "back": 2, "mine": 41, "mine_back": 5, "new": 61, "written": 61, "operated": 8, "added": 9}
    apply_stored_state(
        state,
        split_object(json.dumps(now), dict.fromkeys(now, 2)),
        2,
        own={"written": 61},
        own_texts={"written": "61"},
        written={"written", "operated"},
    )
    assert state == {**now, **uncommitted}
    seen = {key: SeenValue(json.dumps(value), 2) for key, value in now.items()}
    # The caller has set these before it saw what others have written.
    seen |= {"mine": SeenValue("4", 1), "mine_back": SeenValue("5", 1)}
    del seen["new"]
    assert state.seen == seen


def test_own_writes_keep_the_callers_objects() -> None:
    mine = [1, (2, 3)]
    found = merged({"a": 0}, {"a": 0}, {"a": mine}, own={"a": mine})
    assert found["a"] is mine
    # The server has another value, by an operation or by others after a replay; even the value of before.
    assert merged({"a": 0}, {"a": 0}, {"a": 7}, own={"a": 1}) == {"a": 7}
    assert merged({"a": 1}, {"a": 0}, {"a": 0}, own={"a": 1}) == {"a": 0}
    assert merged({"a": 1}, {}, {}, own={"a": 1, "temp:t": 2}) == {}
    assert merged({"a": 1, "temp:t": 2}, {}, {}, own={"a": 1, "temp:t": 2}) == {"temp:t": 2}


def test_shared_temp_key_stays_with_the_caller_after_its_end() -> None:
    state = SessionState(split_object('{"temp:t":1,"a":2}'), 1)
    apply_stored_state(state, split_object('{"a":2}'), 2, own={}, own_texts={})
    assert state == {"temp:t": 1, "a": 2}


def test_copies_keep_the_stored_texts() -> None:
    session = Session(id="s", app_name="a", user_id="u")
    session.state = SessionState(split_object('{"a":[1]}', {"a": 3}), 7)
    copies = [
        copy.copy(session.state),
        copy.deepcopy(session.state),
        pickle.loads(pickle.dumps(session.state)),
        session.model_copy().state,
        session.model_copy(deep=True).state,
        copy.deepcopy(session).state,
    ]
    for one in copies:
        assert isinstance(one, SessionState)
        assert (one, one.sequence, one.seen) == ({"a": [1]}, 7, {"a": SeenValue("[1]", 3)})
    assert copies[1]["a"] is not session.state["a"]
    assert session.model_dump()["state"] == {"a": [1]}
    assert json.loads(session.model_dump_json())["state"] == {"a": [1]}
