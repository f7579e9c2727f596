"""What bounces return and own people forward: whose words they are, what proves it, and what counts all the same."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.asking import run_asking
from tests.auth.signatures import KEY, make_key, make_record, sign
from tests.files.compound_files import make_compound

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import NO_LISTS, CompiledLists, UnkeyedLists
from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Dns, DnsAnswer, LookupAnswer, Question

NOW = 1_794_302_520.0
LURE = (
    b"From: Ann <ann@example.org>\r\nTo: bob@partner.example\r\nSubject: Your mailbox\r\n"
    b"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\n"
    b"Your mailbox is full. Verify your password within 24 hours, or your account will be suspended:\r\n"
    b"https://login.evil.example/verify\r\n"
)
TEXT = LURE.partition(b"\r\n\r\n")[2]
NAMES = "from:to:subject:date"
HARMLESS = (
    b"Your message could not be delivered.\r\n<bob@partner.example>: host mx.p.example said: 550 5.1.1 no user\r\n"
)
TAG = "text:carried-message"
PLAIN = b"--b\r\nContent-Type: text/plain\r\n\r\n"
MESSAGE = b"--b\r\nContent-Type: message/rfc822\r\n\r\n"


def signed(raw: bytes = LURE, **tags: str) -> bytes:
    return sign(raw, make_key("rsa1024"), **{"names": NAMES, **tags})


def bounce(returned: bytes, notice: bytes = HARMLESS, more: bytes = b"") -> bytes:
    head = (
        b"From: MAILER-DAEMON@mx.partner.example\r\nTo: ann@example.org\r\nSubject: Undelivered mail\r\n"
        b"Date: Tue, 10 Nov 2026 09:13:00 +0000\r\nMessage-ID: <2@mx.partner.example>\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
    )
    status = (
        b"--b\r\nContent-Type: message/delivery-status\r\n\r\nFinal-Recipient: rfc822; bob@partner.example\r\n"
        b"Action: failed\r\nStatus: 5.1.1\r\n\r\n"
    )
    return head + PLAIN + notice + b"\r\n" + status + MESSAGE + returned + b"\r\n" + more + b"--b--\r\n"


def saved(raw: bytes) -> bytes:
    """A part with a message as Outlook saves it."""
    head, _, text = raw.decode().partition("\r\n\r\n")
    values = {"007D001F": head, "1000001F": text}
    content = {f"__substg1.0_{name}": value.encode("utf-16-le") for name, value in values.items()}
    encoded = base64.encodebytes(make_compound({"__properties_version1.0": bytes(32), **content}))
    name = b"--b\r\nContent-Type: application/vnd.ms-outlook; name=a.msg\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    return name + encoded + b"\r\n"


def judge(raw: bytes, sender: str = "", *, own: bool = False, zone: str = KEY, flags: str = "", **told: Any) -> Report:
    def answer(question: Question) -> Answer:
        if isinstance(question, Dns):
            record = make_record(make_key("rsa1024")) + flags
            return DnsAnswer("found", (record,)) if question.name == zone else DnsAnswer("no-name")
        return LookupAnswer()

    domain = UnkeyedEntry("own-domains", "global", "example.org", "example.org")
    lists = CompiledLists(UnkeyedLists(entries={"own-domains": (domain,)})) if own else NO_LISTS
    envelope = Envelope(sender, ("<ann@example.org>",), "192.0.2.9", "mx.partner.example")
    envelope = msgspec.structs.replace(envelope, **told)
    return run_asking(analyse(raw, envelope, Context(now=NOW, lists=lists)), answer)


def list_stories(report: Report) -> set[str]:
    """The findings in texts and links."""
    return {tag for tag in report.tags if tag.startswith(("text:", "url:"))}


def test_the_lure_of_a_signed_message_makes_no_lure_of_the_bounce() -> None:
    report = judge(bounce(signed()))
    assert (report.decision, list_stories(report)) == ("deliver", {TAG})
    assert "https://login.evil.example/verify" in {each.value for each in report.subjects}, "lists see its links"
    assert judge(bounce(LURE)).verdict == "phishing"


FAKES: dict[str, Callable[[], Report]] = {
    "no signature": lambda: judge(bounce(LURE)),
    "another text": lambda: judge(
        bounce(signed(LURE.replace(b"Your mailbox is", b"It is")).replace(b"It is", b"He is"))
    ),
    "another author": lambda: judge(bounce(signed(LURE.replace(b"ann@", b"eve@")))),
    "another signer": lambda: judge(bounce(signed(d="evil.example")), zone="sel._domainkey.evil.example"),
    "two authors": lambda: judge(
        bounce(signed(LURE.replace(b"<ann@example.org>", b"<ann@example.org>, e@evil.example")))
    ),
    "part of the body": lambda: judge(bounce(signed(l="5"))),
    "a new subject": lambda: judge(
        bounce(signed(names="from:to:date").replace(b"Subject: Your mailbox", b"Subject: Your password"))
    ),
    "a key for tests": lambda: judge(bounce(signed()), flags="; t=y"),
    "an envelope sender": lambda: judge(bounce(signed()), "eve@evil.example"),
    "another recipient": lambda: judge(bounce(signed()), recipients=("carl@example.org",)),
    "a lure beside it": lambda: judge(bounce(signed(), more=MESSAGE + LURE)),
    "a lure in a file": lambda: judge(bounce(signed(), more=saved(LURE))),
    "only a file": lambda: judge(bounce(LURE).replace(MESSAGE + LURE, saved(LURE))),
    "a lure in the notice": lambda: judge(bounce(signed(), notice=TEXT)),
}


@pytest.mark.parametrize("fake", FAKES)
def test_a_bounce_that_proves_less_is_held(fake: str) -> None:
    report = FAKES[fake]()
    assert (report.decision, report.outcomes) == ("quarantine", ()), report.tags
    assert (TAG in report.tags) == (fake == "a lure in the notice")


def test_a_lure_that_is_quoted_in_a_bounce_is_held() -> None:
    """It stands in the letter itself, whatever the letter says of it."""
    quoted = HARMLESS + b"\r\n--- Below this line is a copy of the message.\r\n\r\n" + signed()
    head = b"From: MAILER-DAEMON@mx.partner.example\r\nTo: ann@example.org\r\nSubject: Failure notice\r\n\r\n"
    assert judge(head + quoted, own=True).decision == "quarantine"
    assert judge(bounce(signed(), notice=quoted), own=True).decision == "quarantine"


def test_what_the_house_has_sent_is_proven_for_all_its_people() -> None:
    colleague = signed(LURE.replace(b"ann@", b"eve@"))
    assert judge(bounce(colleague), own=True).decision == "deliver"
    assert judge(bounce(LURE), own=True).decision == "quarantine"


EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + b"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


def test_malware_in_it_counts() -> None:
    head = b"From: Ann <ann@example.org>\r\nTo: b@p.example\r\nSubject: x\r\nDate: Tue, 10 Nov 2026 09:12:00 +0000\r\n"
    carrier = head + b"Content-Disposition: attachment; filename=a.com\r\n\r\n" + EICAR + b"\r\n"
    assert judge(bounce(signed(carrier))).verdict == "malware"
    assert judge(forward(carrier), "bob@example.org", logged_in=True).verdict == "malware"


def forward(carried: bytes, text: bytes = b"Is this real?", kind: bytes = b"message/rfc822") -> bytes:
    head = (
        b"From: Bob <bob@example.org>\r\nTo: desk@example.org\r\nSubject: Fwd: Your mailbox\r\n"
        b"Message-ID: <3@example.org>\r\nDate: Tue, 10 Nov 2026 09:14:00 +0000\r\n"
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    )
    return head + PLAIN + text + b"\r\n" + MESSAGE.replace(b"message/rfc822", kind) + carried + b"--b--\r\n"


@pytest.mark.parametrize(
    "kind", [b"message/rfc822", b"application/octet-stream; name=Mail.EML", b"text/plain; name=a.eml"]
)
@pytest.mark.parametrize(
    ("told", "delivered"),
    [({"logged_in": True}, True), ({"outbound": True}, True), ({}, False)],
    ids=["logged in", "outbound", "stranger"],
)
def test_a_forward_is_an_own_users_and_not_a_strangers(told: dict[str, Any], delivered: bool, kind: bytes) -> None:
    report = judge(forward(LURE, kind=kind), "bob@example.org", **told)
    assert (report.decision == "deliver", list_stories(report) == {TAG}) == (delivered, delivered), report.tags
    inline = judge(forward(LURE, TEXT, kind), "bob@example.org", **told)
    assert inline.decision == "quarantine", "what stands in the letter itself is the sender's"


def test_a_proven_own_domain_forwards() -> None:
    mail = signed(forward(LURE))
    assert judge(mail, "bob@example.org", own=True).decision == "deliver"
    assert judge(mail, "bob@example.org").decision == "quarantine", "nobody says that the domain is an own one"
    assert judge(forward(LURE), "bob@example.org", own=True).decision == "quarantine"


def test_neither_a_saved_message_nor_a_trick_in_its_text_is_the_forwarders() -> None:
    outlook = forward(LURE).replace(MESSAGE + LURE, saved(LURE))
    assert judge(outlook).decision == "quarantine"
    assert list_stories(judge(outlook, logged_in=True)) == {TAG}
    page = b"<p>Hello</p>" + b'<p style="display:none">' + b"Minutes of the meeting of Monday. " * 40 + b"</p>"
    hidden = forward(b"From: Eve <eve@evil.example>\r\nSubject: x\r\nContent-Type: text/html\r\n\r\n" + page + b"\r\n")
    assert "text:hidden" in judge(hidden).tags
    assert "text:hidden" not in judge(hidden, logged_in=True).tags
    shown = hidden.replace(b"text/plain", b"text/html").replace(b"Is this real?", page.replace(b"Monday", b"Friday"))
    assert "text:hidden" in judge(shown, logged_in=True).tags
    broken = forward(b"Content-Transfer-Encoding: base64\r\nSubject: x\r\n\r\nSGVsbG8*!*8\r\n")
    assert "mime:broken-base64" in judge(broken, logged_in=True).tags
