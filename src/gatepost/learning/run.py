"""A run of learning for one pool: lock it, read it, have it trained, keep what came of it, and look back.

One process of all nodes trains a pool at a time, under a lock in storage that outlasts the longest training. A run that
is killed leaves the lock to run out, and the model that took part before takes part still.
"""

import asyncio
import os
import socket
from collections.abc import Callable

import msgspec

from gatepost.ids import new_id
from gatepost.learning.look_back import look_back
from gatepost.learning.proof import Proof
from gatepost.learning.sealed_training import (
    WALL_SECONDS,
    Trained,
    TrainingFailed,
    TrainingOrder,
    train_sealed,
)
from gatepost.policy.layers import Policies
from gatepost.settings.learning import LearningSettings
from gatepost.store.audit import Actor
from gatepost.store.learning import ModelLookBack, PoolReport
from gatepost.store.store import Store
from gatepost.textmodel.learnt import parse_learnt
from gatepost.textmodel.pool_training import PoolRow
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
    data = trained.model
    if data:
        model = parse_learnt(data)
        assert model is not None
        data = msgspec.structs.replace(model, scope="tenant" if tenant else "deployment").to_bytes()
    version = await store.learning.keep_model(tenant, msgspec.json.encode(trained.proof), data, LEARNING)
    if not data:
        return LearningOutcome(tenant, "refused", trained.proof.reason, version, trained.proof)
    model = parse_learnt(data)
    assert model is not None
    found = await look_back(store, policies, tenant, model, settings.look_back)
    await store.look_backs.record_of_model(version, found, LEARNING)
    return LearningOutcome(tenant, "taken", trained.proof.reason, version, trained.proof, found)


async def read_pool(store: Store, tenant: str | None) -> tuple[PoolRow, ...]:
    """Return the whole pool of a tenant or of the deployment, as training takes it."""
    rows: list[PoolReport] = []
    while page := await store.learning.pool_reports(tenant, rows[-1].id if rows else 0):
        rows += page
    return tuple(_as_row(row) for row in rows)


def _as_row(row: PoolReport) -> PoolRow:
    return PoolRow(row.message, row.unwanted, row.features, row.reporter, row.mailbox, row.domain)
