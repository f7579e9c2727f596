"""Redirectors and click-time wrappers, peeled off a link by the rules in `link_wrappers.toml`.

`https://www.google.com/url?q=https://evil.test` leads to evil.test, and a person is shown Google. A wrapper is believed
only on the hosts of its owner: on any other host a URL inside the query may be a decoy
(`https://evil.test/?url=https://bank.example`), so there both are reported (see `find_carried_url`).
"""

import base64
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from urllib.parse import unquote

import msgspec

from gatepost.names import MAX_DOMAIN, public_suffix
from gatepost.urls import NO_URL, Url, parse_url

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


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wrapper: tuple[Wrapper, ...]


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
    for wrapper in msgspec.toml.decode(text, type=_Rules).wrapper:
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
    return len(host) <= MAX_DOMAIN and any(True for _ in _find_wrappers(host))


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
        inner = parse_url(_decode_whole_url(text))
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


def _decode_whole_url(text: str) -> str:
    return _decode_url(text) or _decode_url(_decode_base64(text))


def _decode_base64(text: str) -> str:
    text = unquote(text)
    if not (match := _ENCODED.match(text)):
        return ""
    return decode_base64_text(match.group())


def _find_embedded(text: str) -> str:
    match = _EMBEDDED.search(text)
    return _decode_url(text[match.start() :].split("/RK=", 1)[0]) if match else ""


def _decode_urldefense_v2(text: str) -> str:
    return unquote(text.replace("-", "%").replace("_", "/"))


def _decode_urldefense_v3(text: str) -> str:
    """Decode Proofpoint's third form: `*` stands for one character of the base64 part, `**` and a letter for a run of
    them."""
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
    "urldefense-v2": _decode_urldefense_v2,
    "urldefense-v3": _decode_urldefense_v3,
    "underscores": _decode_underscores,
    "amp": _decode_amp,
    "translated-host": _decode_translated_host,
}
