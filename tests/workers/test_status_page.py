"""The shared page: what a worker writes, guard reads; what makes no sense does no harm."""

import mmap
import os
from collections.abc import Iterator

import pytest

from gatepost.stages import STAGES
from gatepost.workers.status_page import IDLE, NAMES, SIZE, TRIAL, StatusPage, WorkerState, new_status_page

Pair = tuple[StatusPage, StatusPage]


@pytest.fixture
def pages() -> Iterator[Pair]:
    descriptor = new_status_page()
    ours, theirs = StatusPage(descriptor), StatusPage(descriptor)
    yield ours, theirs
    ours.close()
    theirs.close()
    os.close(descriptor)


def test_every_stage_has_its_number(pages: Pair) -> None:
    ours, theirs = pages
    assert set(STAGES) < set(NAMES)
    for number, stage in enumerate((*STAGES, TRIAL), 1):
        theirs.enter(number, stage)
        assert ours.place == WorkerState(number, stage)
    theirs.enter(0, IDLE)
    assert ours.place == WorkerState(0, IDLE)


def test_a_marker_says_what_entering_does(pages: Pair) -> None:
    ours, theirs = pages
    mark = theirs.marker(9)
    for stage in ("parse", "judge", "judge"):
        before = ours.word
        mark(stage)
        assert ours.place == WorkerState(9, stage)
        assert ours.word != before
    theirs.enter(0, IDLE)
    assert ours.place == WorkerState(0, IDLE)


def test_coming_back_is_a_change(pages: Pair) -> None:
    ours, theirs = pages
    theirs.enter(7, "parse")
    before = ours.word
    theirs.enter(7, "parse")
    assert ours.word != before
    assert ours.place == WorkerState(7, "parse")


def test_nonsense_reads_as_idle(pages: Pair) -> None:
    ours, theirs = pages
    theirs._words[0] = 2**64 - 1
    assert ours.place == WorkerState(2**32 - 1, IDLE)
    theirs.enter(3, "no such stage")
    assert ours.place == WorkerState(3, IDLE)


def test_lack_of_memory_is_said(pages: Pair) -> None:
    ours, theirs = pages
    assert not ours.out_of_memory
    theirs.say_out_of_memory()
    assert ours.out_of_memory


def test_nobody_can_shorten_the_page() -> None:
    descriptor = new_status_page()
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, SIZE + mmap.PAGESIZE)
    os.close(descriptor)
