"""Overview, scan, policy and system over HTTP."""

import html
import re
import time
from contextlib import aclosing
from typing import Any
from urllib.parse import quote_plus

import msgspec
import pytest
from tests.web.conftest import REPORT

from gatepost.mail.message import Envelope
from gatepost.store.audit import CLI
from gatepost.web.pages.messages import EMPTY_FILE


def test_the_overview_counts_a_tenants_mail(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    assert "No mail yet" in visitor.get("/").text
    site.message(tenant, held=True)
    site.message(site.new_tenant())
    for path in ("/", "/overview/live", "/?span=hours", "/?span=week", "/?span=month", "/?span=nonsense"):
        page = visitor.get(path).text
        assert re.search(r'<p class="figure"><a href="/messages[^"]+">1</a></p>', page), path
        assert "<svg" in page
    assert "<nav" not in visitor.get("/overview/live").text
    assert "Cores" not in visitor.get("/").text
    assert "Cores" in site.visitor().get("/").text


def test_today_is_compared_with_the_same_hours_of_the_weekday(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    hour = 3_600_000
    end = int(time.time() * 1000) // hour * hour
    report = msgspec.structs.replace(REPORT, verdict="phishing")
    for weeks, number in ((0, 30), (1, 2), (2, 4), (3, 40)):
        moment = end - weeks * 7 * 24 * hour - hour // 2
        for _ in range(number):
            site.message(tenant, report, moment=moment)
    page = html.unescape(visitor.get("/").text)
    assert "Usual is the median of the same hours 3 weeks back on the same weekday." in page
    tiles = re.findall(r'<a class="card tile" href="([^"]+)"><h3>([^<]+)</h3><p class="figure">(\d+)(.*?)</a>', page)
    shown = {name: (number, "more than usual" in rest, "usual 4" in rest) for _, name, number, rest in tiles}
    assert shown["Messages"] == ("30", True, True)
    assert shown["Malware, phishing, fraud, spoofing"] == ("30", True, True)
    assert shown["Spam"][0] == "0"
    path = next(path for path, name, *_ in tiles if name == "Messages")
    assert "30 found" in visitor.get(path).text


def test_mail_as_it_comes_in(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    assert "Nothing came in the last hour." in visitor.get("/messages/live?q=verdict:spam").text
    mine, other = site.message(tenant), site.message(site.new_tenant())
    page = visitor.get("/messages/live").text
    assert mine in page
    assert other not in page
    rows = visitor.get("/messages/live/rows").text
    assert mine in rows
    assert "<nav" not in rows
    assert mine not in visitor.get("/messages/live/rows?q=verdict:clean").text
    assert visitor.get("/messages/live?q=score:").status_code == 400
    assert site.visitor("auditor", tenant).get("/messages/live").status_code == 200


def test_who_looks_at_one_tenant_stays_there(site: Any, tenant: str) -> None:
    site.message(tenant)
    page = site.visitor().get(f"/overview/live?tenant={tenant}").text
    assert f'href="/quarantine?tenant={tenant}"' in page
    name = re.escape(quote_plus(next(each.name for each in site.run(site.store.tenants.all()) if each.uid == tenant)))
    assert re.search(rf'href="/messages\?q=verdict%3Aspam\+tenant%3A[^"]*{name}[^"]*\+after%3A[^"&]+"', page)


def test_a_scan_leads_to_its_ledger(site: Any, tenant: str) -> None:
    said = {"from": "carol@example.org", "address": "2001:db8::1", "helo": "mx.example.org", "scope": tenant}
    answer = site.visitor().upload("/scan", "m.eml", b"Subject: x\r\n\r\ny\r\n", said)
    assert answer.status_code == 303
    record = site.run(site.store.messages.find(answer.headers["location"].rpartition("/")[2]))
    assert record.envelope == Envelope(
        "carol@example.org", ("postmaster@localhost",), "2001:db8::1", "mx.example.org", tenant
    )


def test_a_scan_is_a_trial_and_no_mail(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    ggrid = visitor.upload("/scan", "m.eml", b"Subject: x\r\n\r\ny\r\n").headers["location"].rpartition("/")[2]
    page = visitor.get(f"/messages/{ggrid}").text
    assert ">trial</span>" in page
    assert ">Release</button>" not in page
    assert ">trial</span>" in visitor.get("/messages").text
    mail = site.message(tenant)
    assert f"/messages/{ggrid}" in visitor.get("/messages?tag=trial").text
    assert mail not in visitor.get("/messages?tag=trial").text
    now = int(time.time() * 1000)
    counted = site.run(site.store.traffic.buckets(tenant, now - 600_000, now + 600_000, 300_000))
    assert sum(bucket.messages for bucket in counted) == 1, "the mail alone is counted"
    assert site.run(read_recent(site.store, tenant)) == [mail]


async def read_recent(store: Any, tenant: str) -> list[str]:
    """What is re-evaluated when a change is tried."""
    async with aclosing(store.messages.recent(tenant, 10)) as batches:
        return [record.ggrid async for batch in batches for record in batch]


def test_the_list_shows_the_sender_as_the_reader_saw_it(site: Any, tenant: str) -> None:
    report = msgspec.structs.replace(REPORT, senders=("x@evil.example",), sender_names=("Your Bank",))
    site.message(tenant, report)
    page = site.visitor(tenant=tenant).get("/messages").text
    assert 'title="Your Bank">Your Bank</div>' in page
    assert 'title="x@evil.example"' in page
    assert '<span class="domain" dir="auto">@evil.example</span>' in page


def test_a_scan_of_nothing(site: Any) -> None:
    answer = site.visitor().upload("/scan", "", b"")
    assert answer.status_code == 400
    assert EMPTY_FILE.message in answer.text


@pytest.mark.parametrize("fields", [{"address": "nowhere"}, {"scope": "x"}])
def test_an_envelope_that_cannot_be(site: Any, fields: dict[str, str]) -> None:
    answer = site.visitor().upload("/scan", "m.eml", b"Subject: x\r\n\r\ny\r\n", {"from": "a@example.org", **fields})
    assert answer.status_code in (400, 404)
    assert 'role="alert"' in answer.text
    assert 'value="a@example.org"' in answer.text


def test_policy_is_searched_explained_and_tried(site: Any, tenant: str) -> None:
    site.message(tenant)
    visitor = site.visitor(tenant=tenant)
    assert "file:eicar" in visitor.get("/policy").text
    found = visitor.get("/policy?part=eicar").text
    assert "file:eicar" in found
    assert "text:urgency" not in found
    assert "No matching findings." in visitor.get("/policy?part=zzzz").text
    assert "verdicts.malware.decision" in visitor.get("/policy/file:eicar").text
    assert visitor.get("/policy/nothing:such").status_code == 404
    tried = visitor.post("/policy", {"text": '[verdicts.spam]\ndecision = "deliver"\n'})
    assert "decisions would change." in tried.text


# Everything that presses for time is held.
STRICT = '[kinds."text:urgency"]\nweight = 50\n[groups.lures]\ncap = 50\n'


def test_the_policy_of_outbound_mail_is_shown_and_tried(site: Any, tenant: str) -> None:
    visitor = site.visitor()
    assert '<option value="outbound" selected>Outbound mail</option>' in visitor.get("/policy?scope=outbound").text
    assert visitor.get("/policy/file:eicar?scope=outbound").status_code == 200
    assert site.visitor(tenant=tenant).get("/policy?scope=outbound").status_code == 404
    site.message(tenant)
    site.message(tenant, sender="bob@example.com", recipients=("ann@example.org",), outbound=True)
    tried = visitor.post("/policy", {"scope": "outbound", "text": STRICT}).text
    assert "1 of the 1 decisions on outbound mail, among the last 1,000 messages, would change." in tried


@pytest.mark.parametrize("text", ["weights = many", "[kinds.nothing]\nweight = 1", "[[[[", "a" * 200_000, "\x00"])
def test_a_policy_with_mistakes_is_told(site: Any, text: str) -> None:
    answer = site.visitor().post("/policy", {"text": text})
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


def test_the_system_page_examines_when_asked(site: Any) -> None:
    page = site.visitor().get("/system").text
    assert "Settings in force" in page
    assert "answering" in page
    assert "available" in page
    assert site.visitor().post("/system/examine").status_code == 200


def test_the_overview_says_what_came_into_the_quarantine_and_left_it(site: Any, tenant: str) -> None:
    boss, analyst = site.visitor(), site.visitor("analyst", tenant)
    assert "Came into quarantine" not in analyst.get("/").text
    ggrids = [site.message(tenant, held=True) for _ in range(4)]
    site.run(site.store.quarantine.mark_released(ggrids[0], ("bob@example.com",), CLI))
    site.run(site.store.quarantine.delete(ggrids[1], CLI, for_good=False))
    page = analyst.get("/?span=week").text
    shown = dict(re.findall(r'<h2>([^<]+)</h2><p class="figure">([^<]+)</p>', page))
    wanted = {"Came into quarantine": "4", "Released": "1", "Deleted by hand": "1", "Held by mistake": "1"}
    assert {name: shown.get(name) for name in wanted} == wanted
    assert "2 still held" in page
    assert "at least" not in page
    for path in re.findall(r'href="(/quarantine\?s[^"]+)"', page):
        assert "Act now" in analyst.get(html.unescape(path)).text, path
    live = boss.get(f"/overview/live?span=week&tenant={tenant}").text
    for path in re.findall(r'href="(/audit[^"]+)"', live):
        assert any(ggrid in boss.get(html.unescape(path)).text for ggrid in ggrids[:2]), path
    assert "Came into quarantine" not in site.visitor(tenant=site.new_tenant()).get("/").text
