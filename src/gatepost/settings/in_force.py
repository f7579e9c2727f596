"""Which settings differ from their defaults, with secrets hidden: what an operator wants to see at a glance.

The settings that hold, line by line, for people: defaults filled in, secrets left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from gatepost.settings.faults import written
from gatepost.settings.keys import Section

HIDDEN = "(hidden)"
_SECRETS = frozenset({"secret", "token"})


def differing_settings(settings: Section) -> dict[str, Any]:
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
            yield from _shown_difference(value, key)


def _shown_difference(value: Any, key: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
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


SECRET_KEYS = frozenset({"secret", "token", "password"})
HIDDEN_VALUE = "(set)"


def settings_in_force(file: str, settings: BaseModel) -> tuple[tuple[str, str, str], ...]:
    """(file, key, value) for every setting of one file."""
    return tuple(
        (file, key, value) for key, value in _setting_lines("", settings.model_dump(by_alias=True, mode="json"))
    )


def _setting_lines(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _setting_lines(f"{key}.{name}" if key else str(name), inner)
    elif (
        isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(each, Mapping) for each in value)
    ):
        for place, inner in enumerate(value):
            yield from _setting_lines(f"{key}[{place}]", inner)
    else:
        yield key, _shown(key, value)


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "not set"
    if key.rpartition(".")[2] in SECRET_KEYS:
        return HIDDEN_VALUE
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
    return parts._replace(netloc=f"{HIDDEN_VALUE}@{parts.netloc.rpartition('@')[2]}").geturl()
