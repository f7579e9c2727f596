"""Links of a message: found in plain text as mail programs find them, unwrapped, each kept once.

Mail programs turn `www.example.com`, `bit.ly/x` and `<http://…>` into links without being asked, so these are links.
People write `hxxp://evil[.]com` to be safe; attackers do so to be read by people only: it is a link here, too.

Redirectors and click-time wrappers are peeled off by the rules in `link_wrappers.toml`.
`https://www.google.com/url?q=https://evil.test` leads to evil.test, and a person is shown Google. A wrapper is believed
only on the hosts of its owner: on any other host a URL inside the query may be a decoy
(`https://evil.test/?url=https://bank.example`), so there both are reported (see `find_carried_url`).

URLs are parsed as browsers read them (WHATWG URL): `http:\\host`, `0x7f.1`, tabs inside, percent-encoded hosts.

RFC 3986 readers and browsers disagree on hostile URLs, and it is the browser that a click starts. `parse` answers in
the browser's normal form, with two habits of mail programs added: `www.host` without a scheme is http, and so is a
`//host` with no page around it.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Literal, TypeVar
from urllib.parse import unquote

import can_ada
import msgspec

from gatepost.mail.message import Link
from gatepost.names import bound_host, public_suffix
from gatepost.speedups import native

MAX_URL = 8_192
MAX_BASE = 2_048
MAX_DATA = 256

_SCHEME = re.compile(r"[\x00-\x20]*+([A-Za-z](?:[A-Za-z0-9+.\t\r\n-]){0,30}):")
_BARE = re.compile(r"[\x00-\x20]*+(?:www\d{0,3}\.[^\s./\\]|[\w-]{1,63}+(?>\.[\w-]{1,63}+)++/)", re.IGNORECASE)
_BLANK = str.maketrans("", "", "\t\r\n")
_HTTP = frozenset({"http", "https", "ftp", "ws", "wss"})


class Url(msgspec.Struct, frozen=True, gc=False):
    """A URL in normal form: `href` whole (cut at `MAX_URL`), `host` lower case in A-labels without the trailing dot."""

    href: str = ""
    host: str = ""
    scheme: str = ""

    @property
    def is_web(self) -> bool:
        return self.scheme in _HTTP and bool(self.host)


NO_URL = Url()


def read_scheme(target: str) -> str:
    """Return the scheme that a browser would see, "" for a relative reference."""
    match = _SCHEME.match(target)
    return match.group(1).translate(_BLANK).lower() if match else ""


def parse_url(target: str, base: Url = NO_URL) -> Url:
    """Return the URL that following `target` leads to, `NO_URL` where a browser would refuse."""
    if target[:5].lower() == "data:":
        # A picture of megabytes: what it is stands in front, and it is never resolved.
        return Url(target[:MAX_DATA], "", "data")
    found = _parse_absolute(target)
    if found is NO_URL and not read_scheme(target):
        found = _parse_absolute(_resolve(target, base))
    return found


def _parse_absolute(text: str) -> Url:
    try:
        url = can_ada.parse(text)
    except (ValueError, TypeError):  # the latter for lone surrogates
        return NO_URL
    scheme = url.protocol[:-1]
    href = url.href
    if scheme == "blob":
        return Url(href[:MAX_URL], _parse_absolute(href[5:]).host, scheme)
    return Url(href[:MAX_URL], bound_host(url.hostname.rstrip(".")), scheme)


def _resolve(target: str, base: Url) -> str:
    """Return a relative reference made whole by its base; without one, by what mail programs suppose."""
    text = target.strip("\x00\t\n\r\f\v ").translate(_BLANK)
    slashed = text[:2].replace("\\", "/")
    if slashed == "//":
        return f"{base.scheme or 'http'}:{text}"
    if not base.is_web or len(base.href) > MAX_BASE:
        return f"http://{text}" if _BARE.match(text) else ""
    origin, path = _split(base.href)
    if slashed[:1] == "/":
        return origin + text
    if text[:1] in "?#":
        return origin + path + text
    return origin + path[: path.rfind("/") + 1] + text


def _split(href: str) -> tuple[str, str]:
    """Return origin and path of a normal-form web URL."""
    start = href.find("/", href.find("://") + 3)
    if start < 0:
        return href, "/"
    end = min((at for at in (href.find("?", start), href.find("#", start)) if at >= 0), default=len(href))
    return href[:start], href[start:end]


MAX_LINKS = 10_000
MAX_TARGET = 4_096
MAX_SHOWN = 1_000
MAX_CUT = 100
MAX_OCCURRENCES = 20

Layers = tuple[tuple[Url, tuple[str, ...]], ...]
Source = Literal["text", "html", "form", "image", "script", "css", "refresh", "file", "qr"]
# What a page links to or fetches, as native code says it: kind, target, shown text, and whether it is hidden.
Event = tuple[Source | Literal["comment", "style", "srcset"], str, str, bool]
_Item = TypeVar("_Item", str, Event)

_WRITTEN_REST = r"[^\s<>\"\x00-\x1f，、；！？（）「」【】《》“”]{1,4096}+"
_LINK = re.compile(
    rf"(?:(?P<scheme>h(?:tt|xx|\*\*)ps?|ftp)\[?:\]?[/\\]{{1,4}}+|mailto:|(?<![\w@.-])www\d{{0,2}}\.){_WRITTEN_REST}"
    r"|(?<![a-z0-9_@./:=%&?#\\\u00c0-\u052f-])(?P<host>[a-z0-9\u00c0-\u052f-]{1,63}+(?>\.[a-z0-9\u00c0-\u052f-]{1,63}+){1,8}+)"
    rf"(?![@\w-])(?P<path>/{_WRITTEN_REST})?",
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
_DEFANGED_MARKS = {"[": ("[.]", "[dot", "[DOT", "[ "), "(": ("(.)", "(dot", "(DOT", "( "), "{": ("{.}", "{dot")}
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

    def add_items(self, items: list[_Item], where: str, add_odd: Callable[[_Item], object]) -> None:
        """Keep links in their order: what is written in a text, shown as it is written, or what a page's events link
        to. `add_odd` takes an item of any kind; native code leaves to it what is no ordinary link."""
        if not native:
            for item in items:
                add_odd(item)
            return

        def read_odd(item: _Item, added: int) -> int:
            self._count += added
            add_odd(item)
            return MAX_LINKS - self._count

        room = MAX_LINKS - self._count
        # Not added in one step: `read_odd` changes the count while the call lasts.
        added: int = native.make_links(items, where, "text", self._found, room, Link, _is_wrapping, read_odd)
        self._count += added

    def add_written(self, targets: list[str], where: str) -> None:
        """Keep links that are written in a text."""
        self.add_items(targets, where, lambda target: self.add(target, where, "text", shown=target))

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
        if not url.is_web and (handed := find_inner_url(target, read_scheme(target))) is not NO_URL:
            found += [(layer, hosts) for layer, hosts in self._follow(handed.href, NO_URL)[1] if layer.host]
        return url, tuple(found)


def find_cut_words(pieces: list[str]) -> list[str]:
    """Return the words at the ends of pieces of text that may be parts of links."""
    # Few of them hold what every link has.
    if native and len(edges := native.edge_words(pieces)) < MAX_CUT:
        cut = (word[:MAX_TARGET] for word in edges if "://" in word or _CUT.search(word[:MAX_TARGET]))
        return list(dict.fromkeys(cut))
    return find_cut_words_of(pieces)


def find_cut_words_of(pieces: Iterable[str]) -> list[str]:
    """The same in Python alone, for any number of pieces."""
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
    if native and (found := native.find_targets(text, _ENDINGS, _ENDINGS_WITH_PATH, _match_word)) is not None:
        return iter(found)
    return find_any_targets(text)


def find_any_targets(text: str) -> Iterator[str]:
    """The same for any text: the Python twin of `find_targets` in `_speedups.c`."""
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


def _match_word(word: str) -> list[str]:
    return list(_match_targets(word, 0, len(word)))


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


MAX_LAYERS = 6
MAX_PARAMETERS = 100
MAX_INNER = 4_096

_EMBEDDED = re.compile(r"https?(?::|%3a|%253a)(?:/|%2f|%252f)", re.IGNORECASE)
# Schemes whose links are not handed on to a local program, or have a reader of their own.
_BROWSERS = frozenset({"intent", "x-safari-https", "x-safari-http", "googlechrome", "googlechromes", "firefox"})
_PLAIN_SCHEMES = frozenset("http https ftp ws wss mailto tel sms cid mid data file about blob geo".split()) | {""}
_PORT = re.compile(r"@[\w@]{1,20}(?:/|\Z)")
_SHARE = r"[/\\]{2}[\w.-]{1,253}+(?:@[\w@]{1,20})?"
_REST = r"[^\s|\"'<>]"
_INNER = re.compile(
    rf"(?:https?|ftp):[/\\]{{2}}{_REST}{{3,2000}}|(?<=location:){_SHARE}{_REST}{{0,2000}}"
    rf"|(?<![:/\\\w]){_SHARE}[/\\]{_REST}{{0,2000}}",
    re.IGNORECASE,
)
_START = re.compile(r"(?:https?|ftp):[/\\]{1,2}[^/\\]|//\w", re.IGNORECASE)
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{11,}={0,2}")
_NO_DIGIT = re.compile(r"[^A-Za-z0-9+/]+")
_UNDERSCORES = re.compile(r"___((?:(?!___).)+)___", re.DOTALL)
_V3 = re.compile(r"__(.+?)__;([A-Za-z0-9_=-]*)", re.DOTALL)
_RUNS = re.compile(r"\*(\*.)?", re.DOTALL)
_RUN_LENGTH = {
    char: length
    for length, char in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", start=2)
}


class Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule of `link_wrappers.toml`, which says what the fields mean."""

    name: str
    hosts: tuple[str, ...]
    path: str = "/"
    query: tuple[str, ...] = ()
    codec: str = "url"


