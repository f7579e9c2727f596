"""The settings in force, for people: those that differ from their defaults, or all of them.

`gatepost config check` prints the first, the system page of the web interface shows the second. Both hide the values
of secret keys and the credentials inside of URLs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_core import PydanticUndefined

from gatepost.settings.document import Key
from gatepost.settings.faults import render_key
from gatepost.settings.values import HIDDEN, Section, hide_credentials, hide_path

SECRET_KEYS = frozenset({"secret", "token", "password", "queryKey", "clientSecret"})


def differing_settings(settings: Section) -> dict[str, Any]:
    """Return every key whose value is not the default, as written in the file, with its value."""
    return {render_key(key): hide(key, value) for key, value in _walk(settings, (), only_differing=True)}


def settings_in_force(file: str, settings: Section) -> tuple[tuple[str, str, str], ...]:
    """Return (file, key, value) for every setting of one file, defaults included, as text."""
    lines = _walk(settings, (), only_differing=False)
    return tuple((file, render_key(key), _render(hide(key, value))) for key, value in lines)


def _walk(settings: Section, above: Key, *, only_differing: bool) -> Iterator[tuple[Key, Any]]:
    """Yield every key below a section that has a value of its own; sections inside it are walked as well."""
    for name, field in type(settings).model_fields.items():
        value, key = getattr(settings, name), (*above, str(field.alias))
        default = field.get_default(call_default_factory=True, validated_data={})
        if isinstance(value, Section):
            inner = list(_walk(value, key, only_differing=only_differing))
            # A section that is off unless it is named says something even when it is empty.
            yield from inner or ([(key, {})] if default is None else [])
        elif only_differing and default is not PydanticUndefined and value == default:
            continue
        elif isinstance(value, list) and value and isinstance(value[0], Section):
            for index, item in enumerate(value):
                yield from _walk(item, (*key, index), only_differing=only_differing)
        elif isinstance(value, dict) and value and not only_differing:
            yield from (((*key, str(each)), inner) for each, inner in value.items())
        else:
            yield key, value


def hide(key: Sequence[str | int], value: Any) -> Any:
    """Replace a secret, the credentials in URLs and the path of a webhook by `HIDDEN`."""
    if value is not None and key[-1] in SECRET_KEYS:
        return HIDDEN
    if isinstance(value, list):
        return [hide(key, each) for each in value]
    if key[-1] == "url" and ("webhook" in key or "webhooks" in key):
        return hide_path(value)
    return hide_credentials(value) if isinstance(value, str) else value


def _render(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value == {} else str(value)


def list_values(value: Any, above: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Yield what stands under a key and is neither a section nor a list, but for empty ones, each with its own key."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from list_values(inner, (*above, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from list_values(inner, (*above, index))
    else:
        yield above, value
