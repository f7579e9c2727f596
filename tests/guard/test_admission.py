"""decisions: n >= max refused; threshold <= n < max delayed in proportion; threshold >= max never delayed."""

import asyncio
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.guard.admission import Admission, Slot


def delays(maximum: int, threshold: int, max_delay: float) -> list[float]:
    """The delays of as many as come in, one after another."""
    admission = Admission(maximum, threshold, max_delay)
    return [slot.delay for slot in iter(admission.enter, None)]


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
    admission = Admission(maximum, 2, 1.0)
    inside: list[Slot] = []
    refused = 0
    for comes in comings:
        if comes and (slot := admission.enter()):
            inside.append(slot)
        elif comes:
            refused += 1
            assert len(inside) == maximum
        elif inside:
            gone = inside.pop()
            gone.leave()
            gone.leave()
        assert admission.load().in_processing == len(inside) <= maximum
    assert admission.counters().refused == refused
    assert admission.counters().admitted == sum(comings) - refused


def test_a_slot_is_given_back_whatever_happens() -> None:
    admission = Admission(1, 1, 1.0)
    slot = admission.enter()
    assert slot
    assert admission.load().full
    assert admission.enter() is None
    with pytest.raises(ZeroDivisionError), slot:
        1 / 0  # noqa: B018
    assert admission.load().in_processing == 0
    assert (admission.counters().throttled, admission.counters().refused) == (0, 1)


def test_those_who_wait_come_in_one_by_one_in_their_order() -> None:
    async def run() -> None:
        admission = Admission(1, 1, 1.0)
        holder = admission.enter()
        came: list[int] = []

        async def come(number: int) -> None:
            slot = None
            while slot is None:
                await admission.wait_for_slot()
                slot = admission.enter()
            came.append(number)
            await asyncio.sleep(0)
            slot.leave()

        tasks = [asyncio.ensure_future(come(number)) for number in range(50)]
        await asyncio.sleep(0)
        assert came == []
        assert holder
        holder.leave()
        await asyncio.gather(*tasks)
        assert came == list(range(50))
        assert admission.counters().refused == 0, "nobody was woken in vain and tried"

    asyncio.run(run())


def test_a_turn_is_passed_on_by_those_who_give_up_or_do_not_come() -> None:
    async def run() -> None:
        admission = Admission(1, 1, 1.0)
        holder = admission.enter()
        gone = [asyncio.ensure_future(admission.wait_for_slot()) for _ in range(3)]
        last = asyncio.ensure_future(admission.wait_for_slot())
        await asyncio.sleep(0)
        gone[1].cancel()
        await asyncio.sleep(0)
        assert holder
        holder.leave()
        gone[0].cancel()  # told, and gone before it could look
        await asyncio.wait_for(last, 60)
        await asyncio.gather(*gone, return_exceptions=True)
        await admission.wait_for_slot()

    asyncio.run(run())


def test_one_who_was_overtaken_keeps_the_turn() -> None:
    async def run() -> None:
        admission = Admission(1, 1, 1.0)
        holder = admission.enter()
        assert holder
        order: list[str] = []

        async def wait(name: str) -> None:
            await admission.wait_for_slot()
            order.append(name)
            assert admission.enter()

        first, _second = asyncio.ensure_future(wait("first")), asyncio.ensure_future(wait("second"))
        await asyncio.sleep(0)
        holder.leave()
        quicker = admission.enter()
        await asyncio.sleep(0.01)
        assert order == []
        assert quicker
        quicker.leave()
        await asyncio.wait_for(first, 60)
        assert order == ["first"]
        _second.cancel()

    asyncio.run(run())
