"""Which settings differ from their defaults, with secrets hidden: what an operator wants to see at a glance."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticUndefined

from gatepost.config.fault import written
from gatepost.settings import Section

HIDDEN = "(hidden)"
_SECRETS = frozenset({"secret", "token"})


def differing(settings: Section) -> dict[str, Any]:
    """Every key whose value is not the default, as written in the file."""
    return {written(key): value for key, value in _differing(settings, ())}


def _differing(settings: Section, at: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        default = field.get_default(call_default_factory=True, validated_data={})
        key = (*at, str(field.alias))
        if isinstance(value, Section):
            inner = list(_differing(value, key))
            # A section that is off unless it is named says something even when it is empty.
            yield from inner or ([(key, {})] if default is None else [])
        elif default is PydanticUndefined or value != default:
            yield from _shown(value, key)


def _shown(value: Any, key: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, list) and value and isinstance(value[0], Section):
        for index, item in enumerate(value):
            yield from _differing(item, (*key, index))
    elif key[-1] in _SECRETS:
        yield key, HIDDEN
    elif key[-1] == "url":
        yield key, _without_password(str(value))
    else:
        yield key, value


def _without_password(url: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", f":{HIDDEN}@", 1) if password else url
