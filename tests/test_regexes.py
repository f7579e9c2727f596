"""No regular expression of the package takes more than linear time.

Every compiled pattern of every module (a name of its own, a part of a table or of a class, or written where it is
used) is tried on texts that repeat what its own parts match: each character that it
names, each piece that it repeats, and all of it without its end. A pattern is tried as it is used (`search` and the
like, or `match`), found in the syntax tree of its module. Where a text takes long, the CPU time of the thread is
compared with that for a quarter of it, several times, so that a busy machine does not decide: a linear pattern takes
four times as long, a quadratic one sixteen times.
"""

import ast
import contextlib
import importlib
import math
import pkgutil
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from tests.source_trees import walk_source

import gatepost
from gatepost.api.messages import HELD_CURSOR, MESSAGE_CURSOR
from gatepost.checks.known_names import compile_names
from gatepost.policy.layers import _match_inline
from gatepost.store.privacy import Person

LONG = 16_384
# A linear pattern takes less than this for a text of that length; where one takes longer, growth is looked at.
SECONDS = 0.05
GROWTH = 8.0
LIMIT = 0.3
# What seems to grow is measured so often, and must seem so each time.
ROUNDS = 3
BOUNDED_SECONDS = 0.05
MAX_PUMPS = 24
# Patterns that only ever see short text, by the number of characters that their callers let through.
BOUNDED = {
    "gatepost.files.documents.pdf._MARK": 64,
    "gatepost.names._LOCAL": 64,
    "gatepost.textmodel.words._REPLY": 500,
}
MAX_DEPTH = 4
_CALLS = {f"re.{each}" for each in "search match fullmatch findall finditer sub subn split compile".split()}
# Patterns that are made at run time, with values like those that they are made of.
BUILT: dict[str, list[tuple[str, object]]] = {
    "gatepost.store.privacy": [
        (f"Person {text[:20]}", Person(text)._pattern)
        for text in ("a" * 200 + "@example.com", "a.a.a.a.a.a@a.a.a.example", "=@=.example", "x%40x@münchen.example")
    ],
    "gatepost.checks.known_names": [("compile_names", compile_names(["aaaa", "aaab", "a a a", "ab" * 20]))],
    "gatepost.abby.json_bodies": [
        ("fields", re.compile(pattern))
        for pattern in (f"^{MESSAGE_CURSOR}$", f"^{HELD_CURSOR}$", "^[0-9a-fA-F]{64}$", r"^[^\x00\r\n]*$")
    ],
    "gatepost.policy.layers": [("_match_inline", _match_inline("weight"))],
    "gatepost.mail.html.limits": [("_write_raw", re.compile(r"</script(?=[\t\n\f\r />])", re.IGNORECASE))],
}
# Where patterns are made of something at run time: modules of these calls are tried above, or their text is ours.
RUN_TIME = {
    "gatepost.abby.json_bodies": "patterns of fields, which stand at their types, tried above",
    "gatepost.checks.known_names": "compile_names, tried above",
    "gatepost.checks.phrases": "slots of the phrasebooks, which are ours, with gaps of bounded length",
    "gatepost.mail.html.limits": "the name of one of four elements, tried above",
    "gatepost.policy.layers": "a key of a policy, tried above",
    "gatepost.store.privacy": "an address, escaped, tried above",
    "gatepost.web.message_search": "one of two cursors, tried above",
}
# Functions that make patterns for tables of their module, when it is loaded.
_MADE_ONCE = {"gatepost.checks.headers.bulk_mail"}
_SEARCHING = {"search", "findall", "finditer", "sub", "subn", "split"}
_ANY = {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a"}
_NONE = {codes.CATEGORY_NOT_DIGIT: "a", codes.CATEGORY_NOT_SPACE: "a", codes.CATEGORY_NOT_WORD: "-"}


class Used(NamedTuple):
    """A pattern with the name under which it stands, and whether it is searched for anywhere or only at one place."""

    name: str
    pattern: re.Pattern[Any]
    searches: bool


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(gatepost.__path__, "gatepost."):
        if not found.name.endswith(("__main__", "_speedups")):
            yield importlib.import_module(found.name)


def _patterns() -> Iterator[Used]:
    seen: set[re.Pattern[Any]] = set()
    for module in _modules():
        methods = _methods(module)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and value not in seen:
                seen.add(value)
                used = methods.get(name, set())
                yield Used(f"{module.__name__}.{name}", value, not used or bool(used & _SEARCHING))
    # How those of tables are used is not known, so they are searched for.
    for module in _modules():
        yield from _inline(module)
        for name, value in [*_inner_values(module), *BUILT.get(module.__name__, ())]:
            for pattern in _inside_value(value, MAX_DEPTH):
                if pattern not in seen:
                    seen.add(pattern)
                    yield Used(f"{module.__name__}.{name}", pattern, searches=True)


def _inner_values(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Values of a module, and of its classes, that could have patterns in them."""
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from ((f"{name}.{inner}", each) for inner, each in list(vars(value).items()))
        elif not name.startswith("__"):
            yield name, value


def _inside_value(value: Any, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif not depth or isinstance(value, type):
        return
    elif isinstance(value, dict):
        for each in [*value.keys(), *value.values()]:
            yield from _inside_value(each, depth - 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _inside_value(each, depth - 1)
    elif isinstance(fields := getattr(type(value), "__struct_fields__", None), tuple):
        for field in fields:
            yield from _inside_value(getattr(value, field, None), depth - 1)


def _calls(module: ModuleType) -> Iterator[ast.Call]:
    """Calls of `re.search` and the like in functions of a module; what is made outside of them has a name."""
    nodes = list(walk_source(Path(str(module.__file__))))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in {id(each): each for function in functions for each in ast.walk(function)}.values():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
            yield node


def _inline(module: ModuleType) -> Iterator[Used]:
    """Patterns that are written where they are used."""
    for node in _calls(module):
        if isinstance(node.args[0], ast.Constant) and isinstance(node.func, ast.Attribute):
            flags = re.DOTALL if "DOTALL" in ast.unparse(node) else re.NOFLAG
            searches = node.func.attr not in ("match", "fullmatch")
            yield Used(f"{module.__name__}, line {node.lineno}", re.compile(node.args[0].value, flags), searches)


def _methods(module: ModuleType) -> dict[str, set[str]]:
    """Which methods of each name of a module its source calls or mentions."""
    found: dict[str, set[str]] = {}
    for node in walk_source(Path(str(module.__file__))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _pumps(pattern: re.Pattern[Any]) -> list[tuple[str, str]]:
    """Beginnings, and what is repeated after them, that could make a pattern look at the same text again and again."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    whole = _sample(tree)
    found = dict.fromkeys(("", character) for character in sorted(set(_characters(tree))))
    for before, piece in _repeats(tree, ""):
        found[("", piece)] = found[(before, piece)] = None
        found[("", before + piece)] = None
    for length in (len(whole), len(whole) - 1):
        found[("", whole[:length])] = None
    return [(start, piece) for start, piece in found if piece][:MAX_PUMPS]


def _sample(tree: Any) -> str:
    return "".join(_sample_one(code, value) for code, value in tree)


def _sample_one(code: Any, value: Any) -> str:
    """Some text that one node of a parsed pattern matches."""
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return next(iter(_members(value)), "a")
    if code is codes.BRANCH:
        return _sample(value[1][0])
    if code is codes.SUBPATTERN:
        return _sample(value[3])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return _sample(value[2]) * int(max(1, min(value[0], 3)))
    if code is codes.ATOMIC_GROUP:
        return _sample(value)
    return ""


def _members(items: Any) -> Iterator[str]:
    if items and items[0][0] is codes.NEGATE:
        refused = {member for code, value in items[1:] for member in _members([(code, value)])}
        yield next((each for each in "a1 -.x\t\n" if each not in refused), "~")
        return
    for code, value in items:
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.RANGE:
            yield chr(value[0])
        elif code is codes.CATEGORY:
            yield _ANY.get(value) or _NONE.get(value, "a")


def _characters(tree: Any) -> Iterator[str]:
    for code, value in _nodes(tree):
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.IN:
            yield from list(_members(value))[:4]
        elif code is codes.ANY:
            yield "a"


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    for code, value in tree:
        yield code, value
        for inner in _inside(code, value):
            yield from _nodes(inner)


def _inside(code: Any, value: Any) -> Iterator[Any]:
    if code is codes.BRANCH:
        yield from value[1]
    elif code is codes.SUBPATTERN:
        yield value[3]
    elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        yield value[2]
    elif code is codes.ATOMIC_GROUP:
        yield value
    elif code in (codes.ASSERT, codes.ASSERT_NOT):
        yield value[1]


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Each piece that a pattern repeats, with a sample of what stands before it."""
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) and value[1] > 1:
            yield before, _sample(value[2])
        for inner in _inside(code, value):
            yield from _repeats(inner, before)
        before += _sample_one(code, value)


def _seconds(run: Callable[[Any], object], text: Any, times: int = 1, limit: float = 0.0) -> float:
    """The least CPU time of several runs; infinite where each of them had to be ended.

    The timer counts all threads of the process, the clock this one alone, so that a run which was ended early must
    not be judged by its time.
    """
    best = math.inf
    for _ in range(times):
        start = time.thread_time()
        with contextlib.suppress(TimeoutError), _limited(max(LIMIT, limit)):
            run(text)
            best = min(best, time.thread_time() - start)
    return best


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End what takes this long: an exponential pattern would never end."""

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _run(used: Used) -> Callable[[Any], object]:
    if not used.searches:
        return used.pattern.match
    return lambda text: sum(1 for _ in used.pattern.finditer(text))


def _grows(used: Used, start: str, piece: str) -> str:
    """How the time grows with the text, where that is more than in proportion; else ""."""
    run = _run(used)
    if used.name in BOUNDED:
        taken = _seconds(run, _text(used, start, piece, BOUNDED[used.name]), 3)
        return f"{start!r} and {piece!r} repeated: {taken:.4f} s" if taken > BOUNDED_SECONDS else ""
    long = _text(used, start, piece, LONG)
    if _seconds(run, long) < SECONDS:
        return ""
    for _ in range(ROUNDS):
        one = _seconds(run, _text(used, start, piece, LONG // 4), 3)
        # However slow the machine is, a linear pattern ends before it is ended.
        four = _seconds(run, long, 2, GROWTH * one if one < math.inf else LIMIT)
        if four < max(SECONDS, GROWTH * one):
            return ""
    return f"{start!r} and {piece!r} repeated: {one:.4f} s, four times as long {four:.4f} s"


def _text(used: Used, start: str, piece: str, length: int) -> Any:
    text = start + piece * (length // len(piece)) + "\x01"
    return text.encode("latin-1", "replace") if isinstance(used.pattern.pattern, bytes) else text


@cache
def all_patterns() -> list[Used]:
    """Found by the first test that asks, not at collection, which every worker of a parallel run does."""
    return list(_patterns())


@pytest.mark.parametrize("part", sorted(found.name for found in pkgutil.iter_modules(gatepost.__path__)))
def test_patterns_are_linear(part: str) -> None:
    assert [
        f"{used.name}: {found}"
        for used in all_patterns()
        if used.name.split(".")[1] == part
        for start, piece in _pumps(used.pattern)
        if (found := _grows(used, start, piece))
    ] == []


def test_the_test_finds_quadratic_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LIMIT", 0.08)  # what takes so long is one of them
    for pattern in (
        r"--[^\n]*(?=\ncontent)",
        r"(?:^|\s)(\d*\.?\d+(?:px)?)\s*(?:/|\s)",
        r"(a+)+$",
        r"\s+$",
        "<!--.*?-->",
    ):
        used = Used("quadratic", re.compile(pattern), searches=True)
        assert any(_grows(used, start, piece) for start, piece in _pumps(used.pattern)), pattern
    linear = Used("linear", re.compile(r"(?:^|(?<=\s))(\d++)(?:\s|/)"), searches=True)
    assert not any(_grows(linear, start, piece) for start, piece in _pumps(linear.pattern))


def test_every_pattern_of_the_package_is_tried() -> None:
    assert len(all_patterns()) > 550


def test_patterns_that_are_made_at_run_time_are_known() -> None:
    """A pattern that is made of something in a function is in no table: its module has to be named above."""
    found = set()
    for module in _modules():
        if any(not isinstance(call.args[0], ast.Constant) for call in _calls(module)):
            found.add(module.__name__)
    assert found - _MADE_ONCE == set(RUN_TIME)


def _is_possessive(tree: Any) -> bool:
    return any(code in (codes.POSSESSIVE_REPEAT, codes.ATOMIC_GROUP) for code, _ in _nodes(tree))


def test_possessive_patterns_give_one_answer() -> None:
    """Possessive repeats and atomic groups are new in Python 3.11, and some releases have faults there. Whatever Python
    runs this: `fullmatch` answers as `match` does for the same expression with its end stated."""
    chance = random.Random(11)
    tried = 0
    for used in all_patterns():
        tree = parser.parse(used.pattern.pattern, used.pattern.flags & ~re.DEBUG)
        if not _is_possessive(tree):
            continue
        tried += 1
        source = used.pattern.pattern
        is_text = isinstance(source, str)
        whole: re.Pattern[Any] = re.compile(
            f"(?:{source})\\Z" if is_text else b"(?:" + source + b")\\Z", used.pattern.flags
        )
        pieces = [
            *sorted(set(_characters(tree)))[:30],
            *(piece for _, piece in _pumps(used.pattern)),
            " ",
            "\n",
            "a",
            '"',
        ]
        for _ in range(150):
            text = "".join(chance.choice(pieces) for _ in range(chance.randint(0, 8)))[:200]
            given = text if is_text else text.encode("latin-1", "replace")
            assert bool(used.pattern.fullmatch(given)) == bool(whole.match(given)), (used.name, given)
    assert tried > 50


_ONE_ITEM = {codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY, codes.ATOMIC_GROUP}


def test_possessive_repeats_are_of_characters_or_atomic_groups() -> None:
    """In early releases of Python 3.11 (gh-106052; Debian 12's 3.11.2 is one) a group that is repeated possessively
    takes what its last repeat had read when it failed: `(?:ab?c)*+` matches all of "aca", with `match` and `search`,
    too. An atomic group as what is repeated, `(?>ab?c)*+`, puts the place back and means the same."""
    assert [
        used.name
        for used in all_patterns()
        for code, value in _nodes(parser.parse(used.pattern.pattern, used.pattern.flags & ~re.DEBUG))
        if code is codes.POSSESSIVE_REPEAT and not (len(value[2]) == 1 and value[2][0][0] in _ONE_ITEM)
    ] == []


@pytest.mark.parametrize(
    ("name", "text", "end"),
    [
        ("drop_in.requests._FROM", b"from: \r\n", 6),
        ("files.documents.calendars._LINE", '":', None),
        ("files.documents.encoded_data._RUN_END", b"B\n", 0),
        ("files.documents.office_xml._ELEMENT", '<module"1.x:"\t\t">', None),
        ("files.svg_drawing._TAG", '</a-a:a">', None),
        ("mail.html.script._TOKEN", "_..a", 1),
        ("mail.html.style._AT_BLOCK", "@{{", 2),
        ("mail.links._LINK", "0a-À.À00.\rm", 8),
        ("names._HOST", "-aa.aa. ", 6),
        ("scanning.request._RECEIVED", b"\nreceived  :\t\r\n", 13),
        ("mail.links._BARE", "-aa.-a./", None),
    ],
)
def test_a_repeat_that_fails_takes_nothing(name: str, text: Any, end: int | None) -> None:
    """What these took too much of on Debian 12's Python."""
    (pattern,) = {used.pattern for used in all_patterns() if used.name == f"gatepost.{name}"}
    match = pattern.match(text)
    assert (match.end() if match else None) == end
