"""Slots: n >= max is refused or waits; threshold <= n < max is delayed in proportion; threshold >= max never is.
Tenants take turns among what waits."""

import asyncio
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.scanning.request import SHARE, Shares
from gatepost.workers.fair_queue import IDLE_SECONDS, RECENT_SECONDS, REMEMBERED_SECONDS, FairQueue, Slot


def delays(maximum: int, threshold: int, max_delay: float) -> list[float]:
    """The delays of as many as come in, one after another."""
    queue = FairQueue(maximum, threshold, max_delay)
    return [slot.delay for slot in iter(lambda: queue.enter(None), None)]


@pytest.mark.parametrize(
    ("maximum", "threshold", "expected"),
    [
        (3, 3, [0, 0, 0]),
        (3, 20, [0, 0, 0]),
        (1, 1, [0]),
        (4, 1, [0, 1.25, 2.5, 3.75]),  # n=1: 5 x 1/4 … n=3: 5 x 3/4
        (5, 4, [0, 0, 0, 0, 2.5]),
        (2, 1, [0, 2.5]),
    ],
)
def test_delays(maximum: int, threshold: int, expected: list[float]) -> None:
    assert delays(maximum, threshold, 5.0) == expected


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 10_000))
def test_the_rule(maximum: int, threshold: int, max_delay: int) -> None:
    got = delays(maximum, threshold, max_delay)
    assert len(got) == maximum
    for n, delay in enumerate(got):
        throttled = threshold <= n and threshold < maximum
        rule = Fraction(max_delay * (n - threshold + 1), maximum - threshold + 1) if throttled else 0
        assert delay == pytest.approx(float(rule))
        assert delay <= max_delay


@given(st.integers(1, 5), st.lists(st.booleans(), max_size=60))
def test_counts_hold_through_any_coming_and_going(maximum: int, comings: list[bool]) -> None:
    queue = FairQueue(maximum, 2, 1.0)
    inside: list[Slot] = []
    entered = 0
    for comes in comings:
        if comes and (slot := queue.enter(None)):
            inside.append(slot)
            entered += 1
        elif comes:
            assert len(inside) == maximum
        elif inside:
            gone = inside.pop()
            gone.leave()
            gone.leave()
        assert queue.load().in_processing == len(inside) <= maximum
    assert queue.counters().admitted == entered


def test_a_slot_is_given_back_once() -> None:
    queue = FairQueue(1, 1, 1.0)
    slot = queue.enter(None)
    assert slot
    assert queue.load().full
    assert queue.enter(None) is None
    slot.leave()
    slot.leave()
    assert queue.load().in_processing == 0
    assert queue.counters().throttled == 0


async def test_a_mail_server_waits_for_a_while_and_is_refused_then() -> None:
    queue = FairQueue(1, 1, 0.0)
    slot = queue.enter("a")
    assert slot
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert await queue.wait("b", 1, 10, (never,), 0.01) is None
    assert (queue.counters().refused, queue.waiting) == (1, (0, 0))
    waiting = asyncio.ensure_future(queue.wait("b", 2, 10, (never,), 60))
    await asyncio.sleep(0)
    slot.leave()
    assert await waiting
    assert queue.counters().refused == 1


