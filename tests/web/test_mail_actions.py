"""Actions on many messages, from the list of messages: delete, report, block and note, and take back."""

import html
import re
from typing import Any

import msgspec
import pytest
from tests.web.conftest import REPORT, find_in

from gatepost.analysis.report import Report
from gatepost.lists.rulings import Subject
from gatepost.web.pages.audit import join_steps

HASH = "cd" * 32


def report(subject: str, **changes: Any) -> Report:
    subjects = (
        Subject("from", "win@prize.example", "From"),
        Subject("link", "https://login.evil.example/x", "1"),
        Subject("file", HASH, "2"),
    )
    values = {"subject": subject, "senders": ("win@prize.example",), "subjects": subjects, "signature": tuple(range(8))}
    return msgspec.structs.replace(REPORT, **(values | changes))


@pytest.fixture
def ggrids(site: Any, tenant: str) -> list[str]:
    """Two held messages, and one that was delivered."""
    delivered = report("Prize 3", decision="deliver")
    return [*(site.message(tenant, report(f"Prize {n}"), held=True) for n in (1, 2)), site.message(tenant, delivered)]


def state(site: Any, ggrid: str) -> str:
    found = site.run(site.store.quarantine.find_or_deleted(ggrid))
    return found.state if found else ""


def undo(site: Any, visitor: Any) -> str:
    """Press the button of the notice on the next page."""
    page = visitor.get("/messages").text
    found = find_in(r'action="(/quarantine/work/[0-9a-f-]{36}/undo[^"]*)"', page)
    return str(site.went(visitor.post(found)))


def test_those_that_are_held_are_deleted_and_restored(site: Any, tenant: str, ggrids: list[str]) -> None:
    visitor = site.visitor("analyst", tenant)
    assert visitor.get("/messages").text.count('name="ggrid"') == 3
    went = site.went(visitor.post("/messages?q=prize", {"action": "delete", "ggrid": ggrids}))
    assert went.startswith("/messages?q=prize mail-deleted~2~")
    assert [state(site, each) for each in ggrids] == ["deleted", "deleted", ""]
    assert len(join_steps(site.trail(scope=tenant, action="quarantine.delete"))) == 1, "one line of the audit"
    assert "mail-restored~2" in undo(site, visitor)
    assert [state(site, each) for each in ggrids] == ["held", "held", ""]
    went = site.went(visitor.post("/messages", {"action": "delete", "ggrid": ggrids[2]}))
    assert went == "/messages none-held"


def test_all_that_match_are_confirmed_first(site: Any, tenant: str, ggrids: list[str]) -> None:
    visitor = site.visitor("analyst", tenant)
    answer = visitor.post("/messages?q=subject:prize+NOT+decision:deliver", {"action": "delete", "all": "1"})
    page = visitor.get(answer.headers["location"]).text
    assert "Delete 2 messages?" in page
    assert [state(site, each) for each in ggrids[:2]] == ["held", "held"]
    start = find_in(r'action="(/quarantine/work/[^"]*/start[^"]*)"', page)
    went = site.went(visitor.post(start))
    assert went.startswith("/messages?q=subject%3Aprize+NOT+decision%3Adeliver mail-deleted~2~")


def test_missed_mail_is_reported(site: Any, tenant: str, ggrids: list[str]) -> None:
    visitor = site.visitor("analyst", tenant)
    went = site.went(visitor.post("/messages", {"action": "missed", "ggrid": ggrids[2]}))
    assert went.startswith("/messages mail-reported~1~")
    (record,) = site.trail(scope=tenant, action="message.reported")
    assert record.sample == (ggrids[2], "should have been held")


def test_reports_are_taken_back_and_say_so(site: Any, tenant: str, ggrids: list[str]) -> None:
    visitor = site.visitor("analyst", tenant)

    def say(ggrid: str) -> str:
        return (site.run(site.store.feedback.state(ggrid, tenant)) or ("",))[0]

    site.went(visitor.post(f"/messages/{ggrids[1]}/report", {"says": "hold"}))
    assert [say(each) for each in ggrids[:2]] == ["", "unwanted"]
    went = site.went(visitor.post("/quarantine", {"action": "report", "ggrid": ggrids[:2]}))
    assert "mail-reported~2~" in went
    assert [say(each) for each in ggrids[:2]] == ["wanted", "wanted"]
    assert "mail-unreported~2" in undo(site, visitor)
    assert [say(each) for each in ggrids[:2]] == ["", "unwanted"], "what was said before holds again"
    assert len(join_steps(site.trail(scope=tenant, action="message.reportTakenBack"))) == 1, "one line of the audit"
    timeline = visitor.get(f"/messages/{ggrids[0]}").text
    assert "that it should have been delivered was taken back" in timeline
    site.went(visitor.post(f"/messages/{ggrids[2]}/report", {"says": "hold"}))
    assert undo(site, visitor).startswith(f"/messages/{ggrids[2]} mail-unreported~1"), "back to the message"
    went = site.went(visitor.post("/messages", {"action": "unreport", "ggrid": ggrids}))
    assert went == "/messages none-selected", "an undo has a step that it takes back"


