"""What differs between two versions, for people; a secret is never part of it."""

import difflib
from collections.abc import Iterator
from typing import Any

import msgspec

from gatepost.settings.document import Key
from gatepost.settings.faults import render_key
from gatepost.settings.in_force import SECRET_KEYS
from gatepost.settings.values import HIDDEN, hide_credentials, hide_path
from gatepost.store.publishing import VersionContent

MAX_LINES = 2_000


class Difference(msgspec.Struct, frozen=True):
    """One key or file that differs; `lines` is the difference of a text, line by line."""

    file: str
    key: str = ""
    before: str = ""
    after: str = ""
    lines: tuple[str, ...] = ()


def compare(before: VersionContent, after: VersionContent) -> list[Difference]:
    """Return every key and file that differs."""
    return [*_compare_documents(before, after), *_compare_files(before, after)]


def _compare_documents(before: VersionContent, after: VersionContent) -> Iterator[Difference]:
    for name in sorted({*before.documents, *after.documents}):
        old = dict(_flatten(before.documents.get(name, {}), ()))
        new = dict(_flatten(after.documents.get(name, {}), ()))
        for key in sorted({*old, *new}, key=render_key):
            if old.get(key) != new.get(key) or (key in old) != (key in new):
                yield Difference(name, render_key(key), _render(key, old), _render(key, new))


def _flatten(value: Any, above: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flatten(inner, (*above, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _flatten(inner, (*above, index))
    else:
        yield above, value


def _render(key: Key, values: dict[Key, Any]) -> str:
    if key not in values:
        return "not set"
    value, names = values[key], [step for step in key if isinstance(step, str)]
    if isinstance(value, str) and names:
        if names[-1] in SECRET_KEYS and not value.startswith("${"):
            return HIDDEN
        if names[-1] == "url" and ("webhook" in names or "webhooks" in names):
            return hide_path(value)
        return hide_credentials(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare_files(before: VersionContent, after: VersionContent) -> Iterator[Difference]:
    for name in sorted({*before.files, *after.files}):
        old, new = before.files.get(name), after.files.get(name)
        if old == new:
            continue
        if name.startswith("models/"):
            yield Difference(name, "", _describe(old), _describe(new))
            continue
        lines = difflib.unified_diff(_lines(old), _lines(new), "before", "after", lineterm="", n=2)
        shown = [line for _, line in zip(range(MAX_LINES), lines, strict=False)]
        yield Difference(name, "", _describe(old), _describe(new), tuple(shown))


def _lines(raw: bytes | None) -> list[str]:
    return (raw or b"").decode("utf-8", "replace").splitlines()


def _describe(raw: bytes | None) -> str:
    return "not there" if raw is None else f"{len(raw)} bytes"
