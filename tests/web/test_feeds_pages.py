"""Feeds on the pages of lists, and what was delivered before it was known."""

import json
from typing import Any

from tests.web.conftest import delivered

from gatepost.store.feeds import FEED, FeedCounts, FeedRecord
from gatepost.times import now

INVOICE = delivered("https://evil.example/a", "Your <b>invoice</b>")


def test_adding_an_entry_lists_what_was_delivered_before(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, INVOICE)
    site.message(tenant, delivered("https://fine.example/a", "Fine"))
    visitor, path = site.visitor(tenant=tenant), f"/lists/{tenant}/blocked-urls"
    answer = visitor.post(f"{path}/add", {"entries": "evil.example"})
    there = answer.headers["location"]
    assert (answer.status_code, there.partition("=")[0]) == (303, f"{path}/look-back?id")
    page = visitor.get(there).text
    assert "Entries saved: 1." in page
    assert "Your &lt;b&gt;invoice&lt;/b&gt;" in page
    assert f'href="/messages/{ggrid}"' in page
    assert "bob@" in page
    assert "Fine" not in page
    assert "1 found" in page
    assert f"{visitor.who}: 1 entry" in page
    # The list's own page leads there as well.
    assert "1 message on" in visitor.get(path).text
    assert ">1</td>" in visitor.get(f"{path}/look-back").text
    # An entry that would have held nothing leads back to the list.
    answer = visitor.post(f"{path}/add", {"entries": "absent.example"})
    assert site.went(answer).startswith(f"{path} added~1~")
    # When the message is gone, nothing of it is left.
    site.run(site.store.messages.purge(now() + 1))
    page = visitor.get(there).text
    assert "no longer on record" in page
    assert "bob@" not in page


def test_looks_back_are_for_people_of_the_scope(site: Any, tenant: str) -> None:
    site.message(tenant, INVOICE)
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
    site.message(tenant, INVOICE)
    visitor = site.visitor(tenant=tenant)
    for name in ("allowed-urls", "blocked-phrases"):
        answer = visitor.post(f"/lists/{tenant}/{name}/add", {"entries": "evil.example"})
        assert site.went(answer).startswith(f"/lists/{tenant}/{name} added~1~")


def test_feeds_are_shown_where_they_fill_lists(site: Any, tenant: str) -> None:
    record = FeedRecord(
        None, "blocked-urls", "x", result="refused", message="it lost <all>", counts=FeedCounts(entries=1234)
    )

    async def remember() -> None:
        async with site.store.jobs.take(FEED, "test-feed") as held:
            assert await site.store.feeds.finish(held.job, record, now(), audited=True)

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


FIELDS = {
    "name": "own-feed",
    "scope": "global",
    "list_name": "blocked-urls",
    "url": "https://feeds.example/path/list.txt",
    "format": "csv",
    "column": "2",
    "delimiter": ";",
    "every": "30",
    "full_every": "7",
    "max_loss": "50",
    "keep_vanished": "0",
    "look_back": "7",
}


def test_a_feed_is_defined_changed_paused_run_and_deleted(site: Any) -> None:
    admin = site.visitor()
    assert "New feed" in admin.get("/feeds").text
    assert admin.get("/feeds/edit").status_code == 200
    assert site.went(admin.post("/feeds/edit", FIELDS)) == "/feeds feed-saved"
    page = admin.get("/feeds").text
    assert "own-feed" in page
    assert "https://feeds.example<br>" in page  # the path of a feed may be a secret
    assert "csv, every 30 minutes" in page
    # The list's page names it too.
    assert "own-feed" in admin.get("/lists/global/blocked-urls").text
    (kept,) = site.run(site.store.feeds.definitions())
    assert (kept.feed.column, kept.feed.delimiter, kept.paused) == ("2", ";", False)
    form = admin.get("/feeds/edit?name=own-feed").text
    assert f'name="seen" value="{kept.modified}"' in form
    assert site.went(admin.post("/feeds/run", {"name": "own-feed"})) == "/feeds feed-requested"
    assert site.run(site.store.feeds.state("own-feed")).next_run == 0
    seen = {"name": "own-feed", "seen": str(kept.modified)}
    assert site.went(admin.post("/feeds/pause", {**seen, "do": "pause"})) == "/feeds feed-paused"
    assert site.went(admin.post("/feeds/pause", {**seen, "do": "pause"})) == "/feeds feeds-changed"
    assert "paused" in admin.get("/feeds").text
    assert admin.post("/feeds/run", {"name": "own-feed"}).status_code == 400
    assert admin.post("/feeds/edit", {**FIELDS, "seen": "5"}).status_code == 409
    assert site.went(admin.post("/feeds/delete", {"name": "own-feed"})) == "/feeds feed-deleted"
    assert site.run(site.store.feeds.definitions()) == ()
    trail = site.trail(action="feed.")
    actions = [record.action for record in trail if "own-feed" in record.sample]
    assert actions == ["feed.delete", "feed.change", "feed.requested", "feed.create"]


def test_a_dry_run_says_what_would_change(site: Any) -> None:
    admin = site.visitor()
    page = admin.post("/feeds/try", {"name": "test-feed"}).text
    assert "Dry run of test-feed: the host was not found. Nothing was changed." in page
    counts = {"entries": 1200, "added": 7, "invalid": 3}
    site.feed_outcome = (True, json.dumps({"result": "changed", "counts": counts, "lookBack": {"found": 2, "days": 7}}))
    page = admin.post("/feeds/try", {"name": "test-feed"}).text
    assert "It has 1,200 entries; 7 would be added" in page
    assert "would have held 2 messages" in page
    site.feed_outcome = (True, "no JSON")
    assert "could not be read" in admin.post("/feeds/try", {"name": "test-feed"}).text
    assert site.tried == ["test-feed"] * 3


def test_what_is_wrong_with_a_feed_is_said(site: Any) -> None:
    admin = site.visitor()
    for change, said in (
        ({"url": "https://127.0.0.1/x"}, "names a host of a private network"),
        ({"url": "http://feeds.example/"}, "must begin with https"),
        ({"credentials_file": "../totp.key"}, "must be the bare name of a file"),
        ({"every": "often"}, "The interval must be a whole number"),
        ({"every": "1"}, "The interval is not valid"),
        ({"list_name": "absent"}, "does not exist in this scope"),
        ({"scope": "01a1e02a-f874-7e25-909d-25e71b4e058d"}, "The scope is unknown"),
        ({"scope": "<nonsense>"}, "The scope"),
        ({"name": "test-feed"}, "is that of a feed in abby.yml"),
        ({"name": "Bad Name"}, "must be lower-case"),
    ):
        answer = admin.post("/feeds/edit", {**FIELDS, **change})
        assert answer.status_code == 400, said
        assert said in answer.text
    assert site.run(site.store.feeds.definitions()) == ()
    # Feeds of the file are changed in the file.
    assert admin.get("/feeds/edit?name=test-feed").status_code == 404
    for path in ("/feeds/pause", "/feeds/delete", "/feeds/run", "/feeds/try"):
        assert admin.post(path, {"name": "absent"}).status_code == 404
    for path in ("/feeds/pause", "/feeds/delete"):
        assert admin.post(path, {"name": "test-feed"}).status_code == 404


def test_an_auditor_is_not_offered_a_new_feed(site: Any) -> None:
    assert "New feed" not in site.visitor("auditor").get("/feeds").text
