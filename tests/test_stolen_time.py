"""A figure of CPU time that is over its limit fails, unless the host took the time: then it shows nothing."""

import pytest
from tests import stolen_time
from tests.stolen_time import StolenTime


def measured(monkeypatch: pytest.MonkeyPatch, stolen: int) -> StolenTime:
    """So many of a thousand ticks were stolen."""
    readings = iter([(50, 1_000), *[(50 + stolen, 2_000)] * 3])
    monkeypatch.setattr(stolen_time, "_read_counters", lambda: next(readings))
    return StolenTime()


def test_the_share_is_that_of_the_time_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, 30).share == 0.03


def test_a_figure_within_its_limit_passes_whatever_was_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, 900).expect(True, "5 ms")


def test_a_figure_over_its_limit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"541 ms, while the host took 5\.0% of the CPU time\nthe log"):
        measured(monkeypatch, 50).expect(False, "541 ms", "the log")


def test_where_much_was_stolen_it_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"not run: 541 ms, while the host took 25\.0% of the CPU time"):
        measured(monkeypatch, 250).expect(False, "541 ms")


def test_the_kernel_counts_both() -> None:
    stolen, wanted = stolen_time._read_counters()
    assert 0 <= stolen < wanted
