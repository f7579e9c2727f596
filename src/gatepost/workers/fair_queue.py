"""Admission: which message goes next at a core, whatever door it came by.

1. A message is analysed in a slot, of which there are `maximum`; with n of them taken, and n at least `threshold`, its
   analysis starts max_delay x (n - threshold + 1) / (maximum - threshold + 1) later, which slows senders down.
2. Of what all share (slots, bytes that wait, bytes of a spool, sessions), a tenant gets more while it has less than
   `SHARE` times what is free (`Shares`), and while nobody else sends mail it gets all slots that it asks for.
3. The tenant that asks for most (`Demand`) also leaves a processor free to others, and one whose messages are costly
   leaves it to all who have sent mail within ten minutes.
4. A message that gets no slot waits: tenants take turns (`Turns`, the start-time fair queueing of Goyal, Vin and Cheng,
   1996), and within a tenant the message that came first goes first.
5. Over the scan API it waits as long as its client does, else `PATIENCE` seconds, after which the mail server is told
   to come again (451).

A message that has its slot gets a worker by such turns, too (`ReadyJobs`); there a costly message counts as several.
"""

import asyncio
import math
import time
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from gatepost.process.background_work import background
from gatepost.scanning.request import Load, Shares
from gatepost.workers.protocol import LARGE

# A tenant that has sent no mail for so long is not waited for.
RECENT_SECONDS = 3.0
# Costly mail leaves room for a tenant that has sent mail within so long: the next message of that one finds it.
REMEMBERED_SECONDS = 600.0

Tenant: TypeAlias = str | None
# When the turn of a message begins, and when the message came.
Place: TypeAlias = tuple[int, int]


class Turns:
    """When the next turn of each tenant begins, in virtual time.

    A turn begins where the one before it of the same tenant ended, or now, if that is later; now is the beginning of
    the turn that was given last. Whoever begins first has the next turn. So nobody can save up turns for later, and a
    tenant without a turn is not remembered.
    """

    def __init__(self) -> None:
        self._now = 0
        self._ends: dict[Tenant, int] = {}
        self._most_ends = 64

    def start_of(self, tenant: Tenant) -> int:
        """Return when the next turn of this tenant begins."""
        return max(self._now, self._ends.get(tenant, 0))

    def take(self, tenant: Tenant) -> None:
        end = self._ends.get(tenant, 0)
        if end > self._now:
            self._now = end
        self._ends[tenant] = self._now + 1
        if len(self._ends) > self._most_ends:
            self._ends = {each: end for each, end in self._ends.items() if end > self._now}
            self._most_ends = max(64, 2 * len(self._ends))

    def charge(self, tenant: Tenant, seconds: float) -> None:
        """Put off the next turns of this tenant for what a turn has cost: as many as usual messages take so long."""
        if turns := int(seconds / USUAL_CPU):
            self._ends[tenant] = self.start_of(tenant) + turns


