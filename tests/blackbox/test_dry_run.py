"""`dryRun` over the wire: what a change would have done, counted on stored messages; and that it changes nothing."""

from typing import Any

import pytest

from gatepost.analysis.report import FileSeen, ListNote, Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import make_custom_list
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.message_records import MessageRecord

BLOCKED = ListNote("blocked-senders", "tenant", "bad.example", "blocked", "From")


def keep(lists: Any, tenant: str, sender: str, link: str = "", notes: tuple[ListNote, ...] = ()) -> None:
    subjects = [Subject("from", sender, "From"), *([Subject("link", link, "html")] if link else [])]
    held = bool(notes)
    report = Report(
        "policy" if held else "clean",
        "quarantine" if held else "deliver",
        (),
        0,
        "",
        subjects=tuple(subjects),
        files=(FileSeen("1.2/Scan 7.PDF.iso", "iso", 9, "ab" * 32, ("Scan 7.PDF.iso",)),) if link else (),
        lists=notes,
    )
    record = MessageRecord(new_id(), 1, 2, Envelope(sender, ("b@x.example",), tenant=tenant), 1, "00" * 32, report)
    lists.run(lists.store.messages.record(record))


@pytest.fixture
def tenant(lists: Any) -> str:
    """A tenant with four messages."""
    uid: str = lists.new_tenant()
    keep(lists, uid, "ann@good.example", "https://evil.example/a")
    keep(lists, uid, "bob@good.example", "https://evil.example/b")
    keep(lists, uid, "mal@bad.example", notes=(BLOCKED,))
    keep(lists, uid, "eve@other.example", "https://fine.example/")
    return uid


def tried(lists: Any, operation: str, name: str, entries: list[Any], tenant: str | None) -> Any:
    body = {"listName": name, "entries": entries, "tenantUid": tenant, "dryRun": True}
    answer = lists.call(operation, body).json()
    assert set(answer) == {"modifiedEntries", "dryRun"}
    assert answer["modifiedEntries"] == 0
    return answer["dryRun"]


def additions(*entries: str) -> list[Any]:
    return [{"entry": entry} for entry in entries]


def test_what_an_addition_would_have_done(lists: Any, tenant: str) -> None:
    entries = additions("Evil.Example", "evil.example/a", "absent.example", "http://evil.example/")
    trial = tried(lists, "addEntries", "blocked-urls", entries, tenant)
    assert trial == {
        "considered": 4,
        "wouldModify": 3,
        "wouldHit": 2,
        "wouldFlip": 2,
        "entries": [
            {"entry": "evil.example", "wouldHit": 2, "wouldFlip": 2},
            {"entry": "evil.example/a", "wouldHit": 1, "wouldFlip": 1},
            {"entry": "absent.example", "wouldHit": 0, "wouldFlip": 0},
        ],
    }
    assert lists.entries("blocked-urls", tenant) == []
    assert not [
        record
        for record in lists.run(lists.store.audit.page(AuditFilter(scope=tenant))).rows
        if record.action == "entries.add"
    ]


def test_what_a_pattern_over_file_names_would_have_done(lists: Any, tenant: str) -> None:
    trial = tried(lists, "addEntries", "blocked-file-names", additions("SCAN*.iso", "scan.iso"), tenant)
    assert (trial["considered"], trial["wouldHit"], trial["wouldFlip"]) == (4, 3, 3)
    assert trial["entries"] == [
        {"entry": "scan*.iso", "wouldHit": 3, "wouldFlip": 3},
        {"entry": "scan.iso", "wouldHit": 0, "wouldFlip": 0},
    ]


def test_what_is_blocked_already_would_not_flip(lists: Any, tenant: str) -> None:
    trial = tried(lists, "addEntries", "blocked-senders", additions("bad.example", "mal@bad.example"), tenant)
    assert (trial["wouldHit"], trial["wouldFlip"]) == (1, 0)


def test_what_a_deletion_would_have_done(lists: Any, tenant: str) -> None:
    body = {"listName": "blocked-senders", "entries": additions("bad.example"), "tenantUid": tenant}
    assert lists.call("addEntries", body).json() == {"modifiedEntries": 1}
    trial = tried(lists, "deleteEntries", "blocked-senders", ["BAD.example", "good.example", "* * *"], tenant)
    assert (trial["considered"], trial["wouldModify"], trial["wouldHit"], trial["wouldFlip"]) == (4, 1, 1, 1)
    assert trial["entries"] == [
        {"entry": "bad.example", "wouldHit": 1, "wouldFlip": 1},
        {"entry": "good.example", "wouldHit": 0, "wouldFlip": 0},
        {"entry": "* * *", "wouldHit": 0, "wouldFlip": 0},
    ]
    assert len(lists.entries("blocked-senders", tenant)) == 1


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("blocked-phrases", "wire it today"),
        ("own-domains", "good.example"),
        ("protected-people", "Ann <ann@good.example>"),
        ("protected-names", "Good Bank <good.example>"),
        ("trusted-relays", "192.0.2.1"),
    ],
)
def test_what_needs_the_message_answers_null(lists: Any, tenant: str, name: str, entry: str) -> None:
    trial = tried(lists, "addEntries", name, additions(entry), tenant)
    assert (trial["considered"], trial["wouldHit"], trial["wouldFlip"]) == (0, None, None)
    assert trial["entries"] == [{"entry": entry, "wouldHit": None, "wouldFlip": None}]
    assert tried(lists, "deleteEntries", name, [entry], tenant)["entries"][0]["wouldHit"] is None


def test_a_scope_considers_its_own_messages(lists: Any, tenant: str) -> None:
    other = lists.new_tenant()
    assert tried(lists, "addEntries", "blocked-urls", additions("evil.example"), other)["considered"] == 0
    everybody = tried(lists, "addEntries", "blocked-urls", additions("evil.example"), None)
    assert everybody["considered"] >= 4
    assert everybody["wouldHit"] >= 2


def test_custom_lists_are_tried_and_remembered(lists: Any, tenant: str) -> None:
    feed = make_custom_list("feed", "url", "block", "Feed", "", 10)
    lists.run(lists.store.lists.create(tenant, feed, CLI))
    keep(
        lists,
        tenant,
        "a@b.example",
        "https://evil.example/c",
        (ListNote("feed", "tenant", "evil.example", "blocked", "html"),),
    )
    trial = tried(lists, "addEntries", "blocked-urls", additions("evil.example"), tenant)
    assert (trial["wouldHit"], trial["wouldFlip"]) == (3, 2), "what the feed blocked already does not flip"
    trial = tried(lists, "addEntries", "feed", additions("evil.example/a"), tenant)
    assert (trial["wouldHit"], trial["wouldFlip"]) == (1, 1)


def test_the_rules_of_entries_hold(lists: Any, tenant: str) -> None:
    body = {"listName": "blocked-senders", "entries": additions("*"), "tenantUid": tenant, "dryRun": True}
    assert lists.call("addEntries", body).json()["error"] == "invalid_entry"
    assert tried(lists, "addEntries", "blocked-senders", [], tenant)["entries"] == []
