"""The worst that is known about health, on every page, and what users of a tenant are told of it."""

from typing import Any

import pytest

from gatepost.scanning.request import Condition, Load
from gatepost.web.health_notes import HealthNote, note_for, worst_of_cores

WELL = Load(0, 5, 10)
SLOWED = Load(0, 5, 10, slowed="the next hop cannot be reached: connection refused")


@pytest.mark.parametrize(
    ("states", "level", "said"),
    [
        ([("a", WELL)], None, ""),
        ([("a", WELL), ("b", Load(0, 5, 10, fault="storage cannot be used"))], "bad", "storage cannot be used"),
        ([("a", SLOWED)], "warn", "Mail waits with its senders: the next hop cannot be reached"),
        ([("a", None)], "bad", "No core is answering"),
        ([("a", None), ("b", WELL)], "warn", "The core a is not answering."),
        ([("a", Load(10, 5, 10))], "warn", "All slots are in use"),
        ([("a", Load(10, 5, 10)), ("b", WELL)], None, ""),
    ],
)
def test_the_worst_of_the_cores(states: list[tuple[str, Load | None]], level: str | None, said: str) -> None:
    note = worst_of_cores(states)
    assert (note.level if note else None) == level
    assert said in (note.text if note else "")


def test_a_tenant_is_told_that_mail_waits_and_not_why() -> None:
    note = worst_of_cores([("core-7.internal", SLOWED)])
    said = note_for(note, may_know=False)
    assert said == HealthNote("warn", "Mail is delayed at the moment.", "")
    assert note_for(HealthNote("warn", "The node n is silent.", "/nodes"), may_know=False) is None
    assert note_for(note, may_know=True) == note


def test_every_page_says_so(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.web.registry.worst_of_cores", lambda _: worst_of_cores([("a", SLOWED)]))
    for path in ("/", "/messages", "/lists", "/audit"):
        assert "the next hop cannot be reached" in site.visitor().get(path).text
        assert "Mail is delayed at the moment." in site.visitor(tenant=tenant).get(path).text
    monkeypatch.undo()
    assert "Mail is delayed" not in site.visitor(tenant=tenant).get("/messages").text


def test_a_test_event_without_an_output_says_so(site: Any, tenant: str) -> None:
    assert site.went(site.visitor().post("/system/test-event")) == "/system no-outputs"
    assert site.visitor(tenant=tenant).post("/system/test-event").status_code == 403
    assert site.visitor("auditor").post("/system/test-event").status_code == 403


def test_a_sender_over_its_limit_is_the_operator_s_to_know() -> None:
    condition = Condition()
    assert condition.describe(Load(0, 1, 2)).note == ""
    condition.remark("a@x.example is over its limit", 60)
    note = worst_of_cores([("core", condition.describe(Load(0, 1, 2)))])
    assert note == HealthNote("warn", "a@x.example is over its limit.", "/messages")
    assert note_for(note, may_know=False) is None
    condition.remark("it was", -1)
    assert worst_of_cores([("core", condition.describe(Load(0, 1, 2)))]) is None
