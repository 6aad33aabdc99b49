"""Calls and watches carry a hint, by which load balancers can keep those of a user on one replica."""

from __future__ import annotations

from recorder import recorder

from sessiond_adk import SessiondSessionService
from sessiond_adk.proto import session_service_pb2


async def test_calls_and_watches_carry_the_hint() -> None:
    of_user, of_app = "5bdd9aa445874270", "ffe9aaeaa2a2d504"
    async with recorder() as server, SessiondSessionService(server.address) as service:
        await service.list_sessions(app_name="a", user_id="u")
        await service.list_sessions(app_name="a")
        async for _ in service.watch(app_name="a", user_id="u", session_id="s"):
            pass
        async for _ in service.watch(app_name="a"):
            pass
        assert [metadata.get("sessiond-affinity") for metadata in server.seen] == [of_user, of_app, of_user, of_app]
        request = session_service_pb2.ListSessionsRequest(app_name="a", user_id="u")
        assert service.call_metadata(request) == (("sessiond-affinity", of_user),)


async def test_callers_own_hint_wins() -> None:
    async with recorder() as server:
        async with SessiondSessionService(server.address, metadata=[("sessiond-affinity", "mine")]) as service:
            await service.list_sessions(app_name="a", user_id="u")
        assert [metadata.get("sessiond-affinity") for metadata in server.seen] == ["mine"]
