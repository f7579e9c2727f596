"""Lists that no exact key finds: phrases, protected domains and people, trusted relays.

They are small, so they travel whole: guard sends a worker the snapshot of a tenant when its version changes, and the
worker compiles it once. What those of one scope may have together is bounded in bytes (`catalogue.MAX_UNKEYED_BYTES`).
Comments do not travel: guard adds them to the report of a message that hit an entry.
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
    """An entry of an unkeyed list."""

    list: str
    scope: Scope
    key: str
    shown: str
    expires: int | None = None


class UnkeyedLists(msgspec.Struct, frozen=True):
    """The lists that no exact key finds, of both scopes, as one snapshot. Equal versions have equal content.

    Custom lists are among those of their kind: phrases; people; networks of category `trust` with the relays; domains
    of category `protect` with the partners. `custom` has the usual list that every custom one counts for, by its
    `scoped_name`. `keyed` are
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


_ENTRY_FIELDS = ("phrases", "own_domains", "partner_domains", "people", "trusted_relays")


class _PackedList(msgspec.Struct, frozen=True, array_like=True):
    """The entries of one list: keys, and beside those that are shown otherwise what is shown, else ""."""

    field: str
    name: str
    scope: Scope
    keys: list[str]
    shown: list[str]


class _PackedSnapshot(msgspec.Struct, frozen=True, array_like=True):
    version: str
    lists: list[_PackedList]
    custom: dict[str, str]
    keyed: tuple[str, ...]


def pack_lists(source: UnkeyedLists) -> bytes:
    """Encode a snapshot for workers: each list is named once, and nothing is in it that a worker does not need."""
    lists: dict[tuple[str, str, Scope], _PackedList] = {}
    for field in _ENTRY_FIELDS:
        entries: tuple[UnkeyedEntry, ...] = getattr(source, field)
        for entry in entries:
            name = (field, entry.list, entry.scope)
            packed = lists.get(name)
            if packed is None:
                packed = lists[name] = _PackedList(*name, [], [])
            packed.keys.append(entry.key)
            packed.shown.append("" if entry.shown == entry.key else entry.shown)
    return msgspec.msgpack.encode(_PackedSnapshot(source.version, list(lists.values()), source.custom, source.keyed))


def _unpack_lists(data: bytes | memoryview) -> UnkeyedLists:
    packed = msgspec.msgpack.decode(data, type=_PackedSnapshot)
    fields: dict[str, list[UnkeyedEntry]] = {field: [] for field in _ENTRY_FIELDS}
    for each in packed.lists:
        fields[each.field] += [
            UnkeyedEntry(each.name, each.scope, key, shown or key)
            for key, shown in zip(each.keys, each.shown, strict=True)
        ]
    entries = {field: tuple(found) for field, found in fields.items()}
    return msgspec.structs.replace(UnkeyedLists(packed.version, custom=packed.custom, keyed=packed.keyed), **entries)


def compile_lists(data: bytes | memoryview) -> CompiledLists:
    """Decode and compile a snapshot."""
    return CompiledLists(_unpack_lists(data))


def make_hit(entry: UnkeyedEntry) -> Hit:
    """Return an entry of an unkeyed list that a message hit, as any other hit."""
    return Hit(entry.list, entry.scope, entry.key)


def _parse_person(shown: str) -> Address:
    name, _, address = shown.rpartition(" <")
    local, _, domain = address.removesuffix(">").rpartition("@")
    return Address(name, local, domain)


NO_LISTS = CompiledLists(NO_ENTRIES)
