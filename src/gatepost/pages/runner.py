"""Runs the scripts of a page in QuickJS with the stand-in browser, within limits, and returns what they did.

The interpreter generates no machine code and has no function that reaches out of it. Its time is limited by the clock
of the process, its memory and stack by size, the number and size of effects by the stand-in. A built-in function that
works on much data is not interrupted; the stand-in makes the interpreter look at its clock around the usual ones, and
guard ends a worker that stays in the stage `pages` for too long.

Time and randomness are fixed by the caller, so an analysis repeats. Scripts run in their order, then what waits for the
page to load and for timers, then what waits for the reader: fields are filled in, buttons clicked, keys pressed, all
once or a few times. A script that needs a name which the stand-in does not have is run again with something under that
name that answers everything.

Of the stand-in browser, every page gets what most need, and other files are compiled when a page first uses them:
the interpreter compiles a hundred characters in ten microseconds, and most pages use a small part of a browser. The
files in `browser/late` are handed over as strings; `browser/late.js` says how they are reached. The lists of names that
it needs are made here, from the outermost declarations of the files, which begin at the start of a line.

The stand-in notes effects as rows of strings (`browser/core.js`). Here they become values, each once (`Effects`), and
what was typed into the fields of the page is looked for in what the page sends, however it is encoded.
"""

import json
import re
import time
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import _quickjs  # type: ignore[import-not-found]  # the package `quickjs` around it would start a thread
import msgspec

from gatepost.pages.page_nodes import PageNodes, PageScript, Row

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
MAX_ALL_CODE = 1_200_000
MAX_MEMORY = 96 << 20
MAX_STACK = 768 << 10
MAX_RERUNS = 12
MAX_JOBS = 2_000
LONG_TEXT = 20_000  # characters of a text that is handed over by itself and not as JSON
MAX_ERROR = 200_000  # letters of a message, which may be what a page keeps its payload in
ROUNDS = ("load", "load", "user", "load", "user", "load")
# CPU seconds: of a page, more for each character of code that is compiled, for what a script decodes, and for a table
# whose thousands of rows each have a handler.
PAGE_SECONDS, SECONDS_OF_CODE, MAX_PAGE_SECONDS = 0.2, 0.25e-6, 0.26
FREE_DATA, SECONDS_OF_DATA, MAX_DATA_SECONDS = 1_000_000, 0.1e-6, 0.3
FREE_ROWS, SECONDS_OF_ROW = 1_000, 6e-6
MESSAGE_SECONDS = 1.0  # of all pages of a message
# Of a page whose conditions are opened: characters of its code, seconds, more for each character, and how often they
# are opened.
MAX_OPENED, OPENED_SECONDS, SECONDS_OF_OPENED, OPENINGS = 30_000, 0.06, 3e-6, 2
MAX_ALONG = 120_000  # characters of longer scripts that run along with it as they are
_COLLECT_SECONDS = 0.1
# A script that runs for so long without an end, or one of so few tasks, is what stopped its page. A long script has to
# be compiled first, which takes all the time of a page for the longest that are compiled at all.
STALL_SECONDS, STALL_OF_CODE = 0.12, 0.3e-6
FEW_TASKS = 3
MEASURING_SECONDS = 0.01
LOADING_SECONDS, MAX_LOADING_SECONDS = 0.02, 0.1

_UNDEFINED = re.compile(r"ReferenceError: '?([\w$]{1,80})'? is not defined")
# The set of quotes comes first, so that the search goes from quote to quote.
_LITERAL = re.compile(r"[\"'`](?:(?<=\")[^\"\\\n]{200,}+\"|(?<=')[^'\\\n]{200,}+'|(?<=`)[^`\\$]{200,}+`)")
# The word comes first, so that the search goes from word to word.
_DATA_LITERAL = re.compile(r"[\"'`][A-Za-z0-9+/=_%,.\s\\-]{200,}+[\"'`]")
_IMPORT = re.compile(r"import(?<![\w$.]import)\s{0,9}\(")
_HTML_COMMENT = re.compile(
    r"\A\s{0,200}<!--[^\n]{0,200}\n?|\n?[^\n]{0,9}-->\s{0,200}\Z|\A\s{0,200}<!\[CDATA\[|\]\]>\s{0,200}\Z"
)
_DATA = re.compile(r"data:([^,]{0,200}),", re.IGNORECASE)

