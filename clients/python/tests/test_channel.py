"""TLS, tokens, a channel of one's own, and the public stubs."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest
from conftest import Server
from grpc import StatusCode, aio
from proxy import Proxy
from support import KEY, text_event

from sessiond_adk import (
    Appended,
    Delta,
    RetryPolicy,
    SessiondSessionService,
    SessiondUnauthenticatedError,
    SessiondUnavailableError,
)
from sessiond_adk.channel import DEFAULT_OPTIONS
from sessiond_adk.proto import session_service_pb2, state_service_pb2, state_service_pb2_grpc, types_pb2

SECRET = "Bearer secret"


class GuardedState(state_service_pb2_grpc.StateServiceServicer):
    """A server with TLS that wants a token, as a proxy in front of sessiond is."""

    def __init__(self, key: bytes, certificate: bytes) -> None:
        self._credentials = grpc.ssl_server_credentials([(key, certificate)])
        self.tokens: list[str | None] = []
        self.reject_first = 0

    async def __aenter__(self) -> GuardedState:
        self._server = aio.server()
        state_service_pb2_grpc.add_StateServiceServicer_to_server(self, self._server)
        self.port = self._server.add_secure_port("127.0.0.1:0", self._credentials)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def UpdateState(
        self, request: state_service_pb2.UpdateStateRequest, context: aio.ServicerContext[Any, Any]
    ) -> state_service_pb2.UpdateStateResponse:
        metadata = dict(context.invocation_metadata() or ())
        token = metadata.get("authorization")
        self.tokens.append(token if isinstance(token, str) else None)
        if self.reject_first:
            self.reject_first -= 1
            await context.abort(StatusCode.UNAVAILABLE, "not yet")
        if token != SECRET:
            await context.abort(StatusCode.UNAUTHENTICATED, "no token")
        return state_service_pb2.UpdateStateResponse(state_json=request.delta.set_json)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[bytes, bytes]:
    """A key, and a certificate of localhost that it signs itself."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return key.read_bytes(), certificate.read_bytes()


async def update(service: SessiondSessionService) -> dict[str, Any]:
    return await service.update_state(Delta({"app:a": 1}), app_name="app")


async def test_tls_with_a_token(certificate: tuple[bytes, bytes]) -> None:
    tls = grpc.ssl_channel_credentials(root_certificates=certificate[1])
    # Only the stubs of the types are abstract.
    async with GuardedState(*certificate) as server:  # type: ignore[abstract]
        address = f"localhost:{server.port}"
        token = [("authorization", SECRET)]
        async with SessiondSessionService(address, credentials=tls, metadata=token) as service:
            assert await update(service) == {"app:a": 1}
        async with SessiondSessionService(address, credentials=tls) as service:
            refused = f"{address} refuses the credentials .* Check `token_file` and `tls_cert`"
            with pytest.raises(SessiondUnauthenticatedError, match=refused) as error:
                await update(service)
            assert isinstance(error.value, PermissionError)
            assert error.value.attempts == 1
        quick = RetryPolicy(attempts=2, first_delay_seconds=0.001)
        for uri in (f"https://{address}", f"http://{address}"):
            # https does not trust this certificate, and http does not speak TLS.
            async with SessiondSessionService(uri, retry=quick, metadata=token) as service:
                with pytest.raises(SessiondUnavailableError, match=f"sessiond at {address} is unreachable"):
                    await update(service)
        assert server.tokens == [SECRET, None]


async def test_metadata_is_made_for_each_attempt(certificate: tuple[bytes, bytes]) -> None:
    made: list[str] = []

    def token() -> list[tuple[str, str]]:
        made.append(SECRET if len(made) == 2 else f"old {len(made)}")
        return [("authorization", made[-1])]

    tls = grpc.ssl_channel_credentials(root_certificates=certificate[1])
    async with GuardedState(*certificate) as server:  # type: ignore[abstract]
        server.reject_first = 2
        async with SessiondSessionService(f"localhost:{server.port}", credentials=tls, metadata=token) as service:
            assert await update(service) == {"app:a": 1}
        assert server.tokens == ["old 0", "old 1", SECRET]


async def test_channel_of_ones_own_is_made_once_per_event_loop(server: Server) -> None:
    made: list[asyncio.AbstractEventLoop] = []

    def channel() -> aio.Channel:
        made.append(asyncio.get_running_loop())
        return aio.insecure_channel(server.address)

    async with SessiondSessionService("elsewhere:1", channel=channel) as service:
        session = await service.create_session(**KEY)
        await service.increment(session, "n")
        assert made == [asyncio.get_running_loop()]

        def on_another_loop() -> Any:
            return asyncio.run(service.get_session(**KEY))

        assert (await asyncio.to_thread(on_another_loop)).state == {"n": 1}
        assert len(made) == 2
    wrongs: list[dict[str, Any]] = [
        {"credentials": grpc.ssl_channel_credentials()},
        {"channel_options": [("grpc.x", 1)]},
        {"token_file": "token"},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="channel excludes credentials, files and channel_options"):
            SessiondSessionService("h:1", channel=channel, **wrong)


# The defaults, a hundred times as fast. gRPC sends at most one ping per second.
QUICK_KEEPALIVE = [(name, value // 100) for name, value in DEFAULT_OPTIONS if value == 20_000]


async def test_call_leaves_a_dead_connection(server: Server) -> None:
    assert {"grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms"} < dict(QUICK_KEEPALIVE).keys()
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, timeout=60, channel_options=QUICK_KEEPALIVE) as service,
    ):
        await service.create_session(**KEY, state={"n": 1})
        # No ping without calls, except those that follow data at once.
        await asyncio.sleep(0.5)
        pings = proxy.pings
        await asyncio.sleep(1.5)
        assert (proxy.pings, proxy.connections) == (pings, 1)
        proxy.lose_everything()
        session = await asyncio.wait_for(service.get_session(**KEY), 30)
        assert session is not None
        assert session.state == {"n": 1}
        assert proxy.connections == 2


async def test_quiet_watch_leaves_a_dead_connection(server: Server) -> None:
    async with (
        Proxy(server.address) as proxy,
        SessiondSessionService(proxy.address, channel_options=QUICK_KEEPALIVE) as service,
        SessiondSessionService(server.address) as writer,
    ):
        session = await writer.create_session(**KEY)
        async with service.watch(**KEY, start="now") as watch:
            await anext(watch)
            pings = proxy.pings
            async with asyncio.timeout(30):
                # The server accepts any number of pings, and gRPC sends more than two.
                while proxy.pings < pings + 4:
                    await asyncio.sleep(0.01)
                assert proxy.connections == 1
                proxy.lose_everything()
                event = await writer.append_event(session, text_event("x"))
                item = await anext(watch)
            assert isinstance(item, Appended)
            assert item.event.id == event.id
            assert proxy.connections == 2


async def test_public_stubs_call_what_the_service_has_no_method_for(server: Server) -> None:
    async with SessiondSessionService(server.address) as service:
        await service.create_session(**KEY, state={"name": "Ann"})
        request = state_service_pb2.RenderTemplateRequest(key=types_pb2.SessionKey(**KEY), template="Hello {name}")
        assert (await service.stubs.state.RenderTemplate(request, timeout=60)).text == "Hello Ann"
        listed = await service.stubs.sessions.ListSessions(session_service_pb2.ListSessionsRequest(app_name="app"))
        assert [one.key.session_id for one in listed.sessions] == ["s"]
