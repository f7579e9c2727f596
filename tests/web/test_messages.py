"""Messages on record: searched, shown with their ledger, exported, reported, judged again."""

import html
import re
from typing import Any

import msgspec
import pytest
from tests.store_reading import list_reports
from tests.web.conftest import REPORT

from gatepost.analysis.report import ListNote
from gatepost.auth.results import Authentication
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.policy.rules import MessageAction
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry

NASTY = '<script>alert("x")</script><img src=x onerror=alert(1)>'


def titles(page: str) -> list[str]:
    return [
        html.unescape(each)
        for each in re.findall(r'<a dir="auto"[^>]* href="/messages/[0-9a-f-]{36}[^"]*">([^<]*)</a>', page)
    ]


def test_a_message_is_found_by_what_is_known_of_it(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant)
    visitor = site.visitor(tenant=tenant)
    for query in (
        "",
        "sender=ann@example.org",
        "sender=example.org",
        "recipient=bob@example.com",
        "subject=now+act",
        "verdict=spam",
        "decision=quarantine",
        "tag=text:urgency",
        "since=2026-01-01",
        "until=2099-01-01",
        "link=evil.example",
    ):
        assert titles(visitor.get(f"/messages?{query}").text) == ["Act now"], query
    unknown = ("host=192.0.2.99", "link=x.example", "file=a.pdf", f"file={'ab' * 32}", "message_id=x", "queue_id=x")
    others = ("sender=other.example", "subject=never", "verdict=clean", "since=2099-01-01", "until=2020-01-01")
    for query in (*others, *unknown):
        page = visitor.get(f"/messages?{query}").text
        assert titles(page) == []
        assert "No matching messages." in page
    for query in (f"ggrid={ggrid.upper()}", f"q={ggrid}", f"q={ggrid.replace('-', '')}"):
        assert visitor.get(f"/messages?{query}").headers["location"] == f"/messages/{ggrid}"
    for query in (f"ggrid={ggrid[:30]}", f"q={ggrid[:30]}", f"q={ggrid.replace('-', '')[:26]}%E2%80%A6"):
        assert titles(visitor.get(f"/messages?{query}").text) == ["Act now"], query
        assert ggrid not in site.visitor(tenant=site.new_tenant()).get(f"/messages?{query}").text
    for hostile in ("0198c5a", "x" * 60, "%00" * 8, "' OR 1=1 --", "01_%25_____"):
        answer = visitor.get(f"/messages?ggrid={hostile}")
        assert answer.status_code == 400
        assert "first 8 digits" in answer.text


def test_before_the_first_message_the_page_says_what_to_do(site: Any, tenant: str) -> None:
    assert "No messages yet." in site.visitor(tenant=tenant).get("/messages").text


@pytest.mark.parametrize("query", ["since=tomorrow", "until=2026-99-99", "tenant=nonsense"])
def test_what_cannot_be_asked_for_is_told(site: Any, query: str) -> None:
    answer = site.visitor().get(f"/messages?{query}")
    assert answer.status_code in (400, 404)


def test_a_ledger_in_sentences_first(site: Any, tenant: str) -> None:
    note = ListNote("blocked-senders", "global", "ann@example.org", "blocked", "From", "Ticket 7")
    notes = (note, msgspec.structs.replace(note, where="envelope"))
    page = site.visitor().get(f"/messages/{site.message(tenant, _report(lists=notes))}").text
    assert "Held as spam.</strong>" in page
    assert (
        page.index("The text presses for time")
        < page.index("Ledger")
        < page.index("The score is 7.3, and spam begins at 6")
    )
    assert page.count("“Ticket 7”") == 1
    assert "/entry?list=blocked-senders&amp;entry=ann%40example.org" in page
    assert "The content of this message is not stored" in page


def test_the_action_is_told_in_words(site: Any, tenant: str) -> None:
    sent = MessageAction("redirect", "[!] ", "held@example.com")
    page = site.visitor().get(f"/messages/{site.message(tenant, _report(action=sent))}").text
    assert "Redirected as spam.</strong>" in page
    assert "It was redirected to held@example.com instead of its recipients, its subject marked [!]." in page
    kept = MessageAction("strip", failed="a file that stays could not be read")
    page = site.visitor().get(f"/messages/{site.message(tenant, _report(action=kept))}").text
    assert "Held as spam" in page
    assert "The action strip was not carried out: a file that stays could not be read." in page
    assert "Over SMTP" in site.visitor().get("/policy").text


def _report(**changed: Any) -> Any:
    return msgspec.structs.replace(REPORT, **changed)


def test_a_held_message_is_shown_as_text_and_its_picture_by_choice(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True, text=NASTY)
    visitor = site.visitor(tenant=tenant)
    page = visitor.get(f"/messages/{ggrid}").text
    assert html.escape(NASTY).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in page
    assert "<script>alert" not in page
    assert "/picture/0" not in page
    assert f'src="/messages/{ggrid}/picture/0"' in visitor.get(f"/messages/{ggrid}?picture=0").text
    drawn = visitor.get(f"/messages/{ggrid}/picture/0")
    assert drawn.headers["content-type"] == "image/png"
    assert drawn.headers["content-security-policy"] == "default-src 'none'; sandbox"
    for index in ("1", "9999", "-1", "x", "٣"):
        assert visitor.get(f"/messages/{ggrid}/picture/{index}").status_code == 404


