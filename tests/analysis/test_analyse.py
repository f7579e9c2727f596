"""The whole straight line: from bytes to a report, with a dictionary for DNS and a few entries for lists."""

import base64
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.asking import run_asking, run_in_steps

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Outcome, Report
from gatepost.analysis.stages import Context
from gatepost.checks.files.malware import EICAR_SIGNATURE
from gatepost.checks.reading import Check, Reading
from gatepost.cli.examples import MAILS
from gatepost.findings.kinds import Finding
from gatepost.lists import entries
from gatepost.lists.catalogue import KINDS
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import NO_LISTS, CompiledLists, UnkeyedLists
from gatepost.mail.message import Envelope, Message, Text
from gatepost.mail.reader import read
from gatepost.questions import (
    Answer,
    Answers,
    AskCampaign,
    Campaign,
    Dns,
    DnsAnswer,
    Hit,
    Lookup,
    LookupAnswer,
    Question,
    Questions,
)
from gatepost.textmodel.words import MessageWords, read_words

PLAIN = b"From: Ann <ann@shop.example>\r\nTo: bob@example.org\r\nSubject: Minutes\r\n\r\nSee you on Tuesday.\r\n"
ENVELOPE = Envelope("ann@shop.example", ("bob@example.org",), "192.0.2.9", "mail.shop.example")
NOW = 1_700_000_000.0


def report_on(
    raw: bytes,
    *,
    zone: Mapping[Dns, tuple[str, ...]] | None = None,
    hits: tuple[Hit, ...] = (),
    failed: bool = False,
    context: Context | None = None,
) -> Report:
    asking = CompiledLists(UnkeyedLists(keyed=tuple(KINDS))) if hits or failed else NO_LISTS
    analysis = analyse(raw, ENVELOPE, context or Context(now=NOW, lists=asking))
    return run_asking(analysis, lambda question: answer(question, zone or {}, hits, failed))


def answer(question: Question, zone: Mapping[Dns, tuple[str, ...]], hits: tuple[Hit, ...], failed: bool) -> Answer:
    if isinstance(question, Lookup):
        asked = {key for _, keys in question.keys for key in keys}
        return LookupAnswer(tuple(hit for hit in hits if hit.key in asked), failed)
    assert isinstance(question, Dns)
    records = zone.get(question)
    return DnsAnswer("found", records) if records else DnsAnswer("no-name")


def with_attachment(name: str, content: bytes) -> bytes:
    return (
        b"From: Ann <ann@shop.example>\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n"
        b"Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename="
        + name.encode()
        + b"\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(content) + b"--b--\r\n"
    )


def zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def test_ordinary_mail_is_clean() -> None:
    report = report_on(PLAIN)
    assert (report.verdict, report.decision) == ("clean", "deliver")
    assert report.subject == "Minutes"
    assert report.senders == ("ann@shop.example",)
    assert report.outcomes == ()


def test_a_virus_two_zips_deep_is_malware_and_says_where() -> None:
    report = report_on(with_attachment("a.zip", zipped("b.zip", zipped("eicar.com", EICAR_SIGNATURE))))
    assert (report.verdict, report.decision) == ("malware", "quarantine")
    (line,) = [line for line in report.lines if line.kind == "file:eicar"]
    assert line.where == "1.2/a.zip/b.zip/eicar.com"
    assert line.where in report.reason


def test_the_owner_s_wish_is_followed() -> None:
    zone = {Dns("_dmarc.shop.example", "TXT"): ("v=DMARC1; p=reject",)}
    assert report_on(PLAIN, zone=zone).verdict == "spoofing"
    allowed = zone | {Dns("shop.example", "TXT"): ("v=spf1 ip4:192.0.2.9 -all",)}
    assert report_on(PLAIN, zone=allowed).verdict == "clean"


@pytest.mark.parametrize(
    ("hit", "verdict", "effect"),
    [
        (Hit("blocked-senders", "global", "shop.example", "chain letters"), "policy", "blocked"),
        (Hit("blocked-ips", "tenant", "192.0.2.0/24"), "policy", "blocked"),
        (Hit("allowed-senders", "tenant", "shop.example"), "clean", "refused"),  # nothing proves that it is Ann
    ],
)
def test_lists_decide_and_the_ledger_names_the_entry(hit: Hit, verdict: str, effect: str) -> None:
    report = report_on(PLAIN, hits=(hit,))
    assert report.verdict == verdict
    (note,) = {note for note in report.lists if note.list == hit.list and note.where != "envelope"}
    assert (note.entry, note.scope, note.comment, note.effect) == (hit.key, hit.scope, hit.comment, effect)


