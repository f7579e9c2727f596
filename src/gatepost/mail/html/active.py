"""What in HTML acts instead of showing: scripts, handlers, forms, frames, CSS that runs or fetches.

No mail program should run any of it, so no honest sender needs it; webmail is attacked with exactly that. Notes are
kept once for each kind with a count and the first example: a page of a million handlers is one defect.

A script in a mail alone says little: old newsletters were saved from web pages with their menus, counters and pop-ups,
and mail programs remove all of it. A script counts as an attack by what it does. One that runs when the mail is opened,
without a click, tries to run in the reader's session; one that reads cookies, loads further code, builds code from
strings or shows a dialogue proves that it can. Code that hides from the programs that remove scripts (a tab inside
`javascript:`, handlers inside other attributes, markup in a subject or file name) is written for no other purpose.

The words were chosen on real mail: no wanted message of the development corpora has one of them
(docs/internals/decisions.md).
"""

import re
from collections.abc import Iterator
from html import unescape
from importlib.resources import files

import msgspec

from gatepost.findings import kinds
from gatepost.findings.kinds import BY_ID, Kind
from gatepost.mail.html.script import ScriptBudget
from gatepost.mail.html.style import unescape_css
from gatepost.mail.message import Defect
from gatepost.speedups import native

MAX_TAGS = 5_000
MAX_CODE = 20_000
SHORT_CODE = 200
LITTLE_TEXT = 200

_HARM = re.compile(
    r"\b(?:alert|prompt|confirm|msgbox)\s{0,5}[(`]"
    r"|\beval\s{0,5}[(`]|new\s{1,5}function|fromcharcode|\batob\s{0,5}\(|\[\]\[\(!\[\]"
    r"|document\s{0,5}\.\s{0,5}(?:cookie|domain)\b|(?:local|session)storage"
    r"|createelement\s{0,5}\(|appendchild|getscript|\bimport\s{0,5}\("
    r"|xmlhttprequest|\bfetch\s{0,5}\(|sendbeacon"
    r"|\b(?:top|parent|opener)\s{0,5}\.\s{0,5}(?:document|location)",
    re.IGNORECASE,
)
# Handlers that run without an action of the reader, and that pages hardly ever use for anything but broken pictures.
_AT_ONCE = frozenset(
    "onerror onbegin onend onrepeat onstart onfinish onbounce ontoggle onpageshow onsearch onloadstart oncanplay "
    "onloadeddata onloadedmetadata onanimationstart onanimationend onanimationiteration ontransitionend "
    "ontransitionrun onreadystatechange onpropertychange onbeforescriptexecute onafterscriptexecute".split()
)
_HARMLESS = re.compile(r"\s{0,20}(?:this\s{0,5}\.|return\b|null\b|javascript:void|void\b|;|\Z)", re.IGNORECASE)
_TAG = re.compile(r"<[A-Za-z/!][^<>]*+")
_HIDDEN_CODE = re.compile(r"on[a-z]{3,20}\s{0,5}=|(?:java|vb)script:", re.IGNORECASE)
_ACTING_MARKUP = re.compile(
    r"[\s\"'/`]on[a-z]{3,20}\s?=\s?[\"'\w]|<\s?/?(?:script|svg|iframe)[\s/>]|(?:java|vb)script:|document\.cookie",
    re.IGNORECASE,
)


# One of these is in everything that `_HARM` matches; to look for each is many times faster than the expression.
_HARM_MARKS = tuple(
    "alert;prompt;confirm;msgbox;eval;new;fromcharcode;atob;[][;cookie;domain;storage;createelement;"
    "appendchild;getscript;import;xmlhttp;fetch;sendbeacon;top;parent;opener".split(";")
)


def is_harmful_code(code: str) -> bool:
    """Return whether a script does what only an attack on the reader's webmail does."""
    code = code[:MAX_CODE]
    if len(code) > SHORT_CODE:
        low = code.lower()
        if not any(mark in low for mark in _HARM_MARKS):
            return False
    return bool(_HARM.search(code))


def runs_at_once(name: str, code: str) -> bool:
    """Return whether an event handler runs code by itself, which does more than replace or hide a broken picture."""
    return name in _AT_ONCE and not _HARMLESS.match(code)


