"""Registers sessiond with ADK's command line.

For `adk web` and `adk api_server`, copy this file into the folder that holds your agents. For `adk run`, copy it into
the folder of the agent:

    adk web --session_service_uri=sessiond://127.0.0.1:50051 AGENTS_FOLDER
    adk run --session_service_uri=sessiond://127.0.0.1:50051 AGENTS_FOLDER/AGENT

With https://HOST:PORT they use TLS, and the files of SESSIOND_TLS_CA and SESSIOND_TOKEN_FILE.
"""

from typing import Any

from google.adk.cli.service_registry import get_service_registry

from sessiond_adk import SessiondSessionService


def build(uri: str, **settings: Any) -> SessiondSessionService:
    """Creates the service for a URI such as `sessiond://127.0.0.1:50051?timeout=5`."""
    return SessiondSessionService(uri, **settings)


for scheme in ("sessiond", "https"):
    get_service_registry().register_session_service(scheme, build)