Effects = list[list[str]]


class PagePixels(msgspec.Struct, frozen=True):
    """A picture of the page: its size, and red, green, blue and opacity of each pixel in base64."""

    width: int
    height: int
    bytes: str


class PageRun(msgspec.Struct, frozen=True):
    """What the scripts of a page did. `ended` says why it was stopped: "time", "memory", "size", or "". A page `stalls`
    where one script took most of its time or memory."""

    effects: Effects
    ended: str = ""
    stalls: bool = False


NOT_RUN = PageRun([], "time")


class ScriptTime:
    """CPU seconds that the pages of one message may still take; `now` is the time that their scripts see."""

    def __init__(self, now: float = 1_767_225_600.0, seconds: float = MESSAGE_SECONDS) -> None:
        self.now = now
        self.left = seconds
        self.pages = 0


def run_page(
    page: PageNodes, budget: ScriptTime, pixels: dict[str, PagePixels] | None = None, spent: float = 0.0
) -> PageRun:
    """Run all of a page and return what it did; `spent` seconds were taken before, where it runs again."""
    if budget.left <= 0:
        return NOT_RUN
    start = time.process_time()
    budget.pages += 1
    run = PageRunner(page, budget, start - spent)
    try:
        return run.run(pixels or {})
    finally:
        budget.left -= time.process_time() - start


def run_opened(page: PageNodes, budget: ScriptTime, left_out: frozenset[int]) -> PageRun:
    """Run a page with the conditions opened that kept parts of it from running (`browser/late/gates.js`), but for those
    of some scripts; return what it did beyond them."""
    if budget.left <= 0:
        return PageRun([])
    start = time.process_time()
    opened = sum(_measure_opened(script.text) for place, script in enumerate(page.scripts) if place not in left_out)
    seconds = OPENED_SECONDS + SECONDS_OF_OPENED * opened
    try:
        return PageRunner(page, budget, start - PAGE_SECONDS + seconds, left_out=left_out).run_opened()
    finally:
        budget.left -= time.process_time() - start


def choose_left_out(page: PageNodes) -> frozenset[int]:
    """Return the scripts whose conditions stay closed: the longest, mostly libraries, where it is too much code."""
    sizes = [_measure_opened(script.text) for script in page.scripts]
    room = MAX_OPENED
    left_out: set[int] = set()
    for place in sorted(range(len(sizes)), key=lambda place: sizes[place]):
        room -= sizes[place]
        if room < 0:
            left_out.add(place)
    return frozenset(left_out)


class StoppedError(Exception):
    """The page has used up its time or memory."""


