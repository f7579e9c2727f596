"""Blocking and allowing from the page of a message: effect, comment, end, warnings, and whose list it is."""

from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from tests.web.conftest import REPORT

from gatepost.analysis.report import Line
from gatepost.api.lists import NewListEntry
from gatepost.auth.results import Authentication, Dmarc, Spf
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.rejudge.list_plan import new_entry
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry


def entries(site: Any, tenant: str | None, name: str, key: str) -> Any:
    return site.run(site.store.lists.find(tenant, name, [key]))


def test_a_sender_is_blocked_in_one_step(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    ggrid, other = site.message(tenant), site.message(tenant)
    site.message(site.new_tenant())
    path = f"/messages/{ggrid}/entry?list=blocked-senders&amp;entry=ann%40example.org"
    assert f'href="{path}"' in visitor.get(f"/messages/{ggrid}").text
    page = visitor.get(path.replace("&amp;", "&")).text
    assert "Of the last 2 messages it would have matched" in page
    assert f'href="/lists/{tenant}/blocked-senders/hits?entry=ann%40example.org"' in page
    assert f'href="/messages/{other}"' in page
    assert f'value="from message {ggrid}, spam, {visitor.who}"' in page
    assert entries(site, tenant, "blocked-senders", "ann@example.org") == ()
    comment = f"from message {ggrid}, spam"
    fields = {"list": "blocked-senders", "entry": "Ann@Example.org", "comment": comment, "expires": "2099-01-31"}
    answer = visitor.post(f"/messages/{ggrid}/entry", fields)
    assert site.went(answer) == f"/messages/{ggrid} entry-changes~held"
    (saved,) = entries(site, tenant, "blocked-senders", "ann@example.org")
    assert (saved.comment, saved.modified_by) == (comment, f"user:{visitor.who}")
    assert saved.expires > 4_000_000_000_000
    hits = visitor.get(f"/lists/{tenant}/blocked-senders/hits?entry=ann%40example.org").text
    assert f'href="/messages/{other}"' in hits
    assert "2 of the last 2 messages" in hits


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        ("blocked-senders", "gmail.com", "gmail.com is a free-mail provider. This holds the mail of everybody"),
        ("allowed-senders", "gmail.com", "gmail.com is a free-mail provider. Anybody can get an address"),
        ("blocked-senders", "*.mine.example", "mine.example is one of your own domains."),
        ("blocked-urls", "www.mine.example", "mine.example is one of your own domains."),
        ("blocked-senders", "news.listed.example", "listed.example is one of your own domains."),
    ],
)
def test_what_needs_a_second_look_is_confirmed(site: Any, tenant: str, name: str, entry: str, said: str) -> None:
    if not site.run(site.store.tenants.of_domain("mine.example")):
        site.run(site.store.tenants.set_domains(tenant, ["mine.example"]))
    own = NewEntry("listed.example", "listed.example")
    site.run(site.store.lists.add(None, BY_NAME["own-domains"], [own], CLI))
    ggrid = site.message(tenant)
    visitor = site.visitor()
    fields = {"list": name, "entry": entry, "scope": tenant, "comment": "", "expires": ""}
    answer = visitor.post(f"/messages/{ggrid}/entry", fields)
    assert answer.status_code == 400
    assert said in answer.text
    assert entries(site, tenant, name, entry) == ()
    assert visitor.post(f"/messages/{ggrid}/entry", {**fields, "sure": "1"}).status_code == 303
    assert len(entries(site, tenant, name, entry)) == 1


