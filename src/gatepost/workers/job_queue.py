"""Which waiting job goes to which worker, and when.

A worker takes a new job only while nothing executes in it, and keeps few others suspended. There are three queues.
Most jobs share a worker with suspended ones. A large message, or one that has broken a worker, has its worker alone:
for the first of those a worker is reserved, which gets nothing new until it is empty, so that a stream of small mail
cannot starve it; and large messages never hold all workers, so that they cannot starve small mail either. Jobs that
only show a message to a person wait until no small mail does, or until `PATIENCE` jobs have gone before them.

Tenants take turns, and within a tenant it is first come first served. Whose turn it is, `TenantShares` counts over all
queues and workers, and a suspended job that has its answers takes a turn like a new one. While several tenants send
mail, no tenant has jobs in all workers: so one that floods the service leaves a worker to the others, in which their
mail need not wait until a job of the flood has ended.
"""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Generic, Protocol, TypeVar

from gatepost.scanning.turns import RecentTenants
from gatepost.workers.jobs import LARGE

MAX_SUSPENDED = 8
MAX_SUSPENDED_BYTES = 16 << 20
PATIENCE = 50


class WaitingJob(Protocol):
    """What the queue needs to know of a job."""

    @property
    def size(self) -> int: ...

    @property
    def alone(self) -> bool: ...

    @property
    def tenant(self) -> str | None: ...


class WorkerCapacity(Protocol):
    """What the queue needs to know of a worker."""

    @property
    def free(self) -> bool:
        """Whether it is ready, nothing executes in it, and it is not about to end."""
        ...

    @property
    def suspended(self) -> int: ...

    @property
    def suspended_bytes(self) -> int: ...

    @property
    def taken_alone(self) -> bool: ...

    def count_of(self, tenant: str | None) -> int:
        """How many jobs of this tenant are in it."""
        ...


J = TypeVar("J", bound=WaitingJob)
S = TypeVar("S", bound=WorkerCapacity)


class TenantShares:
    """How many turns each tenant has had, as far as it matters for the next: start-time fair queueing (Goyal, Vin and
    Cheng, 1996) with turns of equal cost.

    A turn begins at the virtual time at which the one before it of the same tenant ended, or now, if that is later; now
    is the beginning of the turn that was given last. Whoever begins first has the next turn. So a tenant that sends
    little goes before one that always has jobs waiting, and cannot save up turns for later.
    """

    def __init__(self) -> None:
        self._now = 0
        self._ends: dict[str | None, int] = {}
        self._most_ends = 64

    def start_of(self, tenant: str | None) -> int:
        """Return when the next turn of this tenant begins."""
        return max(self._now, self._ends.get(tenant, 0))

    def take(self, tenant: str | None) -> None:
        """Give this tenant a turn."""
        self._now = self.start_of(tenant)
        self._ends[tenant] = self._now + 1
        if len(self._ends) > self._most_ends:
            self._ends = {each: end for each, end in self._ends.items() if end > self._now}
            self._most_ends = max(64, 2 * len(self._ends))


class TenantTurns(Generic[J]):
    """Jobs of several tenants, by their shares. `first` is the one whose turn it is."""

    def __init__(self, shares: TenantShares) -> None:
        self._shares = shares
        self._again: deque[J] = deque()
        self._jobs: dict[str | None, deque[J]] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[J]:
        """The job of each tenant that goes first, in the order of their turns."""
        yield from self._again
        for tenant in sorted(self._jobs, key=self._shares.start_of):
            yield self._jobs[tenant][0]

    @property
    def first(self) -> J:
        if self._again:
            return self._again[0]
        if len(self._jobs) == 1:
            return next(iter(self._jobs.values()))[0]
        return self._jobs[min(self._jobs, key=self._shares.start_of)][0]

    def append(self, job: J) -> None:
        """Put a job behind those of its tenant."""
        self._jobs.setdefault(job.tenant, deque()).append(job)
        self.count += 1

    def appendleft(self, job: J) -> None:
        """Put a job, which has had its turn before, in front of all others."""
        self._again.appendleft(job)
        self.count += 1

    def take(self, job: J) -> J:
        """Take out a job, whose tenant has had a turn then."""
        self.discard(job)
        self._shares.take(job.tenant)
        return job

    def discard(self, job: J) -> None:
        """Take a job out, wherever it stands; one that is not here does no harm."""
        jobs = self._again if job in self._again else self._jobs.get(job.tenant)
        if jobs is None or job not in jobs:
            return
        jobs.remove(job)
        self.count -= 1
        if job.tenant in self._jobs and not self._jobs[job.tenant]:
            del self._jobs[job.tenant]


