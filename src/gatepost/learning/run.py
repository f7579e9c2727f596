"""A run of learning for one pool: lock it, read it, have it trained, keep what came of it, and look back.

One process of all nodes trains a pool at a time (`store.jobs`). After a run that was killed, the model that took part
before takes part still.

Looking back finds the messages, delivered in the last days, that a new model would have held. Records have the findings
and the feature row of each message, so those messages can be judged again without their text. Only what the model adds
is put in. The work is bounded in days and messages.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from gatepost.analysis.report import Report
from gatepost.findings.kinds import Finding
from gatepost.learning.sealed_training import (
    UNWANTED,
    Proof,
    Trained,
    TrainingFailed,
    TrainingOrder,
    points_of,
    train_sealed,
)
from gatepost.policy.layers import Policies
from gatepost.policy.rules import shipped_policy
from gatepost.rejudge.try_change import LOOK_BACK_EFFORT, LOOK_BACK_SECONDS, Change, Messages, Trial, try_change
from gatepost.settings.keys import LearningSettings
from gatepost.store.audit import Actor
from gatepost.store.learning import LEARNING, ModelLookBack, PoolReport
from gatepost.store.look_backs import MAX_HITS
from gatepost.store.store import Store
from gatepost.textmodel.learnt import LearntModel, PoolRow, parse_learnt, read_row
from gatepost.times import DAY, HOUR, now

LEARNER = Actor("system", "learning")

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


async def learn_pool(
    store: Store,
    policies: Policies,
    settings: LearningSettings,
    tenant: str | None,
    *,
    only_due: bool = False,
    trainer: Trainer = train_sealed,
) -> LearningOutcome | None:
    """Train the model of one pool, and let it take part if it may; None where another process trains it, or where it
    is not due and only that counts."""
    async with store.jobs.take(LEARNING, tenant, only_due=only_due) as job:
        if job is None:
            return None
        outcome = LearningOutcome(tenant, "failed", "it was stopped")
        try:
            outcome = await _learn(store, policies, settings, tenant, trainer)
        finally:
            await job.finish(now() + settings.interval * HOUR, outcome=f"{outcome.result}: {outcome.reason}")
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
    version = await store.learning.keep_model(tenant, msgspec.json.encode(trained.proof), data, LEARNER)
    if model is None:
        return LearningOutcome(tenant, "refused", trained.proof.reason, version, trained.proof)
    found = await look_back(store, policies, tenant, model, settings.look_back)
    await store.look_backs.record_of_model(version, found, LEARNER)
    return LearningOutcome(tenant, "taken", trained.proof.reason, version, trained.proof, found)


async def read_pool(store: Store, tenant: str | None) -> tuple[PoolRow, ...]:
    """Return the whole pool of a tenant or of the deployment, as training takes it."""
    rows: list[PoolReport] = []
    while page := await store.learning.pool_reports(tenant, rows[-1].id if rows else 0):
        rows += page
    return tuple(
        PoolRow(row.message, row.unwanted, row.features, row.reporter, row.mailbox, row.domain) for row in rows
    )


MESSAGES = 50_000


async def look_back(
    store: Store, policies: Policies, tenant: str | None, model: LearntModel, days: int, messages: int = MESSAGES
) -> ModelLookBack:
    """Look for delivered messages that a model would have held."""
    trial = Trial()
    if days:
        change = Change(finds=partial(find_unwanted, model=model))
        delivered = Messages(tenant, messages, now() - days * DAY, "delivered")
        limits = {"effort": LOOK_BACK_EFFORT, "shown": MAX_HITS}
        trial = await try_change(store, policies, change, delivered, seconds=LOOK_BACK_SECONDS, **limits)
    return ModelLookBack(days, trial.considered, trial.flipped, tuple(each.ggrid for each in trial.flips))


def find_unwanted(report: Report, model: LearntModel) -> Finding | None:
    """Return what a model finds in the text of a message, by its feature row."""
    if not report.features:
        return None
    strength = points_of(model.score(read_row(report.features))) / shipped_policy().kinds[UNWANTED].weight
    return Finding(UNWANTED, "text", {}, strength) if strength else None
