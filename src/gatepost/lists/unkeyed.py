"""Lists that no exact key finds: phrases, protected domains, people and names, trusted relays.

They are small, so they travel whole: guard sends a worker the snapshot of a tenant when its version changes, and the
worker compiles it once. What those of one scope may have together is bounded in bytes (`catalogue.MAX_UNKEYED_BYTES`).
Comments do not travel: guard adds them to the report of a message that hit an entry.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

import msgspec

from gatepost.lists.addresses import parse_name
from gatepost.lists.catalogue import BY_NAME, KINDS, Effect, ListDefinition
from gatepost.lists.entries import UnkeyedEntry, list_network_keys
from gatepost.names import Address
from gatepost.questions import Hit, Scope


class UnkeyedLists(msgspec.Struct, frozen=True):
    """The lists that no exact key finds, of both scopes, as one snapshot. Equal versions have equal content.

    `entries` has them by the usual list that they count for, those of custom lists included. `custom` has the usual
    list that every custom one counts for, by its `scoped_name`. `keyed` are the kinds of which some keyed list has
    entries: no others need to be looked up.
    """

    version: str = ""
    entries: dict[str, tuple[UnkeyedEntry, ...]] = {}
    custom: dict[str, str] = {}
    keyed: tuple[str, ...] = ()

    @property
    def until(self) -> int | None:
        """When the first of its entries expires, in Unix milliseconds: it holds until then."""
        ends = (entry.expires for several in self.entries.values() for entry in several)
        return min((end for end in ends if end is not None), default=None)


NO_ENTRIES = UnkeyedLists()


class NetworkSet:
    """A set of networks: `address in networks` takes one look per length of prefix, however many there are."""

    def __init__(self, entries: Iterable[UnkeyedEntry]) -> None:
        self._keys = frozenset(entry.key for entry in entries)

    def __contains__(self, address: object) -> bool:
        if not self._keys or not isinstance(address, IPv4Address | IPv6Address):
            return False
        return not self._keys.isdisjoint(list_network_keys(str(address)))


class CompiledLists:
    """A snapshot of the unkeyed lists, compiled for use in a worker. `finders` are the lists that are matched against
    texts of a message, with what finds their entries there; checks read the others."""

    def __init__(self, source: UnkeyedLists) -> None:
        self.source = source
        self.finders = tuple(
            (definition, make_finder(entries))
            for definition, entries in self._lists()
            if definition.subjects and (make_finder := KINDS[definition.kind].make_finder)
        )
        self.relays = NetworkSet(self._with_effect("skip-relay"))
        self.own_domains = frozenset(entry.key for entry in self._with_effect("protect-own-domain"))
        self.partner_domains = frozenset(entry.key for entry in self._with_effect("protect-partner-domain"))
        self.people = tuple(_parse_person(entry.shown) for entry in self._with_effect("protect-person"))
        self.names = frozenset(parse_name(entry.shown) for entry in self._with_effect("protect-name"))

    def _lists(self) -> Iterable[tuple[ListDefinition, tuple[UnkeyedEntry, ...]]]:
        return ((BY_NAME[name], entries) for name, entries in self.source.entries.items())

    def _with_effect(self, effect: Effect) -> Iterable[UnkeyedEntry]:
        return (entry for definition, entries in self._lists() if definition.effect == effect for entry in entries)


class _PackedList(msgspec.Struct, frozen=True, array_like=True):
    """The entries of one list, with the usual list that they count for: keys, and what is shown instead of one."""

    counts_as: str
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
    for counts_as, entries in source.entries.items():
        for entry in entries:
            name = (counts_as, entry.list, entry.scope)
            packed = lists.get(name)
            if packed is None:
                packed = lists[name] = _PackedList(*name, [], [])
            packed.keys.append(entry.key)
            packed.shown.append("" if entry.shown == entry.key else entry.shown)
    return msgspec.msgpack.encode(_PackedSnapshot(source.version, list(lists.values()), source.custom, source.keyed))


def compile_lists(data: bytes | memoryview) -> CompiledLists:
    """Decode and compile a snapshot."""
    packed = msgspec.msgpack.decode(data, type=_PackedSnapshot)
    found: dict[str, list[UnkeyedEntry]] = {}
    for each in packed.lists:
        found.setdefault(each.counts_as, []).extend(
            UnkeyedEntry(each.name, each.scope, key, shown or key)
            for key, shown in zip(each.keys, each.shown, strict=True)
        )
    entries = {counts_as: tuple(several) for counts_as, several in found.items()}
    return CompiledLists(UnkeyedLists(packed.version, entries, packed.custom, packed.keyed))


def make_hit(entry: UnkeyedEntry) -> Hit:
    """Return an entry of an unkeyed list that a message hit, as any other hit."""
    return Hit(entry.list, entry.scope, entry.key)


def _parse_person(shown: str) -> Address:
    name, _, address = shown.rpartition(" <")
    local, _, domain = address.removesuffix(">").rpartition("@")
    return Address(name, local, domain)


NO_LISTS = CompiledLists(NO_ENTRIES)
