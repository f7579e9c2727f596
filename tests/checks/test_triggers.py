"""Triggers: a check that is not called would have found nothing, whatever the message and what is known of it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from bench.corpus import NotPresentError, mail
from bench.equal import judge
from tests.golden.test_golden import ATTACKS, TWINS, analyse_file

from gatepost.analysis import stages
from gatepost.analysis.stages import Stages
from gatepost.auth.results import Authentication, Dkim, Dmarc, Iprev, Spf
from gatepost.checks.reading import SIGNS, Check, Protected, Reading, check
from gatepost.checks.registry import CHECKS
from gatepost.checks.triggers import BITS, EVERYTHING, compile_triggers, find_signs
from gatepost.files.values import File, Trait
from gatepost.findings.kinds import TEXT_GTUBE, Finding
from gatepost.lists.addresses import ProtectedName
from gatepost.mail.message import Defect, Envelope, Field, Headers, Link, Message, Text
from gatepost.mail.sender_history import SenderHistory, Standing
from gatepost.names import Address
from gatepost.questions import Antivirus, Campaign, FacetAge, Reputation

ROWS = compile_triggers(stages.CHECK_STAGES)
LONG = FacetAge(20, 60)
KNOWN = Standing(LONG, LONG)


def list_signs(bits: int) -> frozenset[str]:
    """The words of these bits."""
    return frozenset(word for word, bit in BITS.items() if bit & bits)


def list_left_out(reading: Reading) -> Iterator[str]:
    """What checks find that would not have been called."""
    there = find_signs(reading)
    for needed, themes, stage, run in ROWS:
        if not (needed & there and themes & there):
            yield from (f"{stage}: {finding.kind} ({finding.facts})" for finding in run(reading))


def vary(reading: Reading) -> Iterator[Reading]:
    """The same message as it is to another tenant, from a sender who is proven, forged or known."""
    change = msgspec.structs.replace
    yield reading
    domains = frozenset(to.rpartition("@")[2] for to in reading.envelope.recipients)
    yield change(reading, protected=Protected(own_domains=domains | {"paypa1.com"}, people=reading.message.senders[:1]))
    yield change(reading, protected=Protected(partner_domains=frozenset({"house.example", "bank.example"})))
    named = frozenset(ProtectedName(each.name or "Acme", tuple(domains)) for each in reading.message.senders[:1])
    yield change(reading, protected=Protected(names=named))
    proven = Authentication(
        host=reading.authentication.host,
        host_source=reading.authentication.host_source,
        spf=Spf("pass", "a.example"),
        dkim=(Dkim("pass", "a.example"),),
        dmarc=Dmarc("pass", "a.example", dkim_aligned=True),
        iprev=Iprev("pass", "dyn-203-0-113-7.a.example"),
    )
    met = SenderHistory(ready=True, address=KNOWN, domain=KNOWN, mailing_list=LONG)
    yield change(reading, authentication=proven, sender_history=met)
    yield change(reading, authentication=Authentication(spf=Spf("fail"), dmarc=Dmarc("fail", policy="reject")))
    yield change(reading, sender_history=SenderHistory(ready=True), campaign=Campaign(50, 50, "unwanted"))
    yield change(reading, envelope=Envelope("", reading.envelope.recipients, "192.0.2.7", "friend"))
    # The next message of a spool: another envelope for the same bytes.
    yield change(
        reading, envelope=Envelope("<x@other.example>", ("plain", "Postmaster"), "203.0.113.7", "[203.0.113.7]")
    )


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was lost in all analyses of a test."""
    found: list[str] = []
    run_checks = Stages.run_checks

    def run_and_prove(self: Stages, reading: Reading) -> list[Finding]:
        for variant in vary(reading):
            found.extend(list_left_out(variant))
        return run_checks(self, reading)

    monkeypatch.setattr(Stages, "run_checks", run_and_prove)
    return found


@pytest.mark.parametrize("folder", [ATTACKS, TWINS], ids=["attacks", "twins"])
def test_nothing_is_lost_in_golden_messages(folder: list[Path], left_out: list[str]) -> None:
    for file in folder:
        analyse_file(file)
        assert not left_out, file