class RecentTenants:
    """Who has sent mail just now. Rules that leave something to others hold only while there are others. Of those the
    one that was last is enough: `_last` is who sent the last message, `_other` when somebody else did so before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: Tenant = None
        self._last_at = self._other_at = -math.inf

    def note(self, tenant: Tenant) -> None:
        """Count a message of this tenant; None stands for the deployment."""
        if tenant != self._last:
            self._last, self._other_at = tenant, self._last_at
        self._last_at = self._clock()

    def were_several(self, seconds: float = RECENT_SECONDS) -> bool:
        """Whether more than one tenant has sent mail within so many seconds."""
        return self._other_at >= self._clock() - seconds


# What the messages that wait for a slot may hold in all.
WAITING_LIMIT = 1 << 30
# How many seconds a message of a mail server waits for a slot.
PATIENCE = 10.0
# A message that has waited for so long, for DNS or for its delay, is not at work.
IDLE_SECONDS = 0.02
# Of so many tenants it is known what they asked for while they had no message here.
MAX_DEMANDS = 1_024
# CPU seconds that most messages take less of.
USUAL_CPU = 0.01
# Messages of a tenant that cost more than so many usual ones are costly.
COSTLY = 5.0

MAX_SUSPENDED = 8
MAX_SUSPENDED_BYTES = 16 << 20


class HasTurn(Protocol):
    """What waits for its turn: whose it is, and when it came (a number that grows)."""

    @property
    def tenant(self) -> Tenant: ...

    @property
    def order(self) -> int: ...


T = TypeVar("T", bound=HasTurn)


def _order(waiting: HasTurn) -> int:
    return waiting.order


class TenantQueue(Generic[T]):
    """What waits, by the turns of tenants. Each tenant has its own by arrival.

    A heap has one current entry for each tenant; what is in it besides is out of date, and dropped when it comes up.
    The beginning of a turn only ever grows, so a turn costs the same whether three tenants wait or three thousand.
    """

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self._again: deque[T] = deque()
        self._by_tenant: dict[Tenant, list[T]] = {}
        self._heap: list[tuple[Place, str]] = []
        self._places: dict[str, Place] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[T]:
        """Whatever goes first of each tenant, in the order of their turns."""
        yield from self._again
        firsts = [waiting[0] for waiting in self._by_tenant.values()]
        yield from sorted(firsts, key=lambda one: (self.turns.start_of(one.tenant), one.order))

    def add(self, one: T) -> None:
        """Let one wait; among those of its tenant its arrival counts, so that one that waited before is first again."""
        waiting = self._by_tenant.setdefault(one.tenant, [])
        if waiting and waiting[-1].order > one.order:
            insort(waiting, one, key=_order)
        else:
            waiting.append(one)
        self._note_place(one.tenant)
        self.count += 1

    def add_again(self, one: T) -> None:
        """Put one that has had its turn before in front of all others."""
        self._again.appendleft(one)
        self.count += 1

    def first(self, may_go: Callable[[Tenant], bool] | None = None) -> T | None:
        """Return the one whose turn it is; tenants that may not go are passed over."""
        if not self.count:
            return None
        if self._again:
            return self._again[0]
        passed: list[tuple[Place, str]] = []
        found: T | None = None
        while self._heap and found is None:
            place, name = self._heap[0]
            tenant = name or None
            is_current = self._places.get(name) == place
            if not is_current or self.turns.start_of(tenant) != place[0]:
                heappop(self._heap)
                if is_current:
                    self._note_place(tenant)
            elif may_go is None or may_go(tenant):
                found = self._by_tenant[tenant][0]
            else:
                passed.append(heappop(self._heap))
        for each in passed:
            heappush(self._heap, each)
        return found

    def take(self, one: T) -> T:
        """Take one out, whose tenant has had a turn then."""
        self.turns.take(one.tenant)
        self.discard(one)
        return one

    def discard(self, one: T) -> bool:
        """Take one out, wherever it stands; False if it is not here."""
        if not self.count:
            return False
        if self._again and one in self._again:
            self._again.remove(one)
            self.count -= 1
            return True
        tenant = one.tenant
        waiting = self._by_tenant.get(tenant)
        if waiting is None:
            return False
        if waiting[0] is one:  # as a rule
            del waiting[0]
        elif not _delete(waiting, one):
            return False
        self.count -= 1
        if not waiting:
            del self._by_tenant[tenant]
            self._places.pop(tenant or "", None)
        if waiting:
            self._note_place(tenant)
        elif not self._by_tenant:
            self._heap.clear()
        return True

    def _note_place(self, tenant: Tenant) -> None:
        place, name = (self.turns.start_of(tenant), self._by_tenant[tenant][0].order), tenant or ""
        if self._places.get(name) != place:
            self._places[name] = place
            heappush(self._heap, (place, name))


def _delete(waiting: list[T], one: T) -> bool:
    """Delete one of those that wait, which stand by their arrival; False if it is not among them."""
    at = bisect_left(waiting, one.order, key=_order)
    while at < len(waiting) and waiting[at] is not one and waiting[at].order == one.order:
        at += 1
    if at == len(waiting) or waiting[at] is not one:
        return False
    del waiting[at]
    return True


class QueueCounters(msgspec.Struct, frozen=True):
    """How many messages were admitted, throttled (these were admitted too) and refused since the start, and for how
    many seconds messages have waited because all slots were taken, those that still wait among them."""

    admitted: int
    throttled: int
    refused: int
    waited: float = 0.0


class Slot:
    """One message in processing, until `leave` is called. `delay` is in seconds."""

    def __init__(self, queue: "FairQueue", tenant: Tenant, delay: float) -> None:
        self.delay, self._tenant = delay, tenant
        self._queue: FairQueue | None = queue

    async def delay_start(self) -> None:
        """Return when the analysis may start; until then the message is not at work."""
        if self.delay and self._queue:
            self._queue.count_at_work(self._tenant, -1)
            try:
                await asyncio.sleep(self.delay)
            finally:
                self._queue.count_at_work(self._tenant, 1)

    def leave(self) -> None:
        """Give the slot back; a second call does nothing."""
        queue, self._queue = self._queue, None
        if queue:
            queue.give_back(self._tenant)


class _Waiter:
    """A message that waits for a slot."""

    def __init__(self, tenant: Tenant, order: int) -> None:
        self.tenant, self.order = tenant, order
        self.slot: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()

    def withdraw(self) -> None:
        """Stop waiting, and give back a slot that it was given meanwhile."""
        if self.slot.done() and not self.slot.cancelled():
            self.slot.result().leave()
        self.slot.cancel()


class Demand:
    """What a tenant asks for: how many messages it has here, waiting or in processing, and what one usually costs."""

    def __init__(self) -> None:
        self.messages, self.cost = 0, 1.0

    def note_cost(self, cost: float) -> None:
        """Count what one message has cost. More is believed sooner than less: cheap ones in between hide nothing."""
        self.cost += (cost - self.cost) * (0.5 if cost > self.cost else 0.1)


class FairQueue:
    """The slots of one core, and the messages that wait for one. It belongs to one event loop; only `wait` waits.

    It outlives the settings of a process: of these only the delay can change while it runs.
    """

    def __init__(
        self,
        maximum: int,
        threshold: int,
        max_delay: float,
        *,
        waiting_limit: int = WAITING_LIMIT,
        patience: float = PATIENCE,
    ) -> None:
        self._threshold, self._max_delay, self.patience = threshold, max_delay, patience
        self.tenants = RecentTenants()
        # Messages in processing, and the bytes of those that wait for a slot, which may wait if there is room for them.
        self._slots, self.waiting_bytes = Shares(maximum), Shares(waiting_limit)
        self._waiters: TenantQueue[_Waiter] = TenantQueue(Turns())
        self._waiting = self._admitted = self._throttled = self._refused = 0
        self._late, self._late_since, self._waited = 0, 0.0, 0.0
        self._demands: dict[Tenant, Demand] = {}
        self._asks_most: Tenant = None
        self._at_work: Counter[Tenant] = Counter()
        self._most_at_work = maximum
        self._count_idle: Callable[[Tenant], int] = lambda _tenant: 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> tuple[int, int]:
        """How many messages wait, and their bytes."""
        return self._waiting, self.waiting_bytes.used

    def share_processors(self, workers: int, count_idle: Callable[[Tenant], int]) -> None:
        """Leave a processor to other tenants, of as many as there are workers in this process; `count_idle` returns how
        many messages of a tenant have been waiting for answers for `IDLE_SECONDS`."""
        self._most_at_work, self._count_idle = max(1, workers - 1), count_idle

    def load(self) -> Load:
        return Load(self._slots.used, self._threshold, self._slots.maximum, waiting=self._waiting)

    def counters(self) -> QueueCounters:
        """Counts since the start, for metrics."""
        self._count_late(0)
        return QueueCounters(self._admitted, self._throttled, self._refused, self._waited)

    def enter(self, tenant: Tenant) -> Slot | None:
        """Take a slot for a message that has come; None where it has to wait, or others go first."""
        self.tenants.note(tenant)
        background.note_mail()
        if not self._may_have_slot(tenant):
            return None
        if self._waiters.count and self._waiters.first(self._may_have_slot):
            return None
        return self._take(tenant)

    async def wait(
        self,
        tenant: Tenant,
        order: int,
        size: int,
        ends: Iterable[asyncio.Future[None]],
        patience: float | None = None,
    ) -> Slot | None:
        """Return a slot when it is the turn of this message, which came at `order`; None once one of `ends` is done, or
        after so many seconds."""
        waiter = _Waiter(tenant, order)
        # A message can wait for the turn of its tenant, too, while there are slots.
        late = int(not self._slots.free)
        self._count_late(late)
        self._waiters.add(waiter)
        self._count_demand(tenant, 1)
        self._waiting += 1
        self.waiting_bytes.take(tenant, size)
        given: Slot | None = None
        try:
            self._serve()
            awaited: list[asyncio.Future[Any]] = [waiter.slot, *ends]
            done, _ = await asyncio.wait(awaited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            self._refused += not done
            given = waiter.slot.result() if waiter.slot.done() else None
            return given
        finally:
            if given is None:
                waiter.withdraw()
            self._count_late(-late)
            self._count_demand(tenant, -1)
            self._waiting -= 1
            self.waiting_bytes.give_back(tenant, size)
            if self._waiters.discard(waiter):
                self._serve()

    def give_back(self, tenant: Tenant) -> None:
        """Give back a slot of this tenant to whoever is next."""
        self.count_at_work(tenant, -1)
        self._count_demand(tenant, -1)
        self._slots.give_back(tenant)
        if self._waiters.count:
            self._serve()

    def _count_late(self, change: int) -> None:
        """Count the time of the messages that have waited for any slot until now, and so many more or fewer."""
        now = time.monotonic()
        self._waited += self._late * (now - self._late_since)
        self._late, self._late_since = self._late + change, now

    def note_cpu(self, tenant: Tenant, seconds: float) -> None:
        """Count the CPU time that a worker took for a message: one that takes as much as a hundred others counts as a
        hundred. Else whoever sends few and costly ones would leave nothing to those who send many."""
        self._count_demand(tenant, 0, 1 + seconds / USUAL_CPU)

    def _count_demand(self, tenant: Tenant, change: int, cost: float | None = None) -> None:
        """Count so many more messages of a tenant, or what one has cost, and look who asks for most."""
        demands = self._demands
        demand = demands.get(tenant)
        if demand is None:
            demand = demands[tenant] = Demand()
        demand.messages += change
        if cost is not None:
            demand.note_cost(cost)
        if tenant != self._asks_most:
            most = demands.get(self._asks_most)
            if most is None or demand.messages * demand.cost > most.messages * most.cost:
                self._asks_most = tenant
        if not demand.messages and len(demands) > MAX_DEMANDS:
            del demands[tenant]

    def _take(self, tenant: Tenant) -> Slot | None:
        before = self._slots.used
        if not self._slots.free:
            return None
        self._slots.take(tenant)
        self._at_work[tenant] = self._at_work.get(tenant, 0) + 1
        self._count_demand(tenant, 1)
        delay = 0.0 if before < self._threshold else self._delay(before)
        self._admitted += 1
        self._throttled += delay > 0
        return Slot(self, tenant, delay)

    def _delay(self, before: int) -> float:
        over, maximum = before - self._threshold + 1, self._slots.maximum
        if over <= 0 or self._threshold >= maximum:
            return 0.0
        return self._max_delay * over / (maximum - self._threshold + 1)

    def _may_have_slot(self, tenant: Tenant) -> bool:
        """Whether a tenant may have the next slot, or has its share of them, or of the processors, already."""
        if not self.tenants.were_several() and not self._must_leave_room(tenant):
            return True
        if not self._slots.has_room(tenant):
            return False
        if tenant != self._asks_most:
            return True
        at_work = self._at_work[tenant] + background.is_running
        return at_work < self._most_at_work or at_work - self._count_idle(tenant) < self._most_at_work

    def _must_leave_room(self, tenant: Tenant) -> bool:
        """Whether the messages of this tenant are costly, and another has sent mail not long ago. A message of another
        that comes while costly ones are in all workers waits for one of these to end, and others behind it."""
        demand = self._demands.get(tenant)
        return demand is not None and demand.cost > COSTLY and self.tenants.were_several(REMEMBERED_SECONDS)

    def count_at_work(self, tenant: Tenant, change: int) -> None:
        """Count so many more messages of a tenant that use a processor."""
        self._at_work[tenant] += change
        if not self._at_work[tenant]:
            del self._at_work[tenant]

    def _serve(self) -> None:
        """Give free slots to the messages whose turn it is."""
        while self._waiters.count and self._slots.free:
            waiter = self._waiters.first(self._may_have_slot)
            if waiter is None or (slot := self._take(waiter.tenant)) is None:
                self._look_again()
                return
            self._waiters.take(waiter)
            if waiter.slot.done():
                slot.leave()
            else:
                waiter.slot.set_result(slot)

    def _look_again(self) -> None:
        """Look again in a while, if there are slots: a message may not be at work any more."""
        if self._timer is None and self._slots.free:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._serve()


class ReadyJob(HasTurn, Protocol):
    """What must be known of a job that has its slot and waits for a worker."""

    @property
    def size(self) -> int: ...

    @property
    def alone(self) -> bool: ...


class WorkerCapacity(Protocol):
    """What must be known of a worker."""

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

    def count_of(self, tenant: Tenant) -> int:
        """How many jobs of this tenant are in it."""
        ...


J = TypeVar("J", bound=ReadyJob)
W = TypeVar("W", bound=WorkerCapacity)


class ReadyJobs(Generic[J]):
    """The jobs that wait for a worker of one pool, by turns of their tenants but for `again`, which go first. A large
    message, or one that broke a worker, has a worker alone, which is reserved for it; large ones never hold all."""

    def __init__(self, turns: Turns | None = None, tenants: RecentTenants | None = None) -> None:
        self.turns, self._tenants = turns or Turns(), tenants or RecentTenants()
        self._alone: TenantQueue[J] = TenantQueue(self.turns)
        self._shared: TenantQueue[J] = TenantQueue(self.turns)

    def __len__(self) -> int:
        return self._alone.count + self._shared.count

    def put(self, job: J, *, again: bool = False) -> None:
        """Add a job at the end, or at the front if it has been waiting before."""
        queue = self._alone if job.alone else self._shared
        if again:
            queue.add_again(job)
        else:
            queue.add(job)

    def remove(self, job: J) -> None:
        for queue in (self._alone, self._shared):
            queue.discard(job)

    def goes_before(self, tenant: Tenant) -> bool:
        """Whether a new job of small mail has its turn before the next turn of this tenant."""
        first = self._shared.first() if self._shared.count else None
        if first is None or first.tenant == tenant:
            return False
        return self.turns.start_of(first.tenant) < self.turns.start_of(tenant)

    def next(self, workers: Collection[W]) -> tuple[J, W] | None:
        """Take out the next job that can start now; return it with its worker."""
        if not (self._shared.count or self._alone.count):
            return None
        for worker in workers:
            if worker.free:
                break
        else:
            return None  # as after most frames
        reserved = None
        alone = self._alone.first() if self._alone.count else None
        if alone is not None and _may_be_alone(workers, alone):
            reserved = min(
                (worker for worker in workers if not worker.taken_alone),
                key=lambda worker: (not worker.free, worker.suspended),
                default=None,
            )
            if reserved is not None and reserved.free and not reserved.suspended:
                return self._alone.take(alone), reserved
        found = self._find_shared(workers, reserved)
        if found is not None:
            self._shared.take(found[0])
        return found

    def _find_shared(self, workers: Collection[W], reserved: W | None) -> tuple[J, W] | None:
        """The first job of small mail that has a worker: that of the tenant whose turn it is, or of one after it, where
        that tenant has jobs in all the workers that it may use."""
        first = self._shared.first()
        if first is None:
            return None
        if len(workers) == 1 or not self._tenants.were_several():
            worker = _find_room(workers, first.size, reserved)
            return None if worker is None else (first, worker)
        for job in self._shared:
            worker = _find_room(_leave_one(workers, job.tenant), job.size, reserved)
            if worker is not None:
                return job, worker
        return None


def _leave_one(workers: Collection[W], tenant: Tenant) -> Collection[W]:
    """The workers that a tenant may use while others send mail, too: not that with the fewest of its jobs, once it has
    jobs in all others. One with a large message counts as none, or the rest of that tenant's mail would wait for it."""
    used = [worker for worker in workers if not worker.taken_alone and worker.count_of(tenant)]
    if len(used) < len(workers) - 1:
        return workers
    return sorted(used, key=lambda worker: worker.count_of(tenant), reverse=True)[: len(workers) - 1]


def _may_be_alone(workers: Collection[WorkerCapacity], job: ReadyJob) -> bool:
    """All workers but one may hold a large message; a second attempt, which is short or killed, may take any."""
    taken = sum(worker.taken_alone for worker in workers)
    return taken < (len(workers) if job.size <= LARGE else max(1, len(workers) - 1))


def _find_room(workers: Collection[W], size: int, reserved: W | None) -> W | None:
    """The worker with room for so many bytes that holds the fewest others."""
    best, fewest = None, MAX_SUSPENDED
    for worker in workers:
        if not worker.free or worker is reserved:
            continue
        suspended = worker.suspended
        if not suspended:
            return worker
        room = suspended < fewest and worker.suspended_bytes + size <= MAX_SUSPENDED_BYTES
        if room and not worker.taken_alone:
            best, fewest = worker, suspended
    return best