class _Index(msgspec.Struct, frozen=True):
    """The rules by host, by parent host and by the label that stands under any public suffix."""

    hosts: dict[str, tuple[Wrapper, ...]]
    parents: dict[str, tuple[Wrapper, ...]]
    labels: dict[str, tuple[Wrapper, ...]]


def preload_wrappers() -> None:
    """Load the rules now: a process that will lose its access to files must call this before."""
    _load_index()


@cache
def _load_index() -> _Index:
    text = files("gatepost.mail").joinpath("link_wrappers.toml").read_bytes()
    index = _Index({}, {}, {})
    for wrapper in msgspec.toml.decode(text, type=dict[str, tuple[Wrapper, ...]])["wrapper"]:
        for host in wrapper.hosts:
            if host.endswith(".*"):
                table, key = index.labels, host[:-2]
            else:
                table, key = (index.parents, host[1:]) if host[0] == "." else (index.hosts, host)
            table[key] = (*table.get(key, ()), wrapper)
    return index


def _find_wrappers(host: str) -> Iterator[Wrapper]:
    index = _load_index()
    yield from index.hosts.get(host, ())
    labels = host.split(".")[-8:]
    for start, label in enumerate(labels[:-1]):
        yield from index.parents.get(".".join(labels[start:]), ())
        # The suffix must be a public one: www.google.evil.test belongs to evil.test.
        if label in index.labels and public_suffix(host) == ".".join(labels[start + 1 :]):
            yield from index.labels[label]