class JobQueue(Generic[J]):
    """The jobs that wait for a worker, by turns of their tenants but for `again`, which go first."""

    def __init__(self, shares: TenantShares | None = None, tenants: RecentTenants | None = None) -> None:
        self._shares, self._tenants = shares or TenantShares(), tenants or RecentTenants()
        self._alone: TenantTurns[J] = TenantTurns(self._shares)
        self._shared: TenantTurns[J] = TenantTurns(self._shares)
        self._patient: TenantTurns[J] = TenantTurns(self._shares)
        self._passed = 0

    def __len__(self) -> int:
        return len(self._alone) + len(self._shared) + len(self._patient)

    def put(self, job: J, *, again: bool = False, patient: bool = False) -> None:
        """Add a job at the end, or at the front if it has been waiting before; `patient` jobs let others go first."""
        self._tenants.note(job.tenant)
        queue = self._alone if job.alone else self._patient if patient else self._shared
        if again:
            queue.appendleft(job)
        else:
            queue.append(job)

    def remove(self, job: J) -> None:
        """Take a job out of its queue."""
        for queue in (self._alone, self._shared, self._patient):
            queue.discard(job)

    def goes_before(self, tenant: str | None) -> bool:
        """Whether a new job of small mail has its turn before the next turn of this tenant."""
        if not self._shared.count:
            return False
        return self._shares.start_of(self._shared.first.tenant) < self._shares.start_of(tenant)

    def next(self, workers: Collection[S]) -> tuple[J, S] | None:
        """Take out the next job that can start now; return it with its worker."""
        if not (self._shared.count or self._alone.count or self._patient.count):
            return None  # as after most frames
        reserved = None
        if self._alone.count and _may_be_alone(workers, self._alone.first):
            reserved = min((worker for worker in workers if not worker.taken_alone), key=_load, default=None)
            if reserved is not None and reserved.free and not reserved.suspended:
                return self._alone.take(self._alone.first), reserved
        if self._patient.count and (not self._shared.count or self._passed >= PATIENCE):
            worker = _find_room(workers, self._patient.first.size, reserved)
            if worker is not None:
                self._passed = 0
                return self._patient.take(self._patient.first), worker
        found = self._find_shared(workers, reserved)
        if found is not None:
            self._passed += bool(self._patient.count)
            self._shared.take(found[0])
        return found

    def _find_shared(self, workers: Collection[S], reserved: S | None) -> tuple[J, S] | None:
        """The first job of small mail that has a worker: that of the tenant whose turn it is, or of one after it, where
        that tenant has jobs in all the workers that it may use."""
        if not self._shared.count:
            return None
        if len(workers) == 1 or not self._tenants.are_several:
            worker = _find_room(workers, self._shared.first.size, reserved)
            return None if worker is None else (self._shared.first, worker)
        if not any(worker.free for worker in workers):
            return None
        for job in self._shared:
            worker = _find_room(_leave_one(workers, job.tenant), job.size, reserved)
            if worker is not None:
                return job, worker
        return None


def _leave_one(workers: Collection[S], tenant: str | None) -> Collection[S]:
    """The workers that a tenant may use while others send mail, too: not that with the fewest of its jobs, once it has
    jobs in all others. One with a large message counts as none, or the rest of that tenant's mail would wait for it."""
    used = [worker for worker in workers if not worker.taken_alone and worker.count_of(tenant)]
    if len(used) < len(workers) - 1:
        return workers
    return sorted(used, key=lambda worker: worker.count_of(tenant), reverse=True)[: len(workers) - 1]


def _may_be_alone(workers: Collection[WorkerCapacity], job: WaitingJob) -> bool:
    """All workers but one may hold a large message; a second attempt, which is short or killed, may take any."""
    taken = sum(worker.taken_alone for worker in workers)
    return taken < (len(workers) if job.size <= LARGE else max(1, len(workers) - 1))


def _load(worker: WorkerCapacity) -> tuple[bool, int]:
    return not worker.free, worker.suspended


def _find_room(workers: Collection[S], size: int, reserved: S | None) -> S | None:
    """The worker with room for so many bytes that holds the fewest others."""
    best, fewest = None, MAX_SUSPENDED
    for worker in workers:
        room = worker.suspended < fewest and worker.suspended_bytes + size <= MAX_SUSPENDED_BYTES
        if room and worker.free and worker is not reserved and not worker.taken_alone:
            best, fewest = worker, worker.suspended
            if not fewest:
                break
    return best
