"""Which failed calls are sent again: the decision, its bounds, and the errors that are left."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from typing import Any

import grpc
import pytest
from conftest import Serve
from google.adk.sessions.session import Session
from google.protobuf import any_pb2
from google.rpc import status_pb2
from grpc import aio
from scripted_server import ScriptedState, status_details
from support import KEY, delta_event

from sessiond_adk import (
    Delta,
    Increment,
    RetryPolicy,
    SessiondDeadlineError,
    SessiondError,
    SessiondInvalidError,
    SessiondNotFoundError,
    SessiondSessionService,
    SessiondUnavailableError,
)
from sessiond_adk import service as service_module
from sessiond_adk.errors import parse_status
from sessiond_adk.retry import Outage, call_with_retries
from sessiond_adk.service import DEFAULT_ABSENT_SECONDS

QUICK = RetryPolicy(attempts=5, first_delay_seconds=0.001, max_delay_seconds=0.002)
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
# Nothing listens there. A port that was free a moment ago can be another test's by now.
ABSENT = "127.0.0.1:1"


async def test_unreachable_server() -> None:
    """Bounded by attempts. The error is a ConnectionError."""
    async with SessiondSessionService(ABSENT, retry=QUICK) as service:
        with pytest.raises(SessiondUnavailableError) as refused:
            await service.create_session(**KEY)
        assert isinstance(refused.value, ConnectionError)
        assert refused.value.reason == ""
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE
        assert refused.value.attempts == QUICK.attempts


async def test_unreachable_server_is_named_with_what_to_do() -> None:
    async with SessiondSessionService(f"http://{ABSENT}", retry=QUICK) as service:
        with pytest.raises(SessiondUnavailableError) as refused:
            await service.list_sessions(app_name="app")
    message = str(refused.value)
    assert message.startswith(f"sessiond at {ABSENT} is unreachable (")
    assert "Check the address, or start the server with `sessiond serve`." in message


@pytest.mark.parametrize("timeout", [0.6, 2.5])
async def test_timeout_and_not_attempts_ends_the_retries(timeout: float) -> None:
    """The default policy retries until the next attempt would begin after the deadline."""
    loop = asyncio.get_running_loop()
    async with SessiondSessionService(ABSENT, timeout=timeout) as service:
        began = loop.time()
        # The deadline may pass in the middle of the last attempt.
        with pytest.raises((SessiondUnavailableError, SessiondDeadlineError)):
            await service.list_sessions(app_name="app")
        took = loop.time() - began
    # The longest delay before the deadline: 0.4 s after 0.4 s of delays, 1 s later.
    assert took >= timeout - (0.4 if timeout < 1 else 1.0)
    assert RetryPolicy().attempts is None


async def test_default_timeout_is_short_for_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default of 600 seconds is that of the tests."""
    assert (service_module.DEFAULT_TIMEOUT_SECONDS, DEFAULT_ABSENT_SECONDS) == (600.0, 3.0)
    monkeypatch.setattr(service_module, "DEFAULT_ABSENT_SECONDS", 0.3)
    for address in (ABSENT, "unix:/nowhere/sessiond.sock"):
        async with SessiondSessionService(address) as service:
            with pytest.raises(SessiondUnavailableError, match="is unreachable"):
                await service.list_sessions(app_name="app")


async def test_server_that_restarts_has_the_whole_timeout(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "DEFAULT_ABSENT_SECONDS", 0.01)
    server = serve("sqlite:test.db")
    async with SessiondSessionService(server.address) as service:
        # A refusal is a response, too.
        with pytest.raises(SessiondNotFoundError):
            await service.append_event(Session(id="s", app_name="a", user_id="u"), delta_event({}))
        server.kill()
        call = asyncio.create_task(service.list_sessions(app_name="app"))
        await asyncio.sleep(0.5)
        assert not call.done()
        server.start_again()
        assert (await call).sessions == []


