"""Runs the scripts of a page with the stand-in browser, within limits, and returns what they did.

A page runs in a disposable child (`pages/interpreter.py`), whose CPU time the kernel limits: whatever a script does,
it costs that time and no more. Here is decided which scripts run and how long, and read what the child tells, which
is all that the page did until it ended or was ended. The time of all pages of a message is limited, too.

Effects become values, each once (`PageEffects`), and what was typed into the fields of the page is looked for in what
the page sends, however it is encoded.
"""

import re
from base64 import b64encode
from binascii import a2b_base64
from urllib.parse import unquote

import msgspec

from gatepost.pages.interpreter import MAX_CODE, OrderedScript, PageOrder, clean_text, measure_code
from gatepost.pages.page_nodes import PageNodes, Row
from gatepost.process.children import ChildAnswer, run_in_child

MAX_ALL_CODE = 1_200_000
LONG_TEXT = 20_000  # characters of a text that is handed over by itself and not as JSON
# CPU seconds: of a page, more for each character of code that is compiled, for what a script decodes, and for a table
# whose thousands of rows are loaded, and each have a handler.
PAGE_SECONDS, SECONDS_OF_CODE, MAX_PAGE_SECONDS = 0.2, 0.25e-6, 0.26
FREE_DATA, SECONDS_OF_DATA, MAX_DATA_SECONDS = 1_000_000, 0.1e-6, 0.3
FREE_ROWS, SECONDS_OF_ROW = 1_000, 11e-6
MESSAGE_SECONDS = 1.0  # of all pages of a message
# Of a page whose conditions are opened: characters of its code, seconds, more for each character.
MAX_OPENED, OPENED_SECONDS, SECONDS_OF_OPENED = 30_000, 0.06, 3e-6
MAX_ALONG = 120_000  # characters of longer scripts that run along with it as they are
MAX_ANSWER = 64 << 20
FEW_TASKS = 3

# The word comes first, so that the search goes from word to word.
_DATA_LITERAL = re.compile(r"[\"'`][A-Za-z0-9+/=_%,.\s\\-]{200,}+[\"'`]")

Effects = list[list[str]]


class PagePixels(msgspec.Struct, frozen=True):
    """A picture of the page: its size, and red, green, blue and opacity of each pixel in base64."""

    width: int
    height: int
    bytes: str


class PageRun(msgspec.Struct, frozen=True):
    """What the scripts of a page did. `ended` says why it was stopped: "time", "memory", "size", "crash", or "". A page
    `stalls` where one script took most of its time or memory."""

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
    budget.pages += 1
    sizes = measure_scripts(page)
    skipped = _choose_skipped(sizes)
    data = sum(len(script.text) for script in page.scripts) - sum(sizes) + len(page.visible) + len(page.styles)
    compiled = sum(size for place, size in enumerate(sizes) if place not in skipped)
    return _run(page, budget, find_seconds(compiled, data, len(page.rows)) - spent, skipped, pixels or {})


def run_opened(page: PageNodes, budget: ScriptTime, left_out: frozenset[int]) -> PageRun:
    """Run a page with the conditions opened that kept parts of it from running (`parts/gates.js` of the browser), but
    for those of some scripts; return what it did beyond them."""
    if budget.left <= 0:
        return PageRun([])
    opened = sum(_measure_opened(script.text) for place, script in enumerate(page.scripts) if place not in left_out)
    seconds = OPENED_SECONDS + SECONDS_OF_OPENED * opened
    return _run(page, budget, seconds, left_out, {}, _choose_along(page, left_out))


def _run(
    page: PageNodes,
    budget: ScriptTime,
    seconds: float,
    left_out: frozenset[int],
    pixels: dict[str, PagePixels],
    along: frozenset[int] | None = None,
) -> PageRun:
    """Have a child run a page; with its conditions opened where there are scripts that run `along` without."""
    seconds = min(seconds, budget.left)
    if seconds <= 0:
        return NOT_RUN
    rows, texts = _take_long_texts(page.rows)
    given = {"now": int(budget.now), "rows": rows, "css": page.styles, "base": page.base[:2_000], "pixels": pixels}
    scripts = [
        OrderedScript(
            script.place,
            clean_text(script.text) if wanted else "",
            clean_text(script.source),
            script.is_module,
            size,
            wanted,
            along is not None and place not in along,
        )
        for place, (script, size) in enumerate(zip(page.scripts, measure_scripts(page), strict=True))
        for wanted in [place not in left_out or bool(along and place in along)]
    ]
    order = PageOrder(msgspec.json.encode(given).decode(), texts, scripts, along is not None)
    found = run_in_child("page", msgspec.msgpack.encode(order), seconds, MAX_ANSWER)
    budget.left -= found.cpu_seconds
    return _read_answer(found, seconds)


def _read_answer(found: ChildAnswer, seconds: float) -> PageRun:
    """Return what a child told of its page: effects, and words of the interpreter's own."""
    effects: Effects = []
    ended, began, patience, what, tasks = "", 0.0, 0.0, "", 0
    for line in found.answer.splitlines():
        try:
            row = msgspec.json.decode(line, type=list[str])
        except ValueError:  # the last line of a child that was ended, or half of a pair of surrogates
            row = ["cut"]
        match row:
            case ["began", second, most, what]:
                began, patience, tasks = float(second), float(most), 0
            case ["task"]:
                tasks += 1
            case ["ended", reason]:
                ended = ended or reason
            case ["again"]:
                effects.clear()
            case _:
                effects.append(row)
    ended = found.ended or ended
    return PageRun(effects, ended, _has_stalled(ended, began + patience > seconds, what, tasks))


def _has_stalled(ended: str, is_late: bool, what: str, tasks: int) -> bool:
    """Return whether the last thing that ran took most of the time: a script, or one of few tasks of a turn, of the
    reader's clicks as well. A page could otherwise hide whatever it does behind a click that counts to a million
    first, so that a large table whose sorting takes as long is held with it."""
    if ended == "crash":
        return True
    return ended in ("time", "memory") and not is_late and (what != "turn" or tasks <= FEW_TASKS)


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


def _take_long_texts(rows: list[Row]) -> tuple[list[Row | tuple[int, int, int]], list[str]]:
    """Return the rows with numbers in place of long texts, which scripts are most of, and these texts."""
    texts: list[str] = []
    thinned: list[Row | tuple[int, int, int]] = []
    for row in rows:
        if len(row) == 3 and len(row[2]) > LONG_TEXT:
            thinned.append((row[0], row[1], len(texts)))
            texts.append(clean_text(row[2]))
        else:
            thinned.append(row)
    return thinned, texts


def find_seconds(code: int, data: int, rows: int = 0) -> float:
    """Return the CPU seconds of a page whose scripts are so many characters of code, and work on so many of data and
    so many rows, which are tags and texts of the page (at most `MAX_ROWS`)."""
    more = min(max(0, data - FREE_DATA) * SECONDS_OF_DATA, MAX_DATA_SECONDS)
    more += max(0, rows - FREE_ROWS) * SECONDS_OF_ROW
    return min(PAGE_SECONDS + SECONDS_OF_CODE * code, MAX_PAGE_SECONDS) + more


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
