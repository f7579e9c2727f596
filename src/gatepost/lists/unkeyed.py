"""Lists that no exact key finds: phrases, protected domains and people, trusted relays.

They are small, so they travel whole: guard sends a worker the snapshot of a tenant when its version changes, and the
worker compiles it once.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

import msgspec

from gatepost.lists.entries import fold_phrase, network_keys
from gatepost.names import Address
from gatepost.questions import Hit, Scope

_WORD = re.compile(r"\w+")


class Listed(msgspec.Struct, frozen=True):
    """An entry of an unkeyed list, with all that a ledger says about it."""

    list: str
    scope: Scope
    key: str
    shown: str
    comment: str = ""
    expires: int | None = None


class Unkeyed(msgspec.Struct, frozen=True):
    """The lists that no exact key finds, of both scopes, as one snapshot. Equal versions have equal content.

    Custom lists are among those of their kind: phrases; people; networks of category `trust` with the relays; domains
    of category `protect` with the partners. `custom` has the usual list that every custom one counts for. `keyed` are
    the kinds of which some keyed list has entries: no others need to be looked up.
    """

    version: str = ""
    phrases: tuple[Listed, ...] = ()
    own_domains: tuple[Listed, ...] = ()
    partner_domains: tuple[Listed, ...] = ()
    people: tuple[Listed, ...] = ()
    trusted_relays: tuple[Listed, ...] = ()
    custom: dict[str, str] = {}
    keyed: tuple[str, ...] = ()

    @property
    def until(self) -> int | None:
        """When the first of its entries expires, in Unix milliseconds: it holds until then."""
        rows = (self.phrases, self.own_domains, self.partner_domains, self.people, self.trusted_relays)
        return min((entry.expires for entries in rows for entry in entries if entry.expires is not None), default=None)


NONE = Unkeyed()


class Networks:
    """A set of networks: `address in networks` takes one look per length of prefix, however many there are."""

    def __init__(self, entries: Iterable[Listed]) -> None:
        self._keys = frozenset(entry.key for entry in entries)

    def __contains__(self, address: object) -> bool:
        if not self._keys or not isinstance(address, IPv4Address | IPv6Address):
            return False
        return not self._keys.isdisjoint(network_keys(str(address)))


class Phrases:
    """Finds whole phrases in text. They are kept by their first word, so a text is read once, word by word.

    A phrase is compared as it is shown, which is its whole normal form.
    """

    def __init__(self, entries: Iterable[Listed]) -> None:
        self._by_word: dict[str, list[Listed]] = {}
        for entry in entries:
            first = _WORD.search(entry.shown)
            if first:
                self._by_word.setdefault(first.group(), []).append(entry)

    def within(self, text: str) -> tuple[Listed, ...]:
        """The entries that the text contains, each once."""
        if not self._by_word:
            return ()
        text = fold_phrase(text)
        found: dict[Listed, None] = {}
        for word in _WORD.finditer(text):
            for entry in self._by_word.get(word.group(), ()):
                if _stands(entry.shown, text, word.start()):
                    found[entry] = None
        return tuple(found)


def _stands(phrase: str, text: str, place: int) -> bool:
    """Whether the phrase, whose first word starts at `place`, is there and ends with a word."""
    first = _WORD.search(phrase)
    start = place - (first.start() if first else 0)
    end = start + len(phrase)
    if start < 0 or not text.startswith(phrase, start):
        return False
    return not (phrase[-1].isalnum() and text[end : end + 1].isalnum())


class Compiled:
    """A snapshot, ready for use."""

    def __init__(self, source: Unkeyed) -> None:
        self.source = source
        self.phrases = Phrases(source.phrases)
        self.relays = Networks(source.trusted_relays)
        self.own_domains = frozenset(entry.key for entry in source.own_domains)
        self.partner_domains = frozenset(entry.key for entry in source.partner_domains)
        self.people = tuple(_person(entry.shown) for entry in source.people)


def compile_lists(data: bytes) -> Compiled:
    """The snapshot that these bytes are."""
    return Compiled(msgspec.msgpack.decode(data, type=Unkeyed))


def hit_of(entry: Listed) -> Hit:
    """An entry of an unkeyed list that a message hit, as any other hit."""
    return Hit(entry.list, entry.scope, entry.key, entry.comment)


def _person(shown: str) -> Address:
    name, _, address = shown.rpartition(" <")
    local, _, domain = address.removesuffix(">").rpartition("@")
    return Address(name, local, domain)


NO_LISTS = Compiled(NONE)
