"""The lines that `sessiond serve` shows on a terminal work one after the other."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import binary


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix:"])
def test_first_lines_work_one_after_the_other(tmp_path: Path, listen: str) -> None:
    if listen == "unix:":
        listen += str(tmp_path / "s.sock")
    controller, terminal = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}
    server = subprocess.Popen(
        [binary(), "serve", "--listen", listen, "--store", "memory:"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
    )
    os.close(terminal)
    try:
        text = ""
        while "get_session(" not in text or not text.endswith("\n"):
            text += os.read(controller, 65536).decode()
        lines = text.replace("\r", "").splitlines()
        grpcurl, command, python = lines[-3:]
        # `sessiond` and `python3` as a user has them in the path.
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "sessiond").symlink_to(binary())
        (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python3").chmod(0o755)
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"

        def sh(line: str) -> str:
            result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment, check=False)
            assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
            return result.stdout

        assert grpcurl.startswith("grpcurl ")
        if shutil.which("grpcurl"):
            assert '"first"' in sh(grpcurl)
        else:
            # grpcurl itself is tested with the README.
            key = "--app my_app --user alice --session first"
            server_flag = command.split(" --session ")[0].removeprefix("sessiond event append")
            sh(f"sessiond session create{server_flag} {key}")
        assert '"sequence":1' in sh(command)
        assert "Hello" in sh(python)
    finally:
        server.kill()
        server.wait()
        os.close(controller)
