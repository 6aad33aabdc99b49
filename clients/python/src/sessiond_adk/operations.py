"""State operations that the server evaluates inside the commit, so that no concurrent update is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._proto import types_pb2
from .state import check_key, encode_value, encode_values, join_object


@dataclass(frozen=True)
class Increment:
    """Adds to a number. A missing key counts as 0. A float makes the value a double."""

    key: str
    by: int | float = 1


@dataclass(frozen=True)
class ListAppend:
    """Appends `values` to a list and keeps its newest `max_length` items (0: all). A missing key counts as []."""

    key: str
    values: Sequence[Any]
    max_length: int = 0


@dataclass(frozen=True)
class SetIfAbsent:
    """Sets `value` if the key has none. None (null) is a value."""

    key: str
    value: Any


@dataclass(frozen=True)
class MergePatch:
    """Merges `patch` into an object (RFC 7396): None removes a member. A missing key counts as {}."""

    key: str
    patch: Mapping[str, Any]


@dataclass(frozen=True)
class Remove:
    """Removes the key. A missing key is not an error."""

    key: str


Operation = Increment | ListAppend | SetIfAbsent | MergePatch | Remove


@dataclass(frozen=True)
class Delta:
    """State changes that are applied together: `values` first, then `operations` in their order.

    Keys carry their prefix. A `Remove` takes effect before the other operations, wherever it stands.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    operations: Sequence[Operation] = ()

    def __post_init__(self) -> None:
        for operation in self.operations:
            if not isinstance(operation, Operation):
                raise TypeError(f"{operation!r} is not an operation. Use Increment, ListAppend, SetIfAbsent, …")


def write_delta(message: types_pb2.StateDelta, texts: Mapping[str, str], operations: Sequence[Operation]) -> None:
    """Writes values (as JSON texts) and operations into an empty `message`.

    Raises:
      StateValueError: a value has no JSON form, or a key cannot be sent.
      ValueError: an increment is not a number of 64 bits.
    """
    if texts:
        message.set_json = join_object(texts)
    for operation in operations:
        check_key(operation.key)
        if isinstance(operation, Remove):
            message.remove.append(operation.key)
            continue
        added = message.operations.add(key=operation.key)
        if isinstance(operation, Increment):
            _write_increment(added.increment, operation)
        elif isinstance(operation, ListAppend):
            added.list_append.values_json = encode_value(operation.key, list(operation.values))
            added.list_append.max_length = operation.max_length
        elif isinstance(operation, SetIfAbsent):
            added.set_if_absent.value_json = encode_value(operation.key, operation.value)
        else:
            added.merge_patch.patch_json = encode_value(operation.key, dict(operation.patch))


def _write_increment(message: types_pb2.Increment, operation: Increment) -> None:
    by = operation.by
    if isinstance(by, bool) or not isinstance(by, int | float):
        raise ValueError(f"The increment of {operation.key!r} is {by!r}. It must be an int or a float.")
    if isinstance(by, float):
        # Refuses NaN and infinities, with the key in the message.
        encode_value(operation.key, by)
        message.by_double = by
    elif -(2**63) <= by < 2**63:
        message.by = by
    else:
        raise ValueError(f"The increment of {operation.key!r} is {by}. It must fit into 64 bits.")


def encode_delta(delta: Delta) -> types_pb2.StateDelta:
    """The delta as a message.

    Raises:
      StateValueError, ValueError: as `write_delta`.
    """
    message = types_pb2.StateDelta()
    write_delta(message, encode_values(delta.values), delta.operations)
    return message
