"""Every list that a scope has from the start, what each of them does, and what lists of an operator's own may be.

A `ListDefinition` says all that there is to know of a list: which kind of entries it has, which values of a message
they are matched against, what a match does, and how it is looked up. Storage, look-ups and rulings read it there; so a
new list is one more table in `catalogue.toml`, and one more `EntryKind` where its entries match in a new way.

A custom list has a kind of entry and a category, and does what the usual list of the same kind and category does.
"""

import re
from importlib.resources import files
from typing import Literal, get_args

import msgspec

from gatepost.lists.addresses import DOMAIN, NAME, PERSON, RECIPIENT, SENDER
from gatepost.lists.entries import (
    DIGEST,
    FILE_NAME,
    FILETYPE,
    MAX_ENTRY,
    NETWORK,
    PHRASE,
    Category,
    EntryKind,
    ListRefusal,
    NormalForm,
    Role,
    limit_key,
)
from gatepost.lists.links import URL
from gatepost.process.kept_results import read_toml

LARGE = 10_000_000
SMALL = 100_000
# Lists that are handed out whole travel to every worker: what those of one scope may have together, in bytes of text,
# with so many bytes for each entry on top. A full list of 100,000 entries of 50 letters fits.
MAX_UNKEYED_BYTES = 8 << 20
UNKEYED_ENTRY_BYTES = 32
# How many custom lists one scope may have: each is one more name that every message of the scope is compared with.
MAX_CUSTOM_LISTS = 100

KINDS: dict[str, EntryKind] = {
    kind.name: kind
    for kind in (SENDER, NETWORK, URL, DIGEST, FILETYPE, FILE_NAME, PHRASE, DOMAIN, PERSON, NAME, RECIPIENT)
}

_CUSTOM_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")

# What a match does. `block`: the verdict is at least `policy`. `lift`: spam, bulk, suspicion and encryption do not hold
# the message. `clear` and `clear-attacks`: findings on the link or file itself do not count, but for conclusive ones of
# an attack, or with those. `skip-relay`: the host is passed over in the search for the sending host.
# `take-recipient`: SMTP takes mail for the address, where `recipientVerification` asks the list; no message does. The
# others say whom nobody may imitate. "": nothing asks such a list.
Effect = Literal[
    "block",
    "lift",
    "clear",
    "clear-attacks",
    "skip-relay",
    "take-recipient",
    "protect-own-domain",
    "protect-partner-domain",
    "protect-person",
    "protect-name",
    "",
]
# What is not kept of a message: entries that are matched against it can be counted in no stored message.
_NOT_STORED: frozenset[Role] = frozenset({"text"})


class ListDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a list is and does.

    `subjects` are the roles of the values that entries are matched against; lists that trust or protect have none,
    since checks read them. A list that is `keyed` is looked up in storage by exact keys, and others are handed to the
    workers whole. `pair` is the allow list that a block list is settled with: in one scope the block wins, and with
    `tenant_allow_wins` the tenant's allow beats a global block. An allow list with `needs_proof` counts only if the
    sender is authenticated or its host is allowed. `is_model` says that custom lists of its kind and category do what
    it does; matches of those are settled with those of their model.
    """

    name: str
    kind: str
    category: Category
    display_name: str
    description: str
    max_size: int = SMALL
    effect: Effect = ""
    subjects: tuple[Role, ...] = ()
    keyed: bool = True
    pair: str = ""
    tenant_allow_wins: bool = False
    needs_proof: bool = False
    is_model: bool = True
    custom: bool = False

    @property
    def counts_as(self) -> str:
        """The usual list that it does the work of: itself, or that of its kind and category; "" for none."""
        return find_usual_list(self.kind, self.category) if self.custom else self.name

    @property
    def is_looked_up(self) -> bool:
        """Whether storage is asked for its entries, by each message or by each recipient."""
        return self.keyed and (bool(self.subjects) or self.effect == "take-recipient")

    @property
    def is_countable(self) -> bool:
        """Whether stored messages can tell what its entries would match."""
        return bool(self.subjects) and _NOT_STORED.isdisjoint(self.subjects)

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


_TABLE = read_toml(files("gatepost.lists").joinpath("catalogue.toml"), __file__)["lists"]
LISTS: tuple[ListDefinition, ...] = msgspec.convert(_TABLE, tuple[ListDefinition, ...])

BY_NAME: dict[str, ListDefinition] = {definition.name: definition for definition in LISTS}
# The kind of entry that can cover a value of this role.
KIND_OF_ROLE: dict[Role, EntryKind] = {role: KINDS[each.kind] for each in LISTS for role in each.subjects}

_MODELS: dict[tuple[str, str], ListDefinition] = {
    (definition.kind, definition.category): definition for definition in LISTS if definition.is_model
}
# To block and to have a policy against is the same.
_ALIKE = {"block": "policy", "policy": "block"}


def _find_model(kind: str, category: str) -> ListDefinition | None:
    return _MODELS.get((kind, category)) or _MODELS.get((kind, _ALIKE.get(category, "")))


def find_usual_list(kind: str, category: str) -> str:
    """Return the usual list whose rules hold for a custom one; "" where there is none, so that it would do nothing."""
    model = _find_model(kind, category)
    return model.name if model else ""


def list_categories(kind: str) -> tuple[Category, ...]:
    """Return the categories that a custom list of this kind can have."""
    return tuple(category for category in CATEGORIES if _find_model(kind, category))


CATEGORIES: tuple[Category, ...] = get_args(Category)
# Kind and category of the lists that are handed to workers whole.
UNKEYED: tuple[tuple[str, Category], ...] = tuple(
    (kind, category)
    for kind in KINDS
    for category in CATEGORIES
    if (model := _find_model(kind, category)) and not model.keyed
)


def is_custom_name(name: str) -> bool:
    """Return whether a list of the operator's own may be called so."""
    return bool(_CUSTOM_NAME.match(name)) and name not in BY_NAME


