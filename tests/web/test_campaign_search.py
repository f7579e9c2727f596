"""The search for the messages of a campaign: what leads to it, what it finds, and actions on all of them."""

from typing import Any

import msgspec
import pytest
from tests.web.conftest import REPORT, find_in

from gatepost.analysis.report import FileSeen, Report
from gatepost.lists.rulings import Subject
from gatepost.near_duplicates import compute_signature

TEXT = """please confirm your payroll account before friday since the office closes then and nobody will get money this
month unless you sign in with the link below and enter the code that we have sent to you today"""


def report(subject: str, **changes: Any) -> Report:
    values = {"subject": subject, "senders": (), "subjects": (), "sender_names": ()}
    return msgspec.structs.replace(REPORT, **(values | changes))


@pytest.fixture
def campaign(site: Any, tenant: str) -> dict[str, str]:
    link = (Subject("link", "https://login.evil.example/1", "1"),)
    pdf = (FileSeen("1", "pdf", 3, "ab" * 32, ("pay.pdf",)),)
    signature = compute_signature(TEXT.split())
    seed = report("Invoice 17", signature=signature, files=pdf, subjects=link, senders=("a@evil.example",))
    return {
        "seed": site.message(tenant, seed, held=True),
        "copy": site.message(tenant, report("Other words", signature=signature, decision="deliver", verdict="clean")),
        "file": site.message(tenant, report("With the file", files=pdf), held=True),
        "subject": site.message(tenant, report("INVOICE 99", subjects=link), held=True),
        "stranger": site.message(tenant, report("Lunch"), held=True),
        "foreign": site.message(site.new_tenant(), seed, held=True),
    }


def copies_path(visitor: Any, ggrid: str) -> str:
    return find_in(r'href="(/messages\?q=campaign[^"]*)"', visitor.get(f"/messages/{ggrid}").text)


def test_a_message_leads_to_what_is_joined_and_nothing_else(site: Any, tenant: str, campaign: dict[str, str]) -> None:
    visitor = site.visitor("analyst", tenant)
    page = visitor.get(copies_path(visitor, campaign["seed"])).text
    for name, ggrid in campaign.items():
        assert (f'href="/messages/{ggrid}' in page) == (name in ("seed", "copy", "file", "subject")), name
    assert 'title="login.evil.example"' in page
    assert 'title="pay.pdf"' in page
    # Of all tenants, there is one more.
    everybody = site.visitor()
    assert campaign["foreign"] in everybody.get(copies_path(everybody, campaign["seed"])).text


def test_actions_are_on_all_of_it(site: Any, tenant: str, campaign: dict[str, str]) -> None:
    visitor = site.visitor("analyst", tenant)
    path = copies_path(visitor, campaign["seed"])
    assert 'name="all"' in visitor.get(path).text
    confirm = visitor.get(visitor.post(path, {"action": "delete", "all": "1"}).headers["location"]).text
    assert "Delete 3 messages?" in confirm
    confirm = visitor.get(visitor.post(path, {"action": "missed", "all": "1"}).headers["location"]).text
    assert "Report as missed 4 messages?" in confirm
    went = site.went(visitor.post(path, {"action": "note", "note": "payroll wave", "all": "1"}))
    assert "mail-noted~4~" in went
    page = visitor.post(path, {"action": "block-hosts", "all": "1"}).text
    assert "login.evil.example" in page


def test_nothing_may_join_and_others_do_not_see_it(site: Any, tenant: str, campaign: dict[str, str]) -> None:
    visitor = site.visitor("analyst", tenant)
    lonely = site.message(tenant, report(""))
    assert f'href="/messages/{lonely}' not in visitor.get(copies_path(visitor, lonely)).text
    other = site.visitor("analyst", site.new_tenant())
    answer = other.get(f"/messages?q=campaign:{campaign['seed']}")
    assert answer.status_code == 400
    assert "There is no message of this id on record." in answer.text
