"""Blocking and allowing from the page of a message: effect, comment, end, warnings, and whose list it is."""

from typing import Any

import pytest

from gatepost.lists.catalogue import BY_NAME
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
    assert site.went(answer) == f"/messages/{ggrid} blocked"
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
