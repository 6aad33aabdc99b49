"""The benchmark runs on both services."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Serve

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks/compare.py"


@pytest.mark.parametrize("service", ["sqlite", "sessiond"])
def test_benchmark_measures(service: str, serve: Serve, tmp_path: Path) -> None:
    target = f"sqlite:{tmp_path / 'adk.db'}" if service == "sqlite" else serve().address
    command = [sys.executable, str(BENCHMARK), "0.1", target]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    measured = [(row["workload"], row["in_flight"]) for row in rows]
    assert measured == [("append", 1), ("append", 16), ("read", 1), ("read", 16)]
    assert all(row["per_second"] > 0 for row in rows)
