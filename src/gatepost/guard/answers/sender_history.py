"""Which senders and sites each tenant knows, as guard tells it to analyses and learns it from their results.

What was known before today is the same until tomorrow. So an answer holds for the whole day, and a sender who is known,
or was new once today, costs no statement. What is seen is added up in memory and written once a second, in one
transaction; a kill loses that second, which does not matter: days are what counts.

Only delivered mail makes a sender known. Held mail counts against a known sender.
"""

import time
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from gatepost.analysis.report import Report
from gatepost.mail.sender_history import ALL_MAIL, SENDER_FACETS, facet_of
from gatepost.process.logs import Logger
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.questions import AskSightings, FacetAge, Sightings
from gatepost.settings.keys import SenderHistorySettings as Settings
from gatepost.store.errors import StorageError
from gatepost.store.sightings import Sighting, SightingBatch, StoredSightings

DAY_SECONDS = 86_400
FLUSH_SECONDS = 1.0
PURGE_SECONDS = 3_600.0
# Answers of today that are remembered, in each of two generations.
MAX_REMEMBERED = 100_000
# Messages in analysis whose questions are remembered; far more than can be in processing.
MAX_ASKED = 10_000
# Keys that are gathered between two writes: counting must not become the load.
MAX_GATHERED = 200_000

_UNKNOWN = FacetAge()
_NOT_READY = Sightings()

log = Logger("gatepost.mail.sender_history")


class SenderHistoryCounters(msgspec.Struct, frozen=True):
    """What was done so far: questions answered, those for which storage was read, keys written, keys not written."""

    asked: int
    looked_up: int
    written: int
    dropped: int


