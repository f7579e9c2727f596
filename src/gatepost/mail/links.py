"""Links of a message: found in plain text as mail programs find them, unwrapped, each kept once.

Mail programs turn `www.example.com`, `bit.ly/x` and `<http://…>` into links without being asked, so these are links.
People write `hxxp://evil[.]com` to be safe; attackers do so to be read by people only: it is a link here, too.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

from gatepost.mail.link_wrappers import MAX_LAYERS, find_carried_url, find_inner_url, unwrap
from gatepost.mail.message import Link
from gatepost.speedups import native
from gatepost.urls import NO_URL, Url, parse_url, scheme_of

MAX_LINKS = 10_000
MAX_TARGET = 4_096
MAX_SHOWN = 1_000
MAX_CUT = 100
MAX_OCCURRENCES = 20

Layers = tuple[tuple[Url, tuple[str, ...]], ...]
Source = Literal["text", "html", "form", "image", "script", "css", "refresh", "file", "qr"]

_REST = r"[^\s<>\"\x00-\x1f，、；！？（）「」【】《》“”]{1,4096}+"
_LINK = re.compile(
    rf"(?:(?P<scheme>h(?:tt|xx|\*\*)ps?|ftp)\[?:\]?[/\\]{{1,4}}+|mailto:|(?<![\w@.-])www\d{{0,2}}\.){_REST}"
    r"|(?<![a-z0-9_@./:=%&?#\\\u00c0-\u052f-])(?P<host>[a-z0-9\u00c0-\u052f-]{1,63}+(?:\.[a-z0-9\u00c0-\u052f-]{1,63}+){1,8}+)"
    rf"(?![@\w-])(?P<path>/{_REST})?",
    re.IGNORECASE,
)
# What the expression above takes for a link wherever it begins a word: ASCII up to what ends a link.
_PLAIN_LINK = re.compile(r"(https?)://[A-Za-z0-9][!#-;=?-\x7f]{0,4000}+")
# Endings under which a bare `name.ending` is a host and hardly ever a file or a missing space.
_ENDINGS = frozenset(
    "com net org edu gov info biz xyz top online site shop club store click link live icu vip app io ru cn uk".split()
)
# With a path after it (`bit.ly/x`), these too.
_ENDINGS_WITH_PATH = _ENDINGS | frozenset(
    "me ly gl to co de fr nl br au ca eu us tk ml ga cf gq cc ws page gd in it es pl jp kr ch at be tv dev".split()
)
_CUT = re.compile(r"www\d{0,2}\.|\w\.\w")
_DEFANGED = re.compile(r"[\[({]\s?(?:\.|dot)\s?[\])}]", re.IGNORECASE)
_DEFANGED_MARKS = {
    "[": ("[.]", "[dot", "[DOT", "[ "),
    "(": ("(.)", "(dot", "(DOT", "( "),
    "{": ("{.}", "{dot"),
}
# What every link in plain text has at some place: a dot after `www` or before such an ending, or the colon of a scheme.
_DOT = re.compile(
    rf"\.(?:(?=\w)(?:{'|'.join(sorted(_ENDINGS_WITH_PATH))})(?![@\w-])|(?<=w\.)|(?<=w\d\.)|(?<=w\d\d\.))", re.IGNORECASE
)
_COLON = re.compile(r":(?:[/\\\]]|(?<=[oO]:))")
_FOLDED = re.compile(r"<(?:URL:)?\s{0,8}(https?://[^<>\s]{1,400}\s[^<>]{1,2000})>", re.IGNORECASE)
_IDEOGRAPHS = re.compile(r"\A([\x21-\x7e]+?\.[a-z]{2,24})(?=[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef])", re.IGNORECASE)
_TRAILING = ".,;:!?'`*_~|…。，、；：！？”’»"
_BRACKETS = {")": "(", "]": "[", "}": "{", "）": "（", "」": "「", "】": "【"}


class Links:
    """The links of one message. Part, shown text and target make a link; the same three twice are one."""

    def __init__(self) -> None:
        self.is_whole = True
        self.followed = 0
        self._count = 0
        self._found: dict[tuple[str, str, str, Source], tuple[Link, ...]] = {}
        self._known: dict[tuple[str, str], tuple[Url, Layers]] = {}

    def __iter__(self) -> Iterator[Link]:
        return chain.from_iterable(self._found.values())

    def __len__(self) -> int:
        return self._count

    def add(
        self, target: str, where: str, source: Source, *, shown: str = "", base: Url = NO_URL, hidden: bool = False
    ) -> Url:
        """Keep one link with what is inside it; the URL that the target itself is."""
        if self._count >= MAX_LINKS:
            self.is_whole = False
            return NO_URL
        known = (target, base.href)
        url, layers = self._known.get(known) or self._follow(target, base)
        self._known[known] = url, layers
        target = target[:MAX_TARGET]
        shown = shown[:MAX_SHOWN]
        key = (where, target, shown, source)
        if key not in self._found:
            self._found[key] = tuple(
                [Link(target, url.href, url.host, shown, where, source, wrapped, hidden) for url, wrapped in layers]
            )
            self._count += len(layers)
        return url

    def _follow(self, target: str, base: Url) -> tuple[Url, Layers]:
        """Return the URL that a target is, and its destinations with what was peeled off each.

        A redirector that is known hides nothing: its destination is the link. Any other site that carries a URL may
        lead anywhere: both are links.
        """
        self.followed += 1
        url = parse_url(target, base)
        found: list[tuple[Url, tuple[str, ...]]] = []
        wrapped: tuple[str, ...] = ()
        inner = url
        while len(wrapped) <= MAX_LAYERS:
            inner, peeled = unwrap(inner)
            wrapped += peeled
            found.append((inner, wrapped))
            if not inner.is_web or (further := find_carried_url(inner)) is NO_URL:
                break
            wrapped += (inner.host,)
            inner = further
        if not url.is_web and (handed := find_inner_url(target, scheme_of(target))) is not NO_URL:
            found += [(layer, hosts) for layer, hosts in self._follow(handed.href, NO_URL)[1] if layer.host]
        return url, tuple(found)


def find_cut_words(pieces: Iterable[str]) -> list[str]:
    """Return the words at the ends of pieces of text that may be parts of links."""
    found: dict[str, None] = {}
    for piece in pieces:
        words = piece.split()
        for word, edge in ((words[0], piece[0]), (words[-1], piece[-1])) if words else ():
            if not edge.isspace() and ("://" in word or _CUT.search(word[:MAX_TARGET])):
                found[word[:MAX_TARGET]] = None
        if len(found) >= MAX_CUT:
            break
    return list(found)


def find_cut_targets(visible: str, words: Iterable[str]) -> Iterator[str]:
    """Yield links that markup cuts in pieces and that a person reads whole: `https://evil-mail<b></b>box.example`.

    `words` are such pieces; those that go on in the visible text are looked at as it shows them.
    """
    seen: set[str] = set()
    for piece in words:
        place = visible.find(piece)
        for _ in range(MAX_OCCURRENCES):
            if place < 0:
                break
            end = place + len(piece)
            if _goes_on(visible, place, end):
                before = visible[max(0, place - MAX_TARGET) : place].split()
                is_apart = visible[place - 1 : place].isspace() or not before
                word = ("" if is_apart else before[-1]) + visible[place : place + MAX_TARGET].split(None, 1)[0]
                for whole in find_targets(word):
                    if whole not in seen:
                        seen.add(whole)
                        yield whole
            place = visible.find(piece, end)


def _goes_on(text: str, start: int, end: int) -> bool:
    """Return whether the word of which this is a piece has more before or after it."""
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    return before.isalnum() or after.isalnum() or before in {"-", "."} or after in {"-", ".", "@", "/"}


def find_targets(text: str) -> Iterator[str]:
    """Yield the links that a mail program would make in plain text, in their order; folded ones first."""
    for bracket, marks in _DEFANGED_MARKS.items():
        if bracket in text and any(mark in text for mark in marks):
            text = _DEFANGED.sub(".", text)
            break
    if "<" in text:
        for match in _FOLDED.finditer(text):
            yield "".join(match.group(1).split())
    flat = text.replace("\n", " ").replace("\r", " ").replace("\t", " ")
    # Few words hold what every link has: finding those first is cheaper than the expression everywhere.
    words = native.link_words(flat, _ENDINGS_WITH_PATH) if native and flat.isascii() else find_link_words(flat)
    for start, end in words:
        yield from _match_targets(flat, start, end)


def find_link_words(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word that may hold a link. `link_words` in `_speedups.c` does the same for ASCII."""
    dots = [hint.start() for hint in _DOT.finditer(text)] if "." in text else []
    colons = [hint.start() for hint in _COLON.finditer(text)] if ":" in text else []
    found: list[tuple[int, int]] = []
    end = 0
    for at in sorted(dots + colons):
        if at >= end:
            start = max(end, text.rfind(" ", end, at) + 1)
            end = text.find(" ", at)
            end = len(text) if end < 0 else end
            found.append((start, end))
    return found


