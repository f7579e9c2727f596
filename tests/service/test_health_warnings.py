"""What will become a fault: a certificate that ends, a quarantine that fills, DNS that fails, mail that is put off."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.service.test_health import Collected

from gatepost.guard.answers.dns import DnsCounters
from gatepost.process.health import WELL, Health, HealthLedger
from gatepost.service.certificates import sign_certificate
from gatepost.service.data_folder import DataFolder
from gatepost.service.health import (
    DEFERRAL_LOOKS,
    DEFERRAL_REASONS,
    DeferralWatch,
    HealthWarnings,
    HealthWatch,
    Signs,
    SmtpCounts,
    warn_of_certificates,
)
from gatepost.service.plan import Plan
from gatepost.settings.consistency import read_validity
from gatepost.settings.keys import GuardSettings
from gatepost.smtp.replies import DEFERRALS
from gatepost.store import open_store
from gatepost.web.rendering import note_of


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    data = DataFolder(tmp_path / "data")
    data.make()
    certificate, key = sign_certificate(["gw.example"], datetime.now(UTC))
    data.certificate.parent.mkdir(parents=True, exist_ok=True)
    data.certificate.write_bytes(certificate)
    data.key.write_bytes(key)
    guard = GuardSettings.model_validate({"quarantine": {"maxSize": 100_000_000}})
    return Plan(data, guard=guard)


def test_a_certificate_that_ends_soon(plan: Plan) -> None:
    begins, ends = read_validity(plan.data.certificate.read_bytes())
    assert warn_of_certificates(plan, datetime.now(UTC)) == ""
    assert warn_of_certificates(plan, ends - timedelta(days=14)) == ""
    assert ", in 3 days" in warn_of_certificates(plan, ends - timedelta(days=3, hours=1))
    assert "expired on" in warn_of_certificates(plan, ends + timedelta(days=1))
    assert "is not valid before" in warn_of_certificates(plan, begins - timedelta(seconds=1))
    plan.data.certificate.write_bytes(b"half a file")
    assert warn_of_certificates(plan, ends) == ""


def test_quarantine_and_dns(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = DnsCounters()
    used, told = 79_999_999, Collected()

    async def run() -> None:
        nonlocal counters, used
        store, ledger = open_store(f"sqlite:{tmp_path / 'g.db'}", tmp_path), HealthLedger()

        async def held_totals() -> tuple[int, int]:
            return 1, used

        monkeypatch.setattr(store.quarantine, "totals", held_totals)
        warnings = HealthWarnings(ledger, store, lambda: Signs(plan, dns=counters))

        async def ask() -> Health:
            return WELL

        watch = HealthWatch(told, ledger, ask)
        await warnings.look()
        assert [each.sentence for each in ledger.reasons] == []
        counters, used = DnsCounters(30, 0, 20), 90_000_000
        await warnings.look()
        assert [each.sentence for each in ledger.reasons] == [
            "the quarantine is 90% full (quarantine.maxSize)",
            "DNS does not answer: 20 of 30 questions of the last minute failed",
        ]
        note = note_of(ledger.health, may_know=True)
        assert note
        assert (note.level, note.text) == ("warn", "The quarantine is 90% full (quarantine.maxSize) (1 more).")
        assert note_of(ledger.health, may_know=False) is None, "mail flows, and people of a tenant need not know"
        assert ledger.health.state == "GREEN", "the status of the queue does not change by it"
        for _ in range(3):
            await watch.look()
        assert sorted(told.changes) == [("dns", "ok", "degraded"), ("quarantine", "ok", "degraded")]
        counters, used = DnsCounters(49, 0, 39), 0
        await warnings.look()
        assert [each.sentence for each in ledger.reasons] == [], "a few questions say nothing"
        for _ in range(3):
            await watch.look()
        assert sorted(told.changes[2:]) == [("dns", "degraded", "ok"), ("quarantine", "degraded", "ok")]
        await store.close()

    asyncio.run(run())


def _counts(attempts: int, **put_off: int) -> SmtpCounts:
    return SmtpCounts(attempts, Counter(put_off))  # type: ignore[arg-type]


def test_mail_that_is_put_off_is_told_by_its_share_of_the_last_minutes() -> None:
    watch = DeferralWatch()
    assert watch.warn(None) == "", "without SMTP there is nothing to say"
    assert watch.warn(_counts(4, slots=4)) == "", "four are an accident"
    said = watch.warn(_counts(9, slots=6, nextHop=3))
    assert said == (
        "SMTP puts mail off: 9 of 9 messages of the last minutes, mostly because no slot was free"
        " (maxGuardRequestsInProcessing)"
    )
    assert watch.warn(_counts(1_000, slots=6, nextHop=3)) == "", "nine of a thousand delay nobody for long"
    for _ in range(DEFERRAL_LOOKS):
        watch.warn(_counts(1_000, slots=6, nextHop=3))
    said = watch.warn(_counts(1_010, slots=6, nextHop=3, connections=5))
    assert "5 of 10 messages" in said
    assert "because the port had no room" in said
    assert "mostly" not in said
    assert set(DEFERRAL_REASONS) == {*DEFERRALS.values(), "connections"}


def test_what_is_told_already_is_not_told_twice(plan: Plan, tmp_path: Path) -> None:
    async def run() -> None:
        store, ledger = open_store(f"sqlite:{tmp_path / 'g.db'}", tmp_path), HealthLedger()
        counts = _counts(0)
        warnings = HealthWarnings(ledger, store, lambda: Signs(plan, sources={"smtp": counts}))
        await warnings.look()
        counts, ledger.ask = _counts(20, nextHop=20), lambda: {"nextHop": "the next hop cannot be reached"}
        await warnings.look()
        assert [each.code for each in ledger.reasons] == ["nextHop"]
        counts, ledger.ask = _counts(40, nextHop=40), lambda: {"nextHop": ""}
        await warnings.look()
        assert "".join(each.sentence for each in ledger.reasons).startswith(
            "SMTP puts mail off: 40 of 40 messages of the last minutes, because a next hop"
        )
        note = note_of(ledger.health, may_know=True)
        assert note
        assert (note.level, note.path) == ("warn", "/system#health")
        await store.close()

    asyncio.run(run())
