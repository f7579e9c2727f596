"""What an analysis asks reputation zones about, and what their answers do to the verdict."""

import base64
import hashlib

import pytest
from tests.asking import run_in_steps

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import NO_ENTRIES, CompiledLists, UnkeyedLists
from gatepost.mail.message import Envelope
from gatepost.questions import (
    MAX_REPUTATION_VALUES,
    Answer,
    Answers,
    AskReputation,
    Dns,
    DnsAnswer,
    Listing,
    Lookup,
    LookupAnswer,
    Question,
    Questions,
    Reputation,
    ReputationValue,
)

EVERYTHING = ("address", "file:md5", "file:sha256", "host", "link", "sender")
NOTHING = Reputation()
ATTACHED = b"attached bytes"
MAIL = (
    b"From: Ann <ann@news.shop.com>\r\nReply-To: other@mail.com\r\nTo: bob@house.com\r\nSubject: Offer\r\n"
    b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n"
    b'<a href="https://www.bad.com/a">one</a> <a href="https://www.bad.com/b">two</a>'
    b'<a href="mailto:drop@box.com?subject=x">write</a> <a href="https://intra.house.com/">ours</a>'
    b'<img src="https://pictures.com/x.png">\r\n--b\r\n'
    b"Content-Disposition: attachment; filename=a.txt\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    + base64.b64encode(ATTACHED)
    + b"\r\n--b--\r\n"
)
ENVELOPE = Envelope("<bounce@mailer.net>", ("bob@house.com",), "8.8.4.4", "mail.shop.com")


def examine(
    raw: bytes, wanted: tuple[str, ...], said: Reputation = NOTHING, lists: UnkeyedLists = NO_ENTRIES
) -> tuple[Report, list[AskReputation], list[int]]:
    """The report, the questions to zones, and how many questions each step had."""
    analysis = analyse(raw, ENVELOPE, Context(1_700_000_000.0, lists=CompiledLists(lists), reputation=wanted))
    asked: list[AskReputation] = []
    steps: list[int] = []

    def answer(each: Question) -> Answer:
        if isinstance(each, AskReputation):
            asked.append(each)
            return said
        return (
            LookupAnswer() if isinstance(each, Lookup) else DnsAnswer("no-name" if isinstance(each, Dns) else "failed")
        )

    def answer_step(questions: Questions) -> Answers:
        steps.append(len(questions))
        return tuple(map(answer, questions))

    return run_in_steps(analysis, answer_step), asked, steps


def test_without_zones_nothing_is_asked() -> None:
    _, asked, _ = examine(MAIL, ())
    assert asked == []


def test_everything_that_zones_list_is_asked_in_two_questions() -> None:
    lists = UnkeyedLists(entries={"own-domains": (UnkeyedEntry("own-domains", "global", "house.com", "house.com"),)})
    _, (first, second), _ = examine(MAIL, EVERYTHING, lists=lists)
    assert [(each.subject, each.value) for each in first.values] == [
        ("host", "8.8.4.4"),
        ("sender", "news.shop.com"),
        ("sender", "mailer.net"),
        ("address", "bounce@mailer.net"),
        ("address", "ann@news.shop.com"),
        ("address", "other@mail.com"),
        ("address", "drop@box.com"),
        ("link", "www.bad.com"),
    ]
    digest, md5 = hashlib.sha256(ATTACHED).hexdigest(), hashlib.md5(ATTACHED, usedforsecurity=False).hexdigest()
    assert second.values == (ReputationValue("file", digest, f"md5:{md5}"), ReputationValue("file", digest))


def test_of_a_post_the_host_that_gave_it_to_the_list_is_asked_about() -> None:
    hops = (
        b"Received: from lists.org (lists.org [8.8.4.4]) by mx.house.com with ESMTP\r\n"
        b"Received: from x.net (x.net [9.9.9.9]) by mx.lists.org with ESMTP for <talk@lists.org>\r\n"
    )
    _, (question,), _ = examine(hops + b"List-Post: <mailto:talk@lists.org>\r\n" + MAIL, ("host",))
    assert [each.value for each in question.values] == ["8.8.4.4", "9.9.9.9"]
    _, (question,), _ = examine(hops + MAIL, ("host",))
    assert [each.value for each in question.values] == ["8.8.4.4"], "it names no list"


def test_a_zone_of_hosts_costs_no_further_step() -> None:
    plain = examine(MAIL, ())[2]
    with_zone = examine(MAIL, ("host", "link", "sender"))[2]
    assert len(with_zone) == len(plain)
    assert with_zone[0] == plain[0] + 1


def test_keys_of_lists_go_along_only_where_lists_have_entries() -> None:
    _, (question,), _ = examine(MAIL, ("host",), lists=UnkeyedLists(keyed=("network", "url")))
    ((kind, keys),) = question.keys
    assert kind == "network"
    assert "8.8.4.4" in keys


def test_a_message_full_of_links_is_asked_about_within_bounds() -> None:
    links = b"".join(b'<a href="https://site%d.com/">x</a>' % number for number in range(2000))
    _, (question,), _ = examine(b"From: a@b.com\r\nContent-Type: text/html\r\n\r\n" + links, EVERYTHING[3:])
    assert 20 < len(question.values) <= MAX_REPUTATION_VALUES


@pytest.mark.parametrize(
    ("listing", "verdict", "tag"),
    [
        (Listing("link", "www.bad.com", "uri", "127.0.0.8", "phishing"), "phishing", "reputation:phishing-link"),
        (Listing("link", "www.bad.com", "uri", "127.0.0.16", "malware"), "malware", "reputation:malware-link"),
        (Listing("host", "8.8.4.4", "block", "127.0.0.2", "allowed"), None, "reputation:allowed-host"),
    ],
)
def test_what_is_listed_decides(listing: Listing, verdict: str | None, tag: str) -> None:
    report, _, _ = examine(MAIL, ("host", "link"), Reputation((listing,)))
    plain, _, _ = examine(MAIL, ())
    assert report.verdict == (verdict or plain.verdict)
    assert tag in report.tags
    (line,) = [line for line in report.lines if line.kind == tag]
    assert line.facts["zone"] == listing.zone
    assert line.facts["answer"] == listing.answer
