"""Every list that a scope has from the start, and what lists of an operator's own may be.

A custom list has a kind of entry and a category, and counts as the usual list of the same kind and category. What a hit
does is decided where messages are judged (`rulings`), not here.
"""

import re
from typing import get_args

import msgspec

from gatepost.lists.addresses import DOMAIN, PERSON, SENDER
from gatepost.lists.entries import (
    DIGEST,
    FILETYPE,
    MAX_ENTRY,
    NETWORK,
    PHRASE,
    Category,
    EntryKind,
    ListRefusal,
    NormalForm,
    limit_key,
)
from gatepost.lists.links import URL

LARGE = 10_000_000
SMALL = 100_000
# Lists that are handed out whole travel to every worker: what those of one scope may have together, in bytes of text,
# with so many bytes for each entry on top. A full list of 100,000 entries of 50 letters fits.
MAX_UNKEYED_BYTES = 8 << 20
UNKEYED_ENTRY_BYTES = 32
# How many custom lists one scope may have: each is one more name that every message of the scope is compared with.
MAX_CUSTOM_LISTS = 100

KINDS: dict[str, EntryKind] = {
    kind.name: kind for kind in (SENDER, NETWORK, URL, DIGEST, FILETYPE, PHRASE, DOMAIN, PERSON)
}

_UNKEYED_KINDS = frozenset({PHRASE.name, DOMAIN.name, PERSON.name})
_CUSTOM_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")


class ListDefinition(msgspec.Struct, frozen=True):
    """What a list is: which kind of entries, what for, and how many it may hold in one scope."""

    name: str
    kind: str
    category: Category
    display_name: str
    description: str
    max_size: int
    custom: bool = False

    @property
    def counts_as(self) -> str:
        """The usual list that it does the work of: itself, or for a custom one that of its kind and category; "" for a
        list of no use, such as people of category `allow`."""
        return find_usual_list(self.kind, self.category) if self.custom else self.name

    def normalise(self, text: str) -> NormalForm | ListRefusal:
        """Return an entry of this list in its normal form, or why it is none."""
        if len(text) > MAX_ENTRY:
            return ListRefusal(f"is longer than {MAX_ENTRY:,} characters")
        if not text.strip():
            return ListRefusal("is empty")
        kind = KINDS[self.kind]
        normal = kind.normalise(text)
        if isinstance(normal, ListRefusal):
            return normal
        reason = kind.refuse(normal.key, self.category)
        if reason:
            return ListRefusal(reason)
        key = limit_key(normal.key)
        return normal if key is normal.key else NormalForm(key, normal.shown)

    def key(self, text: str) -> str:
        """Return how an entry to delete is compared: by its normal form if it has one, else as it stands."""
        normal = KINDS[self.kind].normalise(text[: MAX_ENTRY + 1])
        return limit_key(text if isinstance(normal, ListRefusal) else normal.key)


def _define(name: str, kind: EntryKind, category: Category, shown: str, description: str) -> ListDefinition:
    size = LARGE if category in ("block", "allow") else SMALL
    return ListDefinition(name, kind.name, category, shown, description, size)


LISTS: tuple[ListDefinition, ...] = (
    _define(
        "blocked-senders",
        SENDER,
        "block",
        "Blocked senders",
        "Mail from these senders gets at least the verdict policy",
    ),
    _define(
        "allowed-senders",
        SENDER,
        "allow",
        "Allowed senders",
        "Authenticated mail from these is not held as spam or suspicious",
    ),
    _define(
        "blocked-ips", NETWORK, "block", "Blocked networks", "Mail from these hosts gets at least the verdict policy"
    ),
    _define(
        "allowed-ips", NETWORK, "allow", "Allowed networks", "Mail from these hosts is not held as spam or suspicious"
    ),
    _define("blocked-urls", URL, "block", "Blocked links", "A link to one of these gives at least the verdict policy"),
    _define("allowed-urls", URL, "allow", "Allowed links", "What is found on a link to one of these does not count"),
    _define(
        "blocked-files",
        DIGEST,
        "block",
        "Blocked files",
        "A file with one of these hashes gives at least the verdict policy",
    ),
    _define(
        "allowed-files",
        DIGEST,
        "allow",
        "Allowed files",
        "What is found on exactly these files does not count, malware included",
    ),
    _define(
        "blocked-file-types",
        FILETYPE,
        "policy",
        "Blocked file types",
        "A file of one of these types gives at least the verdict policy",
    ),
    _define(
        "blocked-phrases",
        PHRASE,
        "policy",
        "Blocked phrases",
        "These words in text or subject give at least the verdict policy",
    ),
    _define(
        "trusted-relays", NETWORK, "trust", "Trusted relays", "Skipped when looking for the host that sent a message"
    ),
    _define("own-domains", DOMAIN, "protect", "Own domains", "Domains that outsiders may not imitate or forge"),
    _define("partner-domains", DOMAIN, "protect", "Partner domains", "Domains of partners, which nobody may imitate"),
    _define("protected-people", PERSON, "protect", "Protected people", "People whose names outsiders may not bear"),
)

