"""Host names as entries, alone or with a wildcard: `example.com` is that name, `*.example.com` every name below it."""

import re

from gatepost.lists.entry import Category, Refused
from gatepost.names import is_icann_suffix, normal_domain, public_suffix

_LABELS = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z"
)


def normal_host(text: str) -> str | Refused:
    """A host name in normal form; its labels as DNS allows them (RFC 1035 section 2.3.4, underscores included)."""
    if _LABELS.match(text):
        return text
    host = normal_domain(text)
    if not _LABELS.match(host):
        return Refused("is not a host name")
    return host


def normal_pattern(text: str) -> str | Refused:
    """A host name or `*.` and one."""
    wild = text.startswith("*.")
    host = normal_host(text[2:] if wild else text)
    if isinstance(host, Refused):
        return Refused("would match everything") if text.strip() in ("*", "*.") else host
    return f"*.{host}" if wild else host


def too_wide(pattern: str, category: Category) -> str:
    """Nobody may block all of `com`, nor allow all of `github.io`, where anybody can get a name."""
    host = pattern.removeprefix("*.")
    if category == "allow" and public_suffix(host) == host:
        return f"is too wide: anybody can get a name under {host}"
    if category != "allow" and is_icann_suffix(host):
        return f"is too wide: {host} is a public suffix, not one owner's domain"
    return ""


def patterns(host: str) -> tuple[str, ...]:
    """The entries that would match this host: itself, and a wildcard at every level above it."""
    labels = host.split(".")[-12:]
    return (host, *(f"*.{'.'.join(labels[cut:])}" for cut in range(1, len(labels))))
