"""Reports about domains in storage: each counts once, sums are right beyond every limit, and a scope sees its own."""

import pytest
from tests.store.conftest import Use

from gatepost.domain_reports import DomainFigures, DomainReport, SourceFigures, SourceRow, advise
from gatepost.store import domain_reports
from gatepost.store.audit import CLI
from gatepost.store.domain_reports import DayFigures, Reporter
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.times import now

TODAY = now() // 86_400_000
OWN = SourceRow("192.0.2.1", 90, True, True, "none", ("y.example", "y.example", "y.example", ""))
FORGED = SourceRow("198.51.100.9", 10, False, False, "reject", ("y.example", "", "forger.example", ""))


def report(
    *rows: SourceRow,
    domain: str = "y.example",
    number: str = "1",
    day: int = TODAY,
    policy: str = "none",
    by: str = "r.example",
) -> DomainReport:
    rows = rows or (OWN, FORGED)
    passed = sum(row.count for row in rows if row.passed)
    failed = sum(row.count for row in rows if not row.passed)
    begins = day * 86_400
    published = f"p={policy}"
    return DomainReport("dmarc", domain, by, number, begins, begins + 86_399, policy, published, passed, failed, rows)


def test_a_report_counts_once_and_days_add_up(use: Use) -> None:
    async def scenario(store: Store) -> None:
        kept = store.reported_domains
        assert await kept.keep(None, report()) == "kept"
        assert await kept.keep(None, report()) == "known"
        assert await kept.keep(None, report(by="other.example")) == "kept"
        assert await kept.keep(None, report(number="2", day=TODAY - 1, policy="reject")) == "kept"
        (found,) = await kept.domains("dmarc", TODAY - 6, None)
        assert found == DomainFigures(None, "y.example", "none", "p=none", found.seen, 300, 270, 270, 270, 0, 30, 2)
        assert await kept.domain("dmarc", TODAY, None, "y.example") == DomainFigures(
            None, "y.example", "none", "p=none", found.seen, 200, 180, 180, 180, 0, 20, 1
        )
        assert await kept.days("dmarc", TODAY - 6, None, "y.example") == (
            DayFigures(TODAY - 1, 100, 90, 0, 10),
            DayFigures(TODAY, 200, 180, 0, 20),
        )
        first, second = await kept.sources("dmarc", TODAY - 6, None, "y.example")
        assert first == SourceFigures(SourceRow(OWN.source, 270, True, True, "none", OWN.details), TODAY - 1, TODAY)
        assert second.row == SourceRow(FORGED.source, 30, False, False, "reject", FORGED.details)
        reporters = await kept.reporters("dmarc", TODAY - 6, None, "y.example")
        assert [(each.name, each.reports, each.messages) for each in reporters] == [
            ("r.example", 2, 200),
            ("other.example", 1, 100),
        ]
        assert isinstance(reporters[0], Reporter)
        assert await kept.domain("tls", TODAY, None, "y.example") is None

    use(scenario)


def test_a_tenant_sees_its_own_and_a_deleted_one_leaves_nothing(use: Use) -> None:
    async def scenario(store: Store) -> None:
        tenant = await store.tenants.create("t")
        assert isinstance(tenant, Tenant)
        kept = store.reported_domains
        assert await kept.keep(tenant.uid, report()) == "kept"
        assert await kept.keep(None, report(domain="z.example")) == "kept"
        assert [each.domain for each in await kept.domains("dmarc", TODAY, tenant.uid)] == ["y.example"]
        assert [each.domain for each in await kept.domains("dmarc", TODAY, None)] == ["z.example"]
        every = await kept.domains("dmarc", TODAY, None, every=True)
        assert {(each.scope, each.domain) for each in every} == {(tenant.uid, "y.example"), (None, "z.example")}
        assert await kept.sources("dmarc", TODAY, None, "y.example") == ()
        await store.tenants.delete(tenant.uid, CLI)
        assert [each.domain for each in await kept.domains("dmarc", TODAY, None, every=True)] == ["z.example"]

    use(scenario)


