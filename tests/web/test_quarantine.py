"""The quarantine over HTTP: queue, release, deletion, many at once, and what goes wrong with them."""

from typing import Any

import pytest

from gatepost.ids import new_id
from gatepost.store.audit import AuditFilter


@pytest.fixture
def core(site: Any) -> Any:
    yield site.core
    site.core.refuses, site.core.down = "", False


def test_the_queue_and_its_counts(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    assert "The quarantine is empty" in visitor.get("/quarantine").text
    ggrid = site.message(tenant, held=True)
    page = visitor.get("/quarantine").text
    assert f'href="/messages/{ggrid}"' in page
    assert "1 held" in page
    for query in ("verdict=malware", "sender=x.example", "subject=never", "since=2099-01-01", "until=2020-01-01"):
        assert "No matching held messages." in visitor.get(f"/quarantine?{query}").text
    assert f'href="/messages/{ggrid}"' in visitor.get("/quarantine?link=evil.example").text
    assert "No matching held messages." in visitor.get("/quarantine?link=x.example").text
    assert visitor.get("/quarantine?since=x").status_code == 400


def test_released_once_with_the_visitors_name(site: Any, tenant: str, core: Any) -> None:
    ggrid = site.message(tenant, held=True)
    visitor = site.visitor("analyst", tenant)
    assert visitor.post(f"/messages/{ggrid}/release").headers["location"] == f"/messages/{ggrid}?done=released"
    assert core.sent[ggrid] == ("bob@example.com",)
    record = site.run(site.store.audit_page(AuditFilter(scope=tenant), limit=1)).rows[0]
    assert (record.action, record.actor.label) == ("quarantine.release", f"user:{visitor.who}")
    assert f"by user:{visitor.who}" in visitor.get(f"/messages/{ggrid}").text
    assert ggrid not in visitor.get("/quarantine").text
    assert ggrid in visitor.get("/quarantine?released=1").text


def test_released_to_others(site: Any, tenant: str, core: Any) -> None:
    ggrid = site.message(tenant, held=True)
    visitor = site.visitor(tenant=tenant)
    for wrong in ("nobody", "a@b, x", ", ".join(f"a{n}@b.example" for n in range(101))):
        assert visitor.post(f"/messages/{ggrid}/release", {"recipients": wrong}).status_code == 409
    assert ggrid not in core.sent
    visitor.post(f"/messages/{ggrid}/release", {"recipients": "abuse@b.example, carol@c.example"})
    assert core.sent[ggrid] == ("abuse@b.example", "carol@c.example")


@pytest.mark.parametrize(
    ("role", "of_tenant", "anywhere"),
    [
        ("administrator", False, True),
        ("analyst", False, False),
        ("administrator", True, False),
        ("analyst", True, False),
    ],
)
def test_only_administrators_of_all_tenants_release_anywhere(
    site: Any, tenant: str, core: Any, role: str, of_tenant: bool, anywhere: bool
) -> None:
    ggrid = site.message(tenant, held=True)
    visitor = site.visitor(role, tenant if of_tenant else None)
    assert ("addresses in the domains of its tenant" in visitor.get(f"/messages/{ggrid}").text) is not anywhere
    visitor.post(f"/messages/{ggrid}/release", {"recipients": "x@elsewhere.example"})
    assert [(order.ggrid, order.anywhere) for order in core.orders][-1] == (ggrid, anywhere)


@pytest.mark.parametrize(
    ("trouble", "said"), [({"refuses": "the next hop said 550"}, "said 550"), ({"down": True}, "is not answering")]
)
def test_a_release_that_fails_is_told_and_the_mail_stays(
    site: Any, tenant: str, core: Any, trouble: dict[str, Any], said: str
) -> None:
    ggrid = site.message(tenant, held=True)
    for name, value in trouble.items():
        setattr(core, name, value)
    answer = site.visitor().post(f"/messages/{ggrid}/release")
    assert answer.status_code == 409
    assert said in answer.text
    many = site.visitor().post("/quarantine", {"action": "release", "ggrid": [ggrid]})
    assert many.status_code == 409
    assert said in many.text
    assert site.run(site.store.held(ggrid)).state == "held"


def test_many_at_once_and_what_of_them_went_well(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    ggrids = [site.message(tenant, held=True) for _ in range(3)]
    answer = visitor.post("/quarantine?verdict=spam", {"action": "delete", "ggrid": ggrids[:2]})
    assert answer.headers["location"] == "/quarantine?verdict=spam&done=deleted"
    assert [site.run(site.store.held(each)) for each in ggrids[:2]] == [None, None]
    mixed = visitor.post("/quarantine", {"action": "release", "ggrid": [ggrids[0], ggrids[2]]})
    assert mixed.status_code == 409
    assert "1 succeeded. These failed:" in mixed.text
    assert site.run(site.store.held(ggrids[2])).state == "released"


@pytest.mark.parametrize("fields", [{}, {"action": "release"}, {"action": "burn", "ggrid": new_id()}, {"ggrid": "x"}])
def test_nothing_chosen_is_told(site: Any, fields: dict[str, str]) -> None:
    answer = site.visitor().post("/quarantine", fields)
    assert answer.status_code == 400
    assert "no message is selected" in answer.text


def test_deleted_and_reported(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    ggrid = site.message(tenant, held=True)
    assert visitor.post("/quarantine", {"action": "report", "ggrid": ggrid}).status_code == 303
    assert site.run(site.store.feedback())[-1].ggrid == ggrid
    assert visitor.post(f"/messages/{ggrid}/delete").headers["location"] == "/quarantine?done=deleted"
    assert "The core" not in visitor.get(f"/messages/{ggrid}").text
    assert visitor.post(f"/messages/{ggrid}/delete").status_code in (404, 409)


def test_what_the_deployment_reports_is_kept_to_learn_from_and_what_a_tenant_reports_is_not(
    site: Any, tenant: str
) -> None:
    theirs = site.message(tenant, held=True, text=f"theirs {tenant}")
    site.visitor("analyst", tenant).post(f"/messages/{theirs}/report", {"says": "deliver"})
    ours = site.message(tenant, held=True, text=f"ours {tenant}")
    site.visitor("analyst").post("/quarantine", {"action": "report", "ggrid": ours})
    assert (f"ours {tenant}".encode(), True) in site.learnt
    assert not any(raw == f"theirs {tenant}".encode() for raw, _ in site.learnt)
    assert {each.ggrid for each in site.run(site.store.feedback())} >= {ours, theirs}
