"""Triage over HTTP: how many match, in which order, as a file, blocked at once, and no action that loses the place."""

import csv
import io
import json
import re
from typing import Any

import msgspec
import pytest
from tests.web.conftest import REPORT, find_in

PLACE = "in=subject%3Dprize"


def prize(number: int, **more: Any) -> Any:
    return msgspec.structs.replace(REPORT, subject=f"Prize {number}", **more)


def rows(page: str) -> list[str]:
    return re.findall(r'<tr data-ggrid="([^"]+)"', page)


def test_the_number_that_match_stands_beside_all(site: Any, tenant: str) -> None:
    for number in range(3):
        site.message(tenant, prize(number), held=True)
    site.message(tenant, held=True)
    visitor = site.visitor(tenant=tenant)
    page = visitor.get("/quarantine?subject=prize").text
    assert "<strong>3 found</strong> of 4 held in all" in page
    assert "All matching (3)" in page
    assert "<strong>4 found</strong> of 4" in visitor.get("/quarantine?q=evil.example").text
    assert "found</strong>" not in visitor.get("/quarantine").text


def test_sorted_by_score_or_sender_and_next_follows_that_order(site: Any, tenant: str) -> None:
    stated = ((300, "c@x.example"), (900, "a@x.example"), (600, "b@x.example"))
    low, high, middle = (
        site.message(tenant, prize(score, score=score, senders=(sender,)), held=True) for score, sender in stated
    )
    visitor = site.visitor(tenant=tenant)
    assert rows(visitor.get("/quarantine?sort=score").text) == [high, middle, low]
    assert rows(visitor.get("/quarantine?sort=sender").text) == [high, middle, low]
    assert rows(visitor.get("/quarantine").text) == [middle, high, low]
    page = visitor.get(f"/messages/{middle}?in=sort%3Dscore").text
    assert f'rel="prev" data-key="k" href="/messages/{high}?in=sort%3Dscore"' in page
    assert f'rel="next" data-key="j" href="/messages/{low}?in=sort%3Dscore"' in page
    went = site.went(visitor.post(f"/messages/{high}/delete?in=sort%3Dscore"))
    assert went.startswith(f"/messages/{middle}?in=sort%3Dscore mail-deleted~1~")


def test_the_result_as_a_file(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, prize(1, senders=("=cmd@x.example",), sender_names=("=HYPERLINK(1)",)), held=True)
    site.message(tenant, held=True)
    visitor = site.visitor("auditor", tenant)
    (line,) = json.loads(visitor.get("/quarantine/export?subject=prize&format=json").text)
    assert (line["ggrid"], line["verdict"], line["state"]) == (ggrid, "spam", "held")
    assert (line["recipients"], line["linkHosts"]) == (["bob@example.com"], ["evil.example"])
    (cells,) = csv.DictReader(io.StringIO(visitor.get("/quarantine/export?subject=prize&format=csv").text))
    assert cells["from"].startswith("'=HYPERLINK(1)")
    assert visitor.get("/quarantine/export?format=exe").status_code == 400
    assert visitor.get("/quarantine/export?format=csv&verdict=odd").status_code == 400
    record = site.trail(scope=tenant)[0]
    assert (record.action, record.count) == ("messages.export", 1)


def test_more_groups_than_rows_of_a_page_can_be_selected(site: Any, tenant: str) -> None:
    subjects = [f"{first}{second} prize" for first in "abcdefgh" for second in "abcdefgh"][:60]
    for subject in subjects:
        site.message(tenant, msgspec.structs.replace(REPORT, subject=subject), held=True)
    visitor = site.visitor(tenant=tenant)
    values = re.findall(r'name="ggrid" value="([^"]+)"', visitor.get("/quarantine?group=1").text)
    assert len(values) == 60
    answer = visitor.post("/quarantine?group=1", {"action": "delete", "ggrid": values})
    assert "mail-deleted~60~" in site.went(answer)


def test_all_deleted_ones_that_match_are_restored(site: Any, tenant: str) -> None:
    ggrids = [site.message(tenant, prize(number), held=True) for number in range(3)]
    visitor = site.visitor(tenant=tenant)
    visitor.post("/quarantine", {"action": "delete", "ggrid": ggrids})
    asked = visitor.post("/quarantine?state=deleted&subject=prize", {"action": "restore", "all": "1"})
    path, _, query = asked.headers["location"].partition("?")
    assert "mail-restored~3~" in site.went(visitor.post(f"{path}/start?{query}"))
    assert {site.run(site.store.quarantine.find(each)).state for each in ggrids} == {"held"}


