"""Learnt models in storage: every version with its figures, which one takes part, and who trains a pool now.

At most one model of a scope is current; a partial index sees to that. Nodes ask every second or two which models are
current, and read the bytes of those that they need. A model that was refused is kept with its figures, without its
bytes, so that an operator can see why nothing changed.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, cast

import msgspec

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, normalize_scope, now, query, storable

MAX_KEPT = 20

ModelState: TypeAlias = Literal["current", "former", "refused", "withdrawn"]

_CURRENT = "SELECT scope, id FROM learnt_models WHERE state = 'current'"
_DATA = "SELECT data FROM learnt_models WHERE id = $1"
_COLUMNS = "id, scope, state, created, figures, look_back"
_SELECT = f"SELECT {_COLUMNS} FROM learnt_models ORDER BY id DESC LIMIT $1"  # noqa: S608
_SELECT_SCOPE = f"SELECT {_COLUMNS} FROM learnt_models WHERE scope = $1 ORDER BY id DESC LIMIT $2"  # noqa: S608
_SELECT_ONE = f"SELECT {_COLUMNS} FROM learnt_models WHERE id = $1"  # noqa: S608
_RETIRE = "UPDATE learnt_models SET state = 'former' WHERE scope = $1 AND state = 'current'"
_WITHDRAW = "UPDATE learnt_models SET state = 'withdrawn' WHERE scope = $1 AND state = 'current'"
_INSERT = """INSERT INTO learnt_models (scope, state, created, figures, look_back, data)
VALUES ($1, $2, $3, $4, '', $5) RETURNING id"""
_FORMER = "SELECT id FROM learnt_models WHERE scope = $1 AND state = 'former' ORDER BY id DESC LIMIT 1"
_RESTORE = "UPDATE learnt_models SET state = 'current' WHERE id = $1"
_PRUNE = """DELETE FROM learnt_models WHERE scope = $1 AND state <> 'current' AND id NOT IN
(SELECT id FROM learnt_models WHERE scope = $1 ORDER BY id DESC LIMIT $2)"""
_TAKE = """INSERT INTO learning_runs (scope, holder, locked_until, next_run, finished, outcome)
VALUES ($1, $2, $3, 0, 0, '') ON CONFLICT (scope) DO UPDATE
SET holder = excluded.holder, locked_until = excluded.locked_until
WHERE learning_runs.locked_until <= $4 AND learning_runs.next_run <= $5"""
_FINISH = """UPDATE learning_runs SET holder = '', locked_until = 0, next_run = $3, finished = $4, outcome = $5
WHERE scope = $1 AND holder = $2"""
_RUNS = "SELECT scope, locked_until, next_run, finished, outcome FROM learning_runs ORDER BY scope"
_DELETE_OF_TENANT = (
    "DELETE FROM learnt_models WHERE scope = $1",
    "DELETE FROM learning_runs WHERE scope = $1",
)
_NEVER_DUE = 1 << 62


class ModelLookBack(msgspec.Struct, frozen=True, rename="camel"):
    """What a model would have held of the delivered mail of some days: ggrids, the newest first, at most 500."""

    days: int = 0
    considered: int = 0
    found: int = 0
    hits: tuple[str, ...] = ()


class StoredModel(msgspec.Struct, frozen=True):
    """A model as storage knows it, without its bytes. `figures` is JSON of its training; `tenant` None is the
    deployment."""

    version: int
    tenant: str | None
    state: ModelState
    created: int
    figures: bytes
    look_back: ModelLookBack | None = None


class LearningRun(msgspec.Struct, frozen=True):
    """When a pool was trained last, what came of it, and when it is due again."""

    tenant: str | None
    locked_until: int
    next_run: int
    finished: int
    outcome: str


class LearntModelStore(Operations):
    """Models that reports have taught."""

    @query
    def current_models(self) -> Work[dict[str, int]]:
        """The version that takes part, by scope; the deployment's is ""."""
        return {row[0]: int(row[1]) for row in (yield Read(_CURRENT))}

    @query
    def model_bytes(self, version: int) -> Work[bytes]:
        """The bytes of one model; none where it is gone, or was refused."""
        rows = yield Read(_DATA, (version,))
        return bytes(rows[0][0]) if rows else b""

    @query
    def learnt_models(
        self, tenant: str | None = None, *, every: bool = False, limit: int = 100
    ) -> Work[tuple[StoredModel, ...]]:
        """The last models of a scope, or of all scopes, the newest first."""
        if every:
            rows = yield Read(_SELECT, (limit,))
        else:
            rows = yield Read(_SELECT_SCOPE, (normalize_scope(tenant) or "", limit))
        return tuple(map(_model, rows))

    @query
    def learnt_model(self, version: int) -> Work[StoredModel | None]:
        """One model; None where there is none with that number."""
        rows = yield Read(_SELECT_ONE, (version,))
        return _model(rows[0]) if rows else None

    @change
    def keep_model(self, tenant: str | None, figures: bytes, data: bytes, by: Actor) -> Work[int]:
        """Keep a model: with bytes it takes part from now on, without it was refused. Returns its number."""
        scope, moment = normalize_scope(tenant) or "", now()
        if data:
            yield Write(_RETIRE, (scope,))
        state = "current" if data else "refused"
        rows = yield Read(_INSERT, (scope, state, moment, storable(figures.decode()), data))
        version = int(rows[0][0])
        yield Write(_PRUNE, (scope, MAX_KEPT))
        action = "model.taken" if data else "model.refused"
        yield from write_audit(moment, by, action, scope or None, "", 1, (str(version),))
        return version

    @change
    def roll_back_model(self, tenant: str | None, by: Actor) -> Work[tuple[int | None, int | None]]:
        """Withdraw the current model of a scope; the one before it takes part again. Returns the numbers of both, None
        where there is none."""
        scope, moment = normalize_scope(tenant) or "", now()
        current = yield Read(_CURRENT + " AND scope = $1", (scope,))
        if not current:
            return None, None
        yield Write(_WITHDRAW, (scope,))
        former = yield Read(_FORMER, (scope,))
        if former:
            yield Write(_RESTORE, (former[0][0],))
        withdrawn, restored = int(current[0][1]), int(former[0][0]) if former else None
        sample = (str(withdrawn), *([str(restored)] if restored else ()))
        yield from write_audit(moment, by, "model.rolledBack", scope or None, "", 1, sample)
        return withdrawn, restored

    @change
    def take_pool(self, tenant: str | None, holder: str, until: int, *, only_due: bool) -> Work[bool]:
        """Lock a pool for training; False where another one trains it, or where it is not due and only that counts."""
        moment = now()
        values = (normalize_scope(tenant) or "", holder, until, moment, moment if only_due else _NEVER_DUE)
        return bool((yield Write(_TAKE, values)))

    @change
    def finish_pool(self, tenant: str | None, holder: str, next_run: int, outcome: str) -> Work[bool]:
        """Give the lock of a pool back, with what came of its training."""
        values = (normalize_scope(tenant) or "", holder, next_run, now(), storable(outcome))
        return bool((yield Write(_FINISH, values)))

    @query
    def learning_runs(self) -> Work[tuple[LearningRun, ...]]:
        """Every pool that was ever trained."""
        return tuple(LearningRun(row[0] or None, *row[1:]) for row in (yield Read(_RUNS)))


def delete_tenant_models(tenant: str) -> Work[int]:
    """Delete the models of a deleted tenant."""
    deleted = 0
    for statement in _DELETE_OF_TENANT:
        deleted += yield Write(statement, (tenant,))
    return deleted


def _model(row: Sequence[object] | Row) -> StoredModel:
    version, scope, state, created, figures, look_back = cast("tuple[int, str, ModelState, int, str, str]", tuple(row))
    seen = msgspec.json.decode(look_back, type=ModelLookBack) if look_back else None
    return StoredModel(version, scope or None, state, created, figures.encode(), seen)