def is_disguised_scheme(target: str, scheme: str) -> bool:
    """Return whether the scheme of an active link is broken up by characters that browsers ignore."""
    return scheme in {"javascript", "vbscript", "data"} and not target.lstrip().lower().startswith(f"{scheme}:")


def has_hidden_handler(source: str) -> bool:
    """Return whether harmful code stands inside a tag as something else, where rewriting the page would set it free."""
    for count, tag in enumerate(_TAG.finditer(source)):
        if count >= MAX_TAGS:
            return False
        text = tag.group()[:MAX_CODE]
        if _HIDDEN_CODE.search(text) and _HARM.search(text):
            return True
    return False


def is_acting_markup(text: str) -> bool:
    """Return whether a header value or file name would run code if a program pasted it into a page."""
    return bool(_ACTING_MARKUP.search(text[:2_000]))


MAX_DETAIL = 120
MAX_CSS_URLS = 200

_CSS_URL = re.compile(
    r"url\s{0,10}\(\s{0,10}[\"']?([^\"')]{1,2048})|(?:@import|image-set\(|src\()\s{0,10}[\"']([^\"']{1,2048})",
    re.IGNORECASE,
)
# `behavior:url(#default#VML)` is in every page that Word writes.
_CSS_SCRIPT = re.compile(
    r"pression\s{0,10}\(|-moz-binding|behaviou?r\s{0,10}:(?!\s{0,10}url\(\s{0,10}[\"']?#default)|(?:java|vb)script\s{0,10}:"
)
_CSS_MARKS = ("pression", "binding", "behavio", "script")
_HANDLER = r"[\s\"'/`]on[a-z]{3,20}\s?=\s?[\"'\w]"
_MARKUP = re.compile(
    rf"{_HANDLER}|<\s?/?(?:script|svg|iframe|img|object|embed|form|meta|body|style)[\s/>]|(?:java|vb)script:|document\.cookie"
)
_LATENT_MARKS = ("onerror", "onload", "onmouse", "pression(")
_LATENT = re.compile(
    r"(?:java|vb)script:\s?\w|(?:<|&lt;)script[\s>&]|on(?:error|load|mouse[a-z]{2,5})\s?=\s?[\"'\w]|xpression\("
)
_SCRIPT_SCHEMES = frozenset({"javascript", "vbscript", "livescript", "mocha", "jscript"})


# `link_schemes.toml` says what the two lists mean.
_SCHEMES = msgspec.toml.decode(
    files("gatepost.mail").joinpath("link_schemes.toml").read_bytes(), type=dict[str, frozenset[str]]
)
_SYSTEM, _OPENS = _SCHEMES["system"], _SCHEMES["opens"]


def starts_program(scheme: str) -> bool:
    """Return whether a link with this scheme hands something to a program of the computer."""
    return scheme in _SYSTEM or scheme in _OPENS


_SAFE_SCRIPTS = frozenset({"application/ld+json", "application/json", "text/x-amp-html", "text/template"})

_RUNNING = frozenset(
    BY_ID[f"html:{name}"].id for name in "script event-handler script-link svg-script css-script latent-script".split()
)
_LINKS = {"data": kinds.HTML_DATA_LINK, "blob": kinds.HTML_BLOB_LINK, "file": kinds.HTML_FILE_LINK}


class _Note(msgspec.Struct):
    count: int = 0
    detail: str = ""


