"""A run of learning for one pool: lock it, read it, have it trained, keep what came of it, and look back.

One process of all nodes trains a pool at a time, under a lock in storage that outlasts the longest training. A run that
is killed leaves the lock to run out, and the model that took part before takes part still.

Looking back finds the messages, delivered in the last days, that a new model would have held. Records have the findings
and the feature row of each message, so those messages can be judged again without their text. Only what the model adds
is put in. The work is bounded in days and messages.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import aclosing

import msgspec

from gatepost.analysis.report import Report
from gatepost.analysis.verdict import judge
from gatepost.findings.values import Finding
from gatepost.ids import new_id
from gatepost.learning.proof import UNWANTED, Proof, points_of
from gatepost.learning.sealed_training import WALL_SECONDS, Trained, TrainingFailed, TrainingOrder, train_sealed
from gatepost.policy.layers import Policies
from gatepost.policy.rules import Policy, shipped_policy
from gatepost.settings.keys import LearningSettings
from gatepost.store.audit import Actor
from gatepost.store.learning import ModelLookBack, PoolReport
from gatepost.store.look_backs import MAX_HITS
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.textmodel.learnt import LearntModel, PoolRow, parse_learnt, read_row
from gatepost.times import now

HOUR = 3_600_000
LOCK = int(WALL_SECONDS * 1000) + 600_000
LEARNING = Actor("system", "learning")

Trainer = Callable[[TrainingOrder], Trained | TrainingFailed]


class LearningOutcome(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What came of a run. `version` is the number of the model, also of one that was refused; None where there was no
    training: `reason` says why."""

    tenant: str | None
    result: str
    reason: str
    version: int | None = None
    figures: Proof | None = None
    look_back: ModelLookBack | None = None


class PoolBusy(msgspec.Struct, frozen=True):
    """Another process trains the pool, or it is not due."""


async def learn_pool(
    store: Store,
    policies: Policies,
    settings: LearningSettings,
    tenant: str | None,
    *,
    only_due: bool = False,
    trainer: Trainer = train_sealed,
) -> LearningOutcome | PoolBusy:
    """Train the model of one pool, and let it take part if it may."""
    holder = f"{socket.gethostname()}:{os.getpid()}:{new_id()}"
    if not await store.learning.take_pool(tenant, holder, now() + LOCK, only_due=only_due):
        return PoolBusy()
    outcome = LearningOutcome(tenant, "failed", "it was stopped")
    try:
        outcome = await _learn(store, policies, settings, tenant, trainer)
    finally:
        await store.learning.finish_pool(
            tenant, holder, now() + settings.interval * HOUR, f"{outcome.result}: {outcome.reason}"
        )
    return outcome


async def _learn(
    store: Store, policies: Policies, settings: LearningSettings, tenant: str | None, trainer: Trainer
) -> LearningOutcome:
    rows = await read_pool(store, tenant)
    current = (await store.learning.current_models()).get((tenant or "").lower())
    present = await store.learning.model_bytes(current) if current else b""
    trained = await asyncio.to_thread(trainer, TrainingOrder(rows, present))
    if isinstance(trained, TrainingFailed):
        return LearningOutcome(tenant, "failed", trained.reason)
    model = parse_learnt(trained.model)
    data = msgspec.structs.replace(model, scope="tenant" if tenant else "deployment").to_bytes() if model else b""
    version = await store.learning.keep_model(tenant, msgspec.json.encode(trained.proof), data, LEARNING)
    if model is None:
        return LearningOutcome(tenant, "refused", trained.proof.reason, version, trained.proof)
    found = await look_back(store, policies, tenant, model, settings.look_back)
    await store.look_backs.record_of_model(version, found, LEARNING)
    return LearningOutcome(tenant, "taken", trained.proof.reason, version, trained.proof, found)


async def read_pool(store: Store, tenant: str | None) -> tuple[PoolRow, ...]:
    """Return the whole pool of a tenant or of the deployment, as training takes it."""
    rows: list[PoolReport] = []
    while page := await store.learning.pool_reports(tenant, rows[-1].id if rows else 0):
        rows += page
    return tuple(
        PoolRow(row.message, row.unwanted, row.features, row.reporter, row.mailbox, row.domain) for row in rows
    )


DAY = 86_400_000
MESSAGES = 50_000


async def look_back(
    store: Store, policies: Policies, tenant: str | None, model: LearntModel, days: int, messages: int = MESSAGES
) -> ModelLookBack:
    """Look for delivered messages that a model would have held."""
    search = _Search(model, policies, now() - days * DAY)
    if days:
        async with aclosing(store.messages.recent(tenant, messages)) as batches:
            async for batch in batches:
                if not await asyncio.to_thread(search.take, batch):
                    break
    return ModelLookBack(days, search.considered, search.found, tuple(search.hits))


class _Search:
    """One look back, from the newest message on."""

    def __init__(self, model: LearntModel, policies: Policies, since: int) -> None:
        self._model, self._policies, self._since = model, policies, since
        self.considered = self.found = 0
        self.hits: list[str] = []

    def take(self, batch: Sequence[MessageRecord]) -> bool:
        """Look at more messages; False when no more are wanted."""
        for record in batch:
            if record.completed < self._since:
                return False
            report = record.report
            if report.decision != "deliver" or not report.features:
                continue
            self.considered += 1
            policy = self._policies.of(record.envelope.tenant).policy
            if would_hold(report, self._model, policy):
                self.found += 1
                if len(self.hits) < MAX_HITS:
                    self.hits.append(record.ggrid)
        return True


def would_hold(report: Report, model: LearntModel, policy: Policy) -> bool:
    """Whether a delivered message would have been held with what this model finds in it."""
    strength = points_of(model.score(read_row(report.features))) / shipped_policy().kinds[UNWANTED].weight
    if not strength or any(note.effect == "allowed" for note in report.lists):
        return False
    findings = [
        Finding(line.kind, line.where, line.facts, line.strength, line.about)
        for line in report.lines
        if line.kind != UNWANTED and not line.kind.startswith("list:")
    ]
    findings.append(Finding(UNWANTED, "text", {}, strength))
    return judge(findings, report.outcomes, policy).decision != "deliver"