def test_an_address_at_a_free_mail_provider_needs_none(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant)
    fields = {"list": "blocked-senders", "entry": "evil@gmail.com", "expires": ""}
    assert site.visitor(tenant=tenant).post(f"/messages/{ggrid}/entry", fields).status_code == 303
    (saved,) = entries(site, tenant, "blocked-senders", "evil@gmail.com")
    assert saved.expires is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"list": "own-domains", "entry": "a.example"}, 400),
        ({"list": "blocked-senders", "entry": "two words"}, 400),
        ({"list": "blocked-senders", "entry": "a@b.example", "expires": "2001-01-01"}, 400),
        ({"list": "blocked-senders", "entry": "a@b.example", "scope": "global"}, 404),
    ],
)
def test_what_is_wrong_changes_nothing(site: Any, tenant: str, fields: dict[str, str], status: int) -> None:
    ggrid = site.message(tenant)
    answer = site.visitor("analyst", tenant).post(f"/messages/{ggrid}/entry", fields)
    assert answer.status_code == status
    assert entries(site, tenant, "blocked-senders", "a@b.example") == ()
    assert site.visitor("auditor", tenant).post(f"/messages/{ggrid}/entry", fields).status_code == 403


MARKED = Line("campaign:marked", "Mail of a campaign that was marked", "1", {}, 600, 600, "spam")
FORGED = Line("auth:dmarc-reject", "The owner of the domain rejects it", "From", {}, 600, 600, "spoofing")
SUBJECTS = (*REPORT.subjects, Subject("host", "192.0.2.7", "envelope"), Subject("envelope", "b@list.example", "MAIL"))
HELD = msgspec.structs.replace(REPORT, lines=(MARKED,), subjects=SUBJECTS)
PROVEN = Authentication(dmarc=Dmarc("pass", "example.org", spf_aligned=True), spf=Spf("pass", "example.org"))


def form_of(site: Any, ggrid: str, name: str, entry: str, tenant: str) -> str:
    query = urlencode({"list": name, "entry": entry})
    return str(site.visitor("analyst", tenant).get(f"/messages/{ggrid}/entry?{query}").text)


def save(site: Any, ggrid: str, name: str, entry: str, tenant: str) -> str:
    fields = {"list": name, "entry": entry, "expires": ""}
    return str(site.went(site.visitor("analyst", tenant).post(f"/messages/{ggrid}/entry", fields)))


def test_an_allowed_sender_without_proof_is_said_to_do_nothing(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, HELD, held=True)
    page = form_of(site, ggrid, "allowed-senders", "ann@example.org", tenant)
    assert "counts only if it is proven to be the sender" in page
    assert "(SPF none, DKIM none, DMARC none). The message would still be held." in page
    offers = page.partition("What would have changed it")[2].partition("</ul>")[0]
    assert "<code>192.0.2.7</code>" in offers
    assert "allowed-ips" in offers
    assert "evil.example" not in offers, "an allowed link would not have changed it"
    assert save(site, ggrid, "allowed-senders", "ann@example.org", tenant) == f"/messages/{ggrid} entry-unproven~held"
    shown = site.visitor("analyst", tenant).get(f"/messages/{ggrid}").text
    assert "Saved, but this message would still be held: SPF, DKIM and DMARC do not prove its sender." in shown


def test_what_is_offered_does_what_is_said(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, HELD, held=True)
    page = form_of(site, ggrid, "allowed-ips", "192.0.2.7", tenant)
    assert "With this entry, this message would have been delivered instead of held." in page
    assert save(site, ggrid, "allowed-ips", "192.0.2.7", tenant) == f"/messages/{ggrid} entry-changes~delivered"
    replayed = site.visitor("analyst", tenant).get(f"/messages/{ggrid}/replay").text
    assert "deliver" in replayed.partition("<h1")[2]
    again = form_of(site, ggrid, "allowed-senders", "ann@example.org", tenant)
    assert "This message would be delivered without the entry as well" in again


def test_a_proven_sender_is_allowed(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, msgspec.structs.replace(HELD, authentication=PROVEN), held=True)
    assert save(site, ggrid, "allowed-senders", "example.org", tenant) == f"/messages/{ggrid} entry-changes~delivered"


