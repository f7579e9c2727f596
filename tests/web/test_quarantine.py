"""The quarantine over HTTP: queue, release, deletion, many at once, and what goes wrong with them."""

import re
from typing import Any

import httpx
import msgspec
import pytest
from tests.store_reading import list_reports
from tests.web.conftest import REPORT, find_in

from gatepost.ids import new_id

SURE = {"sure": "1"}


def confirm(visitor: Any, asked: httpx.Response) -> httpx.Response:
    """Go through with what a page asks about."""
    path, _, query = asked.headers["location"].partition("?")
    answer: httpx.Response = visitor.post(f"{path}/start?{query}")
    return answer


@pytest.fixture
def core(site: Any) -> Any:
    yield site.core
    site.core.refuses, site.core.down = "", False


def test_the_queue_and_its_counts(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    assert "The quarantine is empty" in visitor.get("/quarantine").text
    ggrid = site.message(tenant, held=True)
    page = visitor.get("/quarantine").text
    assert f'href="/messages/{ggrid}?in="' in page
    assert "1 held" in page
    for query in ("verdict=malware", "sender=x.example", "subject=never", "since=2099-01-01", "until=2020-01-01"):
        assert "No matching held messages." in visitor.get(f"/quarantine?{query}").text
    assert f'href="/messages/{ggrid}?in=q%3Dhost%253Aevil.example"' in visitor.get("/quarantine?link=evil.example").text
    assert "No matching held messages." in visitor.get("/quarantine?link=x.example").text
    assert visitor.get("/quarantine?since=x").status_code == 400


def test_released_once_with_the_visitors_name(site: Any, tenant: str, core: Any) -> None:
    ggrid = site.message(tenant, held=True)
    visitor = site.visitor("analyst", tenant)
    asked = visitor.post(f"/messages/{ggrid}/release")
    assert "Release this message?" in asked.text
    assert "bob@example.com" in asked.text
    assert ggrid not in core.sent
    assert site.went(visitor.post(f"/messages/{ggrid}/release", SURE)) == f"/messages/{ggrid} released"
    assert core.sent[ggrid] == ("bob@example.com",)
    record = site.trail(scope=tenant)[0]
    assert (record.action, record.actor.label) == ("quarantine.release", f"user:{visitor.who}")
    assert f"by {visitor.who}" in visitor.get(f"/messages/{ggrid}").text
    assert ggrid not in visitor.get("/quarantine").text
    assert ggrid in visitor.get("/quarantine?state=released").text


def test_released_to_others(site: Any, tenant: str, core: Any) -> None:
    ggrid = site.message(tenant, held=True)
    visitor = site.visitor(tenant=tenant)
    for wrong in ("nobody", "a@b, x", ", ".join(f"a{n}@b.example" for n in range(101))):
        assert visitor.post(f"/messages/{ggrid}/release", {"recipients": wrong}).status_code == 409
    assert ggrid not in core.sent
    visitor.post(f"/messages/{ggrid}/release", {"recipients": "abuse@b.example, carol@c.example", **SURE})
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
    visitor.post(f"/messages/{ggrid}/release", {"recipients": "x@elsewhere.example", **SURE})
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
    visitor = site.visitor()
    answer = visitor.post(f"/messages/{ggrid}/release", SURE)
    assert answer.status_code == 409
    assert said in answer.text
    many = confirm(visitor, visitor.post("/quarantine", {"action": "release", "ggrid": [ggrid]}))
    page = visitor.get(many.headers["location"]).text
    assert said in page
    assert "Act now</a>" in page, "a failure names the subject, not only an id"
    assert site.run(site.store.quarantine.find(ggrid)).state == "held"


def test_many_at_once_and_what_of_them_went_well(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    ggrids = [site.message(tenant, held=True) for _ in range(3)]
    answer = visitor.post("/quarantine?verdict=spam", {"action": "delete", "ggrid": ggrids[:2]})
    assert site.went(answer).startswith("/quarantine?verdict=spam mail-deleted~2~")
    assert [site.run(site.store.quarantine.find(each)) for each in ggrids[:2]] == [None, None]
    asked = visitor.post("/quarantine", {"action": "release", "ggrid": [ggrids[0], ggrids[2]]})
    mixed = visitor.get(confirm(visitor, asked).headers["location"]).text
    assert "1 of 2 released" in mixed
    assert "1 failed." in mixed
    assert site.run(site.store.quarantine.find(ggrids[2])).state == "released"


def test_a_release_of_many_says_first_how_many_of_which_verdict(site: Any, tenant: str, core: Any) -> None:
    visitor = site.visitor(tenant=tenant)
    ggrids = [site.message(tenant, held=True) for _ in range(2)]
    asked = visitor.post("/quarantine", {"action": "release", "ggrid": ggrids})
    page = visitor.get(asked.headers["location"]).text
    assert "Release 2 messages?" in page
    assert "spam</span> 2" in page
    assert not set(ggrids) & set(core.sent)
    other = site.visitor("analyst", tenant)
    assert other.get(asked.headers["location"]).status_code == 404
    assert site.went(confirm(visitor, asked)).startswith("/quarantine mail-released~2~")
    assert set(ggrids) <= set(core.sent)


def test_a_deletion_is_taken_back(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    ggrid = site.message(tenant, held=True)
    visitor.post(f"/messages/{ggrid}/delete")
    page = visitor.get("/quarantine").text
    assert "1 deleted." in page
    undo = find_in(r'action="(/quarantine/work/[^"]+/undo)"', page)
    assert "1 deleted." not in visitor.get("/quarantine").text, "a notice is shown once"
    gone = visitor.get(f"/messages/{ggrid}").text
    assert f"by {visitor.who}" in gone
    assert ">Restore</button>" in gone
    assert ">Release</button>" not in gone
    assert f'value="{ggrid}"' in visitor.get("/quarantine?state=deleted").text
    assert site.went(visitor.post(undo)).startswith("/quarantine mail-restored~1~")
    assert site.run(site.store.quarantine.find(ggrid)).state == "held"
    actions = [record.action for record in site.trail(scope=tenant)]
    assert actions[:2] == ["quarantine.restore", "quarantine.delete"]


def test_all_that_match_and_nothing_else(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    for number in range(3):
        site.message(tenant, msgspec.structs.replace(REPORT, subject=f"Prize {number}"), held=True)
    other = site.message(tenant, held=True)
    asked = visitor.post("/quarantine?subject=prize", {"action": "delete", "all": "1"})
    assert "Delete 3 messages?" in visitor.get(asked.headers["location"]).text
    assert site.went(confirm(visitor, asked)).startswith("/quarantine?subject=prize mail-deleted~3~")
    assert site.run(site.store.quarantine.find(other)).state == "held"
    assert site.run(site.store.quarantine.counts(tenant)).messages == 1


def test_a_campaign_is_one_row_and_is_acted_on_once(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    for number in range(3):
        site.message(tenant, msgspec.structs.replace(REPORT, subject=f"Prize {number}"), held=True)
    site.message(tenant, held=True)
    page = visitor.get("/quarantine?group=1").text
    assert "×3" in page
    values = re.findall(r'name="ggrid" value="([^"]+)"', page)
    assert sorted(len(value.split(",")) for value in values) == [1, 3]
    answer = visitor.post("/quarantine?group=1", {"action": "delete", "ggrid": max(values, key=len)})
    assert site.went(answer).startswith("/quarantine?group=1 mail-deleted~3~")


def test_next_and_previous_within_the_list_and_the_place_is_kept(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    prize = msgspec.structs.replace(REPORT, subject="Prize")
    old, _, middle, new = (site.message(tenant, report, held=True) for report in (prize, REPORT, prize, prize))
    page = visitor.get(f"/messages/{middle}?in=subject%3Dprize").text
    assert f'rel="prev" data-key="k" href="/messages/{new}?in=subject%3Dprize"' in page
    assert f'rel="next" data-key="j" href="/messages/{old}?in=subject%3Dprize"' in page
    went = site.went(visitor.post(f"/messages/{middle}/delete?in=subject%3Dprize"))
    assert went.startswith(f"/messages/{old}?in=subject%3Dprize mail-deleted~1~")
    went = site.went(visitor.post(f"/messages/{old}/delete?in=subject%3Dprize"))
    assert went.startswith("/quarantine?subject=prize mail-deleted~1~")


def test_enter_in_a_checkbox_presses_nothing(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True)
    page = site.visitor(tenant=tenant).get("/quarantine").text
    form = page[page.index("data-triage-form") :]
    assert form.index('<button name="action" value="none"') < form.index('<button name="action" value="delete"')
    answer = site.visitor(tenant=tenant).post("/quarantine?verdict=spam", {"action": "none", "ggrid": ggrid})
    assert site.went(answer) == "/quarantine?verdict=spam"
    assert site.run(site.store.quarantine.find(ggrid)).state == "held"


def test_a_report_is_no_export(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True)
    site.visitor("analyst").post(f"/messages/{ggrid}/report", {"says": "deliver"})
    actions = {record.action for record in site.trail(scope=tenant)}
    assert "message.reported" in actions
    assert "quarantine.export" not in actions


@pytest.mark.parametrize("fields", [{}, {"action": "release"}, {"action": "burn", "ggrid": new_id()}, {"ggrid": "x"}])
def test_nothing_chosen_is_told(site: Any, fields: dict[str, str]) -> None:
    answer = site.visitor().post("/quarantine", fields)
    assert site.went(answer) == "/quarantine none-selected"


def test_deleted_and_reported(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    ggrid = site.message(tenant, held=True)
    assert visitor.post("/quarantine", {"action": "report", "ggrid": ggrid}).status_code == 303
    assert site.run(list_reports(site.store))[-1].sample[0] == ggrid
    assert site.went(visitor.post(f"/messages/{ggrid}/delete")).startswith("/quarantine mail-deleted~1~")
    assert "The core" not in visitor.get(f"/messages/{ggrid}").text
    assert "/quarantine/work/" in visitor.post(f"/messages/{ggrid}/delete").headers["location"], "it says why not"


def test_whoever_may_see_the_cores_is_told_which_one_has_the_message(site: Any, tenant: str, core: Any) -> None:
    ggrid = site.message(tenant, held=True)
    core.down = True
    for visitor, is_named in ((site.visitor(), True), (site.visitor(tenant=tenant), False)):
        source = visitor.get(f"/messages/{ggrid}/source")
        assert source.status_code == 503
        for said in (source.text, visitor.post(f"/messages/{ggrid}/release", SURE).text):
            assert "is not answering" in said
            assert ("guard2:9785" in said) == is_named


def test_what_the_deployment_reports_is_kept_to_learn_from_and_what_a_tenant_reports_is_not(
    site: Any, tenant: str
) -> None:
    theirs = site.message(tenant, held=True, text=f"theirs {tenant}")
    site.visitor("analyst", tenant).post(f"/messages/{theirs}/report", {"says": "deliver"})
    ours = site.message(tenant, held=True, text=f"ours {tenant}")
    site.visitor("analyst").post("/quarantine", {"action": "report", "ggrid": ours})
    assert (f"ours {tenant}".encode(), True) in site.learnt
    assert not any(raw == f"theirs {tenant}".encode() for raw, _ in site.learnt)
    assert {each.sample[0] for each in site.run(list_reports(site.store))} >= {ours, theirs}


@pytest.mark.parametrize("verdict", ["malware", "phishing"])
def test_releasing_malware_and_phishing_is_a_right_of_its_own(site: Any, tenant: str, core: Any, verdict: str) -> None:
    ggrid = site.message(tenant, msgspec.structs.replace(REPORT, verdict=verdict), held=True)
    analyst, administrator = site.visitor("analyst", tenant), site.visitor(tenant=tenant)
    page = analyst.get(f"/messages/{ggrid}").text
    assert ">Release</button>" not in page
    assert "is a right of its own" in page
    assert analyst.post(f"/messages/{ggrid}/release", SURE).status_code == 409
    asked = analyst.get(analyst.post("/quarantine", {"action": "release", "ggrid": [ggrid]}).headers["location"]).text
    assert "1 of them is malware or phishing. You may not release it" in asked
    assert ggrid not in core.sent
    assert "This message is" in administrator.post(f"/messages/{ggrid}/release").text
    administrator.post(f"/messages/{ggrid}/release", SURE)
    assert [(order.ggrid, order.dangerous) for order in core.orders][-1] == (ggrid, True)
