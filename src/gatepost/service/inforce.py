"""The settings that hold, line by line, for people: defaults filled in, secrets left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

SECRET = frozenset({"secret", "token", "password"})
HIDDEN = "(set)"


def in_force(file: str, settings: BaseModel) -> tuple[tuple[str, str, str], ...]:
    """(file, key, value) for every setting of one file."""
    return tuple((file, key, value) for key, value in _lines("", settings.model_dump(by_alias=True, mode="json")))


def _lines(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _lines(f"{key}.{name}" if key else str(name), inner)
    elif (
        isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(each, Mapping) for each in value)
    ):
        for place, inner in enumerate(value):
            yield from _lines(f"{key}[{place}]", inner)
    else:
        yield key, _shown(key, value)


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "not set"
    if key.rpartition(".")[2] in SECRET:
        return HIDDEN
    if isinstance(value, str):
        return _without_credentials(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence):
        return ", ".join(_without_credentials(str(each)) for each in value) or "none"
    return "none" if value == {} else str(value)


def _without_credentials(text: str) -> str:
    """An address without the name and the password in it."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return text
    if not parts.scheme or "@" not in parts.netloc:
        return text
    return parts._replace(netloc=f"{HIDDEN}@{parts.netloc.rpartition('@')[2]}").geturl()