def test_every_action_of_a_message_keeps_the_place(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, prize(1), held=True)
    visitor, here = site.visitor(tenant=tenant), f"/messages/{ggrid}?{PLACE}"
    page = visitor.get(here).text
    assert 'href="/quarantine?subject=prize" data-key="u"' in page
    inside = re.findall(rf'(?:href|action)="(/messages/{ggrid}/[^"]*)"', page)
    assert len(inside) > 8
    without = [path for path in inside if PLACE not in path and not path.endswith(("/export", "/compare", "/html"))]
    assert 'name="in" value="subject=prize"' in page
    assert without == []
    went = site.went(visitor.post(f"/messages/{ggrid}/report?{PLACE}", {"says": "hold"}))
    assert went.startswith(f"{here} mail-reported~1~")
    for path in ("replay", "source", "entry"):
        query = f"list=blocked-senders&entry=a@x.example&{PLACE}"
        assert f'href="{here}"' in visitor.get(f"/messages/{ggrid}/{path}?{query}").text
    fields = {"list": "blocked-senders", "entry": "a@x.example"}
    assert site.went(visitor.post(f"/messages/{ggrid}/entry?{PLACE}", fields)) == f"{here} entry-idle~delivered"
    assert f'href="{here}"' in visitor.post(f"/messages/{ggrid}/release?{PLACE}").text
    assert site.went(visitor.post(f"/messages/{ggrid}/release?{PLACE}", {"sure": "1"})) == f"{here} released"


def test_the_next_one_is_of_the_tenant_that_the_list_shows(site: Any, tenant: str) -> None:
    older = site.message(tenant, held=True)
    site.message(site.new_tenant(), held=True)
    newer = site.message(tenant, held=True)
    went = site.went(site.visitor().post(f"/messages/{newer}/delete?in=tenant%3D{tenant}"))
    assert went.startswith(f"/messages/{older}?")


def test_senders_of_selected_messages_are_blocked_and_the_list_comes_back(site: Any, tenant: str) -> None:
    reports = [prize(number, senders=(f"win{number}@prize.example",)) for number in range(2)]
    ggrids = [site.message(tenant, report, held=True) for report in (*reports, reports[0])]
    gmail = site.message(tenant, prize(9, senders=("gmail.com",)), held=True)
    visitor = site.visitor("analyst", tenant)
    page = visitor.post("/quarantine?subject=prize", {"action": "block", "ggrid": [*ggrids, gmail]}).text
    assert f"win0@prize.example\tfrom message {ggrids[0]}, spam, {visitor.who}" in page
    assert "gmail.com is a free-mail provider. This holds the mail of everybody there." in page
    assert site.run(site.store.lists.find(tenant, "blocked-senders", ["win0@prize.example"])) == ()
    fields = {name: find_in(rf'name="{name}"[^>]*value="([^"]*)"', page) for name in ("comment", "expires", "back")}
    entries = f"win0@prize.example\tfrom message {ggrids[0]}\nwin1@prize.example"
    answer = visitor.post(f"/lists/{tenant}/blocked-senders/add", {**fields, "entries": entries})
    assert site.went(answer).startswith("/quarantine?subject=prize blocked~2~")
    (entry,) = site.run(site.store.lists.find(tenant, "blocked-senders", ["win0@prize.example"]))
    assert entry.comment == f"from message {ggrids[0]}"
    assert entry.expires
    assert "Block senders" not in site.visitor("auditor", tenant).get("/quarantine").text
    assert site.went(visitor.post("/quarantine", {"action": "block"})) == "/quarantine none-selected"


@pytest.mark.parametrize("back", ["https://evil.example/", "/messages?\r\nX: y", "//evil.example"])
def test_the_way_back_is_a_list_of_mail_and_nothing_else(site: Any, tenant: str, back: str) -> None:
    fields = {"entries": "x@y.example", "back": back}
    answer = site.visitor(tenant=tenant).post(f"/lists/{tenant}/blocked-senders/add", fields)
    assert answer.headers["location"].startswith(f"/lists/{tenant}/blocked-senders")
    assert "x" not in answer.headers
