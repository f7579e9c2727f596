"""URLs: a host, `*.host`, or a host with a path prefix.

Scheme, user info and fragment are dropped, port and query kept, dot segments resolved; the path keeps its case. A
prefix ends at `/`, `?` or the end, so `example.com/safe` does not cover `example.com/safe-evil`.
"""

import re

import can_ada

from gatepost.lists.entry import Category, EntryKind, Normal, Refused, same
from gatepost.lists.hostname import normal_pattern, patterns, too_wide
from gatepost.names import is_ip

MAX_SEGMENTS = 24
MAX_PLAIN = 253
# A scheme, not a host with its port: what follows the colon is no digit.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}:(?!\d)", re.IGNORECASE)
# What parsing would leave as it is, as most entries: a host of small letters that is no number, and a simple path.
_PLAIN = re.compile(
    r"(?:(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!xn--)[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
    r"(?:(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?)?\Z"
)
_USUAL_PORTS = frozenset({"80", "443", ""})


def normalise(text: str) -> Normal | Refused:
    if len(text) <= MAX_PLAIN and _PLAIN.match(text):
        return same(text)
    text = text.strip()
    if text.startswith("*."):
        pattern = normal_pattern(text)
        return pattern if isinstance(pattern, Refused) else same(pattern)
    parts = split(text)
    if parts is None:
        return Refused("is neither a host nor *.host nor a host with a path")
    host, port, path = parts
    if not is_ip(host):
        checked = normal_pattern(host)
        if isinstance(checked, Refused):
            return checked
    return same(_joined(host, port, path))


def refuse(key: str, category: Category) -> str:
    host = key.split("/", 1)[0]
    return "" if "/" in key or is_ip(host) or ":" in host else too_wide(host, category)


def split(text: str) -> tuple[str, str, str] | None:
    """Host, port ("" for the usual ones) and path with query ("" for the root) by the WHATWG URL standard."""
    address = text if _SCHEME.match(text) else f"http://{text}"
    try:
        url = can_ada.parse(address)
    except ValueError:
        return None
    if url.protocol not in ("http:", "https:") or not url.hostname:
        return None
    port = "" if url.port in _USUAL_PORTS else url.port
    path = url.pathname + url.search
    return url.hostname.rstrip("."), port, "" if path == "/" else path


def keys(url: str) -> tuple[str, ...]:
    """Every entry that would match this URL: with and without its port, every level of host and path."""
    parts = split(url)
    if parts is None:
        return ()
    host, port, path = parts
    paths = _prefixes(path)
    found = [*patterns(host), *(host + prefix for prefix in paths)]
    if port:
        found += [f"{host}:{port}", *(f"{host}:{port}{prefix}" for prefix in paths)]
    return tuple(dict.fromkeys(found))


def _joined(host: str, port: str, path: str) -> str:
    return f"{host}:{port}{path}" if port else host + path


def _prefixes(path: str) -> list[str]:
    """`/a/b?c` can be covered by `/a`, `/a/`, `/a/b` and `/a/b?c`."""
    cuts: list[str] = []
    place = 0
    while len(cuts) < 2 * MAX_SEGMENTS:
        place = _next_end(path, place + 1)
        if place < 0:
            break
        cuts.append(path[:place])
        if path[place] == "/":
            cuts.append(path[: place + 1])
    return [*cuts, path] if path else []


def _next_end(path: str, start: int) -> int:
    ends = [place for place in (path.find("/", start), path.find("?", start)) if place >= 0]
    return min(ends, default=-1)


URL = EntryKind(
    "url",
    "a host, *.host, or a host with a path that the URL starts with",
    "example.com/login",
    normalise,
    refuse,
    keyed=True,
)
