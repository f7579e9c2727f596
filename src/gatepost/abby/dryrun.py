"""`dryRun`: what a change of a list would have done to the last messages of its scope.

One pass over what is stored, in batches and off the event loop; one dry run at a time, so that several of them take
longer rather than slow down everything else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from gatepost.api.lists import DryRun, TriedEntry
from gatepost.lists.catalogue import BY_NAME, Definition
from gatepost.policy import Policies
from gatepost.replay import Change, Known, Trial
from gatepost.store.messages import MessageRecord
from gatepost.store.store import Store

MESSAGES = 5_000

Shown = Mapping[str, str]


class DryRuns:
    """Tries changes on stored messages."""

    def __init__(self, store: Store, policies: Policies) -> None:
        self._store = store
        self._policies = policies
        self._turn = asyncio.Semaphore(1)

    async def tried(self, scope: str | None, change: Change, shown: Shown, modified: int) -> DryRun:
        """What would have happened. `shown` are the entries by key; the change has those of them that do something."""
        if not change.countable:
            return DryRun(0, modified, None, None, tuple(TriedEntry(entry, None, None) for entry in shown.values()))
        trial = Trial(change, self._policies.deployment.policy)
        async with self._turn:
            await self._run(scope, trial)
        entries = tuple(TriedEntry(entry, trial.hits[key], trial.flips[key]) for key, entry in shown.items())
        return DryRun(trial.considered, modified, trial.hit, trial.flipped, entries)

    async def _run(self, scope: str | None, trial: Trial) -> None:
        known: dict[str | None, Known] = {}
        async with aclosing(self._store.recent_messages(scope, MESSAGES)) as batches:
            async for batch in batches:
                await self._learn(batch, known)
                await asyncio.to_thread(_consider, trial, batch, known, self._policies)
                if trial.exhausted:
                    return

    async def _learn(self, batch: Sequence[MessageRecord], known: dict[str | None, Known]) -> None:
        """Find out about the custom lists that these messages hit."""
        for record in batch:
            tenant = record.envelope.tenant
            if tenant not in known and any(note.list not in BY_NAME for note in record.report.lists):
                known[tenant] = {**await self._custom(None), **(await self._custom(tenant) if tenant else {})}

    async def _custom(self, scope: str | None) -> dict[str, Definition]:
        states = await self._store.lists(scope)
        return {state.definition.name: state.definition for state in states if state.definition.custom}


def _consider(
    trial: Trial, batch: Sequence[MessageRecord], known: Mapping[str | None, Known], policies: Policies
) -> None:
    for record in batch:
        if trial.exhausted:
            return
        tenant = record.envelope.tenant
        trial.consider(record.report, known.get(tenant, {}), policies.of(tenant).policy)
