"""The services that a move copies from."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from google.adk.cli.utils.service_factory import create_session_service_from_options
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from .state import with_prefix

_DATABASE_SCHEME = "sqlite+aiosqlite"


def open_source(uri: str) -> BaseSessionService:
    """The session service of a URI.

    Raises:
      ValueError: ADK does not take the URI, or its file does not exist.
    """
    parts = urlsplit(uri)
    # As ADK's registry and SQLAlchemy: three slashes and a relative path, or four.
    path = Path(unquote(parts.path[1:]))
    if parts.scheme in ("sqlite", _DATABASE_SCHEME) and parts.path not in ("", "/:memory:"):
        if not path.is_file():
            # ADK would create it.
            raise ValueError(f"There is no file {str(path)!r}.")
        if parts.scheme == "sqlite" and _is_of_database_service(path):
            uri = uri.replace("sqlite:", f"{_DATABASE_SCHEME}:", 1)
    return create_session_service_from_options(base_dir=Path.cwd(), session_service_uri=uri)


def _is_of_database_service(path: Path) -> bool:
    """Whether `DatabaseSessionService` wrote the file. ADK takes `sqlite:` for a file of `SqliteSessionService`.

    Both have a table of sessions, but only one stores times as numbers.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            columns = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(sessions)")}
    except sqlite3.Error as error:
        raise ValueError(f"The file {str(path)!r} cannot be read: {error}") from error
    return str(columns.get("update_time", "REAL")).upper() != "REAL"


# The shared state of an application (None) and of its users, with prefixed keys.
SharedState = dict[str | None, dict[str, Any]]


async def read_shared_state(source: BaseSessionService, app_name: str, listed: Sequence[Session]) -> SharedState:
    """The shared state of an application and its users.

    ADK's interface shows it with the sessions only. What users without sessions have, and an application without any,
    comes from the tables of ADK's own services.
    """
    shared: SharedState = {None: {}}
    for session in listed:
        for key, value in session.state.items():
            if key.startswith(State.APP_PREFIX):
                shared[None][key] = value
            elif key.startswith(State.USER_PREFIX):
                shared.setdefault(session.user_id, {})[key] = value
    users: list[str] = []
    # By their names: their modules need packages that other sources do without.
    kinds = {kind.__name__ for kind in type(source).__mro__}
    service: Any = source
    if "DatabaseSessionService" in kinds:
        from sqlalchemy import select

        await service.prepare_tables()
        tables = service._get_schema_classes()
        async with service.database_session_factory() as database:
            row = await database.get(tables.StorageAppState, app_name)
            shared[None] |= with_prefix(row.state if row else {}, State.APP_PREFIX)
            of_users = tables.StorageUserState
            query = select(of_users.user_id).filter(of_users.app_name == app_name)
            users = list((await database.execute(query)).scalars().all())
    elif "SqliteSessionService" in kinds:
        async with service._get_db_connection() as file:
            shared[None] |= with_prefix(await service._get_app_state(file, app_name), State.APP_PREFIX)
            rows = await file.execute_fetchall("SELECT user_id FROM user_states WHERE app_name = ?", (app_name,))
            users = [row["user_id"] for row in rows]
    for user in users:
        state = await source.get_user_state(app_name=app_name, user_id=user)
        if state:
            shared[user] = with_prefix(state, State.USER_PREFIX)
    return shared
