"""Addresses and settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Serve

from sessiond_adk import RetryPolicy, SessiondSessionService
from sessiond_adk.address import parse_address


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:50051", "127.0.0.1:50051"),
        ("sessions.internal", "sessions.internal:50051"),
        ("[::1]:4000", "[::1]:4000"),
        ("[::1]", "[::1]:50051"),
        (" localhost:1 ", "localhost:1"),
        ("unix:/run/s.sock", "unix:/run/s.sock"),
        ("unix:///run/s.sock", "unix:///run/s.sock"),
        ("unix:s.sock", "unix:s.sock"),
        ("sessiond://127.0.0.1:50052", "127.0.0.1:50052"),
        ("sessiond://localhost/", "localhost:50051"),
        ("sessiond://[::1]:7", "[::1]:7"),
        ("sessiond:///run/my%20s.sock", "unix:/run/my s.sock"),
        ("http://localhost:50051", "localhost:50051"),
        ("http://localhost/", "localhost:50051"),
        ("http://[::1]:7", "[::1]:7"),
        ("https://sessions.example.com:443", "sessions.example.com:443"),
    ],
)
def test_valid_addresses(text: str, target: str) -> None:
    address = parse_address(text)
    assert (address.target, address.tls) == (target, text.startswith("https:"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1",
        "host:",
        "host:0",
        "host:65536",
        "host:x",
        "host:１",
        "::1:50051",
        "a b:1",
        "a/b",
        "unix:",
        "unix:///",
        "ftp://localhost:50051",
        "http://",
        "http:///run/s.sock",
        "https://host/path",
        "sessiond://",
        "sessiond:///",
        "sessiond://host:1/path",
        "sessiond://user@host:1",
        "sessiond://host:1#x",
    ],
)
def test_invalid_addresses_are_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(ValueError, match="Use HOST:PORT, unix:/PATH, sessiond://HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize("scheme", ["sessiond", "http", "https"])
def test_settings_in_a_uri(scheme: str) -> None:
    query = "timeout=2.5&stale=conflict&share_temp=true&attempts=3&first_delay=0.2&max_delay=4"
    service = SessiondSessionService(f"{scheme}://h:1?{query}")
    assert service._client.timeout_seconds == 2.5
    assert service._appender._stale == "conflict"
    assert service._appender._share_temp is True
    assert service._client.retry == RetryPolicy(3, 0.2, 4.0)
    service = SessiondSessionService(
        f"{scheme}://h:1?{query}", timeout=3, stale="merge", share_temp=False, retry=RetryPolicy()
    )
    assert service._client.timeout_seconds == 3
    assert service._appender._stale == "merge"
    assert service._appender._share_temp is False
    assert service._client.retry == RetryPolicy()


def test_default_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert SessiondSessionService()._client.timeout_seconds == 15


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sessiond://h:1?timeout=soon", "'soon' in the address"),
        ("sessiond://h:1?timeout=0", "must be positive"),
        ("sessiond://h:1?timeout=nan", "must be positive"),
        ("sessiond://h:1?stale=perhaps", "'perhaps'"),
        ("sessiond://h:1?timeout=inf", "must be positive"),
        ("sessiond://h:1?tls=1", "Unknown settings in the address: tls. Use timeout, stale,"),
        ("sessiond://h:1?attempts=many", "attempts is 'many' in the address. It must be a whole number"),
        ("sessiond://h:1?attempts=0", "attempts is 0"),
        ("sessiond://h:1?first_delay=-1", "first_delay_seconds is -1.0"),
        ("sessiond://h:1?share_temp=1", "It must be true or false"),
        ("sessiond://h:1?x", "x"),
    ],
)
def test_invalid_settings(uri: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SessiondSessionService(uri)


async def test_unix_socket(serve: Serve, tmp_path: Path) -> None:
    socket = tmp_path / "s.sock"
    serve("memory:", f"unix:{socket}")
    for uri in (f"unix:{socket}", f"sessiond://{socket}"):
        async with SessiondSessionService(uri) as service:
            await service.create_session(app_name="a", user_id="u")
    async with SessiondSessionService(f"unix:{socket}") as service:
        assert len((await service.list_sessions(app_name="a")).sessions) == 2
