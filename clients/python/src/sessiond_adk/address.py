"""Addresses of servers: `127.0.0.1:50051`, `unix:/run/sessiond.sock`, or either as a `sessiond://` URI."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = 50051
SCHEME = "sessiond"
_FORMS = "Use HOST:PORT, unix:/PATH, sessiond://HOST:PORT or sessiond:///PATH (a unix socket)."


@dataclass(frozen=True)
class Address:
    """A gRPC target, and the settings of the URI's query (`?timeout=5&stale=error`)."""

    target: str
    settings: dict[str, str]


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
        return Address(text, {})
    if "://" not in text:
        return Address(_host_and_port(text, text), {})
    parts = urlsplit(text)
    if parts.scheme != SCHEME:
        raise ValueError(f"{text!r} has the scheme {parts.scheme!r}. {_FORMS}")
    if parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{text!r} has a user or a fragment. {_FORMS}")
    settings = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if parts.netloc:
        if parts.path not in ("", "/"):
            raise ValueError(f"{text!r} has a path after its host. {_FORMS}")
        return Address(_host_and_port(parts.netloc, text), settings)
    if not parts.path.strip("/"):
        raise ValueError(f"{text!r} has neither a host nor a socket path. {_FORMS}")
    return Address(f"unix:{unquote(parts.path)}", settings)


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
