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
"""

import json
import re
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import _quickjs  # type: ignore[import-not-found]  # the package `quickjs` around it would start a thread
import msgspec


def load_browser() -> str:
    """Return the source of the stand-in browser: an expression whose value is the function by which a page is led."""
    folder = files("gatepost.pages").joinpath("browser")
    members, parts = (
        sorted(folder.joinpath(name).iterdir(), key=lambda file: file.name) for name in ("members", "parts")
    )
    core, lending, document, window = map(folder.joinpath, ("core.js", "lending.js", "document.js", "window.js"))
    texts = (file.read_text("utf-8") for file in (core, lending, *members, document, *parts, window))
    return "\n".join(["0,function(){'use strict';", *texts, "}"])


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
        self._lead: Any = self._context.eval(load_browser())()

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