def test_where_a_release_is_offered_it_is_said_that_it_stands(site: Any, tenant: str, ggrids: list[str]) -> None:
    visitor = site.visitor("analyst", tenant)
    place = visitor.post("/quarantine", {"action": "release", "ggrid": ggrids[:1]}).headers["location"]
    for path in ("/quarantine", "/messages", f"/messages/{ggrids[0]}", f"/messages?q=campaign:{ggrids[0]}", place):
        assert re.search("(release|This) cannot be taken back", visitor.get(path).text), path


@pytest.mark.parametrize(
    ("action", "name", "entry"),
    [
        ("block", "blocked-senders", "win@prize.example"),
        ("block-domains", "blocked-senders", "prize.example"),
        ("block-hosts", "blocked-urls", "login.evil.example"),
        ("block-files", "blocked-files", HASH),
    ],
)
def test_blocking_is_previewed_and_comes_back(
    site: Any, tenant: str, ggrids: list[str], action: str, name: str, entry: str
) -> None:
    visitor = site.visitor("analyst", tenant)
    page = visitor.post("/messages?q=prize", {"action": action, "ggrid": ggrids}).text
    assert f"{entry}\tfrom message {ggrids[0]}" in html.unescape(page)
    assert site.run(site.store.lists.find(tenant, name, [entry])) == ()
    fields = {"entries": entry, "back": "/messages?q=prize"}
    went = site.went(visitor.post(f"/lists/{tenant}/{name}/add", fields))
    assert went.startswith("/messages?q=prize blocked~1~")
    assert len(site.run(site.store.lists.find(tenant, name, [entry]))) == 1


def test_notes_are_one_step_that_can_be_taken_back(site: Any, tenant: str, ggrids: list[str]) -> None:
    visitor = site.visitor("analyst", tenant)
    went = site.went(visitor.post("/messages", {"action": "note", "note": "ask <b>Ann</b>", "ggrid": ggrids}))
    assert went.startswith("/messages mail-noted~3~")
    page = visitor.get(f"/messages/{ggrids[0]}").text
    assert "ask &lt;b&gt;Ann&lt;/b&gt;" in page
    (record,) = site.trail(scope=tenant, action="message.note")
    assert (record.count, record.sample[1]) == (3, "ask <b>Ann</b>")
    assert record.sample[0] in ggrids
    assert site.went(visitor.post("/messages", {"action": "note", "note": "asked", "ggrid": ggrids[:2]}))
    # The notice with its button is shown once, on the page after the change.
    assert "mail-written-back~2" in undo(site, visitor)
    assert [each.said for each in site.run(site.store.message_notes.of(ggrids[0]))] == ["ask <b>Ann</b>"]
    own = f"/messages/{ggrids[2]}/notes"
    assert "mail-noted~1~" in site.went(visitor.post(own, {"action": "note", "note": "mine"}))
    assert visitor.post(own, {"action": "note", "note": ""}).status_code == 400


def test_other_tenants_and_auditors_change_nothing(site: Any, tenant: str, ggrids: list[str]) -> None:
    stranger, auditor = site.visitor("analyst", site.new_tenant()), site.visitor("auditor", tenant)
    went = site.went(stranger.post("/messages", {"action": "note", "note": "x", "ggrid": ggrids}))
    assert went == "/messages none-selected"
    assert stranger.post(f"/messages/{ggrids[0]}/notes", {"action": "note", "note": "x"}).status_code == 404
    stranger.post("/messages", {"action": "delete", "ggrid": ggrids})
    stranger.post("/messages", {"action": "missed", "ggrid": ggrids})
    assert "prize.example" not in stranger.post("/messages", {"action": "block", "ggrid": ggrids}).text
    assert auditor.post("/messages", {"action": "delete", "ggrid": ggrids}).status_code == 403
    assert not re.search('name="ggrid"|Release|Save as .eml', auditor.get(f"/messages/{ggrids[0]}").text)
    for path in ("/messages", "/quarantine"):
        assert 'name="ggrid"' not in auditor.get(path).text
    assert [state(site, each) for each in ggrids] == ["held", "held", ""]
    assert site.trail(scope=tenant, action="message.") == []
    assert [site.run(site.store.message_notes.of(each)) for each in ggrids] == [(), (), ()]