@lru_cache(8192)
def _is_wrapping(host: str) -> bool:
    """Return whether some rule might apply to this host."""
    return any(True for _ in _find_wrappers(host))


def unwrap(url: Url) -> tuple[Url, tuple[str, ...]]:
    """Return the innermost destination, and the hosts that were peeled off, outermost first."""
    peeled: list[str] = []
    while len(peeled) < MAX_LAYERS and (inner := _peel(url)) is not NO_URL:
        peeled.append(url.host)
        url = inner
    return url, tuple(peeled)


def _peel(url: Url) -> Url:
    if not url.is_web or not _is_wrapping(url.host):
        return NO_URL
    for wrapper in _find_wrappers(url.host):
        rest = _cut_path(url.href)
        if not rest.startswith(wrapper.path):
            continue
        decode = CODECS[wrapper.codec]
        for text in _find_values(rest, wrapper.query) if wrapper.query else (rest[len(wrapper.path) :],):
            inner = parse_url(decode(text) if wrapper.codec != "translated-host" else decode(url.href))
            if inner.is_web:
                return inner
    return NO_URL


def find_carried_url(url: Url) -> Url:
    """Return a whole web URL in the query or fragment of any other site, as such or in base64; `NO_URL` if there is
    none.

    It need not be where the link leads: the site itself stays the link's host, and this URL is reported beside it.
    """
    href = url.href
    mark = href.find("?")
    if mark < 0 and (mark := href.find("#")) < 0:
        return NO_URL
    tail = href[mark:]
    if "http" not in tail and "aHR0c" not in tail and "%68" not in tail.lower():
        return NO_URL
    for _, text in _split_parameters(tail):
        inner = parse_url(_decode_url(text) or _decode_url(_decode_base64(text)))
        if inner.is_web and inner.host != url.host:
            return inner
    return NO_URL