class SenderHistories:
    """The sender history of a deployment, for one core."""

    def __init__(self, store: StoredSightings, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._day = 0
        self._known: dict[tuple[str | None, int], FacetAge] = {}
        self._older: dict[tuple[str | None, int], FacetAge] = {}
        self._asked: dict[str, tuple[str | None, tuple[AskSightings, ...]]] = {}
        self._delivered: dict[tuple[str | None, int], dict[int, int]] = {}
        self._held: dict[tuple[str | None, int], dict[int, int]] = {}
        self._gathered = 0
        failed = "sender history could not be written"
        self._outage = Outage(failed, log)
        self._writing = PeriodicWork(self.flush, FLUSH_SECONDS, failed, log, waits_first=True)
        self._purging = PeriodicWork(self._forget_old, PURGE_SECONDS, "sender history could not be purged", log)
        self._answers = self._look_ups = self._written = self._dropped = 0

    def start(self) -> None:
        """From now on, write what is seen and forget what is old."""
        self._writing.start()
        self._purging.start()

    async def stop(self) -> None:
        await self._purging.stop()
        await self._writing.finish()
        await self.flush()

    def counters(self) -> SenderHistoryCounters:
        """Figures for metrics."""
        return SenderHistoryCounters(self._answers, self._look_ups, self._written, self._dropped)

    async def answer(self, ggrid: str, tenant: str | None, question: AskSightings) -> Sightings:
        """How well a message's facets are known to its tenant; they are remembered until the message is decided."""
        known = self.recall(ggrid, tenant, question)
        return await self.read(tenant, question) if known is None else known

    def recall(self, ggrid: str, tenant: str | None, question: AskSightings) -> Sightings | None:
        """The same, without waiting; None where storage has to be read (`read`)."""
        self._answers += 1
        self._note(ggrid, tenant, question)
        self._today()
        is_ready = self._recall(tenant, ALL_MAIL)
        if is_ready is None:
            return None
        if is_ready.age < self._settings.min_days:
            return _NOT_READY
        known = [self._recall(tenant, key) for key in (*question.keys, *question.proven, *question.claimed)]
        return _tell(question, [each for each in known if each is not None]) if None not in known else None

    async def read(self, tenant: str | None, question: AskSightings) -> Sightings:
        """How well facets are known, from storage where memory does not have them."""
        today = self._today()
        try:
            if not await self._is_ready(tenant, today):
                return _NOT_READY
            known = await self._look_up(tenant, (*question.keys, *question.proven, *question.claimed), today)
        except StorageError as fault:
            log.warning("sender history could not be read", reason=str(fault))
            return _NOT_READY
        return _tell(question, known)

    def learn(self, ggrid: str, report: Report) -> None:
        """Count what was asked about a message that was decided. Where nothing was decided nothing is learned."""
        tenant, questions = self._asked.pop(ggrid, (None, ()))
        if not questions or report.decision == "undecided":
            return
        proven = report.authentication.aligned
        delivered = report.decision == "deliver"
        gathered = (self._delivered if delivered else self._held).setdefault((tenant, self._today()), {})
        self._add(gathered, [key for asked in questions for key in (asked.proven if proven else asked.claimed)])
        if delivered:
            self._add(gathered, [ALL_MAIL, *dict.fromkeys([key for asked in questions for key in asked.keys])])

    async def flush(self) -> None:
        """Write what was seen since the last time."""
        delivered, held, count = self._delivered, self._held, self._gathered
        self._delivered, self._held, self._gathered = {}, {}, 0
        batches = [
            SightingBatch(tenant, day, delivered.get((tenant, day), {}), held.get((tenant, day), {}))
            for tenant, day in delivered.keys() | held.keys()
        ]
        if not batches:
            return
        async with self._outage:
            try:
                await self._store.record(batches)
                self._written += count
            except StorageError:
                self._dropped += count
                raise

    async def purge(self) -> int:
        """Forget what was not seen for longer than the retention, and what is too much; returns how many keys."""
        before = self._today() - self._settings.retention
        return await self._store.purge(before, self._settings.max_keys)

    def _today(self) -> int:
        """The number of the day (UTC). With a new one all answers are others."""
        day = int(self._clock()) // DAY_SECONDS
        if day != self._day:
            self._day, self._known, self._older = day, {}, {}
        return day

    def _note(self, ggrid: str, tenant: str | None, question: AskSightings) -> None:
        """Remember what was asked. A worker may ask a second time, for what it found in files; not a third."""
        before = self._asked.get(ggrid, (tenant, ()))[1]
        if len(before) < 2:
            self._asked[ggrid] = (tenant, (*before, question))
        if len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]

    async def _is_ready(self, tenant: str | None, today: int) -> bool:
        """Whether the tenant's history is old and full enough; looked up once a day."""
        known = self._recall(tenant, ALL_MAIL)
        if known is None:
            self._look_ups += 1
            found = (await self._store.find(tenant, (ALL_MAIL,))).get(ALL_MAIL)
            known = _UNKNOWN
            if found and found.delivered >= self._settings.min_messages:
                known = _known_before(today, ALL_MAIL, found)
            self._remember((tenant, ALL_MAIL), known, today)
        return known.age >= self._settings.min_days

    def _recall(self, tenant: str | None, key: int) -> FacetAge | None:
        return self._known.get((tenant, key)) or self._older.get((tenant, key))

    async def _look_up(self, tenant: str | None, keys: Sequence[int], today: int) -> list[FacetAge]:
        known = [self._recall(tenant, key) for key in keys]
        missing = [key for key, found in zip(keys, known, strict=True) if found is None]
        if missing:
            self._look_ups += 1
            rows = await self._store.find(tenant, missing)
            fresh = {key: _known_before(today, key, rows[key]) if key in rows else _UNKNOWN for key in missing}
            for key, found in fresh.items():
                self._remember((tenant, key), found, today)
            known = [found or fresh[key] for key, found in zip(keys, known, strict=True)]
        return [found or _UNKNOWN for found in known]

    def _remember(self, key: tuple[str | None, int], known: FacetAge, day: int) -> None:
        if day != self._day:
            return  # midnight came while storage was read
        if len(self._known) >= MAX_REMEMBERED:
            self._known, self._older = {}, self._known
        self._known[key] = known

    def _add(self, gathered: dict[int, int], keys: Sequence[int]) -> None:
        if self._gathered + len(keys) > MAX_GATHERED:
            self._dropped += len(keys)
            return
        for key in keys:
            if key not in gathered:
                self._gathered += 1
            gathered[key] = gathered.get(key, 0) + 1

    async def _forget_old(self) -> None:
        if forgotten := await self.purge():
            log.info("sender history forgotten", count=forgotten)


def _tell(question: AskSightings, known: Sequence[FacetAge]) -> Sightings:
    """The answer to a question of whose facets these are the ages, in their order."""
    each = iter(known)
    keys, proven = tuple(islice(each, len(question.keys))), tuple(islice(each, len(question.proven)))
    return Sightings(True, keys, proven, tuple(each))


def _known_before(today: int, key: int, found: Sighting) -> FacetAge:
    """What was known before today. A sender whose mail was held as often as delivered is not known."""
    days = found.days - (found.last >= today)
    if days <= 0 or (facet_of(key) in SENDER_FACETS and found.held >= found.delivered):
        return _UNKNOWN
    return FacetAge(days, max(0, today - found.first))
