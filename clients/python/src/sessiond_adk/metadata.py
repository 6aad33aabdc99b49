"""The metadata of a call: the caller's own, the token, and the trace context."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opentelemetry import propagate

from .credentials import TokenFile

# Metadata of every call, such as a token, or a function that makes it for each attempt.
Metadata = Sequence[tuple[str, str | bytes]]
MetadataSource = Metadata | Callable[[], Metadata]


class CallMetadata:
    """Makes the metadata of an attempt. Entries of the caller are not overwritten."""

    def __init__(self, source: MetadataSource, token_file: TokenFile | None) -> None:
        self._source = source
        self._token_file = token_file

    def __call__(self) -> Metadata:
        own = tuple(self._source() if callable(self._source) else self._source)
        added: dict[str, str] = {}
        # `traceparent` of the current span, with the propagators that the application has configured.
        propagate.inject(added)
        if self._token_file is not None:
            added["authorization"] = f"Bearer {self._token_file.token()}"
        taken = {name for name, _ in own}
        return (*own, *((name.lower(), value) for name, value in added.items() if name.lower() not in taken))
