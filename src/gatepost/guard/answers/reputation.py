"""What reputation zones say of a message: which of them are asked, what they answered, and which are not believed.

Questions to zones go out together with the other questions of a step, and are cached like them, so a zone costs no
round trip of its own. A zone that does not answer is muted for a minute, so that it delays few messages; one that
refuses, or that lists what no zone may list, is muted for longer. The ledger of every message names the zones that are
muted: a reader sees what was not asked.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import structlog

from gatepost.guard.answers.dns import NEGATIVE_TTL
from gatepost.guard.answers.lists import AnswersLookups
from gatepost.guard.answers.zones import Zone, ZoneFaultError
from gatepost.lists.rulings import make_subject
from gatepost.questions import (
    AskReputation,
    Dns,
    DnsAnswer,
    Listing,
    Lookup,
    Reputation,
    ReputationValue,
)
from gatepost.settings.reputation import ZoneSettings

MAX_INQUIRIES = 200
MAX_FAILURES = 5
FAILURE_SECONDS = 60.0
FAULT_SECONDS = 600.0
# For so long the cache of DNS would give the same answer.
TEST_SECONDS = NEGATIVE_TTL
_LISTS_EVERYTHING = "it lists a value that no zone may list (RFC 5782 section 5)"
# An entry of one of these means that the operator trusts the value: nobody else is asked about it.
_ALLOWING = frozenset({"allowed-senders", "allowed-ips", "allowed-urls", "allowed-files"})

log = structlog.get_logger("gatepost.reputation")


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
        test = self.zone.list_test_names()
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
        self,
        zones: Sequence[ZoneSettings],
        lists: AnswersLookups,
        clock: Callable[[], float] = time.monotonic,
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
        """Return the questions to DNS that follow from an analysis's question."""
        values = await self._leave_out_allowed(tenant, question)
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
        """Return what the zones say."""
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
