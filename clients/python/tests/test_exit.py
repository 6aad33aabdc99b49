"""Processes that end right after they have closed a service with many watches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import leaver
import pytest
from conftest import Serve

WATCHES = 401
# With grpcio 1.76 it hangs in most of them.
RUNS = 3


@pytest.mark.parametrize("state", ["idle", "stopped", "cut off"])
def test_exit_after_closing_many_watches(serve: Serve, state: str) -> None:
    command = [sys.executable, str(Path(leaver.__file__)), serve().address, str(WATCHES), state]
    for _ in range(RUNS):
        subprocess.run(command, check=True, timeout=30)
