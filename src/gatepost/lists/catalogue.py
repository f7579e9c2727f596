"""Every list that a scope has from the start. What a hit does is decided where messages are judged, not here."""

import re

import msgspec

from gatepost.lists.digest import DIGEST
from gatepost.lists.domain import DOMAIN
from gatepost.lists.entry import MAX_ENTRY, Category, EntryKind, Normal, Refused
from gatepost.lists.filetype import FILETYPE
from gatepost.lists.network import NETWORK
from gatepost.lists.person import PERSON
from gatepost.lists.phrase import PHRASE
from gatepost.lists.sender import SENDER
from gatepost.lists.url import URL

LARGE = 10_000_000
SMALL = 100_000
# What an index of PostgreSQL takes; entries of up to 650 characters are never longer.
MAX_KEY_BYTES = 2_600

KINDS: dict[str, EntryKind] = {
    kind.name: kind for kind in (SENDER, NETWORK, URL, DIGEST, FILETYPE, PHRASE, DOMAIN, PERSON)
}

_CUSTOM_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")


class Definition(msgspec.Struct, frozen=True):
    """What a list is: which kind of entries, what for, and how many it may hold in one scope."""

    name: str
    kind: str
    category: Category
    display_name: str
    description: str
    max_size: int
    custom: bool = False

    def normalise(self, text: str) -> Normal | Refused:
        """An entry of this list in its normal form, or why it is none."""
        if len(text) > MAX_ENTRY:
            return Refused(f"is longer than {MAX_ENTRY:,} characters")
        kind = KINDS[self.kind]
        normal = kind.normalise(text)
        if isinstance(normal, Refused):
            return normal
        if len(normal.key) * 4 > MAX_KEY_BYTES and len(normal.key.encode("utf-8", "replace")) > MAX_KEY_BYTES:
            return Refused(f"is longer than {MAX_KEY_BYTES:,} bytes in its normal form")
        reason = kind.refuse(normal.key, self.category)
        return Refused(reason) if reason else normal

    def key(self, text: str) -> str:
        """How an entry to delete is compared: by its normal form if it has one, else as it stands."""
        normal = KINDS[self.kind].normalise(text[: MAX_ENTRY + 1])
        return text if isinstance(normal, Refused) else normal.key


def _list(name: str, kind: EntryKind, category: Category, shown: str, description: str) -> Definition:
    size = LARGE if category in ("block", "allow") else SMALL
    return Definition(name, kind.name, category, shown, description, size)


LISTS: tuple[Definition, ...] = (
    _list(
        "blocked-senders",
        SENDER,
        "block",
        "Blocked senders",
        "Mail from these senders gets at least the verdict policy",
    ),
    _list(
        "allowed-senders",
        SENDER,
        "allow",
        "Allowed senders",
        "Authenticated mail from these is not held as spam or suspicious",
    ),
    _list(
        "blocked-ips", NETWORK, "block", "Blocked networks", "Mail from these hosts gets at least the verdict policy"
    ),
    _list(
        "allowed-ips", NETWORK, "allow", "Allowed networks", "Mail from these hosts is not held as spam or suspicious"
    ),
    _list("blocked-urls", URL, "block", "Blocked links", "A link to one of these gives at least the verdict policy"),
    _list("allowed-urls", URL, "allow", "Allowed links", "What is found on a link to one of these does not count"),
    _list(
        "blocked-files",
        DIGEST,
        "block",
        "Blocked files",
        "A file with one of these hashes gives at least the verdict policy",
    ),
    _list(
        "allowed-files",
        DIGEST,
        "allow",
        "Allowed files",
        "What is found on exactly these files does not count, malware included",
    ),
    _list(
        "blocked-file-types",
        FILETYPE,
        "policy",
        "Blocked file types",
        "A file of one of these types gives at least the verdict policy",
    ),
    _list(
        "blocked-phrases",
        PHRASE,
        "policy",
        "Blocked phrases",
        "These words in text or subject give at least the verdict policy",
    ),
    _list(
        "trusted-relays", NETWORK, "trust", "Trusted relays", "Skipped when looking for the host that sent a message"
    ),
    _list("own-domains", DOMAIN, "protect", "Own domains", "Domains that outsiders may not imitate or forge"),
    _list("partner-domains", DOMAIN, "protect", "Partner domains", "Domains of partners, which nobody may imitate"),
    _list("protected-people", PERSON, "protect", "Protected people", "People whose names outsiders may not bear"),
)

BY_NAME: dict[str, Definition] = {definition.name: definition for definition in LISTS}


def is_custom_name(name: str) -> bool:
    """Whether a list of the operator's own may be called so."""
    return bool(_CUSTOM_NAME.match(name)) and name not in BY_NAME
