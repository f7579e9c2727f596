"""The worst that is known about health, on every page, and what users of a tenant are told of it."""

from typing import Any

import pytest
from tests.clock import Clock

from gatepost.abby.cores import Cores
from gatepost.ids import new_id
from gatepost.process.health import WELL, Health, HealthLedger, make_reason
from gatepost.settings.events import ALERT_KINDS
from gatepost.web.pages.alerts import MEANINGS
from gatepost.web.rendering import HealthNote, note_of

SLOWED = Health.of([make_reason("nextHop", "the next hop cannot be reached: refused the connection", 7)])
BROKEN = Health.of([*SLOWED.reasons, make_reason("storage", "storage cannot be used", 7)])


@pytest.mark.parametrize(
    ("health", "level", "said"),
    [
        (WELL, None, ""),
        (BROKEN, "bad", "Storage cannot be used (1 more)."),
        (SLOWED, "warn", "The next hop cannot be reached: refused the connection."),
    ],
)
def test_the_worst_of_a_health(health: Health, level: str | None, said: str) -> None:
    note = note_of(health, may_know=True)
    assert (note.level if note else None) == level
    assert (note.text if note else "") == said


def test_a_tenant_is_told_that_mail_waits_and_not_why() -> None:
    assert note_of(SLOWED, may_know=False) == HealthNote("warn", "Mail is delayed at the moment.")
    assert note_of(BROKEN, may_know=False) == HealthNote("bad", "No mail can be taken at the moment.")


def test_every_page_says_so(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cores, "health", SLOWED)
    for path in ("/", "/messages", "/lists", "/audit"):
        assert "The next hop cannot be reached" in site.visitor().get(path).text
        assert "Mail is delayed at the moment." in site.visitor(tenant=tenant).get(path).text
    monkeypatch.undo()
    assert "Mail is delayed" not in site.visitor(tenant=tenant).get("/messages").text


def test_a_test_event_without_an_output_says_so(site: Any) -> None:
    assert site.went(site.visitor().post("/system/test-event")) == "/system no-outputs"


def test_a_sender_over_its_limit_is_the_operator_s_to_know() -> None:
    clock = Clock()
    ledger = HealthLedger(clock)
    ledger.note("sender", "a sender is over its limit", seconds=60)
    note = note_of(ledger.health, may_know=True)
    assert note is not None
    assert (note.level, note.text) == ("warn", "A sender is over its limit.")
    assert note_of(ledger.health, may_know=False) is None
    clock.now = 61
    assert note_of(ledger.health, may_know=True) is None


def test_every_event_has_its_words() -> None:
    assert set(MEANINGS) >= set(ALERT_KINDS)
    assert MEANINGS["message.deleted"] == "A held message was deleted by somebody"
    assert all(10 < len(each) < 200 for each in MEANINGS.values())


def test_alerts_are_defined_tried_and_deleted(site: Any, tenant: str) -> None:
    boss, name = site.visitor(), f"ops {new_id()}"
    fields = {
        "name": name,
        "kinds": ["health.changed", "node.state", "message.scanned", "x"],
        "min_severity": "warning",
        "max_per_hour": "5",
        "recipients": "ops@example.com, night@example.com",
        "url": "https://hooks.example.com/very-secret",
        "seen": "0",
    }
    wrong_fields: list[dict[str, Any]] = [
        *({"url": "https://10.0.0.1/"}, {"max_per_hour": "x"}, {"recipients": "x"}, {"kinds": []}, {"name": " "})
    ]
    for wrong in wrong_fields:
        answer = boss.post("/alerts/edit", {**fields, **wrong})
        assert answer.status_code == 400
        assert "Nothing was saved" in answer.text
    assert site.went(boss.post("/alerts/edit", fields)) == "/alerts alert-saved"
    assert boss.post("/alerts/edit", fields).status_code == 409
    saved = next(each for each in site.run(site.store.alerts.all()) if each.name == name)
    assert saved.alert.kinds == ("node.state", "health.changed")
    page = boss.get("/alerts").text
    assert "very-secret" in page
    assert saved.alert.secret in page
    auditor = site.visitor("auditor")
    shown = auditor.get("/alerts").text
    assert "hooks.example.com" in shown
    assert "very-secret" not in shown
    assert saved.alert.secret not in shown
    assert name not in site.visitor(tenant=tenant).get("/alerts").text
    site.alert_fault = "by mail: the next hop answered 550"
    assert "the next hop answered 550" in boss.post("/alerts/test", {"name": name}).text
    site.alert_fault = ""
    assert "every receiver took it" in boss.post("/alerts/test", {"name": name}).text
    assert [each.recipients for each in site.tested] == [("ops@example.com", "night@example.com")] * 2
    assert boss.post("/alerts/test", {"name": "nothing"}).status_code == 404
    assert name in boss.get(f"/alerts/edit?name={name}").text
    assert site.went(boss.post("/alerts/delete", {"name": name})) == "/alerts alert-deleted"
    assert boss.post("/alerts/delete", {"name": name}).status_code == 404


def test_a_tenant_has_thresholds_of_its_own(site: Any, tenant: str) -> None:
    own, other = site.visitor(tenant=tenant), site.visitor(tenant=site.new_tenant())
    domain = f"{tenant[-12:]}.example"
    site.run(site.store.tenants.set_domains(tenant, [domain]))
    page = own.get("/alerts/edit?q=verdict:phishing").text
    assert 'value="verdict:phishing"' in page
    assert "node.state" not in page
    fields = {
        "name": "Many",
        "search": "verdict:phishing",
        "count": "20",
        "minutes": "10",
        "quiet": "22:00-06:00",
        "max_per_hour": "10",
        "min_severity": "notice",
        "recipients": f"ops@{domain}",
        "seen": "0",
    }
    for wrong in (
        {"recipients": "ops@example.net"},
        {"search": "score:"},
        {"count": "0"},
        {"minutes": "0"},
        {"quiet": "x"},
    ):
        assert own.post("/alerts/edit", {**fields, **wrong}).status_code == 400, wrong
    assert site.went(own.post("/alerts/edit", fields)) == "/alerts alert-saved"
    assert site.went(
        other.post("/alerts/edit", {**fields, "recipients": "", "url": "https://hooks.example.com/x"})
    ) == ("/alerts alert-saved"), "names of others are not taken"
    shown = own.get("/alerts").text
    assert "20 in 10 minutes" in shown
    assert "not reached yet" in shown
    assert "hooks.example.com" not in shown
    assert "Many" not in site.visitor().get("/alerts").text
    assert "20 in 10 minutes" in site.visitor("auditor", tenant).get("/alerts").text
    assert site.went(own.post("/alerts/delete", {"name": "Many"})) == "/alerts alert-deleted"
    assert "Many" in other.get("/alerts").text
