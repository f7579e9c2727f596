"""The parts of the stand-in browser: what they declare, and pages that work against them."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import re
from importlib.resources import files

import pytest

from gatepost.pages.page_nodes import read_html_nodes
from gatepost.pages.runner import PageEffects, ScriptTime, run_page, sort_effects

FOLDER = files("gatepost.pages").joinpath("browser")
PARTS, MEMBERS = (
    {file.name: file.read_text("utf-8") for file in FOLDER.joinpath(name).iterdir()} for name in ("parts", "members")
)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
MEMBER = re.compile(r"^  (?:get |set |)([\w$]+)\(", re.MULTILINE)


def do(script: str) -> PageEffects:
    page = read_html_nodes(f"<html><body><p id=p>a</p><script>{script}</script></body></html>")
    return sort_effects(run_page(page, ScriptTime()))


def test_functions_of_all_files_have_names_of_their_own() -> None:
    """The second of two functions in one scope would take the place of the first in silence."""
    main = [file.read_text("utf-8") for file in FOLDER.iterdir() if file.name.endswith(".js")]
    names = re.findall(r"^function\*? (\w+)", "\n".join([*main, *PARTS.values(), *MEMBERS.values()]), re.MULTILINE)
    assert len(names) > 100
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", [name for text in PARTS.values() for name in CLASS.findall(text)])
def test_every_class_is_there_for_the_page(name: str) -> None:
    found = do(f"alert(typeof {name} + typeof {name}.prototype + ({name} === window.{name}) + ('{name}' in window))")
    assert found.said == ["functionobjecttruetrue"]
    assert do(f"alert({name})").said == [f"function {name}() {{ [native code] }}"]


@pytest.mark.parametrize("file", MEMBERS)
def test_every_lent_member_is_there_for_the_page(file: str) -> None:
    (lender,) = CLASS.findall(MEMBERS[file])
    owner = re.sub(r"(?:Basic)?Members$", "", lender)
    owner = "window" if owner == "Window" else f"{owner}.prototype"
    names = [name for name in MEMBER.findall(MEMBERS[file]) if name not in ("for", "if", "return")]
    assert names
    for name in names:
        assert do(f"alert('{name}' in {owner})").said == ["true"], name


BREAKING = {
    "eval": "window.seen = []; window.eval = function (text) { seen.push(text); };",
    "iterators": "Array.prototype[Symbol.iterator] = function () { throw 1; };",
    "collections": "Set = Map = WeakMap = Symbol = Object = Reflect = undefined;",
    "lists": "Array.prototype.push = Array.prototype.map = String.prototype.split = function () { throw 1; };",
    "objects": "Object.prototype.go = Object.prototype.Blob = Object.prototype.location = [0, 0];",
    "places": "for (let i = 0; i < 60; i++) Object.defineProperty(Array.prototype, i, { set(v) { alert(typeof v); } });",
    "weak": "WeakMap.prototype.set = WeakMap.prototype.get = function () { throw 1; };",
}


@pytest.mark.parametrize("how", BREAKING)
def test_a_page_that_breaks_built_in_objects_first_hides_nothing(how: str) -> None:
    found = do(f"{BREAKING[how]} location.href = 'https://a.example/b'; alert((window.seen || []).length);")
    assert [each.target for each in found.navigations] == ["https://a.example/b"]
    assert found.said in (["0"], [])


def test_what_a_page_puts_in_the_place_of_a_name_stays() -> None:
    assert do("Blob = 5; alert(Blob); var navigator = 7; alert(navigator)").said == ["5", "7"]
    assert do("function Blob() { return 3; } alert(Blob())").said == ["3"]
    assert do("const URL = 4; alert(URL)").said == ["4"]
    assert do("delete window.Blob; alert(typeof Blob)").said == ["undefined"]


def test_a_lent_method_that_a_page_wraps_is_called_once() -> None:
    wraps = "var old = Element.prototype.focus, n = 0; Element.prototype.focus = function () { n++; return old.call(this); };"
    assert do(f"{wraps} document.body.focus(); alert(n)").said == ["1"]
    assert do("alert(document.body.focus)").said == ["function () { [native code] }"]


def test_a_stack_that_is_full_at_the_first_use_does_not_take_a_class_away() -> None:
    deep = "function f(n) { try { f(n + 1); } catch (e) { try { new Blob([]); } catch (other) {} } } f(0);"
    found = do(f"{deep} new Blob(['0123456789']); location = 'https://a.example/'")
    assert b"0123456789" in [file.content for file in found.files]
    assert [each.target for each in found.navigations] == ["https://a.example/"]
