"""Reputation zones (RFC 5782): which of them are asked about a message, what they answered, and which are not believed.

A zone answers with addresses in 127.0.0.0/8; no such name means that the value is not listed. An answer outside of that
network comes from a name server that answers everything, such as one that sells a lapsed domain. Answers in
127.255.255.0/24 are refusals: they say that the query was wrong, or that the operator asks too much or from a public
resolver. Both are faults of the zone, and nothing that it says is believed then.

Questions to zones go out together with the other questions of a step, and are cached like them, so a zone costs no
round trip of its own. A zone that does not answer is muted for a minute, so that it delays few messages; one that
refuses, or that lists what no zone may list, is muted for longer. The ledger of every message names the zones that are
muted: a reader sees what was not asked.
"""

import base64
import hashlib
import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gatepost.guard.answers.dns import NEGATIVE_TTL
from gatepost.guard.answers.lists import ListAnswers
from gatepost.lists.rulings import make_subject
from gatepost.names import is_ip, is_public_address, normal_domain, org_domain
from gatepost.process.logs import Logger
from gatepost.questions import AskReputation, Dns, DnsAnswer, Listing, Lookup, Reputation, ReputationValue
from gatepost.settings.keys import KEY, REFUSALS, ZoneSettings, parse_codes

# Answers that are looked at: a zone has a handful for one value.
MAX_RECORDS = 32
# Names that are no site on the internet (RFC 6761, RFC 6762, RFC 8375), and the example of RFC 2606.
_SPECIAL = frozenset("local localhost internal intranet lan home corp test invalid example onion arpa".split())
_REFUSAL_REASONS = {
    252: "it says that the query is malformed",
    254: "it refuses queries that come over a public resolver",
    255: "it says that there were too many queries",
}
# What RFC 5782 section 5 asks of every zone: the first is listed, the second never is.
TEST_ADDRESSES = ("127.0.0.2", "127.0.0.1")
TEST_DOMAINS = ("test", "invalid")


class ZoneReading(NamedTuple):
    """One answer of a zone that the settings give a meaning to."""

    answer: str
    means: str
    strength: float
    text: str


class ZoneFaultError(ValueError):
    """The answer shows that the zone cannot be believed; the text says why, without the zone's name in DNS."""


