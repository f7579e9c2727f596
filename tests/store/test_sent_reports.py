"""Counts for reports to others: they add up, a domain has a limit, one process sends, and nothing is left behind."""

import pytest

from gatepost.store import sent_reports
from gatepost.store.sent_reports import ReportCount, SentReport, WaitingReport
from gatepost.store.store import Store
from gatepost.times import now

DAY = now() // 86_400_000 - 1


def count(detail: str, times: int = 1, domain: str = "x.example", day: int = DAY) -> ReportCount:
    return ReportCount(day, domain, detail, times)


async def test_counts_add_up_and_go_with_the_outcome(store: Store) -> None:
    stored = store.sent_reports
    await stored.count([count("[1]", 2), count("[2]"), count("[1]", 5, "y.example"), count("[1]", 9, day=DAY + 1)])
    await stored.count([count("[1]", 3)])
    assert await stored.rows(DAY, "x.example") == (("[1]", 5), ("[2]", 1))
    due = (WaitingReport(DAY, "x.example", 0), WaitingReport(DAY, "y.example", 0))
    assert await stored.waiting(DAY + 1, 10) == due
    assert await stored.waiting(DAY + 1, 1) == due[:1]
    later = SentReport(DAY, "x.example", "waiting", 1, now() + 60_000, 6, "", "DNS")
    await stored.finish(later)
    assert await stored.waiting(DAY + 1, 10) == due[1:]
    await stored.finish(SentReport(DAY, "x.example", "waiting", 1, now() - 1, 6))
    assert await stored.waiting(DAY + 1, 10) == (WaitingReport(DAY, "x.example", 1), due[1])
    await stored.finish(SentReport(DAY, "x.example", "sent", 2, 0, 6, "a@x.example"))
    assert await stored.rows(DAY, "x.example") == ()
    assert await stored.sent_since(now() - 60_000) == 1
    assert await stored.states(0) == {"sent": 1}
    (listed,) = await stored.listed(0)
    assert (listed.state, listed.attempts, listed.destinations) == ("sent", 2, "a@x.example")
    assert await stored.purge(DAY + 1) == 2
    assert await stored.listed(0) == ()
    assert await stored.rows(DAY + 1, "x.example") == (("[1]", 9),)


async def test_rows_beyond_the_limit_of_a_day_are_added_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_reports, "MAX_ROWS", 2)

    await store.sent_reports.count([count("[1]"), count("[2]"), count("[3]", 4)])
    await store.sent_reports.count([count("[1]"), count("[4]", 3), count("[1]", domain="y.example")])
    assert dict(await store.sent_reports.rows(DAY, "x.example")) == {"": 7, "[1]": 2, "[2]": 1}
    assert await store.sent_reports.rows(DAY, "y.example") == (("[1]", 1),)
