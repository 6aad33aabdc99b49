"""Errors as objects of Python."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import grpc
import pytest

from sessiond_adk import StateValueError, errors


def classes(base: type[BaseException]) -> Iterator[type[BaseException]]:
    """`base` and the subclasses that this package has."""
    yield base
    for subclass in base.__subclasses__():
        yield from classes(subclass)


STATUS = errors.Status(
    grpc.StatusCode.INVALID_ARGUMENT,
    "Two fields are wrong.",
    "INVALID",
    {"keys": '["a"]', "retryable": "same_id"},
    [("a", "too long"), ("b", "empty")],
    1.5,
)
EXAMPLES = [
    *(kind(STATUS, 3) for kind in classes(errors.SessiondError)),
    StateValueError("user:k", "a function has no JSON form"),
]


def test_examples_have_every_class_of_the_package() -> None:
    named = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert {type(example) for example in EXAMPLES} == {one for one in named if one.__module__ == errors.__name__}


def pickled(error: Exception) -> Exception:
    again: Exception = pickle.loads(pickle.dumps(error))
    return again


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_copies_and_pickles_are_equal(error: Exception, duplicate: Callable[[Exception], Exception]) -> None:
    """A worker of a ProcessPoolExecutor sends its error as a pickle."""
    error.add_note("in worker 7")
    again = duplicate(error)
    assert type(again) is type(error)
    assert (str(again), again.args) == (str(error), error.args)
    assert vars(again) == vars(error)
