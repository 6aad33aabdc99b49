"""An ADK event with every field set, built from ADK's models, so that new fields are set as well."""

from __future__ import annotations

import datetime
import enum
import inspect
import types as builtin_types
import typing
from typing import Any

from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_schemes import OpenIdConnectWithConfig
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from pydantic import BaseModel

# Covers every field of a model response. Optional fields below this depth stay unset.
DEPTH = 7

FREE = {"none": None, "int": 10**30, "float": 0.1, "text": "ü\u2028\U0001f600", "list": [None, [1, {"a": []}]], "": ""}


class Generator:
    """Generates a value of any type that ADK's models use."""

    def __init__(self) -> None:
        """Numbers make the values distinct, so that swapped fields are detected."""
        self._number = 0

    def _next(self) -> int:
        self._number += 1
        return self._number

    def value(self, kind: Any, depth: int = 0) -> Any:
        """Generates a value of the type `kind`."""
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if kind is Any or kind is object:
            return FREE
        if origin in (typing.Union, builtin_types.UnionType):
            chosen = [one for one in inside if one is not type(None)]
            return self.value(chosen[0], depth)
        if origin is typing.Annotated:
            return self.value(inside[0], depth)
        if origin is typing.Literal:
            return inside[0]
        if origin in (list, set, frozenset):
            return origin([self.value(inside[0], depth)])
        if origin is dict:
            return dict(FREE) if inside[1] is Any else {"key": self.value(inside[1], depth)}
        return self._plain(kind, depth)

    def _plain(self, kind: Any, depth: int) -> Any:
        number = self._next()
        if kind in (dict, list):
            return dict(FREE) if kind is dict else [1, None]
        simple: dict[Any, Any] = {
            str: f"text {number}",
            int: number,
            float: number + 0.1,
            bool: True,
            bytes: bytes([number % 256, 0xFF, 0xFE, 0x00, 0x3E, 0x3F]),
            datetime.datetime: datetime.datetime(2026, 1, 2, 3, 4, 5, number, datetime.UTC),
        }
        if kind in simple:
            return simple[kind]
        if inspect.isclass(kind) and issubclass(kind, enum.Enum):
            return list(kind)[-1]
        assert inspect.isclass(kind), f"no value for {kind!r}"
        assert issubclass(kind, BaseModel), f"no value for {kind!r}"
        return self.model(kind, depth + 1)

    def model(self, kind: type[BaseModel], depth: int = 0, **given: Any) -> Any:
        """Generates a model with every field set, down to `DEPTH`."""
        if kind is AuthConfig:
            return auth_config()
        values = dict(given)
        for name, field in kind.model_fields.items():
            if name not in values and (depth < DEPTH or field.is_required()):
                values[name] = self.value(field.annotation, depth)
        return kind(**values)


def auth_config() -> AuthConfig:
    """A request for a user's consent. Its unions need values that match each other."""
    scheme = OpenIdConnectWithConfig(
        authorization_endpoint="https://example.com/auth", token_endpoint="https://example.com/token", scopes=["a", "b"]
    )
    oauth2 = OAuth2Auth(client_id="id", client_secret="secret", state="s", expires_at=1_800_000_000)
    credential = AuthCredential(auth_type=AuthCredentialTypes.OPEN_ID_CONNECT, oauth2=oauth2)
    return AuthConfig(auth_scheme=scheme, raw_auth_credential=credential, exchanged_auth_credential=credential)


def full_event(timestamp: float = 1_795_190_851.2509241) -> Event:
    """An event with every field set, recursively, except `partial`. No `temp:` keys."""
    generator = Generator()
    state = {"app:a": FREE, "user:u": None, "plain": [1.0, 1, True, "1"], "app:": 0, "user:": "", "other:x": {}}
    actions = generator.model(EventActions, 1, state_delta=state)
    event: Event = generator.model(
        Event,
        actions=actions,
        partial=None,
        timestamp=timestamp,
        long_running_tool_ids={"c", "a", "b"},
        branch="root.one.two",
        id="event-1",
    )
    return event
