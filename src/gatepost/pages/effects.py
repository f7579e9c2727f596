"""What the scripts of a page did, sorted: files made and saved, pages written, addresses, requests, clipboard, code.

The stand-in browser notes effects as rows of strings (`browser/core.js`). Here they become values, each once, and what
was typed into the fields of the page is looked for in what the page sends, however it is encoded.
"""

from base64 import b64encode
from binascii import a2b_base64
from urllib.parse import unquote

import msgspec

from gatepost.pages.runner import PageRun

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
    modules: int = 0
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
    if kind == "wasm":
        found.modules += 1
    elif kind == "decrypts":
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
