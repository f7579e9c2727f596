"""One page in QuickJS with the stand-in browser: what runs in a disposable child (`gatepost.process.children`).

The nursery has an interpreter in which the stand-in is loaded and no page was; each child is forked with it. So nothing
in here has to end: the kernel ends the child when its time is up. The interpreter generates no machine code, and has no
function that reaches out of it but the one that takes effects. Its memory and stack are limited by size, the number and
size of effects by the stand-in.

Time and randomness are fixed by the caller, so an analysis repeats. Scripts run in their order, then what waits for the
page to load and for timers, then what waits for the reader: fields are filled in, buttons clicked, keys pressed, all
once or a few times. A script that needs a name which the stand-in does not have is run again with something under that
name that answers everything.

The answer is made of lines, each a row of strings in JSON, sent as soon as it is known: an effect (`browser/core.js`),
`task` for one of the first tasks of a turn, or a word of ours: `began` with the CPU time when a script or a turn began,
how long it may take before it stalls, and which of both it is; `again` where what was done so far counts no more, since
the page runs with its conditions opened from there on; `ended` with the limit that was met.

Of the stand-in browser, `main` is loaded first and other files when they are first used. The files in `browser/late`
are handed over as strings; `browser/late.js` says how they are reached. The lists of names that it needs are made here,
from the outermost declarations of the files, which begin at the start of a line.
"""

import json
import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

import _quickjs  # type: ignore[import-not-found]  # the package `quickjs` around it would start a thread
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
    """Return a source with `var` for its outermost declarations, which the parser then finds at once."""
    return _CLASS.sub(r"var \1=class \1", _OUTER_NAME.sub("var", source))


def _strip(source: str) -> str:
    """Return a source without its comments, indents and empty lines."""
    lines = (line.strip() for line in source.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith("//"))


MAX_CODE = 700_000  # characters of one script without its long literals: more is not parsed
MAX_MEMORY = 96 << 20
MAX_STACK = 768 << 10
MAX_RERUNS = 12
MAX_ERROR = 200_000  # letters of a message, which may be what a page keeps its payload in
ROUNDS = ("load", "load", "user", "load", "user", "load")
OPENINGS = 2  # how often the conditions of a page are opened
# A script that runs for so many CPU seconds without an end, or one of so few tasks, is what stopped its page. A long
# script has to be compiled first, which takes all the time of a page for the longest that are compiled at all.
STALL_SECONDS, STALL_OF_CODE = 0.12, 0.3e-6

_UNDEFINED = re.compile(r"ReferenceError: '?([\w$]{1,80})'? is not defined")
# The set of quotes comes first, so that the search goes from quote to quote.
_LITERAL = re.compile(r"[\"'`](?:(?<=\")[^\"\\\n]{200,}+\"|(?<=')[^'\\\n]{200,}+'|(?<=`)[^`\\$]{200,}+`)")
_IMPORT = re.compile(r"import(?<![\w$.]import)\s{0,9}\(")
_HTML_COMMENT = re.compile(
    r"\A\s{0,200}<!--[^\n]{0,200}\n?|\n?[^\n]{0,9}-->\s{0,200}\Z|\A\s{0,200}<!\[CDATA\[|\]\]>\s{0,200}\Z"
)
_DATA = re.compile(r"data:([^,]{0,200}),", re.IGNORECASE)


class OrderedScript(msgspec.Struct, frozen=True, array_like=True):
    """A script of a page (`page_nodes.PageScript`), with `size` characters of code. One that is not `wanted` is too
    long to be parsed; with `opened`, its conditions are."""

    place: int
    text: str
    source: str
    is_module: bool
    size: int
    wanted: bool
    opened: bool


class PageOrder(msgspec.Struct, frozen=True, array_like=True):
    """What a child is to do: load a page, which `browser/window.js` takes as JSON and long `texts`, and run it. With
    `is_opened`, it runs again and again with its conditions opened."""

    page: str
    texts: list[str]
    scripts: list[OrderedScript]
    is_opened: bool


class StoppedError(Exception):
    """The page has used up its memory."""


