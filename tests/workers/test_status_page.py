"""The shared page: what a worker writes, guard reads; what makes no sense does no harm."""

import mmap
import os
from collections.abc import Iterator

import pytest

from gatepost.analysis.stages import INDISPENSABLE, STAGES
from gatepost.workers.protocol import IDLE, RECEIVE, SIZE, StageNames, StatusPage, WorkerState, new_status_page

ALL = StageNames(STAGES, INDISPENSABLE)

Pair = tuple[StatusPage, StatusPage]


@pytest.fixture
def pages() -> Iterator[Pair]:
    descriptor = new_status_page()
    ours, theirs = StatusPage(descriptor, ALL), StatusPage(descriptor, ALL)
    yield ours, theirs
    ours.close()
    theirs.close()
    os.close(descriptor)


def test_every_stage_has_its_number(pages: Pair) -> None:
    ours, theirs = pages
    for number, stage in enumerate((RECEIVE, *STAGES), 1):
        theirs.enter(number, stage)
        assert ours.state == WorkerState(number, stage)
    theirs.enter(0, IDLE)
    assert ours.state == WorkerState(0, IDLE)


def test_a_marker_says_what_entering_does(pages: Pair) -> None:
    ours, theirs = pages
    mark = theirs.marker(9)
    for stage in ("parse", "judge", "judge"):
        before = ours.word
        mark(stage)
        assert ours.state == WorkerState(9, stage)
        assert ours.word != before
    theirs.enter(0, IDLE)
    assert ours.state == WorkerState(0, IDLE)


def test_stages_may_be_named_later() -> None:
    descriptor = new_status_page()
    ours, theirs = StatusPage(descriptor), StatusPage(descriptor, ALL)
    os.close(descriptor)
    theirs.enter(1, "files")
    assert ours.state == WorkerState(1, IDLE)
    ours.stages = ALL
    assert ours.state == WorkerState(1, "files")
    ours.close()
    theirs.close()


def test_what_cannot_be_skipped() -> None:
    assert ALL.can_skip("files")
    assert not any(ALL.can_skip(stage) for stage in (*INDISPENSABLE, IDLE, RECEIVE))


def test_coming_back_is_a_change(pages: Pair) -> None:
    ours, theirs = pages
    theirs.enter(7, "parse")
    before = ours.word
    theirs.enter(7, "parse")
    assert ours.word != before
    assert ours.state == WorkerState(7, "parse")


def test_nonsense_reads_as_idle(pages: Pair) -> None:
    ours, theirs = pages
    theirs._words[0] = 2**64 - 1
    assert ours.state == WorkerState(2**32 - 1, IDLE)
    theirs.enter(3, "no such stage")
    assert ours.state == WorkerState(3, IDLE)


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
