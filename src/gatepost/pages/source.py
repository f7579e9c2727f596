"""The source of the stand-in browser: what every page needs, and files that are compiled when a page first uses them.

The interpreter compiles a hundred characters in ten microseconds, and most pages use a small part of a browser. The
files in `browser/late` are handed over as strings; `browser/late.js` says how they are reached. The lists of names that
it needs are made here, from the outermost declarations of the files, which begin at the start of a line.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files

import msgspec

_MAIN = ("core.js", "late.js", "document.js", "window.js")
_FUNCTION = re.compile(r"^function (\w+)", re.MULTILINE)
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_MEMBER = re.compile(r"^  (get |set |)([\w$]+)\(", re.MULTILINE)
_OUTER_NAME = re.compile(r"^(?:const|let)\b", re.MULTILINE)
_LENDING = "Members"
# The outer function is not strict, so that it can have a variable `eval`: with it, the evaluation of a late file sees
# the names of the stand-in, whatever a page does with its own `eval`. The parser would read an expression twice that
# began with a bracket.
_FRAME = "0,function(lateTables,...lateSources){let eval=globalThis.eval;return function(){'use strict';\n%s\n}()}"


class BrowserSource(msgspec.Struct, frozen=True):
    """`main` is an expression whose value is a function. Called with `given`, which are the tables of names and the
    late files, it returns the function by which a page is led."""

    main: str
    given: tuple[str, ...]


class LateFile(msgspec.Struct, frozen=True):
    """A file that is compiled when it is first used: its text, and the names that it declares for others."""

    name: str
    text: str
    functions: tuple[str, ...]
    classes: tuple[str, ...]

    def lends_members(self) -> bool:
        """Return whether the file is a class that lends its members to an object of another file."""
        return any(name.endswith(_LENDING) for name in self.classes)


@lru_cache(1)
def load_browser() -> BrowserSource:
    """Return the source of the stand-in browser, without its comments."""
    folder = files("gatepost.pages").joinpath("browser")
    late = read_late_files()
    main = "\n".join(_strip(_loosen(folder.joinpath(name).read_text("utf-8"))) for name in _MAIN)
    sources = [_write_late(file) for file in late]
    return BrowserSource(_FRAME % f"{_write_names(late)}\n{main}", (_write_tables(late), *sources))


def read_late_files() -> list[LateFile]:
    """Return the files of `browser/late`, by name."""
    folder = files("gatepost.pages").joinpath("browser", "late")
    found = []
    for name in sorted(file.name for file in folder.iterdir() if file.name.endswith(".js")):
        text = folder.joinpath(name).read_text("utf-8")
        found.append(LateFile(name, text, tuple(_FUNCTION.findall(text)), tuple(_CLASS.findall(text))))
    return found


def _write_names(late: Iterable[LateFile]) -> str:
    """Return the declarations of the functions and classes of late files."""
    lines = [
        f"var[{','.join(file.functions)}]=later({place},'{' '.join(file.functions)}');"
        for place, file in enumerate(late)
        if file.functions and not file.lends_members()
    ]
    classes = [name for file in late for name in file.classes if not file.lends_members()]
    return "\n".join([*lines, f"var {','.join(classes)};"])


def _write_tables(late: Iterable[LateFile]) -> str:
    """Return the places of late classes, and the names of the members that are lent, for `late.js`."""
    classes: dict[str, int] = {}
    members: dict[str, dict[str, object]] = {}
    for place, file in enumerate(late):
        if file.lends_members():
            members[file.classes[0]] = {"place": place, **list_members(file.text)}
        else:
            classes |= dict.fromkeys(file.classes, place)
    return json.dumps({"classes": classes, "members": members})


def list_members(text: str) -> dict[str, list[str]]:
    """Return the members of a class: methods, values that are read only, values that can be changed."""
    found = _MEMBER.findall(text)
    changing = [name for kind, name in found if kind == "set "]
    return {
        "methods": [name for kind, name in found if not kind],
        "values": [name for kind, name in found if kind == "get " and name not in changing],
        "changing": changing,
    }


def _write_late(file: LateFile) -> str:
    """Return a late file as a script whose value is an object of its names; the names themselves are set, too."""
    names = (*file.functions, *file.classes)
    known = () if file.lends_members() else names
    assigned = "".join(f"{name}=made.{name};" for name in known)
    return f"const made=function(){{\n{_strip(file.text)}\nreturn{{{','.join(names)}}}}}();{assigned}made"


def _loosen(source: str) -> str:
    """Return a source whose outermost declarations are `var`. The parser looks through all constants and classes for
    each name that it meets, and finds a variable at once."""
    return _CLASS.sub(r"var \1=class \1", _OUTER_NAME.sub("var", source))


def _strip(source: str) -> str:
    """Return a source without its comments, indents and empty lines."""
    lines = (line.strip() for line in source.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith("//"))