def test_lists_that_cannot_be_read_leave_the_message_undecided() -> None:
    report = report_on(PLAIN, failed=True)
    assert (report.verdict, report.decision) == ("unscannable", "undecided")


def listed(name: str, key: str, shown: str = "") -> UnkeyedEntry:
    return UnkeyedEntry(name, "tenant", key, shown or key)


def test_phrases_count_as_whole_words_in_text_and_subject() -> None:
    lists = CompiledLists(
        UnkeyedLists(
            entries={
                "blocked-phrases": (listed("blocked-phrases", "you on tuesday"), listed("blocked-phrases", "inute"))
            }
        )
    )
    report = report_on(PLAIN, context=Context(now=NOW, lists=lists))
    assert report.verdict == "policy"
    assert [note.entry for note in report.lists] == ["you on tuesday"]


def test_names_of_files_inside_of_others_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = with_attachment("a.zip", zipped("papers/Inv\u043eice 7.csv", b"a,b"))
    lists = CompiledLists(UnkeyedLists(entries={"blocked-file-names": (listed("blocked-file-names", "invoice*.csv"),)}))
    report = report_on(raw, context=Context(now=NOW, lists=lists))
    assert report.verdict == "policy"
    assert "list:blocked-file-names" in report.tags
    (note,) = report.lists
    assert (note.entry, note.effect, note.where) == ("invoice*.csv", "blocked", "1.2/a.zip/papers/Inv\u043eice 7.csv")
    assert report.lines[0].facts["found"] == "papers/Inv\u043eice 7.csv"
    monkeypatch.setattr(entries, "MAX_WORK", 10)
    report = report_on(raw, context=Context(now=NOW, lists=lists))
    assert report.verdict == "unscannable", "what was not compared is not called clean"
    assert "blocked-file-names: its patterns and the names of the files are too many" in report.reason


def test_trusted_relays_are_looked_through() -> None:
    relayed = (
        b"Received: from x (x.example [198.51.100.7]) by relay.example; Sat, 1 Jan 2022 00:00:00 +0000\r\n" + PLAIN
    )
    lists = CompiledLists(UnkeyedLists(entries={"trusted-relays": (listed("trusted-relays", "192.0.2.0/24"),)}))
    report = report_on(relayed, context=Context(now=NOW, lists=lists))
    assert (report.authentication.host, report.authentication.host_source) == ("198.51.100.7", "received")


def breaks(_reading: Reading) -> tuple[Finding, ...]:
    raise ValueError("a secret of the message")


def test_a_check_that_crashes_is_named_and_the_mail_is_not_clean() -> None:
    report = report_on(PLAIN, context=Context(now=NOW, extra=(Check("broken", (), breaks),)))
    assert report.verdict == "unscannable"
    assert Outcome("check:broken", "failed", "it crashed (ValueError)") in report.outcomes
    assert "secret" not in report.reason


OWN_MAIL = pytest.mark.parametrize(
    ("told", "own_networks", "origin"),
    [
        ({"outbound": True}, (), "own network"),
        ({"local": True}, (), "own network"),
        ({"logged_in": True}, (), "logged in"),
        ({}, ("192.0.2.0/24",), "own network"),
    ],
)


@OWN_MAIL
def test_the_sender_of_own_mail_is_not_looked_up(
    told: dict[str, bool], own_networks: tuple[str, ...], origin: str
) -> None:
    envelope, context = msgspec.structs.replace(ENVELOPE, **told), Context(now=NOW, own_networks=own_networks)
    report = run_asking(analyse(PLAIN, envelope, context), lambda question: pytest.fail(f"asked {question}"))
    assert (report.authentication.origin, report.authentication.dmarc.result, report.outcomes) == (origin, "none", ())
    assert report.authentication.dmarc.reason.startswith("not evaluated, the ")


