"""The generated messages and stubs of the contract, for calls that this package has no method for.

    from sessiond_adk.proto import state_service_pb2, types_pb2

    scope = types_pb2.Scope(app_name="my_app")
    answer = await service.stubs.state.GetState(state_service_pb2.GetStateRequest(scope=scope))

They are in a descriptor pool of their own, so messages of another copy of the contract do not mix with them.
"""

from ._proto import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    event_service_pb2,
    event_service_pb2_grpc,
    session_service_pb2,
    session_service_pb2_grpc,
    state_service_pb2,
    state_service_pb2_grpc,
    types_pb2,
    watch_service_pb2,
    watch_service_pb2_grpc,
)

__all__ = [
    "admin_service_pb2",
    "admin_service_pb2_grpc",
    "event_service_pb2",
    "event_service_pb2_grpc",
    "session_service_pb2",
    "session_service_pb2_grpc",
    "state_service_pb2",
    "state_service_pb2_grpc",
    "types_pb2",
    "watch_service_pb2",
    "watch_service_pb2_grpc",
]
