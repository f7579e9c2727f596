"""Every message at the end: with its recipient, held with its bytes, bounced, lost or doubled."""

import asyncio
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bench.rehearsal.company import Company
from bench.rehearsal.mail import DAY, Sent, count_parts
from gatepost.guard.quarantine.raw_store import HeldBytes, RawFolder
from gatepost.store import open_store
from gatepost.store.held_search import HeldFilter
from gatepost.store.store import Store

Pair = tuple[str, str]
_QUEUED = re.compile(r"postfix/cleanup\[\d+\]: (\w+): message-id=<([^>]+)>")
_AGAIN = re.compile(r"postfix/\w+\[\d+\]: (\w+): to=.* status=deferred \((.*)\)")
# What a server in front says where it cannot know whether the message was taken (RFC 1047): the connection was cut
# behind the end of the message, or the answer to it was a temporary one.
_UNSURE = ("while sending end of data", "in reply to end of DATA", "while sending message body")


@dataclass
class Outcome:
    """The accounts against each other, by pairs of Message-ID and recipient."""

    accepted: dict[Pair, str]
    delivered: Counter[Pair]
    held: Counter[Pair]
    bounced: set[str]
    # Messages of which a server did not know whether the next one had taken them.
    unsure: set[str]
    without_bytes: list[str]
    answers_without_record: list[str]
    days: int = 0
    lost: list[Pair] = field(default_factory=list)
    doubled: list[Pair] = field(default_factory=list)

    def judge(self) -> None:
        """Find what was lost or doubled."""
        for pair in self.accepted:
            there = self.delivered[pair] + self.held[pair]
            if not there and pair[0] not in self.bounced:
                self.lost.append(pair)
            elif there > 1:
                self.doubled.append(pair)

    @property
    def unexplained(self) -> list[Pair]:
        """Pairs that are doubled though no server was unsure of their message."""
        return [pair for pair in self.doubled if pair[0] not in self.unsure]

    @property
    def defects(self) -> int:
        """Everything that must be zero."""
        lost = len(self.lost) + len(self.without_bytes) + len(self.answers_without_record)
        return lost + len(self.unexplained)

    def describe(self, sent: Sent) -> list[str]:
        """A row for each part of the day."""
        lines = [
            "| Part of the day | Messages | Recipients | Delivered | Held | Bounced | Lost | Doubled |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
        ]
        parts = count_parts(self.accepted)
        found = {name: Counter(self.accepted[pair] for pair in pairs) for name, pairs in self._columns().items()}
        for part in DAY:
            cells = (f"{found[name][part]:,}" for name in found)
            lines.append(f"| {part} | {sent.messages[part]:,} | {parts.get(part, 0):,} | {' | '.join(cells)} |")
        cells = (f"{sum(column.values()):,}" for column in found.values())
        total = sum(sent.messages.values())
        lines.append(f"| **all** | {total:,} | {len(self.accepted):,} | {' | '.join(cells)} |")
        return lines

    def _columns(self) -> dict[str, list[Pair]]:
        return {
            "delivered": [pair for pair in self.accepted if self.delivered[pair]],
            "held": [pair for pair in self.accepted if self.held[pair]],
            "bounced": [pair for pair in self.accepted if pair[0] in self.bounced],
            "lost": self.lost,
            "doubled": self.doubled,
        }


def reconcile(company: Company, sent: Sent, answered: list[str]) -> Outcome:
    """Compare what was accepted with what is there."""
    held, without_bytes, missing = asyncio.run(_read_store(company, answered))
    outcome = Outcome(
        dict(sent.accepted),
        Counter(company.mailboxes.pairs),
        held,
        company.bounced(),
        sent.cut | set().union(*map(find_unsure, company.logs)),
        without_bytes,
        missing,
        int(company.databases.ask("SELECT count(DISTINCT completed / 86400000) FROM message_search")),
    )
    outcome.judge()
    return outcome


async def _read_store(company: Company, answered: list[str]) -> tuple[Counter[Pair], list[str], list[str]]:
    """The pairs that are held with their bytes, held messages without bytes, and answers that are not on record."""
    store = open_store(company.databases.direct, company.folder)
    try:
        bytes_of = HeldBytes(store.quarantine, RawFolder(company.held))
        held, without = Counter[Pair](), list[str]()
        after: str | None = ""
        while after is not None:
            page = await store.quarantine.search(HeldFilter(), after or None, 500)
            for mail in page.rows:
                record = mail.record
                if record.source != "smtp":
                    continue
                if not await bytes_of.get(record.ggrid):
                    without.append(record.ggrid)
                    continue
                name = record.report.message_id.strip("<>")
                held.update((name, each.lower()) for each in record.envelope.recipients)
            after = page.next
        return held, without, await _find_missing(store, answered)
    finally:
        await store.close()


async def _find_missing(store: Store, answered: list[str]) -> list[str]:
    known: set[str] = set()
    for start in range(0, len(answered), 500):
        known.update(await store.messages.heads(answered[start : start + 500]))
    return [ggrid for ggrid in answered if ggrid not in known]


def find_unsure(log: Path) -> set[str]:
    """Messages of which this server did not know whether the next one had taken them."""
    names: dict[str, set[str]] = defaultdict(set)
    unsure: set[str] = set()
    for line in log.read_text("utf-8", "replace").splitlines():
        if found := _QUEUED.search(line):
            names[found[1]].add(found[2])
        elif (again := _AGAIN.search(line)) and any(words in again[2] for words in _UNSURE):
            unsure.add(again[1])
    return set().union(*(names[each] for each in unsure)) if unsure else set()