@pytest.mark.parametrize("count", [300, pytest.param(1_000_000, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("archive", [pytest.param("mail-dev", marks=pytest.mark.variant), "mail-dev-2"])
def test_nothing_is_lost_in_real_mail(archive: str, count: int, left_out: list[str]) -> None:
    try:
        messages = mail(count, archive=archive)
    except NotPresentError as absent:
        pytest.skip(f"not run: {absent}")
    for message in messages:
        judge(message)
        assert not left_out, message.path


def test_most_checks_are_not_called() -> None:
    """The saving itself: a plain letter sets few signs."""
    letter = Reading(
        Message(
            senders=(Address("Ann", "ann", "house.example"),),
            recipients=(Address("Bob", "bob", "house.example"),),
            subject="Lunch on Friday",
            texts=(Text("1", "plain", "Shall we go at noon?"),),
            headers=Headers(
                (
                    Field("from", "Ann <ann@house.example>", b"From: Ann <ann@house.example>\r\n"),
                    Field("to", "Bob <bob@house.example>", b"To: Bob <bob@house.example>\r\n"),
                    Field("subject", "Lunch on Friday", b"Subject: Lunch on Friday\r\n"),
                    Field("message-id", "<4711@house.example>", b""),
                )
            ),
        ),
        Envelope("ann@house.example", ("bob@house.example",)),
    )
    there = find_signs(letter)
    called = [stage for needed, themes, stage, _ in ROWS if needed & there and themes & there]
    assert list_signs(there) == {"odd-date"}
    assert called == ["check:host_names", "check:date_field", "check:text_model"]


LINK = Link("http://a.example", "http://a.example/", "a.example", "", "1", "text")
ANN = Address("Ann", "ann", "a.example")
PLAIN = Message(senders=(ANN,), recipients=(Address("", "bob", "b.example"),))
SUM = Text("1", "plain", "we have 2,500,000 dollars")
# What a message without any field is.
BARE = {"odd-date", "odd-identifier", "odd-clock"}


@pytest.mark.parametrize(
    ("sign", "reading"),
    [
        ("link", Reading(msgspec.structs.replace(PLAIN, links=(LINK,)))),
        ("defect", Reading(msgspec.structs.replace(PLAIN, defects=(Defect("mime:nul", "1"),)))),
        ("signature authentication", Reading(PLAIN, authentication=Authentication(dkim=(Dkim("pass"),)))),
        ("authentication", Reading(PLAIN, authentication=Authentication(spf=Spf("fail")))),
        ("reply-to", Reading(msgspec.structs.replace(PLAIN, reply_to=(ANN,)))),
        ("protected", Reading(PLAIN, protected=Protected(own_domains=frozenset({"c.example"})))),
        ("remembered", Reading(PLAIN, sender_history=SenderHistory(ready=True))),
        ("reputation", Reading(PLAIN, reputation=Reputation(silent=(("block", "it does not answer"),)))),
        ("antivirus", Reading(PLAIN, antivirus=Antivirus("clean"))),
        ("campaign", Reading(PLAIN, campaign=Campaign(marked="held"))),
        ("attachment", Reading(PLAIN, files=(File("1", b"%PDF-", "pdf", "0"),))),
        ("attachment", Reading(PLAIN, files=(File("1/a.txt", b"text", "text", "0", ("a.txt",)),))),
        ("", Reading(PLAIN, files=(File("1", b"text", "text", "0"),))),
        ("trait", Reading(PLAIN, files=(File("1", b"text", "text", "0", traits=(Trait("macro"),)),))),
        ("unread", Reading(PLAIN, files=(File("1", b"text", "text", "0", unread=("size",)),))),
        ("odd-sender", Reading(msgspec.structs.replace(PLAIN, senders=(Address("", "", "a.example"),)))),
        (
            "free-sender provider-sender",
            Reading(msgspec.structs.replace(PLAIN, senders=(Address("", "ann", "gmail.com"),))),
        ),
        ("name-dot", Reading(msgspec.structs.replace(PLAIN, senders=(Address("J. Doe", "ann", "a.example"),)))),
        ("brand-sender", Reading(msgspec.structs.replace(PLAIN, senders=(Address("PayPal", "ann", "a.example"),)))),
        ("odd-subject", Reading(msgspec.structs.replace(PLAIN, subject="!!! Now !!!"))),
        ("reply-subject", Reading(msgspec.structs.replace(PLAIN, subject="Re: lunch"))),
        ("odd-envelope", Reading(PLAIN, Envelope(recipients=("plain",)))),
        ("wallet", Reading(msgspec.structs.replace(PLAIN, texts=(Text("1", "plain", "my wallet"),)))),
        ("evasive-text", Reading(msgspec.structs.replace(PLAIN, texts=(Text("1", "plain", "cheap v1agra"),)))),
        ("odd-number", Reading(msgspec.structs.replace(PLAIN, texts=(Text("1", "plain", "ring 8o5-5s5-0100"),)))),
        (
            "link foreign-site planted-sum download-url",
            Reading(
                msgspec.structs.replace(
                    PLAIN,
                    texts=(Text("1", "plain", "+$1,989 here"),),
                    links=(Link("x", "http://c.example/a.zip", "c.example", "", "1", "text"),),
                )
            ),
        ),
        ("reply-to opening", Reading(msgspec.structs.replace(PLAIN, reply_to=(ANN,), texts=(SUM,)))),
    ],
)
def test_each_sign_stands_for_one_thing(sign: str, reading: Reading) -> None:
    without_link = {"foreign-site"} if sign == "link" else set()
    assert list_signs(find_signs(reading)) - BARE - without_link == set(sign.split())


def test_a_link_in_a_file_is_a_link_as_well() -> None:
    reading = Reading(PLAIN, files=(File("1", b"text", "text", "0", links=(LINK,)),))
    assert {"link", "link-in-file"} <= list_signs(find_signs(reading))


@pytest.mark.parametrize("each", CHECKS, ids=lambda each: each.name)
def test_what_a_check_waits_for_exists(each: Check) -> None:
    (row,) = compile_triggers([("check:x", each)])
    assert all(row[:2])
    assert each.needs <= BITS.keys()


def test_every_sign_is_needed() -> None:
    """A sign costs a look at every message; those that the first plug-ins were told of stay."""
    assert SIGNS.keys() - {sign for each in CHECKS for sign in each.needs} <= {"signature"}


def test_a_word_that_is_no_sign_is_refused() -> None:
    @check(TEXT_GTUBE, needs={"lnik"})
    def wrong(_: Reading) -> Iterator[Finding]:
        yield from ()

    with pytest.raises(KeyError, match="lnik"):
        compile_triggers([("check:wrong", wrong)])


def test_a_check_without_a_trigger_always_runs() -> None:
    @check(TEXT_GTUBE)
    def always(_: Reading) -> Iterator[Finding]:
        yield from ()

    (row,) = compile_triggers([("check:always", always)])
    there = find_signs(Reading())
    assert row[0] & row[1] & there
    assert there & EVERYTHING == there
