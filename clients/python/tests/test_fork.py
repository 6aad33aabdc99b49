"""Processes that are forked after the service was used. gRPC does not survive a fork while it has a channel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forker
import pytest
from conftest import Serve


def in_child(serve: Serve, before: str, after: str) -> list[str]:
    """The result of a call in a forked process, and its exit code. In a program that has no channels of other tests."""
    command = [sys.executable, str(Path(forker.__file__)), serve().address, before, after]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300)
    return done.stdout.splitlines()


@pytest.mark.parametrize("after", ["same_service", "same_loop", "new_service", "sync"])
def test_call_in_a_fork_of_an_open_service_raises(serve: Serve, after: str) -> None:
    result, exit_code = in_child(serve, "open", after)
    assert result.startswith("RuntimeError: Process ")
    assert "Close the service before the fork, or start processes with spawn." in result
    assert exit_code == "0"


@pytest.mark.parametrize("after", ["same_service", "same_loop", "new_service", "sync"])
def test_call_in_a_fork_of_a_closed_service_succeeds(serve: Serve, after: str) -> None:
    assert in_child(serve, "closed", after) == ["s", "0"]
