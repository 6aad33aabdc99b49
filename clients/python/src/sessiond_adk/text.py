"""Half a surrogate pair: text that UTF-8 cannot encode, such as an emoji that was cut in the middle.

Values and bodies are mended: each half becomes U+FFFD. Keys, ids and names are refused, because the mended text would
address something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

HALF_PAIR = "half a surrogate pair, which UTF-8 cannot encode"


def is_sendable(text: str) -> bool:
    """Whether UTF-8 can encode `text`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_sendable(**texts: str | None) -> None:
    """Checks keys, ids and names, given by their parameters.

    Raises:
      ValueError: one has half a surrogate pair.
    """
    for name, text in texts.items():
        if text is not None and not is_sendable(text):
            raise ValueError(f"{name} is {text!r}, with {HALF_PAIR}.")


def mend(value: Any, path: str = "") -> tuple[Any, list[str]]:
    """`value` with U+FFFD for each half of a surrogate pair, and the paths of the texts that had one."""
    if isinstance(value, str):
        mended = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return mended, [path] if mended != value else []
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        members, paths = {}, []
        for name, item in value.items():
            name, renamed = mend(name)
            inner = _join(path, name)
            members[name], inside = mend(item, inner)
            paths += [inner] if renamed else inside
        return members, paths
    if isinstance(value, list | tuple | set | frozenset):
        items, paths = [], []
        for number, item in enumerate(value):
            item, inside = mend(item, _join(path, number))
            items.append(item)
            paths += inside
        return items, paths
    return value, []


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
