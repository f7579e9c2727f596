"""Jobs: work that one process of all nodes does at a time, such as sending the digests of a tenant or running a feed.

A job has a kind and a scope, and a row with its lease. Whoever finds a lease expired may take it, so that a process
which was killed keeps a job from others no longer than that; one that works renews it in time, however long the work
takes, and learns there if it has lost it. When a job is due again, and what came of it last, stands in the same row.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

import msgspec

from gatepost.ids import new_id
from gatepost.process.logs import Logger
from gatepost.process.periodic import complete
from gatepost.store.engine import Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.errors import StorageError
from gatepost.store.sql import Row, sql

LEASE_SECONDS = 900.0
# A lease is renewed three times before it ends.
RENEWALS = 3

_COLUMNS = "kind, scope, holder, locked_until, next_run, finished, outcome, detail"
_SELECT = sql(f"SELECT {_COLUMNS} FROM jobs WHERE kind = $1 AND scope = $2")  # noqa: S608
_OF_KIND = sql(f"SELECT {_COLUMNS} FROM jobs WHERE kind = $1 ORDER BY scope")  # noqa: S608
_TAKE = sql("""INSERT INTO jobs (kind, scope, holder, locked_until, next_run, finished, outcome, detail)
VALUES ($1, $2, $3, $4, 0, 0, '', '{}') ON CONFLICT (kind, scope) DO UPDATE
SET holder = excluded.holder, locked_until = excluded.locked_until
WHERE (jobs.locked_until <= $5 OR jobs.holder = excluded.holder) AND jobs.next_run <= $6""")
_RENEW = sql("UPDATE jobs SET locked_until = $4 WHERE kind = $1 AND scope = $2 AND holder = $3")
_RELEASE = sql("UPDATE jobs SET holder = '', locked_until = 0 WHERE kind = $1 AND scope = $2 AND holder = $3")
_FINISH = sql("""UPDATE jobs SET holder = '', locked_until = 0, next_run = coalesce($4, next_run),
finished = $5, outcome = $6, detail = $7 WHERE kind = $1 AND scope = $2 AND holder = $3""")
_HOLD = sql("SELECT holder FROM jobs WHERE kind = $1 AND scope = $2 @lock(UPDATE)")
_PLAN = sql("""INSERT INTO jobs (kind, scope, holder, locked_until, next_run, finished, outcome, detail)
VALUES ($1, $2, '', 0, $3, 0, '', '{}') ON CONFLICT (kind, scope) DO UPDATE SET next_run = excluded.next_run""")
_FORGET = sql("DELETE FROM jobs WHERE kind = $1 AND scope = $2")
_NEVER_DUE = 1 << 62

log = Logger("gatepost.store")


class Job(msgspec.Struct, frozen=True):
    """A job as storage knows it; `holder` has it until `locked_until`. `scope` is a tenant, "" for the deployment, or
    what else tells jobs of a kind apart. `detail` is JSON."""

    kind: str
    scope: str
    holder: str = ""
    locked_until: int = 0
    next_run: int = 0
    finished: int = 0
    outcome: str = ""
    detail: str = "{}"


class HeldJob:
    """A job that this process has. `is_lost` once another process has taken it, whatever this one was doing."""

    def __init__(self, jobs: "Jobs", job: Job, seconds: float) -> None:
        self._jobs, self._seconds = jobs, seconds
        self.job, self.is_lost = job, False

    async def finish(self, next_run: int | None = None, *, outcome: str = "", detail: str = "{}") -> bool:
        """Give the job back and remember what came of it, and when it is due next, if that is another time; False where
        it was lost, and nothing is remembered."""
        return await self._jobs.finish(self.job, next_run, outcome, detail)

    async def renew(self) -> None:
        """Renew the lease until the job is lost."""
        while not self.is_lost:
            await asyncio.sleep(self._seconds / RENEWALS)
            try:
                self.is_lost = not await self._jobs.renew(self.job, _end_of(self._seconds))
            except StorageError as fault:
                # Nobody can take the job while storage does not answer.
                log.warning("a job could not be kept", kind=self.job.kind, scope=self.job.scope, reason=str(fault))


class Jobs(Operations):
    """Jobs of all kinds."""

    @contextlib.asynccontextmanager
    async def take(
        self, kind: str, scope: str | None = None, *, seconds: float = LEASE_SECONDS, only_due: bool = False
    ) -> AsyncIterator[HeldJob | None]:
        """Have a job while the context lasts; None where another process has it, or where it is not due and only that
        counts. The lease is of so many seconds, and is renewed."""
        holder = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-12:]}"
        try:
            job = await self.hold(kind, scope, holder, _end_of(seconds), only_due=only_due)
        except asyncio.CancelledError:  # storage may have given it all the same
            await complete(self._leave(kind, scope, holder))
            raise
        if job is None:
            yield None
            return
        held = HeldJob(self, job, seconds)
        renewing = asyncio.create_task(held.renew())
        try:
            yield held
        finally:
            renewing.cancel()
            await complete(self._leave(kind, scope, holder, renewing))

    async def _leave(self, kind: str, scope: str | None, holder: str, *ending: asyncio.Task[None]) -> None:
        await asyncio.gather(*ending, return_exceptions=True)
        # Without storage the lease ends by itself.
        with contextlib.suppress(StorageError):
            await self._release(kind, scope, holder)

    @change
    def hold(
        self, kind: str, scope: str | None, holder: str, until: int, *, only_due: bool = False
    ) -> Work[Job | None]:
        """Take a job, or keep it, for a holder that outlives a process; as `take` else."""
        return (yield from hold_job(kind, scope, holder, until, only_due=only_due))

    @change
    def renew(self, job: Job, until: int) -> Work[bool]:
        """Renew a lease; False where another process has taken the job."""
        return bool((yield Write(_RENEW, (job.kind, job.scope, job.holder, until))))

    @change
    def finish(self, job: Job, next_run: int | None, outcome: str, detail: str) -> Work[bool]:
        """As `finish_job`."""
        return (yield from finish_job(job, next_run, outcome=outcome, detail=detail))

    @change
    def _release(self, kind: str, scope: str | None, holder: str) -> Work[None]:
        yield from release_job(kind, normalize_scope(scope) or "", holder)

    @query
    def find(self, kind: str, scope: str | None = None) -> Work[Job]:
        """One job; as if it never ran where it never did."""
        return (yield from read_job(kind, scope))

    @query
    def of_kind(self, kind: str) -> Work[tuple[Job, ...]]:
        """All jobs of a kind, by scope."""
        return (yield from read_jobs(kind))


def hold_job(kind: str, scope: str | None, holder: str, until: int, *, only_due: bool = False) -> Work[Job | None]:
    """`Jobs.hold` as a part of other work."""
    moment, owner = now(), normalize_scope(scope) or ""
    if not (yield Write(_TAKE, (kind, owner, holder, until, moment, moment if only_due else _NEVER_DUE))):
        return None
    return (yield from read_job(kind, owner))


def read_job(kind: str, scope: str | None) -> Work[Job]:
    """`Jobs.find` as a part of other work."""
    owner = normalize_scope(scope) or ""
    rows = yield Read(_SELECT, (kind, owner))
    return _job(rows[0]) if rows else Job(kind, owner)


def read_jobs(kind: str) -> Work[tuple[Job, ...]]:
    """`Jobs.of_kind` as a part of other work."""
    return tuple(map(_job, (yield Read(_OF_KIND, (kind,)))))


def is_held(job: Job) -> Work[bool]:
    """Whether a holder has its job still; until the work ends nobody takes it."""
    rows = yield Read(_HOLD, (job.kind, job.scope))
    return bool(rows) and rows[0][0] == job.holder


def finish_job(job: Job, next_run: int | None, *, outcome: str = "", detail: str = "{}") -> Work[bool]:
    """Give a job back and remember what came of it; False where it was lost, and nothing is remembered."""
    key = (job.kind, job.scope, job.holder)
    return bool((yield Write(_FINISH, (*key, next_run, now(), storable(outcome), storable(detail)))))


def release_job(kind: str, scope: str, holder: str) -> Work[bool]:
    """Give a job back; False where another process has it."""
    return bool((yield Write(_RELEASE, (kind, scope, holder))))


def plan_job(kind: str, scope: str, next_run: int) -> Work[None]:
    """Say when a job is due next, whether it ran before or not."""
    yield Write(_PLAN, (kind, scope, next_run))


def forget_job(kind: str, scope: str) -> Work[bool]:
    """Forget what came of a job, and that it ran."""
    return bool((yield Write(_FORGET, (kind, scope))))


def _end_of(seconds: float) -> int:
    return now() + int(seconds * 1_000)


def _job(row: Row) -> Job:
    kind, scope, holder, locked_until, next_run, finished, outcome, detail = row
    return Job(kind, scope, holder, int(locked_until), int(next_run), int(finished), outcome, detail)
