"""Certificates of a test, and the authority that issues them."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """An authority with its certificate in the file `ca`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ca, self._key = folder / "ca.pem", folder / "ca.key"
        self._create("authority", self.ca, self._key)

    def issue(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate for this machine, and of its key."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
        issuer: list[str | Path] = ["-CA", self.ca, "-CAkey", self._key]
        self._create(name, certificate, key, *issuer, *names)
        return certificate, key

    def _create(self, name: str, certificate: Path, key: Path, *more: str | Path) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", "2", "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*command, *more], check=True, capture_output=True)
