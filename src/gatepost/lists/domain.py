"""Domains of one's own or of partners: each with all names below it."""

from gatepost.lists.entry import Category, EntryKind, Normal, Refused, same
from gatepost.lists.hostname import normal_host, too_wide


def normalise(text: str) -> Normal | Refused:
    """`*.example.com` and `@example.com` mean the same as `example.com` here: the names below are included anyway."""
    host = normal_host(text.strip().removeprefix("*.").removeprefix("@"))
    return host if isinstance(host, Refused) else same(host)


def refuse(key: str, _category: Category) -> str:
    return too_wide(key, "allow")


DOMAIN = EntryKind("domain", "a domain, the names below it included", "example.com", normalise, refuse, keyed=False)
