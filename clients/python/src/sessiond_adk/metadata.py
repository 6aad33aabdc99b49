"""The metadata of a call: the caller's own, the token, the trace context, and a hint for load balancers."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry import propagate

from .credentials import TokenFile

logger = logging.getLogger(__name__)

# What gRPC accepts as a name and a text; it refuses calls with anything else.
_NAME = re.compile(r"(?!grpc-)(?!.*-bin$)[0-9a-z_.-]+")
_TEXT = re.compile(r"[ -~]*")

# Metadata of every call, such as a token, or a function that makes it for each attempt.
Metadata = Sequence[tuple[str, str | bytes]]
MetadataSource = Metadata | Callable[[], Metadata]


class CallMetadata:
    """Makes the metadata of an attempt. Entries of the caller are not overwritten."""

    def __init__(self, source: MetadataSource, token_file: TokenFile | None) -> None:
        self._source = source
        self._token_file = token_file
        self._warned = False

    def __call__(self, request: object = None) -> Metadata:
        """The metadata of a call that sends `request`."""
        own = tuple(self._source() if callable(self._source) else self._source)
        added = self._trace_context() | _affinity(request)
        if self._token_file is not None:
            added["authorization"] = f"Bearer {self._token_file.token()}"
        taken = {name for name, _ in own}
        return (*own, *((name, value) for name, value in added.items() if name not in taken))

    def _trace_context(self) -> dict[str, str]:
        """`traceparent` of the current span, with the propagators that the application has configured.

        Tracing only observes: whatever it does wrong, the call goes on without it.
        """
        injected: dict[str, str] = {}
        valid: dict[str, str] = {}
        try:
            propagate.inject(injected)
            for name, value in injected.items():
                if not (_NAME.fullmatch(name.lower()) and _TEXT.fullmatch(value)):
                    raise ValueError(f"gRPC does not accept {name!r} with its value as metadata")
                valid[name.lower()] = value
        except Exception:
            if not self._warned:
                logger.warning("the trace context cannot be sent, calls go on without it", exc_info=True)
            self._warned = True
        return valid


def _affinity(request: Any) -> dict[str, str]:
    """A hint that load balancers can hash to keep the calls of a user on one replica. The server does not read it."""
    owner = getattr(request, "scope", None) or getattr(request, "key", request)
    app_name, user_id = getattr(owner, "app_name", ""), getattr(owner, "user_id", "")
    if not app_name:
        return {}
    return {"sessiond-affinity": hashlib.sha256(f"{app_name}\0{user_id}".encode()).hexdigest()[:16]}
