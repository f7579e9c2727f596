"""Values that stand elsewhere: `${env:NAME}` and `${file:PATH}` inside a text of a configuration file.

Secrets need not stand in the files: containers hand them over in the environment, orchestrators and systemd in files.
A reference can be all of a text or a part of it (`postgresql://gatepost:${env:DB_PASSWORD}@db/gatepost`). The content
of a file counts without the line end behind it; a path is relative to the folder of the configuration file. `$${` is a
plain `${`. Faults of a reference never show what it leads to.
"""

import os
import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gatepost.settings.document import Document, Key, SettingsMistake

MAX_BYTES = 64 << 10

_REFERENCE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class _ReferenceError(ValueError):
    """Why a reference leads nowhere, as the end of a sentence that starts with the key."""


def resolve_references(document: Document, folder: Path) -> Document:
    """Return a document with every reference replaced by what it leads to; those that lead nowhere are faults."""
    mistakes: list[SettingsMistake] = []

    def resolve(value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {name: resolve(inner, (*key, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [resolve(inner, (*key, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            return _REFERENCE.sub(lambda match: _read(match, folder), value)
        except _ReferenceError as fault:
            mistakes.append(SettingsMistake(document.line_of(key), key, str(fault)))
            return value

    data = resolve(document.data, ())
    return replace(document, data=data, mistakes=(*document.mistakes, *mistakes))


def _read(match: re.Match[str], folder: Path) -> str:
    if match.group(1):
        return match.group(1)
    kind, colon, target = match.group(2).partition(":")
    if kind not in ("env", "file") or not colon or not match.group().endswith("}"):
        raise _ReferenceError("has a ${…} that is neither ${env:NAME} nor ${file:PATH}; a plain ${ is written $${")
    return _read_variable(target) if kind == "env" else _read_file(target, folder)


def _read_variable(name: str) -> str:
    if not _NAME.match(name):
        raise _ReferenceError("has a ${env:…} that names no environment variable")
    found = os.environ.get(name)
    if not found:
        state = "not set" if found is None else "empty"
        raise _ReferenceError(f"needs the environment variable {name}, which is {state}")
    return found


def _read_file(name: str, folder: Path) -> str:
    path = Path(folder, name.strip()).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig").rstrip("\r\n")
    except OSError as fault:
        raise _ReferenceError(f"needs the file {path}: {(fault.strerror or 'cannot be read').lower()}") from None
    except (UnicodeDecodeError, ValueError):
        raise _ReferenceError(f"needs the file {path}, which is not text in UTF-8") from None
    if len(raw) > MAX_BYTES or not text:
        state = f"larger than {MAX_BYTES >> 10} KiB" if text else "empty"
        raise _ReferenceError(f"needs the file {path}, which is {state}")
    return text
