"""The benchmark runs, and shows its progress."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import binary

BENCHMARK = Path(__file__).resolve().parents[1] / "benchmarks/compare.py"


def test_benchmark_shows_its_progress(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), "--program", str(binary()), "--callers", "2", "--events", "20"]
    ran = subprocess.run([*command, "--seconds", "0.1"], cwd=tmp_path, check=True, capture_output=True, text=True)
    progress = ran.stderr.splitlines()
    for service in ("sessiond", "DatabaseSessionService", "SqliteSessionService"):
        for number in (1, 2):
            assert f"fixture of {service}: {number} of 2 sessions of 20 events" in progress
        for call in ("get_session", "append_event"):
            for callers in (1, 2):
                assert f"{call} by {callers} callers: {service}, 0 s" in progress
    assert [line.split("|")[1].strip() for line in ran.stdout.splitlines()[2:]] == [
        "`get_session`",
        "`get_session`",
        "`append_event`",
        "`append_event`",
    ]
    assert "fixture" not in ran.stdout