def test_limits_hold_and_sums_stay_right(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_reports, "MAX_ROWS_A_DAY", 10)
    monkeypatch.setattr(domain_reports, "MAX_A_DAY", 3)
    monkeypatch.setattr(domain_reports, "MAX_DOMAINS", 2)

    async def scenario(store: Store) -> None:
        kept = store.reported_domains
        for number in range(4):
            rows = [SourceRow(f"10.{number}.0.{n}", n + 1, False, False, "none", ()) for n in range(8)]
            assert await kept.keep(None, report(*rows, number=str(number))) == ("kept" if number < 3 else "full")
        sources = await kept.sources("dmarc", TODAY, None, "y.example")
        assert len(sources) <= 11
        assert sum(each.row.count for each in sources) == 3 * 36
        assert sources[0].row.source == "", "what is beyond the limit has no source"
        assert await kept.keep(None, report(domain="z.example")) == "kept"
        assert await kept.keep(None, report(domain="w.example")) == "full"
        for day in (TODAY - 61, TODAY + 3, 0):
            assert await kept.keep(None, report(number="9", day=day)) == "period"

    use(scenario)


def test_retention(use: Use) -> None:
    async def scenario(store: Store) -> None:
        kept = store.reported_domains
        await kept.keep(None, report(day=TODAY - 50))
        await kept.keep(None, report(number="2", domain="z.example"))
        assert await kept.purge(TODAY - 50) == 0
        assert await kept.purge(TODAY - 49) == 5
        assert [each.domain for each in await kept.domains("dmarc", 0, None)] == ["z.example"]
        assert await kept.keep(None, report(day=TODAY - 50)) == "kept"

    use(scenario)


def figures(policy: str = "none", messages: int = 1_000, passed: int = 1_000, days: int = 14) -> DomainFigures:
    return DomainFigures(None, "y.example", policy, "", 0, messages, passed, passed, passed, days=days)


def seen(*rows: SourceRow) -> tuple[SourceFigures, ...]:
    return tuple(SourceFigures(row, TODAY, TODAY) for row in rows)


GOOD = SourceRow("192.0.2.1", 1_000, True, True)
BROKEN = SourceRow("192.0.2.200", 100, False, False)
STRANGER = SourceRow("198.51.100.9", 100, False, False)


@pytest.mark.parametrize(
    ("of_domain", "sources", "step", "words"),
    [
        (figures(messages=0, passed=0), (), "wait", "Check that the DMARC record names the address in rua"),
        (figures(days=4), (GOOD,), "wait", "Wait for reports of 10 more days"),
        (figures(), (GOOD,), "quarantine", "publish p=quarantine"),
        (figures("quarantine"), (GOOD,), "reject", "publish p=reject"),
        (figures("reject"), (GOOD,), "done", "The policy is reject"),
        (figures("reject", 1_100), (GOOD, BROKEN), "done", "100 messages of hosts that are yours failed"),
        (figures("none", 1_100), (GOOD, BROKEN), "fix", "100 messages came from hosts that send for this domain"),
        (figures("quarantine", 1_100), (GOOD, STRANGER), "recognise", "then publish p=reject"),
        (figures("none", 1_100), (GOOD, STRANGER), "recognise", "then publish p=quarantine"),
        (figures("", 1_005), (GOOD, SourceRow("198.51.100.9", 5)), "quarantine", "publish p=quarantine"),
        (figures("none", 1_100), (GOOD, SourceRow("", 100)), "quarantine", "publish p=quarantine"),
    ],
)  # fmt: skip
def test_the_next_step(of_domain: DomainFigures, sources: tuple[SourceRow, ...], step: str, words: str) -> None:
    advice = advise(of_domain, seen(*sources))
    assert advice.step == step
    assert words in advice.text
    if step in ("fix", "recognise"):
        assert [row.count for row in advice.sources] == [100]
