"""The kind of list entries that name links: a host, `*.host`, or a host with a path prefix.

Scheme, user info and fragment are dropped, port and query are kept. Host and path are those that a browser would ask
for (WHATWG URL), in the normal form of RFC 3986 section 6.2.2: percent-encoding has upper-case digits and only where it
is needed, dot segments are resolved. Empty segments are dropped, since servers ignore them; so `/%6cogin` and `//login`
are `/login`. The path keeps its case. A prefix ends at `/`, `?` or the end, so `example.com/safe` does not cover
`example.com/safe-evil`.

Links of messages are brought to the same form (`list_url_keys`), so an entry covers every spelling of its links.
"""

import re

import can_ada

from gatepost.lists.addresses import list_patterns, normalise_pattern, refuse_wide
from gatepost.lists.entries import Category, EntryKind, ListRefusal, NormalForm, limit_keys, refang, show_as_key
from gatepost.names import is_ip

MAX_SEGMENTS = 24
MAX_PLAIN = 253
# A scheme, not a host with its port: what follows the colon is no digit.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}:(?!\d)", re.IGNORECASE)
# What parsing would leave as it is, as most entries: a host of small letters that is no number, and a simple path.
_PLAIN_URL = re.compile(
    r"(?:(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!xn--)[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
    r"(?:(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?)?\Z"
)
_USUAL_PORTS = frozenset({"80", "443", ""})
_HOST_PART = re.compile(r"(?:[^/?#]{0,12}//)?[^/?#]*")
_MAILBOX = re.compile(r"[^/?#@:]+@[^/?#@]+\Z")
_WILD = re.compile(r"(?:https?://)?(\*\..*)\Z", re.IGNORECASE | re.DOTALL)
_SEGMENT_END = re.compile("[/?]")
_EMPTY_SEGMENTS = re.compile(r"/{2,}")
# An escape, a percent sign alone, or a character that is neither unreserved nor reserved.
_UNUSUAL = re.compile(r"%([0-9A-Fa-f]{2})?|[^A-Za-z0-9._~!$&'()*+,;=:@/?%-]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normalise_url(text: str) -> NormalForm | ListRefusal:
    """Normalise a host, `*.host`, or a host with a path prefix."""
    if len(text) <= MAX_PLAIN and _PLAIN_URL.match(text):
        return show_as_key(text)
    text = _refang_link(text.strip()).removeprefix("*://")
    if _MAILBOX.match(text):
        return ListRefusal("is an address, not a link: senders have lists of their own")
    wild = _WILD.match(text)
    if wild:
        return _normalise_wild(wild.group(1))
    parts = split_url(text)
    if parts is None:
        return ListRefusal(_describe_no_link(text))
    host, port, path = parts
    if not is_ip(host):
        checked = normalise_pattern(host)
        if isinstance(checked, ListRefusal):
            return checked
    if path.endswith("/*"):
        path = "" if path == "/*" else path[:-1]
    if "*" in path.partition("?")[0]:
        return ListRefusal("has a * in its path: an entry covers every path that continues it after / or ?, without *")
    return show_as_key(f"{host}:{port}{path}" if port else host + path)


def _refang_link(text: str) -> str:
    """Return a link with its scheme and host in plain signs; in a path `(at)` can be meant as it stands."""
    host = _HOST_PART.match(text)
    end = host.end() if host else 0
    return refang(text[:end]) + text[end:].replace("[.]", ".")


def _describe_no_link(text: str) -> str:
    scheme = _SCHEME.match(text)
    if scheme and scheme.group().lower() not in ("http:", "https:"):
        return f"is a link of the scheme {scheme.group()} and only http and https links are looked up"
    return "is neither a host nor *.host nor a host with a path"


def _normalise_wild(pattern: str) -> NormalForm | ListRefusal:
    """Normalise `*.host`, to which nothing can be added but the `/` or `/*` that stand for all of it."""
    host = pattern.removesuffix("*").removesuffix("/") if pattern.endswith(("/", "/*")) else pattern
    if "/" in host or ":" in host or "?" in host:
        return ListRefusal("is *.host with more behind it: a path or a port needs a host without *")
    checked = normalise_pattern(host)
    return checked if isinstance(checked, ListRefusal) else show_as_key(checked)


def refuse_url(key: str, category: Category) -> str:
    """Return why a host pattern is too wide, or ""; paths and IP addresses never are."""
    host = key.split("/", 1)[0]
    return "" if "/" in key or is_ip(host) or ":" in host else refuse_wide(host, category)


def split_url(text: str) -> tuple[str, str, str] | None:
    """Return host, port ("" for the usual ones) and path with query ("" for the root), all in normal form."""
    address = text if _SCHEME.match(text) else f"http://{text}"
    try:
        url = can_ada.parse(address)
    except (ValueError, TypeError):  # the latter for lone surrogates
        return None
    if url.protocol not in ("http:", "https:") or not url.hostname:
        return None
    port = "" if url.port in _USUAL_PORTS else url.port
    path = url.pathname
    if "//" in path:
        path = _EMPTY_SEGMENTS.sub("/", path)
        if "/." in path:
            # Behind an empty segment and one that begins with a dot, ada leaves a last `/.` where it is.
            path = can_ada.parse(f"http://x{path}").pathname
    path += url.search
    if _UNUSUAL.search(path):
        path = _UNUSUAL.sub(_normalise_escape, path)
    return url.hostname.rstrip("."), port, "" if path == "/" else path


def _normalise_escape(match: re.Match[str]) -> str:
    """Return the normal form of one escape, or of one character that a URI cannot hold as it is (RFC 3986 section 2).

    A percent sign that is no escape is escaped itself: otherwise `%%36c` would become another escape.
    """
    digits, found = match.group(1), match.group()
    if digits is None:
        return f"%{ord(found):02X}"
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else f"%{digits.upper()}"


def list_url_keys(url: str) -> tuple[str, ...]:
    """Return every entry that would match this URL: with and without its port, every level of host and path."""
    parts = split_url(url)
    if parts is None:
        return ()
    host, port, path = parts
    paths = _list_prefixes(path)
    found = [*list_patterns(host), *(host + prefix for prefix in paths)]
    if port:
        found += [f"{host}:{port}", *(f"{host}:{port}{prefix}" for prefix in paths)]
    return limit_keys(tuple(dict.fromkeys(found)))


def _list_prefixes(path: str) -> list[str]:
    """Return the prefixes that cover a path: `/a/b?c` can be covered by `/a`, `/a/`, `/a/b` and `/a/b?c`."""
    cuts: list[str] = []
    for end in _SEGMENT_END.finditer(path, 1):
        if len(cuts) >= 2 * MAX_SEGMENTS:
            break
        cuts.append(path[: end.start()])
        if end.group() == "/":
            cuts.append(path[: end.end()])
    return [*cuts, path] if path else []


URL = EntryKind(
    "url",
    "a host, *.host, or a host with a path that the URL starts with",
    "example.com/login",
    normalise_url,
    refuse_url,
    list_url_keys,
)
