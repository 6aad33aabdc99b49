"""TLS and token files, from arguments and from the environment."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from certificates import Authority
from conftest import Serve, Server
from grpc import StatusCode, aio
from recorder import Recorder, call_and_watch, recorder
from scripted_server import ScriptedState, abort, status_details
from support import KEY
from test_registry import CREATE_SESSION, EXAMPLES

from sessiond_adk import (
    Delta,
    RetryPolicy,
    SessiondPermissionDeniedError,
    SessiondSessionService,
    SessiondUnauthenticatedError,
    SessiondUnavailableError,
)
from sessiond_adk.credentials import TokenFile
from sessiond_adk.proto import session_service_pb2, watch_service_pb2

TWO_ATTEMPTS = RetryPolicy(attempts=2, first_delay_seconds=0.001)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serve_tls(serve: Serve, authority: Authority, *more: str) -> Server:
    certificate, key = authority.issue("server")
    return serve("memory:", "127.0.0.1:0", "--tls-cert", str(certificate), "--tls-key", str(key), *more)


async def test_tls_with_the_servers_authority(serve: Serve, authority: Authority) -> None:
    server = serve_tls(serve, authority)
    uri = f"https://{server.address.removeprefix('https://')}"
    async with SessiondSessionService(uri, tls_ca=authority.ca) as service:
        await service.create_session(**KEY)
        assert (await service.get_session(**KEY)) is not None
    async with SessiondSessionService(uri, retry=TWO_ATTEMPTS) as service:
        with pytest.raises(SessiondUnavailableError):
            await service.list_sessions(app_name="app")


async def test_certificate_of_the_client(serve: Serve, authority: Authority) -> None:
    server = serve_tls(serve, authority, "--tls-client-ca", str(authority.ca))
    uri = f"https://{server.address.removeprefix('https://')}"
    certificate, key = authority.issue("agent")
    async with SessiondSessionService(uri, tls_ca=authority.ca, tls_cert=certificate, tls_key=key) as service:
        await service.create_session(**KEY)
    async with SessiondSessionService(uri, tls_ca=authority.ca, retry=TWO_ATTEMPTS) as service:
        with pytest.raises(SessiondUnavailableError):
            await service.list_sessions(app_name="app")


async def test_files_of_the_environment_reach_the_service_of_adk_web(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    server = serve_tls(serve, authority, "--tls-client-ca", str(authority.ca))
    certificate, key = authority.issue("agent")
    agents = tmp_path / "agents"
    agents.mkdir()
    shutil.copy(EXAMPLES / "services.py", agents)
    environment = os.environ | {
        "SESSIOND_TLS_CA": str(authority.ca),
        "SESSIOND_CLIENT_TLS_CERT": str(certificate),
        "SESSIOND_CLIENT_TLS_KEY": str(key),
    }
    uri = f"https://{server.address.removeprefix('https://')}?timeout=10"
    subprocess.run([sys.executable, "-c", CREATE_SESSION, agents, uri], check=True, env=environment)


async def test_server_with_tokens(serve: Serve, tmp_path: Path) -> None:
    token, hashes = tmp_path / "token", tmp_path / "tokens.toml"
    token.write_text("secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    hashes.write_text(f'[[token]]\nname = "agent"\nsha256 = "{digest}"\n')
    server = serve("memory:", "127.0.0.1:0", "--token-hashes", str(hashes))
    async with SessiondSessionService(server.address, token_file=token) as service:
        await service.create_session(**KEY)
        assert type(await anext(service.watch(**KEY))).__name__ == "Snapshot"
    async with SessiondSessionService(server.address) as service:
        with pytest.raises(SessiondUnauthenticatedError) as refused:
            await service.list_sessions(app_name="app")
        assert refused.value.reason == "CREDENTIAL_MISSING"
        with pytest.raises(SessiondUnauthenticatedError):
            await anext(service.watch(**KEY))


@pytest.mark.parametrize("unix", [False, True], ids=["loopback", "unix socket"])
async def test_token_of_a_file_is_sent_with_calls_and_watches(tmp_path: Path, unix: bool) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with recorder(f"unix:{tmp_path}/s.sock" if unix else "127.0.0.1:0") as server:
        async with SessiondSessionService(server.address, token_file=token) as service:
            await call_and_watch(service)
            request = session_service_pb2.ListSessionsRequest(app_name="app")
            await service.stubs.sessions.ListSessions(request, metadata=tuple(service.call_metadata()))
        async with SessiondSessionService(server.address) as service:
            await call_and_watch(service)
        assert server.tokens() == ["Bearer secret"] * 3 + [None] * 2


async def test_variable_names_the_token_file_and_metadata_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    monkeypatch.setenv("SESSIOND_TOKEN_FILE", str(token))
    async with recorder() as server:
        async with SessiondSessionService(server.address) as service:
            await service.list_sessions(app_name="app")
        async with SessiondSessionService(server.address, metadata=[("authorization", "mine")]) as service:
            await service.list_sessions(app_name="app")
        async with SessiondSessionService("h:1", channel=lambda: aio.insecure_channel(server.address)) as service:
            await service.list_sessions(app_name="app")
        assert server.tokens() == ["Bearer secret", "mine", None]


async def test_new_token_is_sent_after_the_file_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    os.utime(token, (1, 1))
    async with recorder() as server, SessiondSessionService(server.address, token_file=token) as service:
        await service.list_sessions(app_name="app")
        token.write_text("new")
        async with asyncio.timeout(300):
            while server.tokens()[-1] == "Bearer old":
                await service.list_sessions(app_name="app")
        assert set(server.tokens()) == {"Bearer old", "Bearer new"}


def test_token_file_is_looked_at_once_a_second_and_read_when_it_has_changed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    now = 0.0

    def write(text: str, modified: int) -> None:
        token.write_text(text)
        os.utime(token, (modified, modified))

    write("a", 1)
    file = TokenFile(token, "token_file", lambda: now)
    write("b", 2)
    now = 0.9
    assert file.token() == "a"
    now = 1.0
    assert file.token() == "b"
    write("unread", 2)
    now = 2.0
    assert file.token() == "b"


def test_last_token_stays_while_the_file_has_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = tmp_path / "token"
    token.write_text("a")
    os.utime(token, (1, 1))
    now = 0.0
    file = TokenFile(token, "token_file", lambda: now)
    token.unlink()
    now = 1.0
    assert file.token() == "a"
    token.write_text("")
    now = 2.0
    assert file.token() == "a"
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    modified = token.stat().st_mtime
    token.write_text("b")
    os.utime(token, (modified + 1, modified + 1))
    now = 3.0
    assert file.token() == "b"


@pytest.mark.parametrize("uri", ["sessions.example.com:50051", "http://10.0.0.1:50051", "[2001:db8::1]:1", "0.0.0.0:1"])
@pytest.mark.parametrize("by", ["argument", "variable"])
def test_token_is_refused_without_tls_beyond_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, by: str
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    arguments: dict[str, Any] = {"token_file": token}
    if by == "variable":
        monkeypatch.setenv("SESSIOND_TOKEN_FILE", str(token))
        arguments = {}
    with pytest.raises(ValueError, match=r"Refusing to send a token to \S+ without TLS\. Use https://HOST:PORT"):
        SessiondSessionService(uri, **arguments)
    tls = grpc.ssl_channel_credentials()
    SessiondSessionService(uri, credentials=tls, **arguments)


@pytest.mark.parametrize("uri", ["127.0.0.1:1", "127.8.8.8:1", "localhost:1", "[::1]:1", "unix:/s", "https://h:1"])
def test_token_is_allowed_on_this_machine_and_with_tls(tmp_path: Path, uri: str) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    assert SessiondSessionService(uri, token_file=token).call_metadata() == (("authorization", "Bearer secret"),)


@pytest.mark.parametrize(
    ("uri", "arguments", "message"),
    [
        ("h:1", {"tls_ca": "ca.pem"}, "tls_ca needs TLS, and h:1 has none. Use https://HOST:PORT."),
        ("h:1", {"tls_cert": "a.pem", "tls_key": "a.key"}, "tls_cert needs TLS, and h:1 has none."),
        ("https://h:1", {"tls_cert": "a.pem"}, "tls_cert and tls_key belong together. Set both."),
        ("https://h:1", {"tls_key": "a.key"}, "tls_cert and tls_key belong together. Set both."),
        ("https://h:1", {"tls_ca": "missing.pem"}, "tls_ca: .*No such file.*missing.pem"),
        ("https://h:1", {"token_file": "missing"}, "token_file: .*No such file.*missing"),
        ("https://h:1", {"token_file": os.devnull}, f"token_file: '{os.devnull}' has no token."),
        ("h:1", {"tls_ca": "a", "credentials": grpc.ssl_channel_credentials()}, "credentials exclude tls_ca"),
    ],
)
def test_wrong_files(uri: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SessiondSessionService(uri, **arguments)


def test_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIOND_TLS_CA", "ca.pem")
    with pytest.raises(ValueError, match="SESSIOND_TLS_CA needs TLS, and h:1 has none"):
        SessiondSessionService("h:1")
    monkeypatch.setenv("SESSIOND_TLS_CA", "")
    SessiondSessionService("h:1")


@pytest.mark.parametrize("reason", ["", "SOME_REASON"])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (StatusCode.UNAUTHENTICATED, SessiondUnauthenticatedError),
        (StatusCode.PERMISSION_DENIED, SessiondPermissionDeniedError),
    ],
)
async def test_refused_credentials_are_not_retried(code: StatusCode, expected: type[Exception], reason: str) -> None:
    details = status_details(code, reason, "no") if reason else None
    server = ScriptedState((code, details))  # type: ignore[abstract]
    async with server, SessiondSessionService(server.address) as service:
        with pytest.raises(expected) as refused:
            await service.update_state(Delta({"app:a": 1}), app_name="app")
        assert isinstance(refused.value, PermissionError)
        assert len(server.request_ids) == 1


async def test_watch_ends_with_refused_credentials() -> None:
    class Refusing(Recorder):
        async def Watch(
            self, request: watch_service_pb2.WatchRequest, context: aio.ServicerContext[Any, Any]
        ) -> AsyncIterator[watch_service_pb2.WatchResponse]:
            self._record(context)
            await abort(context, StatusCode.UNAUTHENTICATED, None)
            yield watch_service_pb2.WatchResponse()

    server = Refusing()  # type: ignore[abstract]
    async with server, SessiondSessionService(server.address) as service:
        with pytest.raises(SessiondUnauthenticatedError):
            await anext(service.watch(**KEY))
        assert len(server.seen) == 1