@OWN_MAIL
def test_own_mail_is_judged_by_its_content_alone(
    told: dict[str, bool], own_networks: tuple[str, ...], origin: str
) -> None:
    phish = bytes(MAILS["phish"].make())
    of_stranger = report_on(phish)
    envelope, context = msgspec.structs.replace(ENVELOPE, **told), Context(now=NOW, own_networks=own_networks)
    of_own = run_asking(analyse(phish, envelope, context), lambda question: pytest.fail(f"asked {question}"))
    areas, of_strangers = ({tag.partition(":")[0] for tag in each.tags} for each in (of_own, of_stranger))
    assert of_strangers >= {"sender", "text", "url"}
    assert areas.isdisjoint({"sender", "auth", "helo", "host"}), (origin, of_own.tags)
    assert (of_own.verdict, of_own.decision) == ("phishing", "quarantine")


def test_a_skipped_stage_says_why() -> None:
    report = report_on(PLAIN, context=Context(now=NOW, skip={"files": "it ran out of its time"}))
    assert report.verdict == "unscannable"
    assert "files" in report.reason


PIECES = st.sampled_from(
    [
        b"From: Ann <ann@shop.example>\r\n",
        b'From: "x@bank.example" <y@evil.example>\r\n',
        b"Subject: =?utf-8?B?aGk=?=\r\n",
        b"List-Unsubscribe: <https://shop.example/u>\r\n",
        b"Content-Type: multipart/mixed; boundary=b\r\n",
        b"Content-Type: text/html\r\n",
        b"\r\n",
        b"--b\r\n",
        b'<a href="http://8.8.8.8/">https://bank.example</a>',
        b"Content-Disposition: attachment; filename=invoice.pdf.exe\r\n",
        zipped("setup.exe", b"MZ\x90\0" + bytes(100)),
        EICAR_SIGNATURE,
        b"\0\xff\r",
    ]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=30)), max_size=25).map(b"".join))
def test_every_ledger_adds_up(raw: bytes) -> None:
    report = report_on(raw)
    assert sum(line.counted for line in report.lines) == report.score
    assert {line.kind for line in report.lines} <= set(report.tags)
    assert list(report.tags) == sorted(set(report.tags))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=Report) == report


@given(st.binary(max_size=400))
def test_the_same_bytes_give_the_same_report(raw: bytes) -> None:
    assert report_on(raw) == report_on(raw)


# Their files are the text "ARRAY(0x…)" in BinHex: whatever made them wrote a reference in place of the payload.
WITHOUT_PAYLOAD = {"1799ae063770c865.eml", "5b5ec77678ee0353.eml"}


def test_hidden_viruses_are_found_in_every_reading(shared: Callable[[str], Path]) -> None:
    carriers = sorted((shared("attack-dev") / "mime_is_broken_content").rglob("*.eml"))
    assert len(carriers) == 185
    missed = {path.name for path in carriers if report_on(path.read_bytes()).verdict != "malware"}
    assert missed == WITHOUT_PAYLOAD
    for path in carriers:
        if path.name in missed:
            assert b"eicar.zip" in path.read_bytes()
            assert b"ARRAY(0x" in b"".join(part.content for part in read(path.read_bytes()).parts)


def test_the_words_of_a_message_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_once: list[int] = []

    def counted(message: Message, texts: list[Text] | None = None) -> MessageWords:
        read_once.append(len(message.texts))
        return read_words(message, texts)

    monkeypatch.setattr("gatepost.analysis.stages.read_words", counted)
    monkeypatch.setattr("gatepost.checks.reading.read_words", counted)
    monkeypatch.setattr("gatepost.textmodel.features.read_words", counted)
    raw = PLAIN + b"one two three four five six seven " * 9
    for campaigns in (False, True):
        steps: list[bool] = []

        def answer(asked: Questions, into: list[bool] = steps) -> Answers:
            into.append(any(isinstance(each, AskCampaign) for each in asked))
            return tuple(Campaign() if isinstance(each, AskCampaign) else DnsAnswer("no-name") for each in asked)

        run_in_steps(analyse(raw, ENVELOPE, Context(now=NOW, campaigns=campaigns)), answer)
        assert read_once == [1]
        # What is asked about near-copies goes with the first questions of all.
        assert steps[:2] == [campaigns, False]
        read_once.clear()