class HtmlNotes:
    """The active content noted in one part, each kind once with a count; `scripts` is the budget of its message."""

    def __init__(self, scripts: ScriptBudget | None = None) -> None:
        self.scripts = scripts or ScriptBudget()
        self._found: dict[str, _Note] = {}

    def note(self, kind: Kind, detail: str = "") -> None:
        entry = self._found.setdefault(kind.id, _Note())
        entry.count += 1
        if not entry.detail:
            entry.detail = detail[:MAX_DETAIL]

    def defects(self, where: str) -> Iterator[Defect]:
        for kind, entry in self._found.items():
            times = f"{entry.count} times: " if entry.count > 1 and entry.detail else ""
            yield Defect(kind, where, times + entry.detail)

    def is_active(self) -> bool:
        """Return whether something that runs was noted."""
        return not _RUNNING.isdisjoint(self._found)

    def has(self, kind: Kind) -> bool:
        """Return whether something of a kind was noted."""
        return kind.id in self._found

    def drop(self, kind: Kind) -> None:
        """Take back what was noted of a kind."""
        self._found.pop(kind.id, None)

    def note_code(self, code: str) -> None:
        """Note code that attacks webmail."""
        if self.scripts.take_code(min(len(code), MAX_CODE)) and is_harmful_code(code):
            self.note(kinds.HTML_WEBMAIL_ATTACK, code)

    def note_link(self, scheme: str, target: str, *, in_svg: bool = False) -> None:
        """Note a link that does something else than lead to a page."""
        if is_disguised_scheme(target, scheme) or scheme == "vbscript" or (in_svg and scheme in _SCRIPT_SCHEMES):
            self.note(kinds.HTML_WEBMAIL_ATTACK, target)
        if scheme in _SCRIPT_SCHEMES:
            self.note(kinds.HTML_SVG_SCRIPT if in_svg else kinds.HTML_SCRIPT_LINK, target)
        elif scheme in _LINKS:
            self.note(_LINKS[scheme], target)
        elif scheme in _SYSTEM:
            self.note(kinds.HTML_PROTOCOL_LINK, target)
            self.note(kinds.HTML_SYSTEM_LINK, target)
        elif scheme in _OPENS:
            self.note(kinds.HTML_PROTOCOL_LINK, target)

    def note_handler(self, name: str, code: str, *, in_svg: bool = False) -> None:
        """Note an event handler attribute."""
        if in_svg or runs_at_once(name, code):
            self.note(kinds.HTML_WEBMAIL_ATTACK, f"{name}={code}")
        self.note(kinds.HTML_SVG_SCRIPT if in_svg else kinds.HTML_EVENT_HANDLER, name)

    def note_script(self, kind: str, source: str, *, in_svg: bool = False) -> None:
        """Note a script element; data blocks (JSON-LD) are none."""
        if kind.strip().lower() not in _SAFE_SCRIPTS:
            self.note(kinds.HTML_SVG_SCRIPT if in_svg else kinds.HTML_SCRIPT, source)
            if in_svg:
                self.note(kinds.HTML_WEBMAIL_ATTACK, source)

    def note_css(self, text: str) -> Iterator[str]:
        """Note code in a style sheet or attribute; yield the URLs that it fetches."""
        if "\\" in text or "/*" in text:
            text = unescape_css(text)
        low = text.lower()
        if any(mark in low for mark in _CSS_MARKS) and (script := _CSS_SCRIPT.search(low)):
            self.note(kinds.HTML_CSS_SCRIPT, script.group())
            self.note(kinds.HTML_WEBMAIL_ATTACK, script.group())
        if "url" in low or "@import" in low or "image-set" in low or "src(" in low:
            for count, match in enumerate(_CSS_URL.finditer(text)):
                if count >= MAX_CSS_URLS:
                    return
                yield (match.group(1) or match.group(2)).strip()


def has_markup(text: str) -> bool:
    """Return whether a header value or file name would act if a program pasted it into a page."""
    text = text[:2_000].lower()
    # Plain addresses and content types, which are most of what comes here, end at one of these two.
    if "=" not in text and "script" not in text and "&" not in text:
        return False
    if not ("<" in text or "&" in text or "script" in text or " on" in text or '"on' in text or "/on" in text):
        return False
    return bool(_MARKUP.search(unescape(text).lower() if "&" in text else text))


def has_latent_script(source: str, visible: str) -> bool:
    """Return whether HTML, or the text that it shows, holds what would act once it is read a second time."""
    if (native.has_latent_marks(source) if native else has_latent_marks(source)) and _LATENT.search(_lower(source)):
        return True
    return "<" in visible and bool(_LATENT.search(visible[:20_000].lower()))


def _lower(source: str) -> str:
    """Return the text with ASCII letters in lower case: other letters do not matter and take ten times as long."""
    return source.lower() if source.isascii() else source.encode("utf-8", "replace").lower().decode("latin-1")


def has_latent_marks(source: str) -> bool:
    """Return whether `_LATENT` can match: the Python twin of `has_latent_marks` in `_speedups.c`."""
    source = _lower(source)
    if "script" in source and ("script:" in source or "&lt;script" in source):
        return True
    return any(mark in source for mark in _LATENT_MARKS)