class PageRunner:
    """One page in one interpreter: `start` loads the page, `run_code` runs a script, `take_turn` what waits, and
    `collect` returns what was done. The first three raise `StoppedError` where time or memory has run out."""

    def __init__(
        self, page: PageNodes, budget: ScriptTime, start: float, *, left_out: frozenset[int] | None = None
    ) -> None:
        self._page = page
        self._is_gated = left_out is not None
        self._now = int(budget.now)
        self._ended = ""
        before = time.process_time()
        code = self._sizes = measure_scripts(page)
        self._along = frozenset[int]() if left_out is None else _choose_along(page, left_out)
        self._skipped = _choose_skipped(code) if left_out is None else left_out - self._along
        data = sum(len(script.text) for script in page.scripts) - sum(code) + len(page.visible) + len(page.styles)
        compiled = sum(size for place, size in enumerate(code) if place not in self._skipped)
        # What it takes to measure very long scripts is the message's time, and not that of what they do.
        start += max(0.0, time.process_time() - before - MEASURING_SECONDS)
        self._end = start + min(find_seconds(compiled, data, 0 if self._is_gated else len(page.rows)), budget.left)
        self._reruns = 0
        self._gated: dict[str, str] = {}
        self._kept: Effects = []
        self._began, self._in_turn, self._patience = start, False, STALL_SECONDS
        self._context: Any = _quickjs.Context()
        self._lead: Any = None

    def start(self, pixels: dict[str, PagePixels] | None = None) -> None:
        """Load the stand-in browser, and the page into it."""
        context = self._context
        context.set_memory_limit(MAX_MEMORY)
        context.set_max_stack_size(MAX_STACK)
        browser = load_browser()
        self._lead = context.eval(browser.main)(*browser.given)
        before = time.process_time()
        rows, texts = _take_long_texts(self._page.rows)
        page = {"now": self._now, "rows": rows, "css": self._page.styles, "base": self._page.base[:2_000]}
        self._call("page", msgspec.json.encode({**page, "pixels": pixels or {}}).decode(), *texts)
        # A page of thousands of elements takes its time before any script begins.
        self._began = time.process_time()
        self._end += min(max(0.0, self._began - before - LOADING_SECONDS), MAX_LOADING_SECONDS)

    def restart_clock(self) -> None:
        """Give the page its whole time again, for one that is used more than once."""
        self._end = time.process_time() + PAGE_SECONDS

    def run(self, pixels: dict[str, PagePixels]) -> PageRun:
        """Run the whole page."""
        try:
            self.start(pixels)
            self._run_scripts()
            self._call("loaded")
            for who in ROUNDS:
                self.take_turn(who)
        except StoppedError:
            pass
        effects = self.collect()
        return PageRun(effects, self._ended, self._has_stalled(effects))

    def run_opened(self) -> PageRun:
        """Run the whole page, then its scripts again and again with their conditions opened."""
        try:
            self.start()
            self._call("gates")
            self._run_scripts()
            self._call("loaded")
            for who in ROUNDS[1:4]:
                self.take_turn(who)
            for opening in range(1, OPENINGS + 1):
                self._call("force", str(opening))
                self._run_scripts(self._along)
                for who in ROUNDS[1:4]:
                    self.take_turn(who)
                if opening < OPENINGS:
                    self._kept += self.collect()
        except StoppedError:
            pass
        return PageRun(self._kept + self.collect(), self._ended)

    def run_gated(self, source: str) -> None:
        """Run one script as it is and then with its conditions opened."""
        self._call("gates")
        gated = self._write_gates(source)
        for opening in range(OPENINGS + 1):
            self._call("force", str(opening))
            self.run_code(gated)

    def _write_gates(self, source: str) -> str:
        """Return a script with its conditions in calls, in a block, so that it can run more than once."""
        return f"{{{self._call('gated', source) or source}\n}}"

    def _has_stalled(self, effects: Effects) -> bool:
        """Return whether the last thing that ran took most of the time: a script, or one of few tasks of a turn, of the
        reader's clicks as well. A page could otherwise hide whatever it does behind a click that counts to a million
        first, so that a large table whose sorting takes as long is held with it."""
        if self._ended not in ("time", "memory") or self._began + self._patience > self._end:
            return False
        tasks = next((int(row[1]) for row in reversed(effects) if row[0] == "tasks" and row[1].isdigit()), 0)
        return not self._in_turn or tasks <= FEW_TASKS

    def _run_scripts(self, but: frozenset[int] = frozenset()) -> None:
        for place, script in enumerate(self._page.scripts):
            if place in but:
                continue
            if script.source:
                self._run_source(script)
            elif place in self._skipped:
                self._ended = self._ended or "size"
            elif script.is_module:
                self._call("begin", str(script.place))
                self._call("module", _clean(script.text))
            else:
                self._run_inner(script, self._sizes[place], is_gated=self._is_gated and place not in self._along)
            self._run_added()

    def _run_inner(self, script: PageScript, size: int, *, is_gated: bool) -> None:
        """Run a script of the page, again where an asynchronous part of it needs a name that is not there."""
        source = prepare_script(script.text)
        if is_gated:
            source = self._gated[script.text] = self._gated.get(script.text) or self._write_gates(source)
        self._call("begin", str(script.place))
        self.run_code(source, size)
        for _ in range(3):
            self._run_added()
            if not self._call("again"):
                break
            self.run_code(f"{{{source}\n}}", size)

    def _run_source(self, script: PageScript) -> None:
        """Run a script that has an address: the address may hold it."""
        if match := _DATA.match(script.source):
            self._call("source", script.source if len(script.source) < 8_000_000 else match.group())
        else:
            self._call("library", script.source[:2_000])

    def take_turn(self, who: str) -> None:
        """Let happen what waits for time ("load") or for the reader ("user")."""
        for _ in range(12):
            self._began, self._in_turn, self._patience = time.process_time(), True, STALL_SECONDS
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
                self._ended = self._ended or "size"
            else:
                self.run_code(source, size)

    def _run_jobs(self) -> None:
        for _ in range(MAX_JOBS):
            self._limit_time()
            try:
                if not self._context.execute_pending_job():
                    return
            except _quickjs.JSException as fault:
                self._note_fault(str(fault))

    def run_code(self, source: str, size: int | None = None) -> None:
        """Run one script; again, where it needs a name that is not there. `size` is that of its code, where known."""
        size = measure_code(source) if size is None else size
        self._began, self._in_turn = time.process_time(), False
        self._patience = STALL_SECONDS + STALL_OF_CODE * size
        for _ in range(MAX_RERUNS):
            try:
                self._limit_time()
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
        self._limit_time()
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
        if first.startswith("InternalError: interrupted"):
            self._ended = "time"
            raise StoppedError
        # Where not even an error fits into the memory that is left, nothing is thrown.
        is_full = first == "null" and self._context.memory()["malloc_size"] * 8 > MAX_MEMORY
        if is_full or first.startswith("InternalError: out of memory"):
            self._ended = "memory"
            raise StoppedError
        self._limit_time()
        try:
            self._lead("error", _clean(first[:MAX_ERROR]))
        except _quickjs.JSException:
            self._ended = self._ended or "time"
            raise StoppedError from None

    def _limit_time(self) -> None:
        left = self._end - time.process_time()
        if left <= 0:
            self._ended = self._ended or "time"
            raise StoppedError
        self._context.set_time_limit(left)

    def collect(self) -> Effects:
        """Return the effects; the page may have used up its own time and memory, so these have a share of their own."""
        self._context.set_memory_limit(MAX_MEMORY * 2)
        self._context.set_time_limit(_COLLECT_SECONDS)
        try:
            return msgspec.json.decode(self._lead("collect", ""), type=Effects)
        except (_quickjs.JSException, ValueError, TypeError, SystemError):
            self._ended = self._ended or "memory"
            return []


