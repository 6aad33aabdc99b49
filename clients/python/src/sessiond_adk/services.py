"""Registers sessiond with ADK's command line: `import sessiond_adk.services` in a `services.py` is all that it needs.

    adk web --session_service_uri=sessiond://127.0.0.1:50051 AGENTS_FOLDER

`https://HOST:PORT` uses TLS, with the files of SESSIOND_TLS_CA and SESSIOND_TOKEN_FILE.
"""

from __future__ import annotations

from typing import Any

from google.adk.cli.service_registry import get_service_registry

from .service import SessiondSessionService


def build(uri: str, **settings: Any) -> SessiondSessionService:
    """Creates the service for a URI such as `sessiond://127.0.0.1:50051?timeout=5`."""
    return SessiondSessionService(uri, **settings)


for scheme in ("sessiond", "https"):
    get_service_registry().register_session_service(scheme, build)