@pytest.mark.parametrize(
    ("address", "settings", "seconds"),
    [
        ("127.0.0.1:1", {}, 600.0),
        ("localhost:1", {}, 600.0),
        ("[::1]:1", {}, 600.0),
        ("unix:/s.sock", {}, 600.0),
        ("sessions.example.com:1", {}, math.inf),
        ("10.0.0.1:1", {}, math.inf),
        ("127.0.0.1:1", {"timeout": 5.0}, math.inf),
        ("sessiond://127.0.0.1:1?timeout=5", {}, math.inf),
        ("127.0.0.1:1", {"channel": lambda: None}, math.inf),
    ],
)
def test_timeout_that_is_given_or_another_machine_has_no_shorter_one(
    address: str, settings: dict[str, Any], seconds: float
) -> None:
    assert SessiondSessionService(address, **settings)._client.absent_seconds == seconds


async def test_more_attempts_than_ten_until_the_server_is_there() -> None:
    """Ten attempts take up to five seconds in all, whatever the timeout is."""
    count, response = await attempts_at(status(UNAVAILABLE), 50, policy=RetryPolicy(None, 0.001, 0.002))
    assert (count, response) == (51, "response")


async def test_outage_is_logged_once_when_it_begins_and_once_when_it_ends(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve("sqlite:test.db")
    caplog.set_level(logging.INFO, logger="sessiond_adk")
    async with SessiondSessionService(server.address) as service:
        session = await service.create_session(**KEY)
        watch = service.watch(**KEY)
        await anext(watch)
        assert caplog.messages == []
        for outages in (1, 2):
            server.kill()
            calls = [asyncio.create_task(service.append_event(session, delta_event({"a": n}))) for n in range(5)]
            while len(caplog.messages) < 2 * outages - 1:
                await asyncio.sleep(0.01)
            server.start_again()
            await asyncio.gather(*calls)
            assert len(caplog.messages) == 2 * outages
            begin, end = caplog.messages[-2:]
            assert begin.startswith(f"sessiond at {server.address} is unavailable, retrying: ")
            assert end.startswith(f"connected to sessiond at {server.address} again after ")
        await watch.aclose()


async def test_server_that_does_not_respond() -> None:
    """Bounded by the deadline: the listener accepts the connection and sends nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with SessiondSessionService(address, timeout=0.3) as service:
            with pytest.raises((SessiondDeadlineError, SessiondUnavailableError), match=f"sessiond at {address} "):
                await service.list_sessions(app_name="app")


def rpc_error(code: grpc.StatusCode, details: bytes | None = None) -> aio.AioRpcError:
    trailers = aio.Metadata() if details is None else aio.Metadata(("grpc-status-details-bin", details))
    return aio.AioRpcError(code, aio.Metadata(), trailers, "why")


def status(code: grpc.StatusCode, *args: Any, **details: Any) -> aio.AioRpcError:
    """A status with the details that the server sends."""
    return rpc_error(code, status_details(code, *args, **details))


async def attempts_at(error: aio.AioRpcError, failures: int = 10**9, **options: Any) -> tuple[int, Any]:
    """The number of attempts of a call that fails `failures` times, and its result: "response" or the error."""
    count = 0

    async def attempt(_seconds_left: float) -> str:
        nonlocal count
        count += 1
        if count <= failures:
            raise error
        return "response"

    options.setdefault("timeout_seconds", 60.0)
    options.setdefault("policy", QUICK)
    options.setdefault("target", "host:1")
    options.setdefault("outage", Outage("host:1"))
    result: Any
    try:
        result = await call_with_retries(attempt, **options)
    except SessiondError as raised:
        result = raised
    if isinstance(result, SessiondError):
        assert result.__cause__ is error
        assert result.attempts == count
    return count, result


@pytest.mark.parametrize(
    ("code", "reason", "retryable", "expected"),
    [
        (UNAVAILABLE, "STARTING", "yes", "yes"),
        (UNAVAILABLE, "STORE_UNAVAILABLE", "no", "no"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "yes", "yes"),
        (grpc.StatusCode.UNKNOWN, "OUTCOME_UNKNOWN", "same_id", "same_id"),
        (grpc.StatusCode.INTERNAL, "A_REASON_OF_A_NEWER_SERVER", "yes", "yes"),
        (UNAVAILABLE, "STARTING", "a value of a newer server", "no"),
        (UNAVAILABLE, "STARTING", "", "no"),
        (UNAVAILABLE, "STARTING", None, "no"),
        (UNAVAILABLE, "", None, "same_id"),
        *((code, "", None, "no") for code in grpc.StatusCode if code is not UNAVAILABLE),
    ],
)
def test_server_decides_what_is_retryable(
    code: grpc.StatusCode, reason: str, retryable: str | None, expected: str
) -> None:
    """Without ErrorInfo only a lost connection is, and only with the same ids."""
    assert parse_status(status(code, reason, retryable)).retryable == expected


def test_error_info_of_another_domain_is_ignored() -> None:
    status_of_proxy = parse_status(status(UNAVAILABLE, "STARTING", "yes", domain="a proxy"))
    assert (status_of_proxy.reason, status_of_proxy.retryable) == ("", "same_id")


@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        (UNAVAILABLE, "", None),
        (UNAVAILABLE, "STARTING", "yes"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", "yes"),
        (grpc.StatusCode.UNKNOWN, "OUTCOME_UNKNOWN", "same_id"),
    ],
)
async def test_retryable_statuses_are_retried(code: grpc.StatusCode, reason: str, retryable: str | None) -> None:
    failure = status(code, reason, retryable)
    assert await attempts_at(failure, 3) == (4, "response")
    count, error = await attempts_at(failure)
    assert count == QUICK.attempts
    assert isinstance(error, SessiondUnavailableError) is (code is UNAVAILABLE)
    assert (error.code, error.reason) == (code, reason)


@pytest.mark.parametrize("retryable", [None, "no"])
@pytest.mark.parametrize("code", grpc.StatusCode)
async def test_other_statuses_are_not_retried(code: grpc.StatusCode, retryable: str | None) -> None:
    """Even with RetryInfo: the error has the delay, and the caller decides."""
    count, error = await attempts_at(status(code, "OVERLOADED", retryable, retry_after=1.5))
    assert count == 1
    assert isinstance(error, SessiondError)
    assert (error.code, error.reason, error.retry_after_seconds) == (code, "OVERLOADED", 1.5)


@pytest.mark.parametrize("last", ["yes", "no"])
async def test_retries_over_the_wire_send_the_same_request_id(last: str) -> None:
    failures = [
        (UNAVAILABLE, status_details(UNAVAILABLE, "DRAINING", "yes")),
        (grpc.StatusCode.UNKNOWN, status_details(grpc.StatusCode.UNKNOWN, "OUTCOME_UNKNOWN", "same_id")),
        (UNAVAILABLE, None),
        (UNAVAILABLE, status_details(UNAVAILABLE, "STORE_UNAVAILABLE", last)),
    ]
    # Only the stubs of the types are abstract: methods that are not overridden fail as UNIMPLEMENTED.
    script = ScriptedState(*failures)  # type: ignore[abstract]
    async with script, SessiondSessionService(script.address, retry=QUICK) as service:
        update = service.update_state(Delta({"app:a": 1}), app_name="app")
        if last == "yes":
            assert await update == {"app:a": 1}
        else:
            with pytest.raises(SessiondUnavailableError) as refused:
                await update
            assert (refused.value.reason, refused.value.attempts) == ("STORE_UNAVAILABLE", 4)
    assert len(script.request_ids) == (5 if last == "yes" else 4)
    assert len(set(script.request_ids)) == 1


def undecodable_detail() -> bytes:
    """A status whose detail cannot be decoded."""
    bad = any_pb2.Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=b"\xff")
    details: bytes = status_pb2.Status(code=14, message="why", details=[bad]).SerializeToString()
    return details


@pytest.mark.parametrize("details", [b"\xff", b"", undecodable_detail()], ids=["nonsense", "empty", "nonsense inside"])
async def test_undecodable_details_leave_the_status(details: bytes) -> None:
    count, raised = await attempts_at(rpc_error(grpc.StatusCode.NOT_FOUND, details))
    assert count == 1
    assert isinstance(raised, SessiondNotFoundError)
    assert (raised.reason, raised.retry_after_seconds, str(raised)) == ("", None, "why [NOT_FOUND]")


async def test_retry_info_is_a_minimum_delay() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await attempts_at(status(UNAVAILABLE, "STARTING", "yes", retry_after=0.25), 1) == (2, "response")
    assert loop.time() - began >= 0.25


async def test_no_delay_outlives_the_deadline() -> None:
    """The error says what is wrong, which a later DEADLINE_EXCEEDED would not."""
    slow = status(UNAVAILABLE, "DRAINING", "yes", retry_after=3600)
    count, error = await attempts_at(slow, timeout_seconds=1.0)
    assert count == 1
    assert isinstance(error, SessiondUnavailableError)
    assert error.reason == "DRAINING"


async def test_deadline_shrinks_with_every_attempt() -> None:
    left: list[float] = []

    async def attempt(seconds_left: float) -> str:
        left.append(seconds_left)
        if len(left) < 4:
            raise status(UNAVAILABLE)
        return "response"

    policy = RetryPolicy(attempts=4, first_delay_seconds=0.01, max_delay_seconds=0.01)
    await call_with_retries(attempt, timeout_seconds=30, policy=policy, target="host:1", outage=Outage("host:1"))
    assert left == sorted(left, reverse=True)
    assert left[0] <= 30
    assert left[0] - left[3] >= 0.015


def test_delays_double_up_to_a_maximum_with_jitter() -> None:
    policy = RetryPolicy(attempts=100, first_delay_seconds=0.1, max_delay_seconds=1.0)
    for failed, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (10**6, 1.0)):
        delays = {policy.delay_seconds(failed) for _ in range(200)}
        assert min(delays) >= longest / 2
        assert max(delays) <= longest
        assert len(delays) > 100, "without jitter, clients return all at once"
    assert policy.delay_seconds(1, 5.0) == 5.0
    for wrong in ({"attempts": 0}, {"first_delay_seconds": -1}, {"first_delay_seconds": 0}, {"max_delay_seconds": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
            RetryPolicy(**wrong)


async def test_invalid_request_names_every_field(serve: Serve) -> None:
    """INVALID_ARGUMENT is a ValueError that names all fields."""
    server = serve("memory:")
    async with SessiondSessionService(server.address) as service:
        with pytest.raises(SessiondInvalidError) as refused:
            await service.create_session(app_name="a" * 600, user_id="u" * 700)
        assert isinstance(refused.value, ValueError)
        assert refused.value.reason == "BAD_ID"
        assert [field for field, _ in refused.value.field_violations] == ["app_name", "user_id"]
        assert "user_id" in str(refused.value)
        session = await service.create_session(**KEY)
        with pytest.raises(SessiondInvalidError) as refused:
            await service.append_event(session, delta_event({"big": "x" * 300_000}))
        assert refused.value.reason == "VALUE_TOO_LARGE"
        assert refused.value.metadata["limit"] == str(256 * 1024)
        with pytest.raises(SessiondError) as failed:
            await service.change(session, Delta({"text": "x"}, [Increment("text")]))
        assert (failed.value.reason, failed.value.code) == ("TYPE_MISMATCH", grpc.StatusCode.FAILED_PRECONDITION)