class PageInterpreter:
    """An interpreter for one page. `run` takes the order and a function that takes pieces of the answer."""

    def __init__(self) -> None:
        self._answer: Callable[[bytes], None] = _refuse
        self._reruns = 0
        self._gated: dict[str, str] = {}
        self._context: Any = _quickjs.Context()
        self._context.set_memory_limit(MAX_MEMORY)
        self._context.set_max_stack_size(MAX_STACK)
        self._context.add_callable("__tell", self._tell)
        browser = load_browser()
        self._lead: Any = self._context.eval(browser.main)(*browser.given)

    def run(self, order: bytes, answer: Callable[[bytes], None]) -> None:
        """Load a page and run all of it."""
        self._answer = answer
        given = msgspec.msgpack.decode(order, type=PageOrder)
        try:
            self._call("page", given.page, *given.texts)
            if given.is_opened:
                self._run_opened(given)
            else:
                self._run_scripts(given)
                self._call("loaded")
                for who in ROUNDS:
                    self.take_turn(who)
        except StoppedError:
            self._say("ended", "memory")

    def _run_opened(self, order: PageOrder) -> None:
        """Run the whole page, then its scripts again and again with their conditions opened."""
        self._call("gates")
        self._run_scripts(order)
        self._call("loaded")
        for who in ROUNDS[1:4]:
            self.take_turn(who)
        for opening in range(1, OPENINGS + 1):
            self._call("force", str(opening))
            if opening == 1:
                self._say("again")
            self._run_scripts(order, is_first=False)
            for who in ROUNDS[1:4]:
                self.take_turn(who)

    def _tell(self, line: str) -> None:
        self._answer(line.encode() + b"\n")

    def _say(self, *row: str) -> None:
        self._tell(json.dumps(row))

    def _begin(self, patience: float, what: str) -> None:
        self._say("began", f"{time.process_time():.4f}", f"{patience:.4f}", what)

    def _write_gates(self, source: str) -> str:
        """Return a script with its conditions in calls, in a block, so that it can run more than once."""
        return f"{{{self._call('gated', source) or source}\n}}"

    def _run_scripts(self, order: PageOrder, *, is_first: bool = True) -> None:
        for script in order.scripts:
            if not is_first and script.wanted and not script.opened:
                continue
            if script.source:
                self._run_source(script.source)
            elif not script.wanted:
                self._say("ended", "size")
            elif script.is_module:
                self._call("begin", str(script.place))
                self._call("module", clean_text(script.text))
            else:
                self._run_inner(script)
            self._run_added()

    def _run_inner(self, script: OrderedScript) -> None:
        """Run a script of the page, again where an asynchronous part of it needs a name that is not there."""
        source = prepare_script(script.text)
        if script.opened:
            source = self._gated[script.text] = self._gated.get(script.text) or self._write_gates(source)
        self._call("begin", str(script.place))
        self.run_code(source, script.size)
        for _ in range(3):
            self._run_added()
            if not self._call("again"):
                break
            self.run_code(f"{{{source}\n}}", script.size)

    def _run_source(self, source: str) -> None:
        """Run a script that has an address: the address may hold it."""
        if match := _DATA.match(source):
            self._call("source", source if len(source) < 8_000_000 else match.group())
        else:
            self._call("library", source[:2_000])

    def take_turn(self, who: str) -> None:
        """Let happen what waits for time ("load") or for the reader ("user")."""
        for _ in range(12):
            self._begin(STALL_SECONDS, "turn")
            more = self._call("turn", who)
            self._run_added()
            if not more:
                return

    def _run_added(self) -> None:
        """Run the jobs of promises, and scripts that were put into the page."""
        for _ in range(200):
            self._run_jobs()
            source = self._call("next")
            if not source:
                return
            size = measure_code(source)
            if size > MAX_CODE:
                self._say("ended", "size")
            else:
                self.run_code(source, size)

    def _run_jobs(self) -> None:
        while True:
            try:
                if not self._context.execute_pending_job():
                    return
            except _quickjs.JSException as fault:
                self._note_fault(str(fault))

    def run_code(self, source: str, size: int | None = None) -> None:
        """Run one script; again, where it needs a name that is not there. `size` is that of its code, where known."""
        size = measure_code(source) if size is None else size
        self._begin(STALL_SECONDS + STALL_OF_CODE * size, "script")
        for _ in range(MAX_RERUNS):
            try:
                value = self._context.eval(source)
                if isinstance(value, _quickjs.Object):
                    self._lead("watch", value)  # the promise of an asynchronous function
            except _quickjs.JSException as fault:
                missing = _UNDEFINED.match(str(fault))
                self._reruns += 1
                if missing and self._reruns <= MAX_RERUNS * 3 and self._call("missing", missing.group(1)):
                    # In a block, since names that the first attempt declared cannot be declared again.
                    source = source if source.startswith("{") and source.endswith("\n}") else f"{{{source}\n}}"
                    continue
                self._note_fault(str(fault))
            except (ValueError, TypeError, SystemError):
                pass  # the value of the script is of no interest, and not every value can be converted
            return

    def _call(self, order: str, *given: str) -> str:
        try:
            answer = self._lead(order, *(given or ("",)))
        except _quickjs.JSException as fault:
            self._note_fault(str(fault))
            return ""
        except (ValueError, TypeError, SystemError):
            return ""  # an answer that cannot be converted
        return answer if isinstance(answer, str) else ""

    def _note_fault(self, text: str) -> None:
        first = text.split("\n", 1)[0]
        # Where not even an error fits into the memory that is left, nothing is thrown.
        is_full = first == "null" and self._context.memory()["malloc_size"] * 8 > MAX_MEMORY
        if is_full or first.startswith("InternalError: out of memory"):
            raise StoppedError
        try:
            self._lead("error", clean_text(first[:MAX_ERROR]))
        except _quickjs.JSException:
            raise StoppedError from None


def _refuse(_piece: bytes) -> None:
    """Take no answer: before a page is loaded there is nothing to tell."""


def load() -> Callable[[bytes, Callable[[bytes], None]], None]:
    """Return the work of a child, in an interpreter that is warm."""
    return PageInterpreter().run


def measure_code(source: str) -> int:
    """Return how much of a script the interpreter must parse: long literals cost next to nothing."""
    return len(source) - sum(match.end() - match.start() for match in _LITERAL.finditer(source))


def prepare_script(source: str) -> str:
    """Return a script of a page as the interpreter takes it."""
    source = clean_text(source)
    if "<!" in source[:200] or "-->" in source[-200:] or "]]>" in source[-200:]:
        source = _HTML_COMMENT.sub("", source)
    return _IMPORT.sub("__importData(", source) if "import" in source else source


def clean_text(text: str) -> str:
    """Return text without what the binding refuses: NUL and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