def _take_long_texts(rows: list[Row]) -> tuple[list[Row | tuple[int, int, int]], list[str]]:
    """Return the rows with numbers in place of long texts, which scripts are most of, and these texts."""
    texts: list[str] = []
    thinned: list[Row | tuple[int, int, int]] = []
    for row in rows:
        if len(row) == 3 and len(row[2]) > LONG_TEXT:
            thinned.append((row[0], row[1], len(texts)))
            texts.append(_clean(row[2]))
        else:
            thinned.append(row)
    return thinned, texts


def find_seconds(code: int, data: int, rows: int = 0) -> float:
    """Return the CPU seconds of a page whose scripts are so many characters of code, and work on so many of data and
    so many rows, which are tags and texts of the page (at most `MAX_ROWS`)."""
    more = min(max(0, data - FREE_DATA) * SECONDS_OF_DATA, MAX_DATA_SECONDS)
    more += max(0, rows - FREE_ROWS) * SECONDS_OF_ROW
    return min(PAGE_SECONDS + SECONDS_OF_CODE * code, MAX_PAGE_SECONDS) + more


def measure_code(source: str) -> int:
    """Return how much of a script the interpreter must parse: long literals cost next to nothing."""
    return len(source) - sum(match.end() - match.start() for match in _LITERAL.finditer(source))


def _measure_opened(source: str) -> int:
    """Return how much of a script is more than data: its conditions are written anew, which takes longer than to parse
    it. Minified code has long stretches between two strings, which are no literals."""
    if len(source) > MAX_OPENED * 40:
        return len(source)
    return len(source) - sum(match.end() - match.start() for match in _DATA_LITERAL.finditer(source))


def measure_scripts(page: PageNodes) -> list[int]:
    """Return how much of each script of a page the interpreter must parse."""
    if len(page.code) != len(page.scripts):
        page.code = [measure_code(script.text) for script in page.scripts]
    return page.code


