"""Lists that no exact key finds: phrases, protected domains and people, trusted relays.

They are small, so they travel whole: guard sends a worker the snapshot of a tenant when its version changes, and the
worker compiles it once.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

import msgspec

from gatepost.lists.entries import fold_phrase, list_network_keys
from gatepost.names import Address
from gatepost.questions import Hit, Scope

_WORD = re.compile(r"\w+")


class UnkeyedEntry(msgspec.Struct, frozen=True):
    """An entry of an unkeyed list, with all that a ledger says about it."""

    list: str
    scope: Scope
    key: str
    shown: str
    comment: str = ""
    expires: int | None = None


class UnkeyedLists(msgspec.Struct, frozen=True):
    """The lists that no exact key finds, of both scopes, as one snapshot. Equal versions have equal content.

    Custom lists are among those of their kind: phrases; people; networks of category `trust` with the relays; domains
    of category `protect` with the partners. `custom` has the usual list that every custom one counts for. `keyed` are
    the kinds of which some keyed list has entries: no others need to be looked up.
    """

    version: str = ""
    phrases: tuple[UnkeyedEntry, ...] = ()
    own_domains: tuple[UnkeyedEntry, ...] = ()
    partner_domains: tuple[UnkeyedEntry, ...] = ()
    people: tuple[UnkeyedEntry, ...] = ()
    trusted_relays: tuple[UnkeyedEntry, ...] = ()
    custom: dict[str, str] = {}
    keyed: tuple[str, ...] = ()

    @property
    def until(self) -> int | None:
        """When the first of its entries expires, in Unix milliseconds: it holds until then."""
        rows = (self.phrases, self.own_domains, self.partner_domains, self.people, self.trusted_relays)
        return min((entry.expires for entries in rows for entry in entries if entry.expires is not None), default=None)


NO_ENTRIES = UnkeyedLists()


class NetworkSet:
    """A set of networks: `address in networks` takes one look per length of prefix, however many there are."""

    def __init__(self, entries: Iterable[UnkeyedEntry]) -> None:
        self._keys = frozenset(entry.key for entry in entries)

    def __contains__(self, address: object) -> bool:
        if not self._keys or not isinstance(address, IPv4Address | IPv6Address):
            return False
        return not self._keys.isdisjoint(list_network_keys(str(address)))


class PhraseFinder:
    """Finds whole phrases in text. They are kept by their first word, so a text is read once, word by word.

    A phrase is compared as it is shown, which is its whole normal form.
    """

    def __init__(self, entries: Iterable[UnkeyedEntry]) -> None:
        self._by_word: dict[str, list[UnkeyedEntry]] = {}
        for entry in entries:
            first = _WORD.search(entry.shown)
            if first:
                self._by_word.setdefault(first.group(), []).append(entry)

    def within(self, text: str) -> tuple[UnkeyedEntry, ...]:
        """Return the entries that the text contains, each once."""
        if not self._by_word:
            return ()
        text = fold_phrase(text)
        found: dict[UnkeyedEntry, None] = {}
        for word in _WORD.finditer(text):
            for entry in self._by_word.get(word.group(), ()):
                if _is_whole_phrase(entry.shown, text, word.start()):
                    found[entry] = None
        return tuple(found)


def _is_whole_phrase(phrase: str, text: str, place: int) -> bool:
    """Return whether the phrase, whose first word starts at `place`, is there and ends with a word."""
    first = _WORD.search(phrase)
    start = place - (first.start() if first else 0)
    end = start + len(phrase)
    if start < 0 or not text.startswith(phrase, start):
        return False
    return not (phrase[-1].isalnum() and text[end : end + 1].isalnum())


class CompiledLists:
    """A snapshot of the unkeyed lists, compiled for use in a worker."""

    def __init__(self, source: UnkeyedLists) -> None:
        self.source = source
        self.phrases = PhraseFinder(source.phrases)
        self.relays = NetworkSet(source.trusted_relays)
        self.own_domains = frozenset(entry.key for entry in source.own_domains)
        self.partner_domains = frozenset(entry.key for entry in source.partner_domains)
        self.people = tuple(_parse_person(entry.shown) for entry in source.people)


def compile_lists(data: bytes) -> CompiledLists:
    """Decode and compile a snapshot."""
    return CompiledLists(msgspec.msgpack.decode(data, type=UnkeyedLists))


def make_hit(entry: UnkeyedEntry) -> Hit:
    """Return an entry of an unkeyed list that a message hit, as any other hit."""
    return Hit(entry.list, entry.scope, entry.key, entry.comment)


def _parse_person(shown: str) -> Address:
    name, _, address = shown.rpartition(" <")
    local, _, domain = address.removesuffix(">").rpartition("@")
    return Address(name, local, domain)


NO_LISTS = CompiledLists(NO_ENTRIES)