MAX_SIZE = 100_000_000
MAX_DISPLAY_NAME = 100
MAX_DESCRIPTION = 1_000

_SITES = "; to {0} mail or links from domains, make one of kind sender or url with entries such as *.example.com"
_INSTEAD = {
    ("domain", "block"): _SITES.format("block"),
    ("domain", "policy"): _SITES.format("block"),
    ("domain", "allow"): _SITES.format("allow"),
}


def define_custom_list(
    name: str, kind: str, category: str, display_name: str, description: str, max_size: int | None
) -> ListDefinition | ListRefusal:
    """Return the list, or which field is wrong and why; without a size it is as large as others of its category."""
    if not is_custom_name(name):
        return ListRefusal(
            "must be 1 to 63 lower-case letters, digits and hyphens, and no name of a usual list", "name"
        )
    if kind not in KINDS:
        return ListRefusal(f"must be one of {', '.join(KINDS)}", "kind")
    stated = next((each for each in CATEGORIES if each == category), None)
    if stated is None:
        return ListRefusal(f"must be one of {', '.join(CATEGORIES)}", "category")
    model = _find_model(kind, stated)
    if model is None:
        return ListRefusal(explain_unused(kind, stated), "category")
    most = _limit_size(model)
    if max_size is not None and not 1 <= max_size <= most:
        return ListRefusal(f"must be 1 to {most:,}", "max_size")
    if len(display_name) > MAX_DISPLAY_NAME:
        return ListRefusal(f"must have at most {MAX_DISPLAY_NAME} characters", "display_name")
    if len(description) > MAX_DESCRIPTION:
        return ListRefusal(f"must have at most {MAX_DESCRIPTION:,} characters", "description")
    size = max_size or min(most, LARGE if stated in ("block", "allow") else SMALL)
    return make_custom_list(name, kind, stated, display_name or name, description, size)


def make_custom_list(
    name: str, kind: str, category: Category, display_name: str, description: str, max_size: int
) -> ListDefinition:
    """Return a custom list, which does what its model does and is no longer than its way to the workers allows. One
    without a model, which an older version may have stored, does nothing."""
    model = _find_model(kind, category) or ListDefinition(
        name=name, kind=kind, category=category, display_name="", description="", max_size=max_size
    )
    return msgspec.structs.replace(
        model,
        name=name,
        category=category,
        display_name=display_name,
        description=description,
        max_size=min(max_size, _limit_size(model)),
        custom=True,
    )


def _limit_size(model: ListDefinition) -> int:
    """Return how many entries a custom list may have at most that does what this one does."""
    return MAX_SIZE if model.keyed else min(SMALL, model.max_size)


def explain_unused(kind: str, category: str) -> str:
    """Return why there is no list of this kind and category: nothing would ever ask it."""
    fitting = " or ".join(list_categories(kind))
    advice = _INSTEAD.get((kind, category), "")
    return f"must be {fitting} for entries of kind {kind}: {category} would do nothing" + advice
