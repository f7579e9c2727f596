"""`gatepost try`: what was decided, with another policy or other lists."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.data_folders import with_store

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.policy.layers import override
from gatepost.policy.rules import shipped_policy
from gatepost.questions import DnsAnswer, Lookup, LookupAnswer
from gatepost.rejudge.judging import compare_lines, lists_then, rejudge, rule_by
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.times import now

LURE = b"""From: Service Desk <desk@lure.example>
To: ann@house.example
Subject: Mailbox quota exceeded
Date: Tue, 10 Nov 2026 09:12:00 +0000
Message-ID: <1@lure.example>
Content-Type: text/html

<p>Your mailbox quota has been exceeded and your account will be suspended within 24 hours.
<p>Verify your account now: <a href="https://pages.other.example/sign-in">Sign in to verify</a>
"""
LETTER = b"""From: Ann <ann@partner.example>
To: bob@house.example
Subject: Lunch
Date: Tue, 10 Nov 2026 09:12:00 +0000
Message-ID: <2@partner.example>

Shall we have lunch on Friday?
"""


def report(raw: bytes) -> Report:
    asking = analyse(raw, Envelope("desk@lure.example", ("ann@house.example",)), Context(now=1_794_302_520.0))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(
                tuple(LookupAnswer() if isinstance(each, Lookup) else DnsAnswer("no-name") for each in questions)
            )
    except StopIteration as stop:
        found: Report = stop.value
    return found


def stored(data: Path, raw: bytes) -> str:
    ggrid = new_id()
    record = MessageRecord(ggrid, 1_000, 2_000, Envelope("desk@lure.example"), len(raw), "ab" * 32, report(raw))
    with_store(data, lambda store: store.messages.record(record))
    return ggrid


def shown_one(printed: str) -> dict[str, Any]:
    """The only message of a trial."""
    (found,) = json.loads(printed)["messages"]
    message: dict[str, Any] = found
    return message


def test_nothing_changes_where_nothing_changed(run: Run, data: Path) -> None:
    ggrid = stored(data, LURE)
    code, out, _ = run("try", "--message", ggrid.upper(), "--json")
    shown = shown_one(out)
    assert code == 0
    assert shown["before"] == shown["now"]
    assert shown["lines"]
    assert all(line["weight"][0] == line["weight"][1] for line in shown["lines"])
    assert "0 lines of the ledger changed" in run("try", "--message", ggrid)[1]


def test_another_policy_shows_line_by_line_what_it_changes(run: Run, data: Path, tmp_path: Path) -> None:
    ggrid = stored(data, LURE)
    policy = tmp_path / "mild.toml"
    policy.write_text('[kinds."text:mailbox-lure"]\nweight = 0.0\n[kinds."text:credential-lure"]\nweight = 0.0\n')
    for option in ("--policy", "--rules"):
        shown = shown_one(run("try", "--message", ggrid, option, policy, "--json")[1])
        changed = {line["tag"]: line for line in shown["lines"] if line["weight"][0] != line["weight"][1]}
        assert set(changed) == {"text:mailbox-lure", "text:credential-lure"}
        assert all(line["weight"][1] == 0 for line in changed.values())
        assert shown["now"]["score"] < shown["before"]["score"]
    assert "text:mailbox-lure" in run("try", "--message", ggrid, "--policy", policy)[1]


def test_lists_of_today_count(run: Run, data: Path) -> None:
    ggrid = stored(data, LETTER)
    assert shown_one(run("try", "--message", ggrid, "--json")[1])["now"]["decision"] == "deliver"
    entry = NewEntry("partner.example", "partner.example")
    with_store(data, lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [entry], CLI))
    shown = shown_one(run("try", "--message", ggrid, "--json")[1])
    assert shown["now"]["verdict"] == "policy"
    (new,) = [line for line in shown["lines"] if line["tag"] == "list:blocked-senders"]
    assert new["weight"][0] is None
    assert "deliver → quarantine" in run("try")[1], "so it is for the last messages"


@pytest.mark.process
def test_a_file_is_analysed_anew_with_the_lists_of_the_store(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "letter.eml"
    file.write_bytes(LETTER)
    assert shown_one(run("try", file, "--json")[1])["now"]["verdict"] == "clean"
    entry, phrase = (NewEntry(key, key) for key in ("partner.example", "lunch on friday"))
    with_store(data, lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [entry], CLI))
    shown = shown_one(run("try", file, "--json")[1])
    assert (shown["before"]["verdict"], shown["now"]["verdict"]) == ("policy", "policy")
    with_store(data, lambda store: store.lists.remove(None, "blocked-senders", [entry.key], CLI))
    with_store(data, lambda store: store.lists.add(None, BY_NAME["blocked-phrases"], [phrase], CLI))
    assert shown_one(run("try", file, "--json")[1])["now"]["verdict"] == "policy"


def test_what_is_neither_says_so(run: Run, data: Path) -> None:
    assert run("try", "nothing-here.eml")[0] == 1
    code, _, err = run("try", "--message", new_id())
    assert code == 1
    assert "on record" in err


def test_a_policy_is_tried_on_the_history(run: Run, data: Path, tmp_path: Path) -> None:
    lure, letter = stored(data, LURE), stored(data, LETTER)
    strict = tmp_path / "strict.toml"
    strict.write_text("[verdicts]\nphishing = {threshold = 1.0, own = 1.0}\n")
    shown = json.loads(run("try", "--policy", strict, "--json")[1])
    assert shown["considered"] == 2
    flipped = {message["ggrid"] for message in shown["messages"]}
    assert letter not in flipped
    same = tmp_path / "same.toml"
    same.write_text("")
    code, out, _ = run("try", "--policy", same)
    assert (code, out) == (0, "0 of 2 decisions would change.\n")
    lax = tmp_path / "lax.toml"
    lax.write_text('[verdicts]\nclean = {decision = "bounce"}\nphishing = {threshold = 60.0}\n')
    out = run("try", "--policy", lax)[1]
    assert f"{letter}" in out
    found = json.loads(run("try", "--policy", lax, "--search", "subject:lunch", "--json")[1])
    assert [message["ggrid"] for message in found["messages"]] == [letter]
    assert json.loads(run("try", "--policy", lax, "--days", 1, "--json")[1])["considered"] == 0
    assert lure


def test_a_faulty_policy_is_a_sentence(run: Run, data: Path, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.toml"
    faulty.write_text("[verdicts]\nphishing = {threshhold = 1.0}\n")
    for option in ("--policy", "--rules"):
        code, _, err = run("try", option, faulty)
        assert code == 1
        assert "threshhold" in err


def test_entries_of_a_list_are_tried_together_and_each_by_itself(run: Run, data: Path) -> None:
    stored(data, LURE)
    letter = stored(data, LETTER)
    entry = NewEntry("partner.example", "partner.example")
    with_store(data, lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [entry], CLI))
    words = ("try", "--list", "blocked-senders")
    shown = json.loads(run(*words, "--add", "Ann@partner.example", "--add", "absent.example", "--json")[1])
    counted = {"listName": "blocked-senders", "entry": "ann@partner.example", "hit": 1, "flipped": 1}
    assert (shown["considered"], shown["hit"], shown["flipped"], shown["entries"]) == (2, 1, 1, [counted])
    assert [message["entries"] for message in shown["messages"]] == [["ann@partner.example"]]
    # A message that is named is judged with the lists of today: the domain is blocked already.
    named = (*words, "--message", letter)
    assert shown_one(run(*named, "--add", "ann@partner.example", "--json")[1])["before"]["verdict"] == "policy"
    shown = shown_one(run(*named, "--remove", "partner.example", "--json")[1])
    assert (shown["before"]["decision"], shown["now"]["decision"]) == ("quarantine", "deliver")
    shown = shown_one(run(*named, "--remove", "partner.example", "--add", "ann@partner.example", "--json")[1])
    assert (shown["before"]["decision"], shown["now"]["decision"]) == ("quarantine", "quarantine")
    assert with_store(data, lambda store: store.lists.find(None, "blocked-senders", ["ann@partner.example"])) == ()
    for wrong, said in (
        (("try", "--list", "blocked-senders", "--add", "two words"), "two words"),
        (("try", "--list", "blocked-phrases", "--add", "lunch"), "not stored"),
        (("try", "--list", "no-such-list", "--add", "lunch"), "is not there"),
    ):
        code, _, err = run(*wrong)
        assert code == 1
        assert said in err
    assert run("try", "--add", "a.example")[0] == 2


def test_delivered_mail_that_an_entry_would_have_held_is_listed_with_its_recipients(run: Run, data: Path) -> None:
    seen = Report("clean", "deliver", (), 0, "", subject="Hi", subjects=(Subject("link", "https://a.example/", "1"),))
    envelope = Envelope("x@x.example", ("bob@rcpt.example",))
    record = MessageRecord(new_id(), now(), now(), envelope, 1, "00" * 32, seen)
    with_store(data, lambda store: store.messages.record(record))
    added = ("--add", "A.example", "--add", "b.example")
    out = run("try", "--list", "blocked-urls", *added, "--days", 3)[1]
    assert record.ggrid in out
    assert "x@x.example" in out
    assert "bob@rcpt.example" in out
    assert "deliver → quarantine" in out
    assert "1 of 1 decisions would change." in out
    assert with_store(data, lambda store: store.look_backs.of_list(None, "blocked-urls")) == ()


def test_every_line_of_either_side_is_there_once() -> None:
    found = report(LURE)
    other, standing = override(shipped_policy(), '[kinds."text:mailbox-lure"]\nweight = 0.5'), lists_then(found, {})
    now = rejudge(found, other, rule_by(found, standing.matches, standing.custom))
    lines = compare_lines(found, now)
    assert len(lines) == len(found.lines) == len(now.lines)
    assert [line.tag for line in lines if not line.is_same] == ["text:mailbox-lure"]
