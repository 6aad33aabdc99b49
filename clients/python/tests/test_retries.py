"""What is tried again, how often, and that nothing is carried out twice."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import grpc
import pytest
from conftest import ROOT, Serve, Server
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from proxy import Proxy
from tests_support import KEY, PATIENT, delta_event, read, text_event

from sessiond_adk import (
    Delta,
    Increment,
    RetryPolicy,
    SessiondAlreadyExistsError,
    SessiondDeadlineError,
    SessiondError,
    SessiondInvalidError,
    SessiondNotFoundError,
    SessiondSessionService,
    SessiondUnavailableError,
)
from sessiond_adk.retry import RetriedError, call

# What an UNAVAILABLE says when a handler of the server made it; without one of these the transport did.
NOT_APPLIED_REASONS = frozenset({"STARTING", "DRAINING", "STORE_UNAVAILABLE"})
QUICK = RetryPolicy(attempts=5, first_delay_seconds=0.001, max_delay_seconds=0.002)


async def test_an_append_whose_answer_is_lost_is_stored_once(server: Server) -> None:
    """The connection breaks after the commit and before the answer: the caller gets its event all the same."""
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=PATIENT) as service:
        session = await service.create_session(**KEY)
        for lost in (1, 2):
            proxy.lose_answers(lost)
            event = delta_event({"n": lost, "temp:t": lost})
            assert await service.append_event(session, event, operations=[Increment("app:count")]) is event
            assert session.state == {"n": lost, "temp:t": lost, "app:count": lost}
            assert event.actions.state_delta == {"n": lost, "app:count": lost}
        assert proxy.lost == 3
        stored = await read(service)
        assert stored.events == session.events
        assert len(stored.events) == 2
        assert stored.state["app:count"] == 2


async def test_an_operation_answers_what_its_own_commit_made(server: Server) -> None:
    """However often it was sent, and whatever others do before the caller hears of it."""
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=PATIENT) as service,
        SessiondSessionService(server.address) as others,
    ):
        session = await service.create_session(**KEY, state={"app:list": [0], "default": 1})
        theirs = await read(others)
        seen: list[Any] = []

        async def meanwhile() -> None:
            seen.append(await others.increment(theirs, "app:tickets"))
            seen.append(await others.append_to_list(theirs, "app:list", ["theirs"]))
            seen.append(await others.merge(theirs, "map", {"theirs": 1}))
            await others.change(theirs, Delta({"default": 2}))
            await others.remove(theirs, "gone")

        proxy.lose_answers(1, meanwhile)
        assert await service.increment(session, "app:tickets") == 1
        proxy.lose_answers(1, meanwhile)
        assert await service.append_to_list(session, "app:list", ["mine"]) == [0, "theirs", "mine"]
        proxy.lose_answers(1, meanwhile)
        assert await service.merge(session, "map", {"mine": 1}) == {"theirs": 1, "mine": 1}
        await others.change(theirs, Delta({"default": 1}))
        proxy.lose_answers(1, meanwhile)
        # The commit leaves such a key as it is, so that its event does not hold the value.
        assert await service.set_if_absent(session, "default", 9) == 1
        proxy.lose_answers(1, meanwhile)
        assert await service.set_if_absent(session, "gone", 3) == 3
        assert proxy.lost == 5
        assert [one for one in seen if isinstance(one, int)] == [2, 3, 4, 5, 6]
        assert session.state["default"] == 2
        assert "gone" not in session.state


async def test_a_lost_answer_to_a_stale_check_is_no_conflict(server: Server) -> None:
    """The expected sequence is the one before the event; the second attempt meets the event itself."""
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, retry=PATIENT, stale="error") as service,
    ):
        session = await service.create_session(**KEY)
        proxy.lose_answers(1)
        await service.append_event(session, text_event("x"))
        await service.append_event(session, text_event("y"))
        assert proxy.lost == 1
        assert len(session.events) == 2


@pytest.mark.parametrize("session_id", ["s", None])
async def test_a_creation_whose_answer_is_lost_is_no_duplicate(server: Server, session_id: str | None) -> None:
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=PATIENT) as service:
        # The first call connects; only the answer of the second is to be lost.
        await service.list_sessions(app_name="app")
        proxy.lose_answers(1)
        session = await service.create_session(
            app_name="app", user_id="user", session_id=session_id, state={"app:a": 1, "b": 2}
        )
        assert proxy.lost == 1
        assert session.state == {"app:a": 1, "b": 2}
        assert len((await service.list_sessions(app_name="app")).sessions) == 1


async def test_a_creation_that_meets_anothers_session_is_a_duplicate(server: Server) -> None:
    """Even when its own first attempt got lost: what is there does not carry its mark."""
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=PATIENT) as service:
        await service.create_session(**KEY, state={"theirs": 1})
        proxy.lose_answers(1)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.create_session(**KEY, state={"mine": 1})
        assert proxy.lost == 1


@pytest.mark.parametrize("up_to", [None, 1])
async def test_a_fork_whose_answer_is_lost(server: Server, up_to: int | None) -> None:
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=PATIENT) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, delta_event({"a": 1}))
        proxy.lose_answers(1)
        fork = await service.fork_session(**KEY, up_to_sequence=up_to, new_session_id="f")
        assert proxy.lost == 1
        assert (fork.id, fork.state) == ("f", {"a": 1})
        # A session of that id that is no such fork stays a duplicate, lost answer or not.
        await service.create_session(**{**KEY, "session_id": "g"})
        proxy.lose_answers(1)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.fork_session(**KEY, up_to_sequence=up_to, new_session_id="g")
        proxy.lose_answers(1)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.fork_session(**KEY, up_to_sequence=0, new_session_id="f")


async def test_a_rewind_an_update_and_a_delete_whose_answers_are_lost(server: Server) -> None:
    async with Proxy(server.address) as proxy, SessiondSessionService(proxy.address, retry=PATIENT) as service:
        session = await service.create_session(**KEY)
        await service.append_event(session, delta_event({"a": 1}))
        await service.append_event(session, delta_event({"a": 2}))
        proxy.lose_answers(1)
        assert (await service.rewind_session(**KEY, to_sequence=1)).state == {"a": 1}
        stored = [item async for item in service.list_events(**KEY, include_rewound=True)]
        assert [item.sequence for item in stored] == [1, 2, 3]
        proxy.lose_answers(1)
        state = await service.update_state(Delta(operations=[Increment("app:n")]), app_name="app")
        assert state == {"app:n": 1}
        proxy.lose_answers(1)
        await service.delete_session(**KEY)
        assert proxy.lost == 3
        assert await service.get_session(**KEY) is None


async def test_what_calling_again_does(server: Server) -> None:
    """As the README says: nothing for an event, and a second write for everything else."""
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        event = delta_event({"a": 1})
        for _ in range(3):
            await service.append_event(session, event, operations=[Increment("count")])
        assert session.state == {"a": 1, "count": 1}
        assert len(session.events) == 1
        with pytest.raises(SessiondAlreadyExistsError):
            await service.create_session(**KEY)
        fork = {**KEY, "new_session_id": "fork"}
        await service.fork_session(**fork)
        with pytest.raises(SessiondAlreadyExistsError):
            await service.fork_session(**fork)
        twice = [(await service.create_session(app_name="app", user_id="user")).id for _ in range(2)]
        twice += [(await service.fork_session(**KEY)).id for _ in range(2)]
        assert len(set(twice)) == 4
        assert [await service.increment(session, "n") for _ in range(2)] == [1, 2]
        assert [await service.append_to_list(session, "l", [1]) for _ in range(2)] == [[1], [1, 1]]
        assert [await service.set_if_absent(session, "d", value) for value in (1, 2)] == [1, 1]
        assert [await service.merge(session, "m", {"a": 1}) for _ in range(2)] == [{"a": 1}] * 2
        for _ in range(2):
            await service.remove(session, "m")
            await service.change(session, Delta({"c": 1}, [Increment("n")]))
        assert session.state["n"] == 4
        assert len(session.events) == 1 + 2 * 6
        for _ in range(2):
            await service.update_state(Delta(operations=[Increment("n")]), **KEY)
        await service.refresh(session)
        assert session.state["n"] == 6
        assert len(session.events) == 1 + 2 * 7
        for _ in range(2):
            await service.rewind_session(**KEY, to_sequence=1)
        everything = [item async for item in service.list_events(**KEY, include_rewound=True)]
        assert len(everything) == 1 + 2 * 8
        for _ in range(2):
            await service.delete_session(**KEY)
            await service.create_session(**KEY)


async def test_a_call_that_was_cancelled_can_be_repeated(server: Server) -> None:
    """An append that its caller gave up may be stored; appending the same event again settles it."""
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        events = [delta_event({f"k{number}": number}) for number in range(50)]
        tasks = [asyncio.create_task(service.append_event(session, event)) for event in events]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert any(task.cancelled() for task in tasks)
        for event in events:
            await service.append_event(session, event)
        stored = await read(service)
        assert sorted(event.id for event in stored.events) == sorted(event.id for event in events)
        assert sorted(event.id for event in session.events) == sorted(event.id for event in events)
        assert stored.state == session.state == {f"k{number}": number for number in range(50)}


async def test_a_server_that_is_not_there(unused_port: int) -> None:
    """Bounded by attempts, and said with the kit of everyday: a ConnectionError. Nothing of the caller's changes."""
    async with SessiondSessionService(f"127.0.0.1:{unused_port}", retry=QUICK) as service:
        with pytest.raises(SessiondUnavailableError) as refused:
            await service.create_session(**KEY)
        assert isinstance(refused.value, ConnectionError)
        assert refused.value.reason == ""
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE


