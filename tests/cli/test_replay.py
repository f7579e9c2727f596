"""Judging again: what was decided, with another policy or other lists."""

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.cli import main
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.policy.layers import override
from gatepost.policy.rules import shipped_policy
from gatepost.questions import DnsAnswer, Lookup, LookupAnswer
from gatepost.rejudge.replay import compare, rejudge, rulings_of
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store

T = TypeVar("T")
Run = Callable[..., tuple[int, str, str]]

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


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def called(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gatepost", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


@pytest.fixture
def data(tmp_path: Path) -> Path:
    prepare(DataFolder(tmp_path / "data"), None)
    return tmp_path / "data"


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


def used(data: Path, use: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        store = open_store("sqlite:gatepost.db", data)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())


def stored(data: Path, raw: bytes) -> str:
    ggrid = new_id()
    record = MessageRecord(ggrid, 1_000, 2_000, Envelope("desk@lure.example"), len(raw), "ab" * 32, report(raw))
    used(data, lambda store: store.messages.record(record))
    return ggrid


def test_nothing_changes_where_nothing_changed(run: Run, data: Path) -> None:
    ggrid = stored(data, LURE)
    code, out, _ = run("replay", ggrid.upper(), "--data", data, "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["before"] == shown["now"]
    assert shown["lines"]
    assert all(line["weight"][0] == line["weight"][1] for line in shown["lines"])
    assert "0 lines of the ledger changed" in run("replay", ggrid, "--data", data)[1]


def test_another_policy_shows_line_by_line_what_it_changes(run: Run, data: Path, tmp_path: Path) -> None:
    ggrid = stored(data, LURE)
    policy = tmp_path / "mild.toml"
    policy.write_text('[kinds."text:mailbox-lure"]\nweight = 0.0\n[kinds."text:credential-lure"]\nweight = 0.0\n')
    shown = json.loads(run("replay", ggrid, "--policy", policy, "--data", data, "--json")[1])
    changed = {line["tag"]: line for line in shown["lines"] if line["weight"][0] != line["weight"][1]}
    assert set(changed) == {"text:mailbox-lure", "text:credential-lure"}
    assert all(line["weight"][1] == 0 for line in changed.values())
    assert shown["now"]["score"] < shown["before"]["score"]
    assert "text:mailbox-lure" in run("replay", ggrid, "--policy", policy, "--data", data)[1]


def test_lists_of_today_count(run: Run, data: Path) -> None:
    ggrid = stored(data, LETTER)
    assert json.loads(run("replay", ggrid, "--data", data, "--json")[1])["now"]["decision"] == "deliver"
    entry = NewEntry("partner.example", "partner.example")
    used(data, lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [entry], CLI))
    shown = json.loads(run("replay", ggrid, "--data", data, "--json")[1])
    assert shown["now"]["verdict"] == "policy"
    (new,) = [line for line in shown["lines"] if line["tag"] == "list:blocked-senders"]
    assert new["weight"][0] is None


@pytest.mark.process
def test_a_file_is_analysed_anew_with_the_lists_of_the_store(run: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "letter.eml"
    file.write_bytes(LETTER)
    assert json.loads(run("replay", file, "--data", tmp_path / "none", "--json")[1])["verdict"] == "clean"
    entry = NewEntry("partner.example", "partner.example")
    used(data, lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [entry], CLI))
    assert json.loads(run("replay", file, "--data", data, "--json")[1])["verdict"] == "policy"


def test_what_is_neither_says_so(run: Run, data: Path) -> None:
    assert run("replay", "nothing-here.eml", "--data", data)[0] == 1
    code, _, err = run("replay", new_id(), "--data", data)
    assert code == 1
    assert "on record" in err


def test_a_policy_is_tried_on_the_history(run: Run, data: Path, tmp_path: Path) -> None:
    lure, letter = stored(data, LURE), stored(data, LETTER)
    strict = tmp_path / "strict.toml"
    strict.write_text("[verdicts]\nphishing = {threshold = 1.0, own = 1.0}\n")
    shown = json.loads(run("policy", "try", strict, "--data", data, "--json")[1])
    assert shown["considered"] == 2
    flipped = {flip["ggrid"] for flip in shown["flips"]}
    assert letter not in flipped
    same = tmp_path / "same.toml"
    same.write_text("")
    code, out, _ = run("policy", "try", same, "--data", data)
    assert (code, out) == (0, "0 of 2 decisions would change.\n")
    lax = tmp_path / "lax.toml"
    lax.write_text('[verdicts]\nclean = {decision = "bounce"}\nphishing = {threshold = 60.0}\n')
    out = run("policy", "try", lax, "--data", data)[1]
    assert f"{letter}" in out
    assert lure


def test_a_faulty_policy_is_a_sentence(run: Run, data: Path, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.toml"
    faulty.write_text("[verdicts]\nphishing = {threshhold = 1.0}\n")
    code, _, err = run("policy", "try", faulty, "--data", data)
    assert code == 1
    assert "threshhold" in err


def test_every_line_of_either_side_is_there_once() -> None:
    found = report(LURE)
    now = rejudge(found, override(shipped_policy(), '[kinds."text:mailbox-lure"]\nweight = 0.5'), rulings_of(found, {}))
    comparison = compare("x", found, now, found.subject)
    assert len(comparison.lines) == len(found.lines) == len(now.lines)
    assert [line.tag for line in comparison.lines if not line.is_same] == ["text:mailbox-lure"]
