"""Senders: an address, a domain, or `*.domain`."""

import re

from gatepost.lists.entry import Category, EntryKind, Normal, Refused, same
from gatepost.lists.hostname import normal_host, normal_pattern, patterns, too_wide
from gatepost.names import normal_address

_SPACES = re.compile(r"[\s\x00-\x1f\x7f]")
# A local part that is its own normal form, as most are.
_PLAIN = re.compile(r"[a-z0-9.+_=-]+\Z")


def normalise(text: str) -> Normal | Refused:
    """`Ann@Example.COM`, `<ann@example.com>` and `ann@example.com` are one address; `@example.com` is the domain."""
    text = text.strip().removeprefix("<").removesuffix(">").strip()
    if "@" not in text.removeprefix("@"):
        pattern = normal_pattern(text.removeprefix("@"))
        return pattern if isinstance(pattern, Refused) else same(pattern)
    local, _, domain = text.rpartition("@")
    host = normal_host(domain)
    if isinstance(host, str) and _PLAIN.match(local):
        return same(f"{local}@{host}")
    if isinstance(host, Refused) or not local or _SPACES.search(local) or "*" in local:
        return Refused("is neither an address nor a domain nor *.domain")
    return same(normal_address(f"{local}@{host}"))


def refuse(key: str, category: Category) -> str:
    return "" if "@" in key else too_wide(key, category)


def keys(address: str) -> tuple[str, ...]:
    """Every entry that would match this address."""
    address = normal_address(address)
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        return ()
    return (address, *patterns(domain))


SENDER = EntryKind(
    "sender",
    "an address, a domain, or *.domain for every name below it",
    "ann@example.com",
    normalise,
    refuse,
    keyed=True,
)