async def test_a_server_that_does_not_answer() -> None:
    """Bounded by the deadline: a listener that takes the connection and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with SessiondSessionService(address, timeout=0.3) as service:
            with pytest.raises((SessiondDeadlineError, SessiondUnavailableError)):
                await service.list_sessions(app_name="app")


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def status(code: grpc.StatusCode, reason: str = "", retry_after: float | None = None) -> aio.AioRpcError:
    """A status as the server makes it."""
    details: list[any_pb2.Any] = []

    def add(message: Any) -> None:
        packed = any_pb2.Any()
        packed.Pack(message)
        details.append(packed)

    if reason:
        add(error_details_pb2.ErrorInfo(domain="sessiond", reason=reason, metadata={"what": "x"}))
    if retry_after is not None:
        add(
            error_details_pb2.RetryInfo(
                retry_delay=duration_pb2.Duration(seconds=int(retry_after), nanos=round(retry_after % 1 * 1e9))
            )
        )
    packed = status_pb2.Status(code=code.value[0], message="why", details=details).SerializeToString()
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(("grpc-status-details-bin", packed)), "why")


async def attempts_at(error: aio.AioRpcError, failures: int = 10**9, **more: Any) -> tuple[int, Any, bool]:
    """How often a call is tried that fails so, what comes of it, and whether that took more than one attempt."""
    count = 0

    async def attempt(_seconds_left: float) -> str:
        nonlocal count
        count += 1
        if count <= failures:
            raise error
        return "answer"

    more.setdefault("timeout_seconds", 60.0)
    more.setdefault("policy", QUICK)
    try:
        answered = await call(attempt, **more)
        return count, answered.answer, answered.retried
    except RetriedError as refused:
        return count, refused.error, refused.retried


def test_the_reasons_of_unavailable_are_those_that_are_written_down() -> None:
    rows = re.findall(r"^\| UNAVAILABLE \| `(\w+)` \|(.*)$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert {reason for reason, _ in rows} == NOT_APPLIED_REASONS
    assert all("certainly not applied" in what for _, what in rows)


@pytest.mark.parametrize("reason", ["", *sorted(NOT_APPLIED_REASONS)])
async def test_unavailable_is_tried_again(reason: str) -> None:
    assert await attempts_at(status(grpc.StatusCode.UNAVAILABLE, reason), 3) == (4, "answer", True)
    count, error, retried = await attempts_at(status(grpc.StatusCode.UNAVAILABLE, reason))
    assert (count, retried) == (5, True)
    assert isinstance(error, SessiondUnavailableError)
    assert error.reason == reason


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.UNAVAILABLE])
async def test_nothing_else_is_tried_again(code: grpc.StatusCode) -> None:
    """OVERLOADED neither: the error says when to come back, and the caller decides."""
    count, error, retried = await attempts_at(status(code, "OVERLOADED", 1.5))
    assert (count, retried) == (1, False)
    assert isinstance(error, SessiondError)
    assert (error.code, error.reason, error.retry_after_seconds) == (code, "OVERLOADED", 1.5)


def nonsense_inside() -> bytes:
    """Details that can be read, up to one that cannot."""
    bad = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff")
    details: bytes = status_pb2.Status(code=14, message="why", details=[bad]).SerializeToString()
    return details


@pytest.mark.parametrize("details", [b"\xff", b"", nonsense_inside()], ids=["nonsense", "empty", "nonsense inside"])
async def test_details_that_cannot_be_read_leave_the_error_what_it_is(details: bytes) -> None:
    trailers = aio.Metadata(("grpc-status-details-bin", details))
    error = aio.AioRpcError(grpc.StatusCode.NOT_FOUND, aio.Metadata(), trailers, "why")
    count, raised, _ = await attempts_at(error)
    assert count == 1
    assert isinstance(raised, SessiondNotFoundError)
    assert (raised.reason, raised.retry_after_seconds, str(raised)) == ("", None, "why [NOT_FOUND]")


async def test_the_server_says_when_to_come_back() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await attempts_at(status(grpc.StatusCode.UNAVAILABLE, "STARTING", 0.25), 1)
    assert result == (2, "answer", True)
    assert loop.time() - began >= 0.25


async def test_no_wait_outlives_the_deadline() -> None:
    """The error says what is wrong, instead of waiting for a DEADLINE_EXCEEDED that says nothing."""
    slow = status(grpc.StatusCode.UNAVAILABLE, "DRAINING", 3600)
    count, error, _ = await attempts_at(slow, timeout_seconds=1.0)
    assert count == 1
    assert isinstance(error, SessiondUnavailableError)
    assert error.reason == "DRAINING"


async def test_the_deadline_shrinks_with_every_attempt() -> None:
    left: list[float] = []

    async def attempt(seconds_left: float) -> str:
        left.append(seconds_left)
        if len(left) < 4:
            raise status(grpc.StatusCode.UNAVAILABLE)
        return "answer"

    policy = RetryPolicy(attempts=4, first_delay_seconds=0.01, max_delay_seconds=0.01)
    await call(attempt, timeout_seconds=30, policy=policy)
    assert left == sorted(left, reverse=True)
    assert left[0] <= 30
    assert left[0] - left[3] >= 0.015


def test_delays_double_up_to_a_bound_with_jitter() -> None:
    policy = RetryPolicy(attempts=100, first_delay_seconds=0.1, max_delay_seconds=1.0)
    for failed, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (10**6, 1.0)):
        delays = {policy.delay_seconds(failed) for _ in range(200)}
        assert min(delays) >= longest / 2
        assert max(delays) <= longest
        assert len(delays) > 100, "without chance, clients come back all at once"
    assert policy.delay_seconds(1, 5.0) == 5.0
    for wrong in ({"attempts": 0}, {"first_delay_seconds": -1}, {"max_delay_seconds": -1}):
        with pytest.raises(ValueError, match="at least one attempt"):
            RetryPolicy(**wrong)


async def test_a_refusal_names_every_fault(serve: Serve) -> None:
    """INVALID_ARGUMENT is a ValueError with all fields at fault."""
    server = serve("memory:")
    async with SessiondSessionService(server.address) as service:
        with pytest.raises(SessiondInvalidError) as refused:
            await service.create_session(app_name="a" * 600, user_id="u" * 700)
        assert isinstance(refused.value, ValueError)
        assert refused.value.reason == "BAD_ID"
        assert [field for field, _ in refused.value.faults] == ["app_name", "user_id"]
        assert "user_id" in str(refused.value)
        session = await service.create_session(**KEY)
        with pytest.raises(SessiondInvalidError) as refused:
            await service.append_event(session, delta_event({"big": "x" * 300_000}))
        assert refused.value.reason == "VALUE_TOO_LARGE"
        assert refused.value.metadata["limit"] == str(256 * 1024)
        with pytest.raises(SessiondError) as failed:
            await service.change(session, Delta({"text": "x"}, [Increment("text")]))
        assert (failed.value.reason, failed.value.code) == ("TYPE_MISMATCH", grpc.StatusCode.FAILED_PRECONDITION)