def test_an_export_is_a_file_and_on_record(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True)
    answer = site.visitor().post(f"/messages/{ggrid}/export")
    assert answer.content == b"held text"
    assert answer.headers["content-disposition"] == f'attachment; filename="{ggrid}.eml"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert site.trail()[0].action == "quarantine.export"
    assert site.visitor().post(f"/messages/{site.message(tenant)}/export").status_code == 404


@pytest.mark.parametrize(
    ("says", "meant"), [("deliver", "should have been delivered"), ("hold", "should have been held")]
)
def test_a_report_is_on_record(site: Any, tenant: str, says: str, meant: str) -> None:
    ggrid = site.message(tenant)
    answer = site.visitor(tenant=tenant).post(f"/messages/{ggrid}/report", {"says": says})
    assert site.went(answer).startswith(f"/messages/{ggrid} mail-reported~1~")
    last = site.run(list_reports(site.store))[-1]
    assert (*last.sample, last.scope) == (ggrid, meant, tenant)


def test_a_report_of_nothing_sensible_is_refused(site: Any, tenant: str) -> None:
    assert site.visitor().post(f"/messages/{site.message(tenant)}/report", {"says": "x"}).status_code == 404


def test_judged_again_with_the_lists_of_now(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant)
    visitor = site.visitor(tenant=tenant)
    assert "Re-evaluation" in visitor.get(f"/messages/{ggrid}/replay").text
    entry = NewEntry("ann@example.org", "ann@example.org", "now blocked")
    site.run(site.store.lists.add(tenant, BY_NAME["blocked-senders"], [entry], CLI))
    page = visitor.get(f"/messages/{ggrid}/replay").text
    assert "list:blocked-senders" in page
    assert "policy" in page


def test_what_is_not_there(site: Any) -> None:
    for path in (f"/messages/{new_id()}", "/messages/x", f"/messages/{new_id()}/replay"):
        assert site.visitor().get(path).status_code == 404


def test_the_way_of_a_message_is_told(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True, text="x")
    page = html.unescape(site.visitor(tenant=tenant).get(f"/messages/{ggrid}").text)
    timeline = page[page.index(">Timeline<") :]
    assert "Held in the quarantine." in timeline
    assert "the verdict is spam, the decision quarantine" in timeline
    for query in ("next_hop_id=4NeXt", "queue_id=4NeXt"):
        assert titles(site.visitor(tenant=tenant).get(f"/messages?{query}").text) == [], query


def test_every_recipient_can_be_found_and_read(site: Any, tenant: str) -> None:
    recipients = tuple(f"user{number}@many.example" for number in range(200))
    ggrid = site.message(tenant, recipients=recipients)
    visitor = site.visitor(tenant=tenant)
    for field in ("recipient", "q"):
        assert ggrid in visitor.get(f"/messages?{field}=user199@many.example").text
    page = visitor.get(f"/messages/{ggrid}").text
    assert all(f'href="/messages?any={each.replace("@", "%40")}"' in page for each in recipients)


def test_a_search_as_a_file_has_what_analysts_ask_for(site: Any) -> None:
    tenant = site.new_tenant("Exported Ltd")
    report = msgspec.structs.replace(REPORT, sender_names=("Ann",), authentication=Authentication(host="192.0.2.7"))
    site.message(tenant, report, held=True)
    for path in ("/messages/export?format=json", "/quarantine/export?format=json"):
        (row,) = site.visitor("analyst", tenant).get(path).json()
        assert (row["from"], row["ip"], row["tenant"]) == ("Ann <ann@example.org>", "192.0.2.7", "Exported Ltd"), path
        assert row["linkHosts"] == ["evil.example"]


def test_html_stands_in_a_frame_that_allows_nothing(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True, text="<b>hello</b>")
    visitor = site.visitor(tenant=tenant)
    page = visitor.get(f"/messages/{ggrid}")
    assert f'sandbox src="/messages/{ggrid}/html"' in page.text
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    assert "frame-src" not in visitor.get("/messages").headers["content-security-policy"]
    shown = visitor.get(f"/messages/{ggrid}/html")
    assert '<p style="color:red;">&lt;b&gt;hello&lt;/b&gt;</p>' in shown.text
    assert shown.headers["content-security-policy"].startswith("sandbox; default-src 'none'; ")
    assert shown.headers["x-frame-options"] == "SAMEORIGIN"
    assert site.visitor(tenant=site.new_tenant()).get(f"/messages/{ggrid}/html").status_code == 404
    assert "cannot be shown" in visitor.get(f"/messages/{site.message(tenant)}/html").text
    assert len(site.trail(scope=tenant, action="quarantine.view")) == 2


def test_two_messages_are_compared(site: Any, tenant: str) -> None:
    one = site.message(tenant)
    two = site.message(tenant, _report(subject="Act soon", senders=("eve@example.net",)))
    visitor = site.visitor(tenant=tenant)
    page = html.unescape(visitor.get(f"/messages/{one}/compare?with={two}").text)
    assert '<span class="differs">eve@example.net</span>' in page
    assert '<span class="differs">Act soon</span>' in page
    assert re.search(r'<th scope="row">Verdict</th>\s*<td colspan="2"[^>]*>spam', page)
    stranger = site.message(site.new_tenant())
    assert visitor.get(f"/messages/{one}/compare?with={stranger}").status_code == 404
    assert visitor.get(f"/messages/{one}/compare").status_code == 404
    chosen = visitor.post("/messages", {"action": "compare", "ggrid": [one, two]})
    assert chosen.headers["location"] == f"/messages/{one}/compare?with={two}"
    assert site.went(visitor.post("/messages", {"action": "compare", "ggrid": [one]})) == "/messages two-needed"
