"""Lists of customers and mail that are made for each other: what a message costs does not grow with the list, and grows
no faster than the message. Work is counted in calls of functions, which no other process slows down."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from bench.nasty import PAIRS
from bench.pairs import pack, report_on

from gatepost.lists.unkeyed import CompiledLists, compile_lists


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


def _compile(entries: dict[str, list[str]]) -> CompiledLists:
    return compile_lists(pack(entries))


@pytest.mark.parametrize("name", PAIRS)
def test_a_longer_list_costs_a_message_no_more(name: str) -> None:
    """Once it is compiled: what a worker does for a list of four times the length is nearly the same."""
    _, raw = PAIRS[name](0.01)
    counts = []
    for share in (0.01, 0.04):
        entries, _ = PAIRS[name](share)
        lists = _compile(entries)
        report_on(raw, lists)
        counts.append(_count_calls(partial(report_on, raw, lists)))
    # Phrases have more lengths: one look more for each, up to the budget.
    assert counts[1] <= counts[0] * (5 if "phrases" in name else 1.5) + 2_000


@pytest.mark.parametrize("name", PAIRS)
def test_a_longer_message_costs_no_more_than_its_length(name: str) -> None:
    entries, _ = PAIRS[name](0.02)
    lists = _compile(entries)
    messages = [PAIRS[name](share)[1] for share in (0.01, 0.04)]
    for raw in messages:
        report_on(raw, lists)
    small, large = (_count_calls(partial(report_on, raw, lists)) for raw in messages)
    assert large <= 5 * small + 2_000
