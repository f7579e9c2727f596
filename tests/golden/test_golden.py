"""Golden ledgers: messages written for one check each, and as many innocent twins.

An attack is named after the tag that it must get. A twin does what an attack of the same kind does, for an honest
reason, and is delivered. Beside each message stands the ledger that it got; where a change of code or policy changes
one, the difference is the review: `pytest tests/golden --regold` writes them anew. Where a `.known.toml` stands beside
it, too, that is what the tenant knew before; without one nothing is remembered.
"""

import json
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.asking import run_asking

from gatepost import questions
from gatepost.analysis import stages
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Line, Report
from gatepost.analysis.stages import Context
from gatepost.checks.registry import CHECKS
from gatepost.checks.triggers import EVERYTHING
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import CompiledLists, UnkeyedLists
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.mail.sender_history import Facet, facet_key
from gatepost.questions import Answer, Dns, DnsAnswer, FacetAge, Lookup, LookupAnswer, Question

HERE = Path(__file__).parent
ATTACKS = sorted((HERE / "attacks").glob("*.eml"))
TWINS = sorted((HERE / "twins").glob("*.eml"))
CASES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "cases.toml").read_text("utf-8"))
ZONE: dict[str, dict[str, list[str]]] = tomllib.loads((HERE / "zone.toml").read_text("utf-8"))
ELSEWHERE = frozenset({"scanners", "campaign", "bulk_mail", "reputation", "learnt_model", "plain_notice"})
# Ten minutes after the messages were written.
NOW = 1_794_302_520.0

Memory = dict[int, FacetAge]


def memory(file: Path) -> Memory | None:
    """What the tenant knew when the message came."""
    beside = file.with_suffix(".known.toml")
    if not beside.exists():
        return None
    books = tomllib.loads(beside.read_text("utf-8"))
    return {
        facet_key(Facet[name.upper()], text): FacetAge(*known)
        for name, book in books.items()
        for text, known in book.items()
    }


def answer(question: Question, known: Memory) -> Answer:
    if isinstance(question, Lookup):
        return LookupAnswer()
    if isinstance(question, questions.AskSightings):
        asked = (question.keys, question.proven, question.claimed)
        return questions.Sightings(True, *(tuple(known.get(each, FacetAge()) for each in keys) for keys in asked))
    if not isinstance(question, Dns):
        return questions.Antivirus()
    if question.name not in ZONE:
        return DnsAnswer("no-name")
    records = ZONE[question.name].get(question.type, [])
    return DnsAnswer("found", tuple(records)) if records else DnsAnswer("no-data")


@cache
def report_on(file: Path) -> Report:
    """The report on a message: each is analysed once, however many tests look at it."""
    return analyse_file(file)


def analyse_file(file: Path) -> Report:
    """Analyse a message with its envelope, its DNS, its lists and its memory."""
    raw, known, case = file.read_bytes(), memory(file), CASES.get(file.stem, {})
    sender = (read(raw).headers.first("return-path") or "").strip("<> ")
    host, helo = case.get("host", "192.0.2.25"), case.get("helo", "mx.example.com")
    envelope = Envelope(sender, (case.get("recipient", "ann@house.example"),), host, helo)
    lists = protecting(case.get("own", ()), case.get("people", ()))
    asking = analyse(raw, envelope, Context(now=NOW, lists=lists, sender_history=known is not None))
    return run_asking(asking, lambda question: answer(question, known or {}))


def protecting(own: Iterable[str], people: Iterable[str]) -> CompiledLists:
    """Lists that say whom nobody may imitate."""
    domains = tuple(UnkeyedEntry("own-domains", "global", each, each) for each in own)
    persons = tuple(UnkeyedEntry("protected-people", "global", each, each) for each in people)
    return CompiledLists(UnkeyedLists(entries={"own-domains": domains, "protected-people": persons}))


def ledger(report: Report) -> dict[str, Any]:
    """What is compared: the result and every line, without titles, which may be reworded."""
    return {
        "verdict": report.verdict,
        "decision": report.decision,
        "score": report.score,
        "tags": list(report.tags),
        "lines": [_line(line) for line in report.lines],
        "did not run": [f"{outcome.stage}: {outcome.reason}" for outcome in report.outcomes],
    }


def _line(line: Line) -> dict[str, Any]:
    shown = {"tag": line.kind, "where": line.where, "facts": line.facts, "weight": line.weight, "counted": line.counted}
    return {**shown, "note": line.note} if line.note else shown


@pytest.mark.parametrize("file", [*ATTACKS, *TWINS], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_ledger_is_as_it_was(file: Path, request: pytest.FixtureRequest) -> None:
    found = ledger(report_on(file))
    expected = file.with_suffix(".json")
    if request.config.getoption("--regold"):
        expected.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")
    assert found == json.loads(expected.read_text("utf-8"))


@pytest.mark.parametrize("file", ATTACKS, ids=lambda file: file.stem)
def test_an_attack_gets_its_tag(file: Path) -> None:
    area, _, thing = file.stem.partition("-")
    assert f"{area}:{thing}" in report_on(file).tags


@pytest.mark.parametrize("file", TWINS, ids=lambda file: file.stem)
def test_a_twin_is_delivered(file: Path) -> None:
    report = report_on(file)
    assert report.decision == "deliver", report.reason


@pytest.mark.parametrize("file", [*ATTACKS, *TWINS], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_ledger_adds_up(file: Path) -> None:
    report = report_on(file)
    assert sum(line.counted for line in report.lines) == report.score
    is_stalled = any("no end" in line.facts.get("reason", "") for line in report.lines)
    assert [outcome.stage for outcome in report.outcomes] == ["pages"] * is_stalled


@pytest.mark.parametrize("file", [*ATTACKS, *TWINS], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_check_that_is_not_called_would_find_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`needs` and `themes` save work and change nothing: the ledger is the same where every check is called."""
    called = report_on(file)
    monkeypatch.setattr(stages, "find_signs", lambda _: EVERYTHING)
    assert analyse_file(file) == called


def test_every_check_has_its_attack() -> None:
    """Checks that need more than a message (rules, an antivirus, lists, a history, a key) are tried elsewhere."""
    found = {tag for file in ATTACKS for tag in json.loads(file.with_suffix(".json").read_text("utf-8"))["tags"]}
    without = {check.name for check in CHECKS if found.isdisjoint(kind.id for kind in check.kinds)}
    assert without <= ELSEWHERE, f"write an attack for: {without - ELSEWHERE}"


def test_there_are_as_many_twins_as_attacks() -> None:
    assert len(TWINS) >= len(ATTACKS) > 0


def test_every_ledger_has_its_message() -> None:
    for folder in ("attacks", "twins"):
        ledgers = {file.stem for file in (HERE / folder).glob("*.json")}
        assert ledgers == {file.stem for file in (HERE / folder).glob("*.eml")}
