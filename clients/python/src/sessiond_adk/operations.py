"""Changes of state that depend on the value at the commit, evaluated by the server so that no writer is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._proto import types_pb2
from .state import encode_value, encode_values, join_object


@dataclass(frozen=True)
class Increment:
    """Adds to a number; a missing key counts as 0. A float makes the value a double."""

    key: str
    by: int | float = 1


@dataclass(frozen=True)
class ListAppend:
    """Adds `values` to the end of a list, and keeps its newest `max_length` items (0: all). A missing key: empty."""

    key: str
    values: Sequence[Any]
    max_length: int = 0


@dataclass(frozen=True)
class SetIfAbsent:
    """Sets `value` only where the key has none. None (null) is a value."""

    key: str
    value: Any


@dataclass(frozen=True)
class MergePatch:
    """Merges `patch` into an object as RFC 7396 does: None removes a member. A missing key counts as {}."""

    key: str
    patch: Mapping[str, Any]


@dataclass(frozen=True)
class Remove:
    """Removes the key. That there is none is no error."""

    key: str


Operation = Increment | ListAppend | SetIfAbsent | MergePatch | Remove


@dataclass(frozen=True)
class Delta:
    """Changes of state, applied together: `values` are set first, then `operations` follow in their order.

    Keys carry their prefix. A key that is removed counts as removed before the other operations, whatever its place.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    operations: Sequence[Operation] = ()

    def __post_init__(self) -> None:
        """Refuses what would quietly mean nothing."""
        for operation in self.operations:
            if not isinstance(operation, Operation):
                raise TypeError(f"{operation!r} is no operation")


def fill(message: types_pb2.StateDelta, texts: Mapping[str, str], operations: Sequence[Operation]) -> None:
    """Writes values (as JSON texts) and operations into a delta of the contract.

    Raises:
      StateValueError: a value that JSON cannot hold; names its key.
      ValueError: an amount beyond 64 bits.
    """
    if texts:
        message.set_json = join_object(texts)
    for operation in operations:
        if isinstance(operation, Remove):
            message.remove.append(operation.key)
            continue
        added = message.operations.add(key=operation.key)
        if isinstance(operation, Increment):
            _fill_increment(added.increment, operation)
        elif isinstance(operation, ListAppend):
            added.list_append.values_json = encode_value(operation.key, list(operation.values))
            added.list_append.max_length = operation.max_length
        elif isinstance(operation, SetIfAbsent):
            added.set_if_absent.value_json = encode_value(operation.key, operation.value)
        else:
            added.merge_patch.patch_json = encode_value(operation.key, dict(operation.patch))


def _fill_increment(message: types_pb2.Increment, operation: Increment) -> None:
    by = operation.by
    if isinstance(by, bool) or not isinstance(by, int | float):
        raise ValueError(f"the amount to add to {operation.key!r} is no number: {by!r}")
    if isinstance(by, float):
        # NaN and infinities are refused here, where the key can be named.
        encode_value(operation.key, by)
        message.by_double = by
    elif -(2**63) <= by < 2**63:
        message.by = by
    else:
        raise ValueError(f"the amount to add to {operation.key!r} is beyond 64 bits: {by}")


def encode_delta(delta: Delta) -> types_pb2.StateDelta:
    """The delta as the contract writes it.

    Raises:
      StateValueError, ValueError: as `fill`.
    """
    message = types_pb2.StateDelta()
    fill(message, encode_values(delta.values), delta.operations)
    return message
