"""TLS files and token files, from arguments or from the environment variables of the `sessiond` command."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import grpc

from .address import Address

_logger = logging.getLogger(__name__)

PathLike = str | os.PathLike[str]

VARIABLES: Mapping[str, str] = {
    "tls_ca": "SESSIOND_TLS_CA",
    "tls_cert": "SESSIOND_CLIENT_TLS_CERT",
    "tls_key": "SESSIOND_CLIENT_TLS_KEY",
    "token_file": "SESSIOND_TOKEN_FILE",
}

# Long enough that the file costs nothing, short enough for tokens that are replaced minutes before they expire.
_CHECK_SECONDS = 1.0


class TokenFile:
    """The token in a file. The file is read again after it has changed."""

    def __init__(self, path: Path, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`name` is the argument or the variable that names the file, for messages.

        Raises:
          ValueError: the file cannot be read, or has no token.
        """
        self._path = path
        self._clock = clock
        self._checked = clock()
        try:
            self._modified = path.stat().st_mtime_ns
            self._token = _read_token(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{name}: {error}") from error

    def token(self) -> str:
        """The token. Looks at the file at most once a second. If it cannot be read, the last token stays."""
        if self._clock() - self._checked >= _CHECK_SECONDS:
            self._checked = self._clock()
            try:
                self._read_again()
            except (OSError, ValueError) as error:
                _logger.warning("failed to read the token file again, the last token stays: %s", error)
        return self._token

    def _read_again(self) -> None:
        modified = self._path.stat().st_mtime_ns
        if modified != self._modified:
            self._token = _read_token(self._path)
            # Only now, so that a file that was caught half written is read again.
            self._modified = modified


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="utf-8").strip()
    if not token or not all("!" <= character <= "~" for character in token):
        raise ValueError(f"'{path}' has no token. It must have one line of visible ASCII.")
    return token


class CredentialFiles:
    """The files that a service was given. An argument takes precedence over its environment variable."""

    def __init__(self, environment: Mapping[str, str], **arguments: PathLike | None) -> None:
        self._paths: dict[str, Path] = {}
        # How messages call a file: by what the user has written.
        self._names: dict[str, str] = {}
        for argument, variable in VARIABLES.items():
            given = arguments[argument]
            chosen = given if given is not None else environment.get(variable)
            if chosen:
                self._paths[argument] = Path(chosen)
                self._names[argument] = argument if given is not None else variable

    def channel_credentials(self, address: Address) -> grpc.ChannelCredentials | None:
        """TLS for an https address, else None.

        Raises:
          ValueError: files for an address without TLS, a certificate without its key, or a file that cannot be read.
        """
        named = [name for argument, name in self._names.items() if argument != "token_file"]
        if not address.tls:
            if named:
                raise ValueError(f"{named[0]} needs TLS, and {address.target} has none. Use https://HOST:PORT.")
            return None
        if ("tls_cert" in self._paths) != ("tls_key" in self._paths):
            raise ValueError("tls_cert and tls_key belong together. Set both.")
        return grpc.ssl_channel_credentials(self._read("tls_ca"), self._read("tls_key"), self._read("tls_cert"))

    def token_file(self, address: Address, *, encrypted: bool) -> TokenFile | None:
        """The token file, if there is one.

        Raises:
          ValueError: the token would cross a network unencrypted, or the file has no token.
        """
        path = self._paths.get("token_file")
        if path is None:
            return None
        if not encrypted and not address.local:
            raise ValueError(f"Refusing to send a token to {address.target} without TLS. Use https://HOST:PORT.")
        return TokenFile(path, self._names["token_file"])

    def _read(self, argument: str) -> bytes | None:
        path = self._paths.get(argument)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise ValueError(f"{self._names[argument]}: {error}") from error
