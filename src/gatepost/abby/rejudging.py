"""What is on record, judged again: one message with the lists and the policy of today, or the last ones with another
policy.

Of a message that is on record the findings are kept and the text is not, so checks do not run again. Many messages are
judged off the event loop, a batch at a time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from gatepost.abby.comparison import Comparison, compared
from gatepost.lists.catalogue import KINDS
from gatepost.lists.rulings import Ruling, rule
from gatepost.lists.subjects import Subject, questions
from gatepost.lists.unkeyed import hit
from gatepost.policy import Policies
from gatepost.replay import Known, rejudged, rulings_of
from gatepost.store.messages import MessageRecord
from gatepost.store.store import Store


async def replayed(store: Store, record: MessageRecord, policies: Policies) -> Comparison:
    """One message: what was decided then, and what would be now."""
    policy = policies.of(record.envelope.tenant).policy
    judged = rejudged(record.report, policy, await _ruling_today(store, record))
    return compared(record.ggrid, record.report, judged, record.report.subject)


async def tried(
    store: Store, today: Policies, other: Policies, tenant: str | None, last: int
) -> tuple[int, list[Comparison]]:
    """How many of the last messages were considered, and those that other policies would decide otherwise.

    What lists said then stands, so that only the policy differs.
    """
    considered, flips = 0, list[Comparison]()
    known: dict[str | None, Known] = {}
    async with aclosing(store.recent_messages(tenant, last)) as batches:
        async for batch in batches:
            for owner in {record.envelope.tenant for record in batch} - known.keys():
                known[owner] = await _custom_lists(store, owner)
            flips += await asyncio.to_thread(_flipped, batch, known, today, other)
            considered += len(batch)
    return considered, flips


def _flipped(
    batch: Sequence[MessageRecord], known: Mapping[str | None, Known], today: Policies, other: Policies
) -> list[Comparison]:
    found = []
    for record in batch:
        owner = record.envelope.tenant
        ruling = rulings_of(record.report, known[owner])
        before = rejudged(record.report, today.of(owner).policy, ruling)
        now = rejudged(record.report, other.of(owner).policy, ruling)
        comparison = compared(record.ggrid, before, now, record.report.subject)
        if comparison.flips:
            found.append(comparison)
    return found


async def _custom_lists(store: Store, owner: str | None) -> Known:
    states = [state for scope in {None, owner} for state in await store.lists(scope)]
    return {state.definition.name: state.definition for state in states if state.definition.custom}


async def _ruling_today(store: Store, record: MessageRecord) -> Ruling:
    """What the lists of today say. Phrases need the text: those that were hit and are still listed are hit again."""
    report, tenant = record.report, record.envelope.tenant
    unkeyed = await store.unkeyed(tenant)
    spoken = {note.entry: note.where for note in report.lists}
    phrases = [entry for entry in unkeyed.phrases if entry.key in spoken]
    hits = [*await store.lookup(tenant, questions(report.subjects, KINDS)), *map(hit, phrases)]
    asked = [*report.subjects, *(Subject("text", entry.key, spoken[entry.key]) for entry in phrases)]
    return rule(dict.fromkeys(hits), asked, authenticated=report.authentication.aligned, custom=unkeyed.custom)
