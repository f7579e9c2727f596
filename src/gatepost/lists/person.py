"""People whose names outsiders may not bear: `Name <address>`. The spelling is kept; people are compared folded."""

import re

from gatepost.lists.entry import EntryKind, Normal, Refused, anything
from gatepost.lists.hostname import normal_host
from gatepost.lists.phrase import folded
from gatepost.names import normal_address

_PERSON = re.compile(r"\s*(\S[^<>]{0,400}?)\s*<\s*([^<>\s]{1,320})\s*>\s*\Z")


def normalise(text: str) -> Normal | Refused:
    match = _PERSON.match(text)
    if not match:
        return Refused("is not written as: Name <address>")
    name, address = match.group(1).strip(' "'), normal_address(match.group(2))
    local, _, domain = address.rpartition("@")
    if not name or not local or isinstance(normal_host(domain), Refused):
        return Refused("is not written as: Name <address>")
    return Normal(f"{folded(name)} <{address}>", f"{name} <{address}>")


PERSON = EntryKind(
    "person",
    "a person and the address that is theirs",
    "Ann Example <ann@example.com>",
    normalise,
    anything,
    keyed=False,
)
