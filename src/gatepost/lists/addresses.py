"""Kinds of list entries that name a host: domains, senders, URLs, people.

A host is written alone or with a wildcard: `example.com` is that name, `*.example.com` every name below it. A domain of
one's own or of a partner includes all names below it. A sender is an address, a domain, or `*.domain`. People are
written as `Name <address>`; the spelling is kept, and names are compared folded.

A URL is a host, `*.host`, or a host with a path prefix. Scheme, user info and fragment are dropped, port and query
kept, dot segments resolved; the path keeps its case. A prefix ends at `/`, `?` or the end, so `example.com/safe` does
not cover `example.com/safe-evil`.
"""

import re

import can_ada

from gatepost.lists.entries import (
    Category,
    EntryKind,
    ListRefusal,
    NormalForm,
    fold_phrase,
    refuse_nothing,
    show_as_key,
)
from gatepost.names import is_icann_suffix, is_ip, normal_address, normal_domain, public_suffix

_LABELS = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z"
)


def normalise_host(text: str) -> str | ListRefusal:
    """Return a host name in normal form; its labels as DNS allows them (RFC 1035 section 2.3.4, underscores
    included)."""
    if _LABELS.match(text):
        return text
    host = normal_domain(text)
    if not _LABELS.match(host):
        return ListRefusal("is not a host name")
    return host


def normalise_pattern(text: str) -> str | ListRefusal:
    """Return a host name or `*.` and one."""
    wild = text.startswith("*.")
    host = normalise_host(text[2:] if wild else text)
    if isinstance(host, ListRefusal):
        return ListRefusal("would match everything") if text.strip() in ("*", "*.") else host
    return f"*.{host}" if wild else host


def refuse_wide(pattern: str, category: Category) -> str:
    """Return why a pattern is too wide for a category, or "": all of `com` cannot be blocked, nor all of `github.io`
    allowed, where anybody can get a name."""
    host = pattern.removeprefix("*.")
    if category == "allow" and public_suffix(host) == host:
        return f"is too wide: anybody can get a name under {host}"
    if category != "allow" and is_icann_suffix(host):
        return f"is too wide: {host} is a public suffix, not one owner's domain"
    return ""


def list_patterns(host: str) -> tuple[str, ...]:
    """Return the entries that would match this host: itself, and a wildcard at every level above it."""
    labels = host.split(".")[-12:]
    return (host, *(f"*.{'.'.join(labels[cut:])}" for cut in range(1, len(labels))))


def normalise_domain(text: str) -> NormalForm | ListRefusal:
    """Normalise a domain: `*.example.com` and `@example.com` mean the same as `example.com`, since the names below are
    included anyway."""
    host = normalise_host(text.strip().removeprefix("*.").removeprefix("@"))
    return host if isinstance(host, ListRefusal) else show_as_key(host)


def refuse_domain(key: str, _category: Category) -> str:
    """Return why a domain is too wide, or ""."""
    return refuse_wide(key, "allow")


DOMAIN = EntryKind(
    "domain", "a domain, the names below it included", "example.com", normalise_domain, refuse_domain, keyed=False
)


_SPACES = re.compile(r"[\s\x00-\x1f\x7f]")
# A local part that is its own normal form, as most are.
_PLAIN_SENDER = re.compile(r"[a-z0-9.+_=-]+\Z")


def normalise_sender(text: str) -> NormalForm | ListRefusal:
    """Normalise a sender: `Ann@Example.COM`, `<ann@example.com>` and `ann@example.com` are one address; `@example.com`
    is the domain."""
    text = text.strip().removeprefix("<").removesuffix(">").strip()
    if "@" not in text.removeprefix("@"):
        pattern = normalise_pattern(text.removeprefix("@"))
        return pattern if isinstance(pattern, ListRefusal) else show_as_key(pattern)
    local, _, domain = text.rpartition("@")
    host = normalise_host(domain)
    if isinstance(host, str) and _PLAIN_SENDER.match(local):
        return show_as_key(f"{local}@{host}")
    if isinstance(host, ListRefusal) or not local or _SPACES.search(local) or "*" in local:
        return ListRefusal("is neither an address nor a domain nor *.domain")
    return show_as_key(normal_address(f"{local}@{host}"))


