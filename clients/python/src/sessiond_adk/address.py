"""Addresses of servers: `127.0.0.1:50051`, `unix:/run/sessiond.sock`, or a URI."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = 50051
SCHEMES = ("sessiond", "http", "https")
_FORMS = (
    "Use HOST:PORT, unix:/PATH, sessiond://HOST:PORT, sessiond:///PATH (a unix socket), http://HOST:PORT or"
    " https://HOST:PORT (TLS)."
)


@dataclass(frozen=True)
class Address:
    """A gRPC target, whether it is reached with TLS, and the settings of the URI's query (`?timeout=5&stale=error`)."""

    target: str
    tls: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """Whether calls stay on this machine: a Unix socket or a loopback address."""
        if self.target.startswith("unix:"):
            return True
        host = self.target.rpartition(":")[0].strip("[]")
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def parse_address(text: str) -> Address:
    """Parses an address.

    Raises:
      ValueError: not an address. The message lists the valid forms.
    """
    text = text.strip()
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        # gRPC itself accepts `unix:/path`, `unix:///path` and `unix:relative`.
        if not path.strip("/"):
            raise ValueError(f"{text!r} has no socket path. {_FORMS}")
        return Address(text)
    if "://" not in text:
        return Address(_host_and_port(text, text))
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"{text!r} has the scheme {parts.scheme!r}. {_FORMS}")
    if parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{text!r} has a user or a fragment. {_FORMS}")
    tls = parts.scheme == "https"
    settings = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if parts.netloc:
        if parts.path not in ("", "/"):
            raise ValueError(f"{text!r} has a path after its host. {_FORMS}")
        return Address(_host_and_port(parts.netloc, text), tls, settings)
    if parts.scheme != "sessiond" or not parts.path.strip("/"):
        raise ValueError(f"{text!r} has neither a host nor a socket path. {_FORMS}")
    return Address(f"unix:{unquote(parts.path)}", tls, settings)


def _host_and_port(text: str, whole: str) -> str:
    """`text` with a port. An IPv6 address needs brackets. `whole` appears in messages."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or "/" in text or any(c.isspace() for c in text) or (":" in host and not bracketed):
        raise ValueError(f"{whole!r} is not an address. {_FORMS}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{whole!r} has the port {port!r}. {_FORMS}")
    return f"{host}:{port}"


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


# The settings of a URI, how each is read, and what it must be.
_SETTINGS: dict[str, tuple[Callable[[str], Any], str]] = {
    "timeout": (float, "a number of seconds"),
    "stale": (str, "merge, conflict or error"),
    "share_temp": (_boolean, "true or false"),
    "attempts": (int, "a whole number"),
    "first_delay": (float, "a number of seconds"),
    "max_delay": (float, "a number of seconds"),
}


def read_settings(address: Address) -> dict[str, Any]:
    """The settings of an address, by name.

    Raises:
      ValueError: an unknown setting, or a value of the wrong type.
    """
    unknown = address.settings.keys() - _SETTINGS.keys()
    if unknown:
        raise ValueError(f"Unknown settings in the address: {', '.join(sorted(unknown))}. Use {', '.join(_SETTINGS)}.")
    settings = {}
    for name, text in address.settings.items():
        read, what = _SETTINGS[name]
        try:
            settings[name] = read(text)
        except (ValueError, KeyError) as error:
            raise ValueError(f"{name} is {text!r} in the address. It must be {what}.") from error
    return settings