class Waiting:
    """Messages that wait, in the order of their comings; `served` is the order in which they got a slot."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self._order, self._came = 0, asyncio.Event()
        self.served: list[str] = []
        self.slots: dict[str, Slot] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, order: int | None = None) -> None:
        """A message of the tenant that its name begins with; "-" stands for none."""
        self._order += 1
        tenant = None if name[0] == "-" else name[0]
        self._queue.tenants.note(tenant)
        self.tasks[name] = asyncio.ensure_future(self._wait(name, tenant, order or self._order))
        await asyncio.sleep(0)

    async def _wait(self, name: str, tenant: str | None, order: int) -> None:
        slot = await self._queue.wait(tenant, order, 10, ())
        assert slot
        self.slots[name] = slot
        self.served.append(name)
        self._came.set()

    async def serve_next(self, slot: Slot) -> Slot:
        """Give one slot to the next message, and return the slot of that."""
        self._came.clear()
        slot.leave()
        async with asyncio.timeout(60):
            await self._came.wait()
        return self.slots[self.served[-1]]

    async def serve_all(self, slot: Slot) -> list[str]:
        """Give one slot from message to message until nobody waits."""
        while len(self.served) < len(self.tasks):
            slot = await self.serve_next(slot)
        slot.leave()
        return self.served


async def test_tenants_take_turns_and_each_is_served_in_order() -> None:
    queue = FairQueue(1, 1, 0.0)
    slot = queue.enter("z")
    assert slot
    waiting = Waiting(queue)
    for name in ("a1", "a2", "a3", "a4", "b1", "b2", "-1"):
        await waiting.come(name)
    assert queue.waiting == (7, 70)
    assert await waiting.serve_all(slot) == ["a1", "b1", "-1", "a2", "b2", "a3", "a4"]
    assert (queue.load().waiting, queue.waiting, queue.load().in_processing) == (0, (0, 0), 0)
    assert queue.counters().refused == 0


async def test_who_comes_during_a_flood_waits_for_one_message_at_most() -> None:
    queue = FairQueue(1, 1, 0.0)
    slot = queue.enter("a")
    assert slot
    waiting = Waiting(queue)
    for number in range(200):
        await waiting.come(f"a{number}")
    for number in range(20):
        slot = await waiting.serve_next(slot)
        await waiting.come(f"b{number}")
        for _ in range(2):
            slot = await waiting.serve_next(slot)
        assert f"b{number}" in waiting.served[-2:], "the next slot but one at the latest"
    for task in waiting.tasks.values():
        task.cancel()


async def test_one_that_comes_back_is_first_among_its_own() -> None:
    """abby tries a message again at another core, or at the same: it has not lost its place."""
    queue = FairQueue(1, 1, 0.0)
    slot = queue.enter("z")
    assert slot
    waiting = Waiting(queue)
    for name, order in (("a2", 20), ("a3", 30), ("b1", 25), ("a1", 10)):
        await waiting.come(name, order=order)
    assert await waiting.serve_all(slot) == ["a1", "b1", "a2", "a3"]


async def test_those_who_leave_are_not_served_and_lose_no_slot() -> None:
    queue = FairQueue(1, 1, 0.0)
    slot = queue.enter("z")
    assert slot
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    leaves = asyncio.ensure_future(queue.wait("a", 1, 10, (gone,)))
    cancelled = asyncio.ensure_future(queue.wait("a", 2, 10, ()))
    told = asyncio.ensure_future(queue.wait("a", 3, 10, ()))
    stays = asyncio.ensure_future(queue.wait("a", 4, 10, ()))
    await asyncio.sleep(0)
    gone.set_result(None)
    cancelled.cancel()
    await asyncio.sleep(0.01)
    assert await leaves is None
    assert queue.load().waiting == 2
    slot.leave()
    told.cancel()  # told, and gone before it could look
    last = await asyncio.wait_for(stays, 60)
    assert last
    last.leave()
    await asyncio.gather(cancelled, told, return_exceptions=True)
    assert (queue.load().in_processing, queue.load().waiting, queue.waiting) == (0, 0, (0, 0))


async def test_a_tenant_that_floods_leaves_slots_to_others() -> None:
    queue = FairQueue(20, 99, 0.0)
    alone = [queue.enter("a") for _ in range(25)]
    assert sum(slot is not None for slot in alone) == 20, "nobody else sends mail: all slots are for who wants them"
    for slot in alone[:20]:
        assert slot
        slot.leave()
    assert queue.enter("b")
    flood = [queue.enter("a") for _ in range(25)]
    taken = sum(slot is not None for slot in flood)
    assert taken == 15, f"fewer than {SHARE} for each free slot"
    assert all(queue.enter("b") for _ in range(2)), "the others need not wait"
    waits = asyncio.ensure_future(queue.wait("a", 1, 10, ()))
    await asyncio.sleep(0)
    assert not waits.done()
    for slot in flood[:2]:
        assert slot
        slot.leave()
    assert await asyncio.wait_for(waits, 60)


async def test_a_tenant_that_floods_leaves_a_processor_to_others() -> None:
    queue, idle = FairQueue(100, 100, 0.0), 0
    queue.share_processors(4, lambda tenant: idle if tenant == "a" else 0)
    assert [bool(queue.enter("a")) for _ in range(6)] == [True] * 6, "nobody else sends mail"
    other = queue.enter("b")
    assert other
    assert queue.enter("a") is None, "more of its messages are at work than three of four workers"
    waits = asyncio.ensure_future(queue.wait("a", 1, 10, ()))
    await asyncio.sleep(3 * IDLE_SECONDS)
    assert not waits.done()
    assert queue.enter("b"), "those who wait for a processor keep nobody else from it"
    assert queue.enter("b"), "nor has one that sends less to wait"
    idle = 4  # waiting for DNS
    assert await asyncio.wait_for(waits, 60), "what waits for answers uses no processor"
    assert queue.enter("a") is None


async def test_a_tenant_that_sends_few_costly_messages_leaves_a_processor_to_those_who_send_many() -> None:
    queue = FairQueue(100, 100, 0.0)
    queue.share_processors(2, lambda _tenant: 0)
    for _ in range(20):
        slot = queue.enter("many")
        assert slot
        slot.leave()
        queue.note_cpu("many", 0.005)
    assert [bool(queue.enter("many")) for _ in range(2)] == [True] * 2
    assert queue.enter("few")
    assert queue.enter("few"), "nobody knows yet what they cost"
    queue.note_cpu("few", 0.5)
    assert queue.enter("few") is None
    await asyncio.sleep(2 * IDLE_SECONDS)
    assert [bool(queue.enter("many")) for _ in range(3)] == [True] * 3


async def test_costly_mail_leaves_a_processor_to_those_who_sent_mail_not_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the first messages of another tenant wait until a costly one ends: one in a hundred, and by its time."""
    now = [1_000.0]
    queue = FairQueue(100, 100, 0.0)
    queue.share_processors(2, lambda _tenant: 0)
    monkeypatch.setattr(queue.tenants, "_clock", lambda: now[0])
    for tenant in ("b", "a"):
        slot = queue.enter(tenant)
        assert slot
        slot.leave()
    now[0] += RECENT_SECONDS + 1
    cheap = [queue.enter("a") for _ in range(3)]
    assert all(cheap), "while nobody else sends mail, what costs little goes on as it comes"
    for slot in cheap:
        assert slot
        slot.leave()
    queue.note_cpu("a", 0.5)
    assert queue.enter("a")
    assert queue.enter("a") is None
    assert queue.enter("b"), "who comes finds the processor that was left"
    now[0] += REMEMBERED_SECONDS + 1
    assert queue.enter("a"), "nobody has sent mail for a long time"