def _match_targets(text: str, start: int, end: int) -> Iterator[str]:
    """Yield the links in one word. Most are one ordinary link and nothing else, which needs no long expression."""
    plain = _PLAIN_LINK.match(text, start, end)
    if plain and (plain.end() == end or text[plain.end()] in '<>"'):
        if target := _trim(plain.group()):
            yield _refang(target, plain.group(1))
        start = plain.end()
        if start == end:
            return
    for match in _LINK.finditer(text, start, end):
        scheme, host, path = match.group("scheme", "host", "path")
        if host:
            ending = host.rpartition(".")[2].lower()
            if ending not in (_ENDINGS_WITH_PATH if path else _ENDINGS):
                continue
        if target := _trim(match.group()):
            yield (
                _refang(target, scheme) if scheme else target if target[:7].lower() == "mailto:" else f"http://{target}"
            )


def _refang(target: str, scheme: str) -> str:
    kind = "ftp" if scheme.lower() == "ftp" else "https" if scheme[-1] in "sS" else "http"
    return kind + target[len(scheme) :].replace("[:]", ":", 1)


def _trim(text: str) -> str:
    """Return a link without the punctuation of the sentence around it; a bracket stays if it was opened inside."""
    if not text.isascii() and (match := _IDEOGRAPHS.match(text)):
        text = match.group()
    text = text.rstrip(_TRAILING)
    while text and (opening := _BRACKETS.get(text[-1])):
        surplus = text.count(text[-1]) - text.count(opening)
        if surplus <= 0:
            break
        kept = text.rstrip(text[-1])
        text = text[: max(len(kept), len(text) - surplus)].rstrip(_TRAILING)
    return text