def _choose_skipped(sizes: list[int]) -> frozenset[int]:
    """Return the scripts that are not parsed: those that are too long, or the longest if all are together."""
    skipped = {place for place, size in enumerate(sizes) if size > MAX_CODE}
    total = sum(size for size in sizes if size <= MAX_CODE)
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        if total <= MAX_ALL_CODE:
            break
        if place not in skipped:
            skipped.add(place)
            total -= sizes[place]
    return frozenset(skipped)


def _choose_along(page: PageNodes, left_out: frozenset[int]) -> frozenset[int]:
    """Return those of the scripts whose conditions stay closed that run all the same, since others may use them."""
    room, along = MAX_ALONG, set()
    for place in sorted(left_out, key=lambda place: len(page.scripts[place].text)):
        room -= len(page.scripts[place].text)
        if room >= 0:
            along.add(place)
    return frozenset(along)


def prepare_script(source: str) -> str:
    """Return a script of a page as the interpreter takes it."""
    source = _clean(source)
    if "<!" in source[:200] or "-->" in source[-200:] or "]]>" in source[-200:]:
        source = _HTML_COMMENT.sub("", source)
    return _IMPORT.sub("__importData(", source) if "import" in source else source


def _clean(text: str) -> str:
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


# What the stand-in types into fields (`browser/core.js`).
PASSWORD, ACCOUNT, TYPED = "Typed-Secret-73", "reader@typed.example", "typed-text-4711"
KEY = "\u01c2"  # a key that is pressed: a page that sends single keys sends what is typed
# What the stand-in gives for the answer of a server, and for what only a key would decrypt.
ANSWER, SECRET = "AnswerOfServer0815", "PlainTextOfSecret0815"
MAX_BODY = 200_000


class MadeFile(msgspec.Struct, frozen=True):
    """Bytes that a script made a file of; none where they come from what the stand-in lacks. `by` says what saved it:
    "load" for the page by itself, "user" for an action of the reader, "" where it was not saved."""

    content: bytes
    type: str = ""
    name: str = ""
    by: str = ""


class Navigation(msgspec.Struct, frozen=True):
    """An address that the page goes to or shows: `how` is "location", "open", "click", "download" or "frame"."""

    target: str
    how: str
    by: str


class PageRequest(msgspec.Struct, frozen=True):
    """A request to a server. `carries` is what of the reader's input is in it: "password", "text", or ""."""

    target: str
    how: str
    by: str
    carries: str = ""


class PageEffects(msgspec.Struct):
    """What one page did. `pages` are those that it wrote or put into itself, `code` the scripts that it made of
    strings; `blocks` are keys that it takes from the reader, `looks` signs of an analysis that it looks for;
    `automation` are the programs of Windows that it asks for; `missing`
    is what it asked for and the stand-in lacks, `evaluates` whether it asked for `eval`, `faults` the errors by which
    its scripts ended; `ended` why the whole page was stopped, `stalls` whether a single script was the reason, `is_cut`
    whether there was more of one kind than is kept; `withheld` is what it did once the conditions were opened that kept
    parts of it from running, and `is_closed` whether conditions of some script were not opened."""

    files: list[MadeFile] = msgspec.field(default_factory=list)
    packed: list[bytes] = msgspec.field(default_factory=list)
    pages: list[tuple[str, str]] = msgspec.field(default_factory=list)
    navigations: list[Navigation] = msgspec.field(default_factory=list)
    requests: list[PageRequest] = msgspec.field(default_factory=list)
    clipboard: list[tuple[str, str]] = msgspec.field(default_factory=list)
    code: list[str] = msgspec.field(default_factory=list)
    said: list[str] = msgspec.field(default_factory=list)
    blocks: list[str] = msgspec.field(default_factory=list)
    looks: list[str] = msgspec.field(default_factory=list)
    automation: list[str] = msgspec.field(default_factory=list)
    missing: list[str] = msgspec.field(default_factory=list)
    faults: list[str] = msgspec.field(default_factory=list)
    decrypts: bool = False
    evaluates: bool = False
    ended: str = ""
    stalls: bool = False
    is_cut: bool = False
    withheld: "PageEffects | None" = None
    is_closed: bool = False


