"""Lists of customers and mail that are made for each other: what a message costs does not grow with the list, and grows
no faster than the message. Work is counted in calls of functions, which no other process slows down."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from bench.nasty import CUSTOM_PAIRS
from bench.pairs import collect_asked_keys, list_pairs, report_on
from tests.variants import one_in

from gatepost.analysis.stages import Context


def _count_calls(work: Callable[[], object]) -> int:
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


NAMES = [name for name, _, _ in list_pairs(0.01)]


def _pair(name: str, share: float) -> tuple[Context, bytes]:
    return next((prepare(), raw) for each, prepare, raw in list_pairs(share) if each == name)


@pytest.mark.parametrize("name", one_in(2, NAMES))
def test_more_of_the_customer_costs_a_message_no_more(name: str) -> None:
    """Once it is compiled: what a worker does for a list of four times the length is nearly the same. Rules have a time
    that all of them share."""
    _, raw = _pair(name, 0.01)
    counts = []
    for share in (0.01, 0.04):
        context, _ = _pair(name, share)
        report_on(raw, context)
        counts.append(_count_calls(partial(report_on, raw, context)))
    # Phrases have more lengths, and each rule is evaluated: one look more for each, up to the budget.
    assert counts[1] <= counts[0] * (5 if "phrases" in name or "rules" in name else 1.5) + 2_000


@pytest.mark.parametrize("name", one_in(2, NAMES[::-1]))
def test_a_longer_message_costs_no_more_than_its_length(name: str) -> None:
    context, _ = _pair(name, 0.02)
    messages = [_pair(name, share)[1] for share in (0.01, 0.04)]
    for raw in messages:
        report_on(raw, context)
    small, large = (_count_calls(partial(report_on, raw, context)) for raw in messages)
    assert large <= 5 * small + 2_000


@pytest.mark.parametrize("name", CUSTOM_PAIRS)
def test_keys_of_a_message_grow_with_its_length(name: str) -> None:
    """Storage has a budget of lists times keys (`tests/store/test_lookup.py`)."""
    small, large = (
        sum(len(keys) for _, keys in collect_asked_keys(CUSTOM_PAIRS[name](share)[1])) for share in (0.01, 0.04)
    )
    assert small < large <= 4.5 * small