def test_an_entry_that_matches_nothing_or_cannot_lift_says_so(site: Any, tenant: str) -> None:
    other = site.message(tenant, HELD, held=True)
    page = form_of(site, other, "allowed-senders", "b@list.example", tenant)
    assert "allowed senders are compared with the sender that readers see, ann@example.org" in page
    forged = msgspec.structs.replace(HELD, verdict="spoofing", lines=(FORGED,), authentication=PROVEN)
    page = form_of(site, site.message(tenant, forged, held=True), "allowed-senders", "ann@example.org", tenant)
    assert "Entries that allow do not lift the verdict spoofing here." in page
    assert "No entry made from this message would have delivered it." in page
    assert 'href="/policy/auth%3Admarc-reject"' in page


def test_a_block_says_what_beats_it_and_what_is_held_anyway(site: Any, tenant: str) -> None:
    allowed = new_entry(NewListEntry("192.0.2.7"), BY_NAME["allowed-ips"])
    assert isinstance(allowed, NewEntry)
    site.run(site.store.lists.add(tenant, BY_NAME["allowed-ips"], [allowed], CLI))
    ggrid = site.message(tenant, msgspec.structs.replace(HELD, verdict="clean", decision="deliver", lines=()))
    visitor = site.visitor()
    query = urlencode({"list": "blocked-ips", "entry": "192.0.2.7", "scope": "global"})
    page = visitor.get(f"/messages/{ggrid}/entry?{query}").text
    assert "which would still be delivered: the tenant allows" in page
    assert "Block the sender <code>ann@example.org</code>" in page
    assert f'href="/rules/edit?scope=global&amp;message={ggrid}"' in page
    held = site.message(tenant, msgspec.structs.replace(HELD, lines=(FORGED,)), held=True)
    page = form_of(site, held, "blocked-senders", "ann@example.org", tenant)
    assert "This message would be held without the entry as well; the entry counts for mail to come." in page


def test_an_entry_of_another_tenant_does_not_change_it(site: Any, tenant: str) -> None:
    ggrid, other = site.message(tenant, HELD, held=True), site.new_tenant()
    query = urlencode({"list": "allowed-ips", "entry": "192.0.2.7", "scope": other})
    assert "which is not of that tenant" in site.visitor().get(f"/messages/{ggrid}/entry?{query}").text


def test_a_rule_made_from_a_message_is_measured_on_it(site: Any, tenant: str) -> None:
    visitor = site.visitor("administrator", tenant)
    clean = msgspec.structs.replace(HELD, verdict="clean", decision="deliver", lines=(), subject='A "quoted" one')
    ggrid = site.message(tenant, clean)
    path = f"/rules/edit?scope={tenant}&message={ggrid}"
    assert path.replace("&", "&amp;") in visitor.get(f"/messages/{ggrid}").text
    page = visitor.get(path).text
    assert (
        "sender_domain == &#34;example.org&#34; &amp;&amp; links.exists(host, host == &#34;evil.example&#34;)" in page
    )
    fields = {"scope": tenant, "version": "0", "name": "like-this", "title": "Like it", "verdict": "spam"}
    fields |= {"message": ggrid, "enabled": "1", "do": "try", "weight": "1", "when": 'sender_domain == "example.org"'}
    tried = visitor.post("/rules/edit", fields).text
    assert "The rule holds for the message that it was made from, which would still be delivered:" in tried
    assert f'name="message" value="{ggrid}"' in tried
    tried = visitor.post("/rules/edit", {**fields, "weight": "9"}).text
    assert "The message that it was made from would be held instead of delivered." in tried
    tried = visitor.post("/rules/edit", {**fields, "when": 'sender_domain == "example.net"'}).text
    assert "The condition does not hold for the message that it was made from" in tried
    hidden = site.message(site.new_tenant(), clean)
    assert "like-" not in visitor.get(f"/rules/edit?scope={tenant}&message={hidden}").text