class Zone:
    """One zone, from its settings."""

    def __init__(self, settings: ZoneSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.subjects = frozenset(settings.subjects)
        self._suffix = settings.zone.replace(KEY, settings.query_key or "")
        self._codes = [
            (low, high, answer) for answer in settings.answers for low, high in map(parse_codes, answer.codes)
        ]
        self._refusals = [parse_codes(each) for each in settings.refusals]
        self._masks = [(answer.mask, answer) for answer in settings.answers if answer.mask]
        builders = {"ip": _address_label, "domain": self._domain_label, "hash": self._digest_label}
        self._build_label: Callable[[ReputationValue], str | None] = builders[settings.asks]
        # An entry that every zone has, and one that none has (RFC 5782 section 5); zones of hashes have no such rule.
        self.test_names = self._make_test_names()
        # What the labels of values depend on: zones of the same form have the same labels.
        self.form = (settings.asks, settings.level, settings.hash, settings.encoding, self.subjects)

    def list_subjects(self) -> tuple[str, ...]:
        """What workers have to collect for this zone: subjects, those of files with the digest."""
        return tuple(f"file:{self.settings.hash}" if each == "file" else each for each in self.settings.subjects)

    def build_name(self, value: ReputationValue) -> str | None:
        """Return the name to ask DNS for; None where the zone is not to be asked about this value."""
        label = self._build_label(value) if value.subject in self.subjects else None
        return self.name_of(label) if label else None

    def list_labels(self, values: Iterable[ReputationValue]) -> tuple[tuple[str, ReputationValue], ...]:
        """Return what is put before the zone's own name for these values, each label once."""
        found: dict[str, ReputationValue] = {}
        for value in values:
            label = self._build_label(value) if value.subject in self.subjects else None
            if label:
                found.setdefault(label, value)
        return tuple(found.items())

    def name_of(self, label: str) -> str:
        """Return the name to ask DNS for."""
        return f"{label}.{self._suffix}"

    def _make_test_names(self) -> tuple[str, str] | None:
        if self.settings.asks == "hash":
            return None
        if self.settings.asks == "domain":
            listed, unlisted = TEST_DOMAINS
        else:
            listed, unlisted = (".".join(reversed(each.split("."))) for each in TEST_ADDRESSES)
        return self.name_of(listed), self.name_of(unlisted)

    def read(self, records: Iterable[str]) -> tuple[ZoneReading, ...]:
        """Return what these addresses mean by the settings, each meaning once; raises `ZoneFaultError`."""
        found: dict[str, ZoneReading] = {}
        for record in list(records)[:MAX_RECORDS]:
            code = _parse_code(record)
            if any(low <= code <= high for low, high in self._refusals):
                raise ZoneFaultError(f"it refuses to answer ({record})")
            matching = [answer for low, high, answer in self._codes if low <= code <= high]
            matching += [answer for mask, answer in self._masks if code & mask]
            for answer in matching:
                found.setdefault(answer.means, ZoneReading(record, answer.means, answer.strength, answer.text))
        return tuple(found.values())

    def _domain_label(self, value: ReputationValue) -> str | None:
        name = normal_domain(value.value)
        if not name or "." not in name or is_ip(name) or name.rpartition(".")[2] in _SPECIAL:
            return None
        return name if self.settings.level == "host" else org_domain(name)

    def _digest_label(self, value: ReputationValue) -> str | None:
        algorithm = self.settings.hash
        if value.subject == "address":
            digest = hashlib.new(algorithm, value.value.lower().encode(), usedforsecurity=False).digest()
        else:
            given, _, text = value.digest.partition(":") if value.digest else ("sha256", "", value.value)
            if given != algorithm or len(text) != hashlib.new(algorithm, usedforsecurity=False).digest_size * 2:
                return None
            try:
                digest = bytes.fromhex(text)
            except ValueError:
                return None
        if self.settings.encoding == "hex":
            return digest.hex()
        return base64.b32encode(digest).decode().rstrip("=").lower()


def _address_label(value: ReputationValue) -> str | None:
    """An address as zones list it: octets or nibbles, the last one first (RFC 5782 sections 2.1 and 2.4). Addresses
    that are not public are nobody else's business."""
    try:
        address = ipaddress.ip_address(value.value.strip("[]"))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if not is_public_address(address):
        return None
    return address.reverse_pointer.rpartition(".")[0].rpartition(".")[0]


def _parse_code(record: str) -> int:
    try:
        address = ipaddress.IPv4Address(record)
    except ValueError:
        raise ZoneFaultError("it answers with something that is no address") from None
    if address in REFUSALS:
        last = int(address) & 0xFF
        raise ZoneFaultError(_REFUSAL_REASONS.get(last, "it refuses to answer") + f" ({record})")
    if not address.is_loopback:
        raise ZoneFaultError(f"it answers {record}, which is not an answer of a reputation zone")
    return int(address)


MAX_INQUIRIES = 200
MAX_FAILURES = 5
FAILURE_SECONDS = 60.0
FAULT_SECONDS = 600.0
# For so long the cache of DNS would give the same answer.
TEST_SECONDS = NEGATIVE_TTL
_LISTS_EVERYTHING = "it lists a value that no zone may list (RFC 5782 section 5)"
# An entry of one of these means that the operator trusts the value: nobody else is asked about it.
_ALLOWING = frozenset({"allowed-senders", "allowed-ips", "allowed-urls", "allowed-files"})

log = Logger("gatepost.analysis.stages")


class ZoneCounters(msgspec.Struct, frozen=True):
    """What one zone was asked and said since the start; `muted` says whether it is believed now."""

    zone: str
    asked: int
    listed: int
    failed: int
    muted: bool


class Inquiry(NamedTuple):
    """One question to one zone; without a value, it is the entry that the zone must not have."""

    zone: "WatchedZone"
    value: ReputationValue | None
    question: Dns


class WatchedZone:
    """A zone, and whether it is believed: failures in a row, and until when it is muted for what reason."""

    def __init__(self, zone: Zone, clock: Callable[[], float]) -> None:
        self.zone, self._clock = zone, clock
        self._failures = 0
        self._until, self._reason = 0.0, ""
        self._tested_until = 0.0
        self._asked = self._listed = self._failed = 0

    @property
    def mute_reason(self) -> str:
        """Why the zone is muted; "" if it is not."""
        return self._reason if self._until > self._clock() else ""

    def counters(self) -> ZoneCounters:
        return ZoneCounters(self.zone.name, self._asked, self._listed, self._failed, bool(self.mute_reason))

    def inquire(self, labels: Sequence[tuple[str, ReputationValue]]) -> list[Inquiry]:
        """Return the questions about values with these labels, within the limit of the zone. Whether it lists what no
        zone may list is asked again when the last answer to that has run out."""
        name_of = self.zone.name_of
        asked = [Inquiry(self, value, Dns(name_of(label), "A")) for label, value in labels[: self.zone.settings.limit]]
        test = self.zone.test_names
        if asked and test and self._tested_until <= self._clock():
            asked.append(Inquiry(self, None, Dns(test[1], "A")))
        self._asked += len(asked)
        return asked

    def conclude(self, inquiries: Iterable[Inquiry], answers: Mapping[Dns, DnsAnswer]) -> list[Listing]:
        """Return what the zone lists; nothing if its answers show that it cannot be believed."""
        found: list[Listing] = []
        failed = answered = 0
        for _, value, question in inquiries:
            answer = answers.get(question)
            if answer is None or answer.status == "failed":
                failed += 1
                continue
            answered += 1
            if answer.status != "found":
                if value is None:
                    self._tested_until = self._clock() + TEST_SECONDS
                continue
            try:
                readings = self.zone.read(answer.records)
            except ZoneFaultError as fault:
                self._mute(str(fault), FAULT_SECONDS)
                return []
            if value is None:
                self._mute(_LISTS_EVERYTHING, FAULT_SECONDS)
                return []
            found += [Listing(value.subject, value.value, self.zone.name, *reading) for reading in readings]
        self._count_failures(failed, answered)
        self._listed += len(found)
        return found

    def _count_failures(self, failed: int, answered: int) -> None:
        self._failed += failed
        self._failures = 0 if answered else self._failures + bool(failed)
        if self._failures >= MAX_FAILURES:
            self._failures = 0
            self._mute("it does not answer", FAILURE_SECONDS)

    def _mute(self, reason: str, seconds: float) -> None:
        self._until, self._reason = self._clock() + seconds, reason
        log.warning("reputation zone is muted", zone=self.zone.name, reason=reason, seconds=seconds)


class ReputationZones:
    """All zones of a core."""

    def __init__(
        self, zones: Sequence[ZoneSettings], lists: ListAnswers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._zones = [WatchedZone(Zone(settings), clock) for settings in zones]
        self._lists = lists

    def list_subjects(self) -> tuple[str, ...]:
        """What workers have to collect from a message, sorted; nothing if there is no zone."""
        return tuple(sorted({each for watched in self._zones for each in watched.zone.list_subjects()}))

    def counters(self) -> tuple[ZoneCounters, ...]:
        """Counts of each zone since the start, for metrics."""
        return tuple(zone.counters() for zone in self._zones)

    async def inquire(self, tenant: str | None, question: AskReputation) -> tuple[Inquiry, ...]:
        """Return the questions to DNS that follow from an analysis's question. Without keys that lists may have, these
        are those of `inquire_about`, which takes no waiting."""
        return self.inquire_about(await self._leave_out_allowed(tenant, question))

    def inquire_about(self, values: Sequence[ReputationValue]) -> tuple[Inquiry, ...]:
        """Return the questions to DNS about these values."""
        # Most zones ask about the same names: what stands before the zone's own is worked out once.
        labels: dict[tuple[object, ...], tuple[tuple[str, ReputationValue], ...]] = {}
        asked: list[Inquiry] = []
        for watched in self._zones:
            if not watched.mute_reason:
                form = watched.zone.form
                if form not in labels:
                    labels[form] = watched.zone.list_labels(values)
                asked += watched.inquire(labels[form])
        return tuple(asked[:MAX_INQUIRIES])

    def conclude(self, inquiries: Sequence[Inquiry], answers: Mapping[Dns, DnsAnswer]) -> Reputation:
        by_zone: dict[WatchedZone, list[Inquiry]] = {}
        for inquiry in inquiries:
            by_zone.setdefault(inquiry.zone, []).append(inquiry)
        listings = [listing for zone, asked in by_zone.items() for listing in zone.conclude(asked, answers)]
        silent = tuple((zone.zone.name, reason) for zone in self._zones if (reason := zone.mute_reason))
        return Reputation(tuple(listings), silent)

    async def _leave_out_allowed(self, tenant: str | None, question: AskReputation) -> Sequence[ReputationValue]:
        """Leave out what the operator or the tenant allows. Where the lists cannot be read, all values are asked
        about: the analysis ends as undecided for that reason anyway."""
        if not question.keys:
            return question.values
        answer = await self._lists.answer(tenant, Lookup(question.keys))
        allowed = {hit.key for hit in answer.hits if hit.list in _ALLOWING}
        if not allowed:
            return question.values
        return [value for value in question.values if allowed.isdisjoint(make_subject(value).keys)]