async def test_a_tenant_that_is_served_at_once_is_not_held_back_in_place_of_one_that_floods() -> None:
    """The flood is held back, so it is given less than the other: that is no reason to hold back the other."""
    queue = FairQueue(100, 100, 0.0)
    queue.share_processors(2, lambda _tenant: 0)
    at_work = queue.enter("flood")
    assert at_work
    first = queue.enter("other")
    assert first
    waiting = [asyncio.ensure_future(queue.wait("flood", number, 10, ())) for number in range(11)]
    await asyncio.sleep(2 * IDLE_SECONDS)
    first.leave()
    queue.note_cpu("flood", 0.08)
    for _ in range(300):
        slots = [queue.enter("other") for _ in range(4)]
        assert all(slots), "it waits behind its own messages, while nobody holds back the flood"
        for slot in filter(None, slots):
            slot.leave()
            queue.note_cpu("other", 0.01)
    assert sum(each.done() for each in waiting) == 0
    at_work.leave()
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)


async def test_a_message_that_is_delayed_is_not_at_work() -> None:
    queue = FairQueue(3, 1, 60.0)
    queue.share_processors(2, lambda _tenant: 0)
    assert queue.enter("b")
    queue._asks_most = "a"
    slot = queue.enter("a")
    assert slot
    assert slot.delay
    assert not queue._may_have_slot("a")
    delayed = asyncio.ensure_future(slot.delay_start())
    await asyncio.sleep(0)
    assert queue._may_have_slot("a")
    delayed.cancel()
    await asyncio.wait([delayed])
    assert not queue._may_have_slot("a")
    slot.leave()
    await asyncio.sleep(2 * IDLE_SECONDS)
    assert queue._may_have_slot("a")


async def test_bytes_that_wait_have_a_limit() -> None:
    queue = FairQueue(1, 1, 0.0, waiting_limit=100)
    slot = queue.enter(None)
    assert slot
    assert queue.waiting_bytes.has_room(None, 100)
    waits = asyncio.ensure_future(queue.wait(None, 1, 60, ()))
    await asyncio.sleep(0)
    assert (queue.waiting_bytes.has_room(None, 40), queue.waiting_bytes.has_room(None, 41), queue.waiting) == (
        True,
        False,
        (1, 60),
    )
    slot.leave()
    assert await waits
    assert queue.waiting_bytes.has_room(None, 100)


@given(st.integers(1, 300), st.integers(1, 5))
def test_whatever_a_tenant_takes_others_find_a_share(maximum: int, amount: int) -> None:
    shares = Shares(maximum)
    while shares.has_room("flood", amount):
        shares.take("flood", amount)
    assert shares.used <= maximum
    if maximum > SHARE + amount:
        assert shares.has_room("quiet"), "one that has nothing yet gets something"
        assert shares.used >= maximum * SHARE // (SHARE + 1), "what is free is there to be used"
    shares.give_back("flood", shares.used)
    assert (shares.used, shares.free) == (0, maximum)


async def test_the_bytes_of_a_tenant_that_wait_leave_room_to_others() -> None:
    queue = FairQueue(1, 1, 0.0, waiting_limit=100)
    slot = queue.enter("z")
    assert slot
    waiting: list[asyncio.Future[Slot | None]] = []
    while queue.waiting_bytes.has_room("flood", 5):
        waiting.append(asyncio.ensure_future(queue.wait("flood", len(waiting), 5, ())))
        await asyncio.sleep(0)
    assert queue.waiting == (15, 75)
    assert queue.waiting_bytes.has_room("quiet", 25)
    for each in waiting:
        each.cancel()
    await asyncio.wait(waiting)
    slot.leave()
    assert queue.waiting == (0, 0)
