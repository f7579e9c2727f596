"""The late files of the stand-in browser: what they declare, and pages that work against them."""

# ruff: noqa: E501  scripts are one line each, as they are mailed

import re
from importlib.resources import files

import pytest

from gatepost.pages.interpreter import LateFile, list_members, load_browser, read_late_files
from gatepost.pages.page_nodes import read_html_nodes
from gatepost.pages.runner import PageEffects, ScriptTime, run_page, sort_effects

LATE = read_late_files()
FOLDER = files("gatepost.pages").joinpath("browser")
TEXTS = {file.name: file.text for file in LATE} | {
    name: FOLDER.joinpath(name).read_text("utf-8") for name in ("core.js", "late.js", "document.js", "window.js")
}
STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'")


def do(script: str) -> PageEffects:
    page = read_html_nodes(f"<html><body><p id=p>a</p><script>{script}</script></body></html>")
    return sort_effects(run_page(page, ScriptTime()))


def list_private(file: LateFile) -> list[str]:
    """Return the names that only this file knows: its constants, and the functions of a file that lends members."""
    found = re.findall(r"^(?:const|let) (\w+)", file.text, re.MULTILINE)
    return [*found, *(file.functions if file.lends_members() else ())]


@pytest.mark.parametrize("file", LATE, ids=lambda file: file.name)
def test_no_other_file_uses_what_a_late_file_keeps_for_itself(file: LateFile) -> None:
    for name, text in TEXTS.items():
        if name == file.name:
            continue
        code = STRING.sub("''", "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("//")))
        for private in list_private(file):
            if not re.search(rf"(?:const|let|function|,) {private}\b", code):
                assert not re.search(rf"(?<![\w.$]){private}(?![\w:])", code), (name, private)
        for made in file.classes:
            assert not re.search(rf"(?:new|extends) {made}\b", code), (name, made)


def test_names_of_late_files_are_declared_once() -> None:
    names = [name for file in LATE if not file.lends_members() for name in (*file.functions, *file.classes)]
    assert len(names) == len(set(names))
    assert not {
        name for name in names if re.search(rf"^(?:const|let|function|class) {name}\b", TEXTS["core.js"], re.MULTILINE)
    }


def test_members_are_listed_by_what_can_be_done_with_them() -> None:
    text = (
        "class AnyMembers {\n  get a() { return 1; }\n  get b() {\n    return (2);\n  }\n  set b(v) {}\n  c(d) {}\n}\n"
    )
    assert list_members(text) == {"methods": ["c"], "values": ["a"], "changing": ["b"]}


def test_a_page_compiles_a_quarter_of_the_browser_at_its_start() -> None:
    browser = load_browser()
    assert len(browser.main) * 3 < sum(map(len, browser.given))


@pytest.mark.parametrize("file", [file for file in LATE if not file.lends_members()], ids=lambda file: file.name)
def test_every_late_class_is_there_for_the_page(file: LateFile) -> None:
    for name in file.classes:
        found = do(
            f"alert(typeof {name} + typeof {name}.prototype + ({name} === window.{name}) + ('{name}' in window))"
        )
        assert found.said == ["functionobjecttruetrue"], name


@pytest.mark.parametrize("file", [file for file in LATE if file.lends_members()], ids=lambda file: file.name)
def test_every_lent_member_is_there_for_the_page(file: LateFile) -> None:
    owner = {"Window": "window", "String": "String.prototype"}.get(
        next((word for word in ("Window", "String") if file.classes[0].startswith(word)), ""),
        re.sub(r"(?:Basic)?Members$", "", file.classes[0]) + ".prototype",
    )
    kinds = list_members(file.text)
    for name in kinds["methods"]:
        assert do(f"alert(typeof {owner}.{name})").said == ["function"], name
    for name in (*kinds["values"], *kinds["changing"]):
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


def test_what_a_page_puts_in_the_place_of_a_late_name_stays() -> None:
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