def find_inner_url(target: str, scheme: str) -> Url:
    """Return the web address or share that a link to a local program hands on, `NO_URL` if there is none.

    `view-source:https://…`, `ms-word:ofe|u|https://…`, `ms-appinstaller:?source=https://…` and
    `search-ms:…&crumb=location:\\\\host\\share` name it whole, plain or percent-encoded. Schemes of browsers stand in
    the place of its own (`intent://…`).
    """
    if scheme in _PLAIN_SCHEMES:
        return NO_URL
    text = target[len(scheme) + 1 : MAX_INNER]
    if scheme in _BROWSERS and text.startswith("//"):
        return parse_url(f"https:{text}")
    for _ in range(3):
        if found := _INNER.search(text):
            place = found.group().replace("\\", "/")
            # `\\\\host@80\\share` is a share over HTTP (WebDAV) at that port.
            return parse_url("file:" + _PORT.sub("/", place, count=1) if place.startswith("//") else place)
        if "%" not in text:
            break
        text = unquote(text)
    return NO_URL


def _cut_path(href: str) -> str:
    start = href.find("/", href.find("://") + 3)
    return href[start:] if start >= 0 else "/"


def _split_parameters(rest: str) -> Iterator[tuple[str, str]]:
    marks = [at for at in (rest.find("?"), rest.find("#")) if at >= 0]
    query = rest[min(marks) + 1 :].replace("#", "&") if marks else ""
    for pair in query.split("&", MAX_PARAMETERS)[:MAX_PARAMETERS]:
        key, equals, value = pair.partition("=")
        # A URL that was escaped for HTML once too often has `&amp;` between its parameters; a fragment may have a path.
        yield (key.rpartition("?")[2].removeprefix("amp;").lower(), value) if equals else ("", key)


def _find_values(rest: str, keys: tuple[str, ...]) -> Iterator[str]:
    found: dict[str, str] = {}
    for key, value in _split_parameters(rest):
        found.setdefault(key, value)
    for key in keys:
        if value := found.get(key, ""):
            # Unescaped `?q=https://a/?x=1&y=2` loses its last parameters, not its host.
            yield value


def _decode_url(text: str) -> str:
    for _ in range(3):
        if _START.match(text):
            return text
        text = unquote(text)
    return text if _START.match(text) else ""


def _decode_base64(text: str) -> str:
    text = unquote(text)
    if not (match := _ENCODED.match(text)):
        return ""
    return decode_base64_text(match.group())


def _find_embedded(text: str) -> str:
    match = _EMBEDDED.search(text)
    return _decode_url(text[match.start() :].split("/RK=", 1)[0]) if match else ""


def _decode_urldefense_v3(text: str) -> str:
    """Decode Proofpoint's third form: `*` is one character of the base64 part, `**` and a letter are a run of them."""
    if not (match := _V3.match(text)):
        return ""
    url, encoded = match.groups()
    letters = iter(decode_base64_text(encoded))

    def restore(star: re.Match[str]) -> str:
        run = star.group(1)
        return "".join(next(letters, "") for _ in range(_RUN_LENGTH.get(run[1], 1) if run else 1))

    url = _RUNS.sub(restore, unquote(url))
    return re.sub(r"\A(https?):/(?!/)", r"\1://", url)


def decode_base64_text(text: str) -> str:
    """Decode base64 in either alphabet, padded or not, as far as it goes."""
    digits = _NO_DIGIT.sub("", text.replace("-", "+").replace("_", "/"))
    digits = digits[: len(digits) - (len(digits) % 4 == 1)]
    return base64.b64decode(digits + "=" * (-len(digits) % 4)).decode("utf-8", "replace")


def _decode_underscores(text: str) -> str:
    match = _UNDERSCORES.search(text)
    return _decode_url(match.group(1)) if match else ""


def _decode_amp(text: str) -> str:
    """Decode an AMP path: `s/host/path` is https, `host/path` is http; an AMP cache puts `c/`, `v/` or `i/` before."""
    text = re.sub(r"\A(?:[cvi]/)?", "", text)
    secure = text.startswith("s/")
    rest = text[2:] if secure else text
    return f"http{'s' * secure}://{rest}" if "." in rest.split("/", 1)[0] else ""


def _decode_translated_host(href: str) -> str:
    """Decode a translated host: `a--b-example-com.translate.goog` is a-b.example.com."""
    scheme, _, rest = href.partition("://")
    host, _, path = rest.partition("/")
    name = host.removesuffix(".translate.goog").replace("--", "\0").replace("-", ".").replace("\0", "-")
    return f"{scheme}://{name}/{path}"


CODECS: dict[str, Callable[[str], str]] = {
    "url": _decode_url,
    "base64": lambda text: _decode_url(_decode_base64(text)),
    "bing": lambda text: _decode_url(_decode_base64(text[2:])),
    "embedded": _find_embedded,
    "urldefense-v2": lambda text: unquote(text.replace("-", "%").replace("_", "/")),
    "urldefense-v3": _decode_urldefense_v3,
    "underscores": _decode_underscores,
    "amp": _decode_amp,
    "translated-host": _decode_translated_host,
}
