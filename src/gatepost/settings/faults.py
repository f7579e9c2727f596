"""Faults of a configuration: each with its file, line and key, and all of them at once.

pydantic finds the faults of a file; this module describes them as sentences.
"""

import difflib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from gatepost.process.hiding import hide, hide_text
from gatepost.settings.document import Document, Key, SettingsMistake
from gatepost.settings.removed_keys import find_removed
from gatepost.settings.values import Section, find_section


class Fault(msgspec.Struct, frozen=True, order=True):
    """One fault. `key` is written as in the file, `staticApiTokens[0].token`; "" is the whole file, line 0 no line."""

    file: str
    line: int
    key: str
    sentence: str

    def __post_init__(self) -> None:
        for name in ("file", "sentence"):
            msgspec.structs.force_setattr(self, name, hide_text(getattr(self, name)))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key or 'the file'} {self.sentence}"


class ConfigError(Exception):
    """A faulty configuration; no service starts with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(str(fault) for fault in self.faults))


def render_key(key: Key) -> str:
    """Return a key as it is written in messages: `staticApiTokens[0].token`; without secrets, which the key of a map
    can have as well."""
    text = ""
    for step in hide(key):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


S = TypeVar("S", bound=Section)

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a group of keys",
    type(None): "nothing",
}


def validate(model: type[S], document: Document, folder: str) -> tuple[S | None, tuple[SettingsMistake, ...]]:
    """Return the settings of a document, or every fault of it."""
    said = {(mistake.line, mistake.key) for mistake in document.mistakes}
    if document.data is None:
        return None, document.mistakes
    try:
        settings = model.model_validate(document.data, by_alias=True, by_name=False, context={"folder": folder})
    except ValidationError as fault:
        found = [_describe_mistake(model, document, error) for error in fault.errors()]
        return None, (*document.mistakes, *(mistake for mistake in found if (mistake.line, mistake.key) not in said))
    return (None if document.mistakes else settings), document.mistakes


def _describe_mistake(model: type[Section], document: Document, error: Any) -> SettingsMistake:
    key = tuple(step for step in error["loc"] if not (isinstance(step, str) and step.startswith("[")))
    return SettingsMistake(document.line_of(key), key, _describe_error(model, key, error))


def _describe_error(model: type[Section], key: Key, error: Any) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        return find_removed(key) or "is not a known key" + _suggest_key(model, key)
    if kind == "literal_error" and (removed := find_removed(key, value)):
        return removed
    say = _SENTENCES.get(kind)
    return say(context, value) if say else f"is not right: {error['msg']}"


def _must_be(what: str) -> Callable[[Any, Any], str]:
    def say(_: Any, value: Any) -> str:
        hint = "; write it in quotes" if what == "a text" and isinstance(value, int | float) else ""
        found = f"{value}" if isinstance(value, float) and what != "a text" else _KINDS.get(type(value), "this")
        return f"must be {what}, not {found}{hint}"

    return say


def _one_of(context: Any, value: Any) -> str:
    expected = str(context["expected"])
    switch = isinstance(value, bool) or (isinstance(value, str) and value.lower() in ("off", "false", "no"))
    if "'off'" in expected and switch:
        shown = str(value).lower() if isinstance(value, bool) else value
        return f"must be {expected}; write it as the word off, in lower case, not {shown}"
    if expected == "'off'":
        return "must be off, or a group with certificate and key"
    return f"must be {expected}, not {hide(value)!r}" if isinstance(value, str) else f"must be {expected}"


_SENTENCES: dict[str, Callable[[Any, Any], str]] = {
    "missing": lambda _context, _value: "is required",
    "int_type": _must_be("a whole number"),
    "int_from_float": _must_be("a whole number"),
    "string_type": _must_be("a text"),
    "bool_type": _must_be("true or false"),
    "list_type": _must_be("a list"),
    "dict_type": _must_be("a group of keys"),
    "model_type": _must_be("a group of keys"),
    "model_attributes_type": _must_be("a group of keys"),
    "literal_error": _one_of,
    "greater_than_equal": lambda context, value: f"must be at least {context['ge']}, not {value}",
    "less_than_equal": lambda context, value: f"must be at most {context['le']}, not {value}",
    "too_short": lambda context, _value: f"needs at least {context['min_length']} item",
    "string_too_short": lambda _context, _value: "must not be empty",
    "value_error": lambda context, _value: str(context["error"]),
}


def _suggest_key(model: type[Section], key: Key) -> str:
    known = _list_keys(model, key[:-1])
    wrong = str(key[-1])
    near = difflib.get_close_matches(to_camel(wrong.replace("-", "_")), known, 1, 0.6)
    if not near:
        near = [name for name in known if name.lower() == wrong.replace("_", "").replace("-", "").lower()]
    return f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(known)}" if known else ""


def _list_keys(model: type[Section], key: Key) -> list[str]:
    """Return the keys that are known below a key."""
    for step in key:
        if isinstance(step, int):
            continue
        field = next((field for field in model.model_fields.values() if field.alias == step), None)
        inner = find_section(field.annotation)[0] if field else None
        if inner is None:
            return []
        model = inner
    return [str(field.alias) for field in model.model_fields.values()]
