"""Searches on pages: one text for all conditions, values that narrow it, views by choice and shared ones."""

import html
import re
from typing import Any

import msgspec
import pytest
from tests.web.conftest import REPORT, find_in
from tests.web.test_messages import titles

PATHS = ("/messages", "/quarantine")


def links(page: str, kind: str) -> dict[str, str]:
    """Where the values of facets lead: to those that have one (`cut`), or to all others (`leave-out`)."""
    found = re.findall(rf'<a class="{kind}"[^>]*?(?:title|aria-label)="([^"]*)" href="([^"]*)"', page)
    found += [
        (name, path) for path, name in re.findall(rf'<a class="{kind}" href="([^"]*)"[^>]*aria-label="([^"]*)"', page)
    ]
    return {html.unescape(name): html.unescape(path) for name, path in found}


@pytest.fixture
def mails(site: Any, tenant: str) -> str:
    for subject, verdict in (("One", "spam"), ("Two", "phishing"), ("Three", "phishing")):
        site.message(tenant, msgspec.structs.replace(REPORT, subject=subject, verdict=verdict), held=True)
    return tenant


def test_values_narrow_the_search_and_leave_it_out(site: Any, mails: str) -> None:
    visitor = site.visitor(tenant=mails)
    for path in PATHS:
        page = visitor.get(path).text
        assert "Values are counted among all 3 that match." in page
        only = visitor.get(links(page, "cut")["phishing"])
        assert titles(only.text) == ["Three", "Two"], path
        assert 'value="verdict:phishing"' in only.text
        without = visitor.get(links(page, "leave-out")["All but verdict phishing"])
        assert titles(without.text) == ["One"], path
        step = find_in(r'<table><thead><tr><th>From \(UTC\)</th>.*?<a href="([^"]*)"', page, re.DOTALL)
        assert len(titles(visitor.get(step).text)) == 3


def test_controls_write_the_text_and_the_address(site: Any, mails: str) -> None:
    visitor = site.visitor(tenant=mails)
    for path in PATHS:
        fields = {
            "refine": "1",
            "q": "One OR Two",
            "verdict": "phishing",
            "subject": "two",
            "sort": "newest",
            "from": "",
        }
        answer = visitor.get(path, params=fields)
        assert answer.status_code == 303
        where = answer.headers["location"]
        assert where == f"{path}?q=%28%28One+OR+Two%29+verdict%3Aphishing%29+subject%3Atwo"
        assert titles(visitor.get(where).text) == ["Two"]


def test_a_fault_is_shown_with_its_place(site: Any, mails: str) -> None:
    visitor = site.visitor(tenant=mails)
    for path in PATHS:
        answer = visitor.get(f"{path}?q=One+verdict:nonsense")
        assert answer.status_code == 400
        assert '<code class="break">One <mark>verdict:nonsense</mark></code>' in answer.text
        assert "verdict: is one of malware" in answer.text
        assert visitor.get(f"{path}/export?format=csv&q=One+verdict:nonsense").status_code == 400
    assert visitor.post("/quarantine?q=verdict:x", {"action": "delete", "all": "1"}).status_code == 400


def test_columns_and_density_are_part_of_the_address(site: Any, mails: str) -> None:
    visitor = site.visitor(tenant=mails)
    for path in PATHS:
        page = visitor.get(f"{path}?columns=ip&columns=size&columns=nonsense&density=compact").text
        table = page[page.index('<table class="stacked mails') :]
        heads = re.findall(r"<th[^>]*>([^<]+)</th>", table)
        assert [each for each in heads if each.strip()][-2:] == ["Sending host", "Size"], heads
        assert "Score</th>" not in table
        assert 'class="stacked mails compact"' in page
        assert "512 bytes" in page
        # What it shows is kept by every link of the page.
        assert all("columns=ip&columns=size" in where for where in links(page, "cut").values())


def test_saved_views_are_shared_within_a_tenant(site: Any, tenant: str) -> None:
    owner, colleague = site.visitor("analyst", tenant), site.visitor("auditor", tenant)
    administrator, other, operator = site.visitor(tenant=tenant), site.visitor(tenant=site.new_tenant()), site.visitor()
    for name, shared in (("my own", ""), ("for us", "1")):
        fields = {"page": "/messages", "name": name, "query": "q=verdict:spam&density=compact", "shared": shared}
        assert owner.post("/searches", fields).status_code == 303
    assert all(name in owner.get("/messages").text for name in ("my own", "for us"))
    seen = colleague.get("/messages").text
    assert "for us" in seen
    assert "my own" not in seen
    assert "Delete the saved search for us" not in seen
    assert "for us" not in colleague.get("/quarantine").text
    for stranger in (other, operator):
        assert "for us" not in stranger.get("/messages").text
    found = find_in(r'action="/searches/([0-9a-f-]{36})/delete"', administrator.get("/messages").text)
    path = f"/searches/{found}/delete"
    for stranger in (other, operator):
        assert stranger.post(path, {"page": "/messages"}).status_code == 404
    assert administrator.post(path, {"page": "/messages"}).status_code == 303
    assert "for us" not in colleague.get("/messages").text


def test_hints_know_what_can_be_written_and_what_is_wrong(site: Any, tenant: str) -> None:
    site.new_tenant("Harbour Clinic 17")
    operator, own = site.visitor(), site.visitor(tenant=tenant)

    def hint(visitor: Any, text: str, path: str = "/messages") -> str:
        answer = visitor.get("/searches/hint", params={"path": path, "q": text, "at": str(len(text))})
        assert answer.status_code == 200
        return html.unescape(answer.text)

    assert 'data-text="verdict:"' in hint(operator, "evil ver")
    assert 'data-text="verdict:phishing "' in hint(operator, "verdict:ph")
    assert 'data-text="state:deleted "' in hint(operator, "state:d", "/quarantine")
    assert "data-text" not in hint(operator, "stat")
    assert 'data-text="tag:auth:dmarc-fail "' in hint(operator, "tag:dmarc")
    assert 'tenant:"Harbour Clinic 17" ' in hint(operator, "tenant:harb")
    assert "Harbour" not in hint(own, "tenant:harb")
    assert "<mark>form:</mark>" in hint(operator, "form:x")
    assert "No field is called form." in hint(operator, "form:x")


def test_values_on_the_page_of_a_message_lead_on_whatever_they_are(site: Any, tenant: str) -> None:
    name = 'Ann (Sales) "OR" from:x'
    report = msgspec.structs.replace(REPORT, subject="Pivoted", sender_names=(name,), senders=("ann@example.org",))
    ggrid = site.message(tenant, report)
    visitor = site.visitor(tenant=tenant)
    page = visitor.get(f"/messages/{ggrid}").text
    paths = [html.unescape(each) for each in re.findall(r'<a class="pivot" dir="auto" href="([^"]*)"', page)]
    assert len(paths) > 3
    for path in paths:
        answer = visitor.get(path)
        assert answer.status_code == 200, path
        assert titles(answer.text) == ["Pivoted"], path
