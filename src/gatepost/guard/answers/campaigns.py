"""Campaigns: who else got near-copies of a message within hours, and what people said of such a message.

Each process keeps the signatures of the messages that it has seen, with hashes of their recipients, for as many
messages as fit (0.4 to 2.8 KB each) and no longer than the window. What it counts it stores, and what other processes
count it adds, so that a burst over many nodes is one burst. Signatures of mail that was reported, or held as an attack,
are read from storage every `SHARE_SECONDS`; those that a tenant's people reported count for that tenant alone.
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar
from uuid import uuid4
from zlib import crc32

import msgspec

from gatepost.analysis.report import Report
from gatepost.mail.message import Envelope
from gatepost.near_duplicates import MAX_COMPARED, NEAR, SIZE, Signature, index_keys, is_near_duplicate
from gatepost.process.logs import Logger
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.questions import AskCampaign, Campaign, CampaignMarkedAs
from gatepost.store.campaigns import Burst, CampaignMark, CampaignMarks, HeldSignature
from gatepost.store.errors import StorageError

WINDOW_SECONDS = 6 * 3600.0
MAX_MESSAGES = 20_000
# Recipients of one message that are remembered: with a thousand for each, memory would be a gigabyte and more.
MAX_RECIPIENTS = 50
MAX_MARKS = 50_000
MARK_SECONDS = 30 * 86_400.0
SHARE_SECONDS = 1.0
SETTLE_SECONDS = 10.0
PURGE_SECONDS = 3_600.0
# Signatures of held mail that wait to be stored; more are dropped: a flood must not become the load.
MAX_WAITING = 5_000
# Verdicts of which other copies are not innocent: of mail that is merely unwanted, and of what could not be read, they
# may well be.
_ATTACKS = frozenset({"malware", "phishing", "fraud"})

log = Logger("gatepost.campaigns")


class _Sighting(msgspec.Struct, frozen=True, eq=False):
    time: float
    signature: Signature
    recipients: tuple[int, ...]


V = TypeVar("V", _Sighting, Burst, CampaignMark)


class _HashIndex(Generic[V]):
    """Values with a signature, found by their `index_keys`; the latest first, and no more than are compared. Nearly
    every hash is that of one value: only one that several have gets a dictionary, which is most of the memory."""

    def __init__(self) -> None:
        self._by_hash: dict[int, V | dict[V, None]] = {}

    def add(self, value: V, keys: Signature | None = None) -> None:
        """Add a value, which has these `index_keys`."""
        for each in index_keys(value.signature) if keys is None else keys:
            known = self._by_hash.setdefault(each, value)
            if known is value:
                continue
            if isinstance(known, dict):
                known[value] = None
            else:
                self._by_hash[each] = {known: None, value: None}

    def remove(self, value: V) -> None:
        for each in index_keys(value.signature):
            known = self._by_hash.get(each)
            if isinstance(known, dict):
                known.pop(value, None)
                if len(known) == 1:
                    # Else every hash that ever had two values would keep a dictionary.
                    (self._by_hash[each],) = known
            if not known or known == value:
                self._by_hash.pop(each, None)

    def find_near(self, signature: Signature, keys: Signature) -> list[V]:
        """Return the values whose signature is a near-duplicate of this one, which has these `index_keys`."""
        by_hash = self._by_hash
        if not by_hash or by_hash.keys().isdisjoint(keys):
            return []  # as for most messages
        found: dict[V, None] = {}
        for each in keys:
            known = by_hash.get(each)
            if known is None:
                continue
            if isinstance(known, dict):
                found.update(dict.fromkeys(islice(reversed(known), MAX_COMPARED)))
            else:
                found[known] = None
        mine = set(signature)
        is_whole = len(mine) >= SIZE
        # Copies are the same as a rule, and many others share a hash or two, which rules them out.
        return [
            value
            for value in found
            if (is_whole and value.signature == signature)
            or (len(mine.intersection(value.signature)) >= NEAR and is_near_duplicate(value.signature, signature))
        ]


class Campaigns:
    """What one process knows of campaigns. Without a store it knows what it has seen itself."""

    def __init__(
        self,
        store: CampaignMarks | None = None,
        clock: Callable[[], float] = time.time,
        window: float = WINDOW_SECONDS,
        maximum: int = MAX_MESSAGES,
    ) -> None:
        self._store, self._clock, self._window, self._maximum = store, clock, window, maximum
        self._process = uuid4().hex
        self._order: deque[_Sighting] = deque()
        self._seen = _HashIndex[_Sighting]()
        self._counted: dict[int, Burst] = {}
        self._elsewhere: dict[tuple[str, int], Burst] = {}
        self._of_others = _HashIndex[Burst]()
        self._asked_since = 0
        self._marks: dict[int, CampaignMark] = {}
        self._marked = _HashIndex[CampaignMark]()
        # The marks of people, by their messages: what is said anew of one replaces them.
        self._said: dict[int, int] = {}
        # Marks up to this id have been read for good; the later ones, with the time at which they were the latest.
        self._settled = -1
        self._unsettled: deque[tuple[float, int]] = deque()
        # Signatures of held mail that are to be stored, one for each text of a tenant.
        self._held: dict[tuple[str | None, Signature], HeldSignature] = {}
        failed = "campaigns could not be shared"
        self._outage = Outage(failed, log)
        self._periodic = (
            PeriodicWork(self.share, SHARE_SECONDS, failed, log),
            PeriodicWork(self._purge, PURGE_SECONDS, "old campaigns could not be deleted", log),
        )

    def __len__(self) -> int:
        return len(self._order)

    def start(self) -> None:
        """From now on, exchange with storage."""
        if self._store:
            for work in self._periodic:
                work.start()

    async def stop(self) -> None:
        for work in self._periodic:
            await work.stop()
        await self.share()

    def answer(self, envelope: Envelope, question: AskCampaign, *, is_mail: bool = True) -> Campaign:
        """Return how many others got near-copies of the message, and what was said of those; remember who got this.
        A message of the scan page is no mail that anybody got: it is compared, and not remembered."""
        now = self._clock()
        self._forget(now)
        mine = question.sketch
        keys = index_keys(mine)
        near = self._seen.find_near(mine, keys)
        recipients = {hash(recipient.lower()) for recipient in envelope.recipients[:MAX_RECIPIENTS]}
        others: set[int] = set()
        known = mine
        if near:
            for each in near:
                others.update(each.recipients)
            others -= recipients
            # Copies have the hashes of one of them: those of each would be a third of the memory of a campaign.
            known = next((each.signature for each in near if each.signature == mine), mine)
        if mine and is_mail:
            sighting = _Sighting(now, known, tuple(recipients))
            self._order.append(sighting)
            self._seen.add(sighting, keys)
        if near and is_mail and self._store:
            self._count(near[-1].signature, len(near) + 1, len(others | recipients))
        copies, count = len(near), len(others)
        for burst in self._of_others.find_near(mine, keys) if self._elsewhere else ():
            copies += burst.copies
            count += burst.recipients
        return Campaign(copies, count, self._find_mark(envelope.tenant, mine, keys))

    def learn(self, ggrid: str, tenant: str | None, report: Report) -> None:
        """Note a message that was held as an attack, so that others know its text within seconds. Copies of a text that
        is noted add nothing: a campaign of a million messages is one mark and not all that a node can keep."""
        if (
            report.decision == "quarantine"
            and report.verdict in _ATTACKS
            and report.signature
            and len(self._held) < MAX_WAITING
            and not self._is_noted(tenant, report.signature)
        ):
            noted = HeldSignature(tenant, ggrid, report.signature, int(self._clock() * 1000))
            self._held.setdefault((tenant, report.signature), noted)

    def _is_noted(self, tenant: str | None, signature: Signature) -> bool:
        """Whether held mail of the tenant has all hashes of this one but one at most. With fewer in common, this could
        be a text halfway to another, whose copies would then not be found."""
        mine = set(signature)
        return any(
            each.says == "held" and each.tenant == tenant and len(mine.difference(each.signature)) <= 1
            for each in self._marked.find_near(signature, index_keys(signature))
        )

    async def share(self) -> None:
        """Store what was counted and held since the last time, and read what is new."""
        if not self._store:
            return
        async with self._outage:
            held, self._held = self._held, {}
            try:
                if held:
                    await self._store.mark_held(list(held.values()))
                if self._counted:
                    counted, self._counted = list(self._counted.values()), {}
                    await self._store.record_bursts(counted)
                await self._read_marks(self._store)
                await self._read_bursts(self._store)
            except StorageError:
                # Storing one twice does nothing.
                self._held = dict(islice((held | self._held).items(), MAX_WAITING))
                raise

    async def _read_marks(self, store: CampaignMarks) -> None:
        """Read the marks that are new. PostgreSQL commits rows out of the order of their ids, so those of the last
        `SETTLE_SECONDS` are read again."""
        if self._settled < 0:
            self._settled = await store.first_mark(MAX_MARKS)
        latest = self._settled
        while marks := await store.marks(latest):
            for mark in marks:
                latest = mark.id
                if mark.id not in self._marks:
                    self._take_mark(mark)
        now = self._clock()
        self._unsettled.append((now, latest))
        while self._unsettled[0][0] < now - SETTLE_SECONDS:
            self._settled = self._unsettled.popleft()[1]
        while len(self._marks) > MAX_MARKS:
            self._drop_mark(next(iter(self._marks)))

    def _take_mark(self, mark: CampaignMark) -> None:
        if self._said.get(mark.message, mark.id) < mark.id:
            self._drop_mark(self._said[mark.message])
        if mark.says == "withdrawn":
            return
        if mark.says != "held":
            self._said[mark.message] = mark.id
        self._marks[mark.id] = mark
        self._marked.add(mark)

    def _drop_mark(self, uid: int) -> None:
        mark = self._marks.pop(uid)
        self._marked.remove(mark)
        if self._said.get(mark.message) == uid:
            del self._said[mark.message]

    async def _read_bursts(self, store: CampaignMarks) -> None:
        for burst in await store.bursts(self._process, self._asked_since):
            # The same millisecond may bring another one, so the last one is read again.
            self._asked_since = max(self._asked_since, burst.updated)
            key = (burst.process, burst.campaign)
            if known := self._elsewhere.pop(key, None):
                self._of_others.remove(known)
            self._elsewhere[key] = burst
            self._of_others.add(burst)
        oldest = (self._clock() - self._window) * 1000
        for key, burst in list(self._elsewhere.items()):
            if burst.updated >= oldest and len(self._elsewhere) <= self._maximum:
                break
            del self._elsewhere[key]
            self._of_others.remove(burst)

    def _find_mark(self, tenant: str | None, mine: Signature, keys: Signature) -> CampaignMarkedAs:
        """What the latest word of the tenant, or of the deployment, on a near-copy is; a person's before a verdict."""
        near = self._marked.find_near(mine, keys) if self._marks else []
        if not near:
            return ""
        ours = sorted((each for each in near if each.tenant in (None, tenant)), key=lambda mark: mark.id, reverse=True)
        said = next((each for each in ours if each.says != "held"), ours[0] if ours else None)
        return said.says if said and said.says != "withdrawn" else ""

    def _count(self, signature: Signature, copies: int, recipients: int) -> None:
        campaign = crc32(repr(signature).encode())
        self._counted[campaign] = Burst(
            self._process, campaign, signature, copies, recipients, int(self._clock() * 1000)
        )

    def _forget(self, now: float) -> None:
        oldest = now - self._window
        while self._order and (self._order[0].time < oldest or len(self._order) >= self._maximum):
            gone = self._order.popleft()
            self._seen.remove(gone)

    async def _purge(self) -> None:
        if self._store:
            now = self._clock()
            await self._store.purge(int((now - MARK_SECONDS) * 1000), int((now - self._window) * 1000))
