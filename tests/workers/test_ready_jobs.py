"""Which job goes to which worker, and when."""

import itertools
from dataclasses import dataclass, field

from gatepost.workers.fair_queue import (
    MAX_SUSPENDED,
    MAX_SUSPENDED_BYTES,
    RECENT_SECONDS,
    USUAL_CPU,
    ReadyJobs,
    RecentTenants,
    TenantQueue,
    Turns,
)
from gatepost.workers.protocol import LARGE


@dataclass(frozen=True, eq=False)
class Job:
    name: str
    size: int = 100
    alone: bool = False
    tenant: str | None = None
    order: int = field(default_factory=itertools.count(1).__next__)


@dataclass
class Worker:
    suspended: int = 0
    suspended_bytes: int = 0
    free: bool = True
    taken_alone: bool = False
    tenants: dict[str | None, int] = field(default_factory=dict)

    def count_of(self, tenant: str | None) -> int:
        return self.tenants.get(tenant, 0)


BIG = Job("big", LARGE + 1, alone=True)


def queue(*jobs: Job) -> ReadyJobs[Job]:
    result: ReadyJobs[Job] = ReadyJobs()
    for job in jobs:
        result.put(job)
    return result


def started(waiting: ReadyJobs[Job], *workers: Worker) -> tuple[str, int] | None:
    found = waiting.next(workers)
    return (found[0].name, [worker is found[1] for worker in workers].index(True)) if found else None


def test_nobody_waits() -> None:
    assert started(queue(), Worker()) is None


def test_first_come_first_served_to_the_emptiest() -> None:
    waiting = queue(Job("a"), Job("b"))
    assert started(waiting, Worker(suspended=2), Worker(suspended=1)) == ("a", 1)
    assert started(waiting, Worker(suspended=2), Worker(free=False)) == ("b", 0)
    assert len(waiting) == 0


def order(waiting: ReadyJobs[Job]) -> list[str]:
    found = [started(waiting, Worker()) for _ in range(len(waiting))]
    assert started(waiting, Worker()) is None
    return [each[0] for each in found if each]


def test_tenants_take_turns() -> None:
    """A flood of one tenant waits; the others, who have had fewer turns, get the next free worker."""
    flood = [Job(f"a{number}", tenant="a") for number in range(50)]
    waiting = queue(*flood)
    assert started(waiting, Worker()) == ("a0", 0)
    for job in (Job("b0", tenant="b"), Job("b1", tenant="b"), Job("c0", tenant="c"), Job("none")):
        waiting.put(job)
    assert order(waiting) == ["b0", "c0", "none", "a1", "b1", *(f"a{number}" for number in range(2, 50))]


def test_tenants_take_turns_among_large_messages_and_among_small() -> None:
    waiting = queue(*(Job(f"a{number}", LARGE + 1, alone=True, tenant="a") for number in range(3)))
    waiting.put(Job("b0", LARGE + 1, alone=True, tenant="b"))
    assert order(waiting) == ["a0", "b0", "a1", "a2"]
    for name in ("a0", "a1", "b0"):
        waiting.put(Job(name, tenant=name[0]))
    assert order(waiting) == ["b0", "a0", "a1"], "the turns of large messages count, too"


def test_one_that_waited_before_goes_first_and_its_tenant_next() -> None:
    waiting = queue(Job("a0", tenant="a"), Job("b0", tenant="b"), Job("b1", tenant="b"))
    waiting.put(Job("b again", tenant="b"), again=True)
    assert order(waiting) == ["b again", "a0", "b0", "b1"]


def test_what_a_turn_has_cost_puts_off_the_next_ones() -> None:
    waiting = queue(*(Job(f"a{number}", tenant="a") for number in range(4)))
    waiting.turns.charge("a", 3.5 * USUAL_CPU)
    for number in range(5):
        waiting.put(Job(f"b{number}", tenant="b"))
    assert order(waiting) == ["b0", "b1", "b2", "a0", "b3", "a1", "b4", "a2", "a3"]
    waiting.turns.charge("b", 0.9 * USUAL_CPU)
    waiting.put(Job("b", tenant="b"))
    waiting.put(Job("a", tenant="a"))
    assert order(waiting) == ["b", "a"], "what costs as little as most does is one turn"


def test_nobody_saves_up_turns() -> None:
    """A tenant that was silent for long takes turns from now on, and is not served alone until it has caught up."""
    waiting = queue(*(Job(f"a{number}", tenant="a") for number in range(20)))
    assert [started(waiting, Worker()) for _ in range(10)][-1] == ("a9", 0)
    for number in range(5):
        waiting.put(Job(f"b{number}", tenant="b"))
    assert order(waiting)[:8] == ["b0", "a10", "b1", "a11", "b2", "a12", "b3", "a13"]


def test_a_job_that_goes_on_and_a_new_one_share_the_turns() -> None:
    turns = Turns()
    waiting: ReadyJobs[Job] = ReadyJobs(turns)
    for _ in range(3):
        turns.take("a")  # as a worker does for suspended jobs that have their answers
    assert not waiting.goes_before("a"), "nobody waits"
    waiting.put(Job("b0", tenant="b"))
    assert waiting.goes_before("a")
    assert not waiting.goes_before("c")
    waiting.put(Job("a0", tenant="a"))
    assert started(waiting, Worker()) == ("b0", 0)
    assert not waiting.goes_before("a")