BY_NAME: dict[str, ListDefinition] = {definition.name: definition for definition in LISTS}


# Of the two lists of domains the partners' counts: who owns a domain is for own-domains alone to say.
_USUAL: dict[tuple[str, str], str] = {(definition.kind, definition.category): definition.name for definition in LISTS}
# To block and to have a policy against is the same.
_ALIKE = {"block": "policy", "policy": "block"}


def find_usual_list(kind: str, category: str) -> str:
    """Return the usual list whose rules hold for a custom one; "" where there is none, so that it would do nothing."""
    return _USUAL.get((kind, category)) or _USUAL.get((kind, _ALIKE.get(category, ""))) or ""


def is_unkeyed(kind: str, category: str) -> bool:
    """Return whether a list of this kind and category is handed out whole instead of being looked up."""
    return kind in _UNKEYED_KINDS or (kind == NETWORK.name and category == "trust")


def size_limit(kind: str, category: str) -> int:
    """Return how many entries a custom list of this kind and category may have at most."""
    return SMALL if is_unkeyed(kind, category) else MAX_SIZE


def list_categories(kind: str) -> tuple[Category, ...]:
    """Return the categories that a custom list of this kind can have."""
    return tuple(category for category in get_args(Category) if find_usual_list(kind, category))


def is_custom_name(name: str) -> bool:
    """Return whether a list of the operator's own may be called so."""
    return bool(_CUSTOM_NAME.match(name)) and name not in BY_NAME


CATEGORIES: tuple[Category, ...] = get_args(Category)
MAX_SIZE = 100_000_000
MAX_DISPLAY_NAME = 100
MAX_DESCRIPTION = 1_000

_SITES = "; to {0} mail or links from domains, make one of kind sender or url with entries such as *.example.com"
_INSTEAD = {
    ("domain", "block"): _SITES.format("block"),
    ("domain", "policy"): _SITES.format("block"),
    ("domain", "allow"): _SITES.format("allow"),
}


class UnfitList(msgspec.Struct, frozen=True):
    """The field that is wrong, by its name in `ListDefinition`, and why."""

    field: str
    reason: str


def define_custom_list(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> ListDefinition | UnfitList:
    """Return what the list is; without a size it is as large as the usual ones of its category."""
    if not is_custom_name(name):
        return UnfitList("name", "must be 1 to 63 lower-case letters, digits and hyphens, and no name of a usual list")
    if kind not in KINDS:
        return UnfitList("kind", f"must be one of {', '.join(KINDS)}")
    stated = next((each for each in CATEGORIES if each == category), None)
    if stated is None:
        return UnfitList("category", f"must be one of {', '.join(CATEGORIES)}")
    if not find_usual_list(kind, stated):
        return UnfitList("category", explain_unused(kind, stated))
    most = size_limit(kind, stated)
    if max_size is not None and not 1 <= max_size <= most:
        return UnfitList("max_size", f"must be 1 to {most:,}")
    if len(display_name) > MAX_DISPLAY_NAME:
        return UnfitList("display_name", f"must have at most {MAX_DISPLAY_NAME} characters")
    if len(description) > MAX_DESCRIPTION:
        return UnfitList("description", f"must have at most {MAX_DESCRIPTION:,} characters")
    size = max_size or min(most, LARGE if stated in ("block", "allow") else SMALL)
    return ListDefinition(name, kind, stated, display_name or name, description, size, custom=True)


def explain_unused(kind: str, category: str) -> str:
    """Return why there is no list of this kind and category: nothing would ever ask it."""
    fitting = " or ".join(list_categories(kind))
    advice = _INSTEAD.get((kind, category), "")
    return f"must be {fitting} for entries of kind {kind}: {category} would do nothing" + advice
