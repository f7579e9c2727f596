"""Feeds on the pages of lists, and what was delivered before it was known."""

from typing import Any

from gatepost.ids import new_id
from gatepost.lists.subjects import Subject
from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.store.feeds import FeedCounts, FeedRecord
from gatepost.store.messages import MessageRecord
from gatepost.times import now


def deliver(site: Any, tenant: str, link: str, subject: str = "Your <b>invoice</b>") -> str:
    report = Report("clean", "deliver", (), 0, "", subject=subject, subjects=(Subject("link", link, "html"),))
    envelope = Envelope("shop@x.example", ("bob@rcpt.example",), tenant=tenant)
    record = MessageRecord(new_id(), now(), now(), envelope, 1, "00" * 32, report)
    site.run(site.store.record_message(record))
    return record.ggrid


def test_adding_an_entry_lists_what_was_delivered_before(site: Any, tenant: str) -> None:
    ggrid = deliver(site, tenant, "https://evil.example/a")
    deliver(site, tenant, "https://fine.example/a", "Fine")
    visitor, path = site.visitor(tenant=tenant), f"/lists/{tenant}/blocked-urls"
    answer = visitor.post(f"{path}/add", {"entries": "evil.example"})
    there = answer.headers["location"]
    assert (answer.status_code, there.partition("=")[0]) == (303, f"{path}/look-back?id")
    page = visitor.get(there).text
    assert "Entries saved." in page
    assert "Your &lt;b&gt;invoice&lt;/b&gt;" in page
    assert f'href="/messages/{ggrid}"' in page
    assert "bob@" in page
    assert "Fine" not in page
    assert "1 found" in page
    assert f"user:{visitor.who}: 1 entry" in page
    # The list's own page leads there as well.
    assert "1 message on" in visitor.get(path).text
    assert ">1</td>" in visitor.get(f"{path}/look-back").text
    # An entry that would have held nothing leads back to the list.
    answer = visitor.post(f"{path}/add", {"entries": "absent.example"})
    assert site.went(answer) == f"{path} added"
    # When the message is gone, nothing of it is left.
    site.run(site.store.purge_messages(now() + 1))
    page = visitor.get(there).text
    assert "no longer on record" in page
    assert "bob@" not in page


def test_looks_back_are_for_people_of_the_scope(site: Any, tenant: str) -> None:
    deliver(site, tenant, "https://evil.example/a")
    path = f"/lists/{tenant}/blocked-urls"
    there = site.visitor(tenant=tenant).post(f"{path}/add", {"entries": "evil.example"}).headers["location"]
    other = site.visitor(tenant=site.new_tenant())
    assert other.get(there).status_code == 404
    number = there.rpartition("=")[2]
    for wrong in ("0", "x", "9" * 30, "-1"):
        answer = site.visitor(tenant=tenant).get(f"{path}/look-back", params={"id": wrong})
        assert answer.status_code == 404
    assert site.visitor(tenant=tenant).get(f"/lists/{tenant}/blocked-senders/look-back?id={number}").status_code == 404


def test_lists_that_hold_nothing_are_not_looked_back(site: Any, tenant: str) -> None:
    deliver(site, tenant, "https://evil.example/a")
    visitor = site.visitor(tenant=tenant)
    for name in ("allowed-urls", "blocked-phrases"):
        answer = visitor.post(f"/lists/{tenant}/{name}/add", {"entries": "evil.example"})
        assert site.went(answer) == f"/lists/{tenant}/{name} added"


def test_feeds_are_shown_where_they_fill_lists(site: Any, tenant: str) -> None:
    record = FeedRecord(
        None, "blocked-urls", "x", result="refused", message="it lost <all>", counts=FeedCounts(entries=1234)
    )

    async def remember() -> None:
        assert await site.store.take_feed("test-feed", "me", now() + 1_000)
        assert await site.store.finish_feed("test-feed", "me", record, now(), audited=True)

    site.run(remember())
    administrator = site.visitor()
    for path in ("/lists?scope=global", "/lists/global/blocked-urls"):
        page = administrator.get(path).text
        assert "test-feed" in page
        assert "https://feeds.example" in page
        assert "it lost &lt;all&gt;" in page
        assert "1,234" in page
    assert "test-feed" not in administrator.get("/lists/global/blocked-senders").text
    assert "test-feed" not in site.visitor(tenant=tenant).get(f"/lists?scope={tenant}").text
    assert "refused the feed" in administrator.get("/lists/global/blocked-urls/history").text