def test_turns_forget_tenants_that_sent_nothing_for_long() -> None:
    turns = Turns()
    for number in range(10_000):
        turns.take(str(number % 5_000))
        for _ in range(2):
            turns.take("flood")
    assert len(turns._ends) <= 129


def test_while_several_tenants_send_mail_none_has_jobs_in_all_workers() -> None:
    clock = [0.0]
    tenants = RecentTenants(lambda: clock[0])
    waiting: ReadyJobs[Job] = ReadyJobs(tenants=tenants)
    workers = Worker(suspended=2, tenants={"a": 2}), Worker(suspended=1, tenants={"a": 1}), Worker()
    for job in ("b0", "a0", "a1", "a2"):
        tenants.note(job[0])
        waiting.put(Job(job, tenant=job[0]))
    assert started(waiting, *workers[:2]) == ("b0", 1), "who has none there may use any"
    workers[1].suspended, workers[1].tenants = 2, {"a": 1, "b": 1}
    assert started(waiting, *workers) == ("a0", 0), "the emptiest is left to others"
    workers[0].free = False
    assert started(waiting, *workers) == ("a1", 1)
    workers[1].free = False
    assert started(waiting, *workers) is None
    waiting.put(Job("c0", tenant="c"))
    assert started(waiting, *workers) == ("c0", 2), "one that may start does not wait for one that may not"
    clock[0] += RECENT_SECONDS + 1
    tenants.note("a")
    waiting.put(Job("a3", tenant="a"))
    assert started(waiting, *workers) == ("a2", 2), "alone it has them all"


def test_mail_does_not_wait_for_a_large_message_of_its_tenant() -> None:
    waiting = queue(Job("b0", tenant="b"), Job("a0", tenant="a"))
    large, other = Worker(suspended=1, taken_alone=True, free=False, tenants={"a": 1}), Worker()
    assert started(waiting, large, other) == ("b0", 1)
    assert started(waiting, large, other) == ("a0", 1)


def test_tenants_without_jobs_are_forgotten() -> None:
    jobs = [Job("x", tenant=str(number)) for number in range(9)]
    waiting = queue(*jobs)
    waiting.remove(jobs[3])
    assert len(order(waiting)) == 8
    assert waiting._shared._by_tenant == {}
    assert waiting._shared._places == {}


def test_a_worker_that_executes_or_is_full_takes_nothing() -> None:
    waiting = queue(Job("a"))
    for worker in (
        Worker(free=False),
        Worker(suspended=MAX_SUSPENDED),
        Worker(suspended=1, suspended_bytes=MAX_SUSPENDED_BYTES - 99),
        Worker(suspended=1, taken_alone=True),
    ):
        assert started(waiting, worker) is None
    assert started(waiting, Worker(suspended=MAX_SUSPENDED - 1, suspended_bytes=MAX_SUSPENDED_BYTES - 100)) == ("a", 0)


def test_a_large_message_has_its_worker_alone() -> None:
    waiting = queue(BIG)
    assert started(waiting, Worker(suspended=1), Worker(suspended=1)) is None
    assert started(waiting, Worker(suspended=1), Worker()) == ("big", 1)


def test_small_mail_does_not_starve_a_large_message() -> None:
    waiting = queue(BIG, *(Job(str(number)) for number in range(9)))
    reserved, other = Worker(suspended=1), Worker(suspended=3)
    assert started(waiting, reserved, other) == ("0", 1)
    assert started(waiting, reserved, Worker(free=False, suspended=1)) is None
    reserved.suspended = 0
    assert started(waiting, reserved, other) == ("big", 0)


def test_large_messages_do_not_starve_small_mail() -> None:
    waiting = queue(BIG, Job("small"))
    holder = Worker(suspended=1, taken_alone=True, free=False)
    assert started(waiting, holder, Worker()) == ("small", 1)
    assert started(waiting, holder, Worker()) is None
    assert started(waiting, Worker(), Worker()) == ("big", 0)


def test_a_single_worker_serves_both() -> None:
    waiting = queue(BIG, Job("small"))
    assert started(waiting, Worker()) == ("big", 0)
    assert started(waiting, Worker()) == ("small", 0)


def test_a_second_attempt_goes_first_even_beside_a_large_message() -> None:
    waiting = queue(BIG, Job("small"))
    waiting.put(Job("again", alone=True), again=True)
    holder = Worker(suspended=1, taken_alone=True, free=False)
    assert started(waiting, holder, Worker()) == ("again", 1)


def test_one_that_left_is_not_started() -> None:
    small = Job("a")
    waiting = queue(small, BIG)
    waiting.remove(BIG)
    waiting.remove(small)
    waiting.remove(small)
    assert started(waiting, Worker()) is None


def test_a_turn_costs_the_same_however_many_tenants_wait() -> None:
    """Each start of a turn is asked for a few times, over any number of tenants."""

    class Counting(Turns):
        asked = 0

        def start_of(self, tenant: str | None) -> int:
            self.asked += 1
            return super().start_of(tenant)

    for tenants in (30, 3_000):
        turns = Counting()
        waiting: TenantQueue[Job] = TenantQueue(turns)
        for number in range(2 * tenants):
            waiting.add(Job("x", tenant=str(number % tenants), order=number))
        turns.asked = 0
        while (job := waiting.first()) is not None:
            waiting.take(job)
        assert turns.asked < 12 * 2 * tenants