def sort_effects(run: PageRun) -> PageEffects:
    """Return the effects of a run as values."""
    found = PageEffects(ended=run.ended, stalls=run.stalls)
    files = _Files()
    for kind, *values in run.effects:
        if kind in ("blob", "saved", "named", "save"):
            files.take(kind, values)
        else:
            _sort(found, kind, [*values, "", "", "", "", ""])
    found.files = files.build()
    for name in ("pages", "navigations", "requests", "clipboard", "code", "said"):
        setattr(found, name, list(dict.fromkeys(getattr(found, name))))
    return found


def _sort(found: PageEffects, kind: str, values: list[str]) -> None:
    first, second, third, fourth, fifth, *_ = values
    match kind:
        case "write" | "markup":
            found.pages.append((first, second))
        case "go":
            found.navigations.append(Navigation(first, second or "location", third or "load"))
        case "frame":
            found.navigations.append(Navigation(first, "frame", second))
        case "request":
            found.requests.append(PageRequest(second, fourth, fifth, find_input(f"{second}\n{third[:MAX_BODY]}")))
        case "given":
            _sort_given(found, first, second)
        case "clipboard":
            found.clipboard.append((first, second))
        case "code":
            found.code.append(second)
        case "inflate":
            found.packed.append(read_bytes(second))
        case _:
            _sort_fact(found, kind, first)


def read_bytes(text: str) -> bytes:
    """Return bytes that the stand-in wrote in base64."""
    try:
        return a2b_base64(text)
    except ValueError:
        return b""


def _sort_fact(found: PageEffects, kind: str, detail: str) -> None:
    if kind == "decrypts":
        found.decrypts = True
    elif kind == "evaluates":
        found.evaluates = True
    elif kind == "cut":
        found.is_cut = True
    elif kind in _LISTS:
        getattr(found, _LISTS[kind]).append(detail)


_LISTS = {"says": "said", "blocks": "blocks", "looks": "looks", "missing": "missing", "error": "faults"}


def _sort_given(found: PageEffects, name: str, value: str) -> None:
    """Sort what was given to something that the stand-in lacks: an address, or input of the reader on its way."""
    if name == "ActiveXObject":
        found.automation.append(value)
    elif value.startswith(("http://", "https://", "//")):
        found.requests.append(PageRequest(value, name, "load", find_input(value)))
    elif carries := find_input(value[:MAX_BODY]):
        target = found.requests[-1].target if found.requests else ""
        found.requests.append(PageRequest(target, name, "user", carries))


class _Files:
    """Blobs by number, their names, and the ways in which they were saved."""

    def __init__(self) -> None:
        self._blobs: dict[str, tuple[str, bytes]] = {}
        self._names: dict[str, str] = {}
        self._saved: dict[str, tuple[str, str]] = {}

    def take(self, kind: str, values: list[str]) -> None:
        padded = [*values, "", "", ""]
        number, rest = padded[0], padded[1:]
        if kind in ("blob", "saved"):
            self._blobs[number] = (rest[0], read_bytes(rest[1]))
        elif kind == "named":
            self._names[number] = rest[0]
        elif number not in self._saved or rest[1] == "load":
            self._saved[number] = (rest[0], rest[1])

    def build(self) -> list[MadeFile]:
        made: dict[bytes, MadeFile] = {}
        for number, (kind, content) in self._blobs.items():
            name, by = self._saved.pop(number, ("", ""))
            file = MadeFile(content, kind, name or self._names.get(number, ""), by)
            known = made.get(content)
            if known is None or (file.by and (not known.by or file.name)):
                made[content] = file
        unknown = [MadeFile(b"", name=name, by=by) for name, by in self._saved.values()]
        return [*made.values(), *unknown]


def _spell(mark: str) -> tuple[str, ...]:
    """Return a mark as it may stand in a request: plain, backwards, in hexadecimal, in base64 at any place."""
    raw = mark.encode()
    inner = [b64encode(b"\0" * shift + raw).decode()[4 if shift else 0 : -4] for shift in range(3)]
    return (mark, mark[::-1], raw.hex(), *inner)


_SECRET = _spell(PASSWORD)
_OTHER = (*_spell(ACCOUNT), *_spell(TYPED))


def find_input(text: str) -> str:
    """Return what of the reader's input a request carries: "password", "text", or "" for nothing."""
    if "%" in text:
        text = f"{text}\n{unquote(text)}"
    if KEY in text or any(form in text for form in _SECRET):
        return "password"
    return "text" if any(form in text for form in _OTHER) else ""