def refuse_sender(key: str, category: Category) -> str:
    """Return why a sender pattern is too wide, or ""; addresses never are."""
    return "" if "@" in key else refuse_wide(key, category)


def list_sender_keys(address: str) -> tuple[str, ...]:
    """Return every entry that would match this address."""
    address = normal_address(address)
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        return ()
    return (address, *list_patterns(domain))


SENDER = EntryKind(
    "sender",
    "an address, a domain, or *.domain for every name below it",
    "ann@example.com",
    normalise_sender,
    refuse_sender,
    keyed=True,
)


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


def normalise_url(text: str) -> NormalForm | ListRefusal:
    """Normalise a host, `*.host`, or a host with a path prefix."""
    if len(text) <= MAX_PLAIN and _PLAIN_URL.match(text):
        return show_as_key(text)
    text = text.strip()
    if text.startswith("*."):
        pattern = normalise_pattern(text)
        return pattern if isinstance(pattern, ListRefusal) else show_as_key(pattern)
    parts = split_url(text)
    if parts is None:
        return ListRefusal("is neither a host nor *.host nor a host with a path")
    host, port, path = parts
    if not is_ip(host):
        checked = normalise_pattern(host)
        if isinstance(checked, ListRefusal):
            return checked
    return show_as_key(_join_url(host, port, path))


def refuse_url(key: str, category: Category) -> str:
    """Return why a host pattern is too wide, or ""; paths and IP addresses never are."""
    host = key.split("/", 1)[0]
    return "" if "/" in key or is_ip(host) or ":" in host else refuse_wide(host, category)


def split_url(text: str) -> tuple[str, str, str] | None:
    """Return host, port ("" for the usual ones) and path with query ("" for the root) by the WHATWG URL standard."""
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
    return tuple(dict.fromkeys(found))


def _join_url(host: str, port: str, path: str) -> str:
    return f"{host}:{port}{path}" if port else host + path


def _list_prefixes(path: str) -> list[str]:
    """Return the prefixes that cover a path: `/a/b?c` can be covered by `/a`, `/a/`, `/a/b` and `/a/b?c`."""
    cuts: list[str] = []
    place = 0
    while len(cuts) < 2 * MAX_SEGMENTS:
        place = _find_next_end(path, place + 1)
        if place < 0:
            break
        cuts.append(path[:place])
        if path[place] == "/":
            cuts.append(path[: place + 1])
    return [*cuts, path] if path else []


def _find_next_end(path: str, start: int) -> int:
    ends = [place for place in (path.find("/", start), path.find("?", start)) if place >= 0]
    return min(ends, default=-1)


URL = EntryKind(
    "url",
    "a host, *.host, or a host with a path that the URL starts with",
    "example.com/login",
    normalise_url,
    refuse_url,
    keyed=True,
)


_PERSON = re.compile(r"\s*(\S[^<>]{0,400}?)\s*<\s*([^<>\s]{1,320})\s*>\s*\Z")


def normalise_person(text: str) -> NormalForm | ListRefusal:
    """Normalise `Name <address>`: the spelling is shown, the folded name is compared."""
    match = _PERSON.match(text)
    if not match:
        return ListRefusal("is not written as: Name <address>")
    name, address = match.group(1).strip(' "'), normal_address(match.group(2))
    local, _, domain = address.rpartition("@")
    if not name or not local or isinstance(normalise_host(domain), ListRefusal):
        return ListRefusal("is not written as: Name <address>")
    return NormalForm(f"{fold_phrase(name)} <{address}>", f"{name} <{address}>")


PERSON = EntryKind(
    "person",
    "a person and the address that is theirs",
    "Ann Example <ann@example.com>",
    normalise_person,
    refuse_nothing,
    keyed=False,
)
