"""The model speaks with degrees, softly where its word is worth less, and not about returned mail."""

import msgspec
import pytest

from gatepost.auth.results import Authentication, Dkim, Result
from gatepost.checks.text.text_model import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_MODEL_FRAUD, TEXT_MODEL_PHISHING, TEXT_MODEL_SPAM, TEXT_MODEL_SURE
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read

OFFER = (
    "Buy cheap viagra and cialis now! Save 80% on all pills, no prescription needed! We ship worldwide, best price"
    " guaranteed or your money back. Click here and order today! http://pills.test/buy"
)
LETTER = (
    "Hi Bob,\n\nthanks for the patch. I think the second hunk needs a test; can you look at it before the meeting?\n"
)
NIGERIA = (
    "Dear friend, I am a barrister. My late client died and left the sum of ten million dollars. I want you to stand as"
    " the next of kin and beneficiary of the inheritance. This is strictly confidential. Reply with your bank details."
)
BANK = (
    "Dear customer, unusual activity: your account has been suspended. Please verify your account and confirm your"
    " password: log in at http://bank.test/login and update your billing information."
)


def reading(body: str, *fields: str, subject: str = "hello", envelope: str = "a@b.example") -> Reading:
    head = "\r\n".join(["From: A <a@b.example>", "To: c@d.example", f"Subject: {subject}", *fields])
    return Reading(read(f"{head}\r\n\r\n{body}\r\n".encode()), Envelope(envelope))


def strength(given: Reading) -> float:
    return max((finding.strength for finding in check(given)), default=0.0)


@pytest.mark.parametrize(
    ("body", "fields", "kinds"),
    [
        (OFFER, [], {TEXT_MODEL_SPAM.id, TEXT_MODEL_SURE.id}),
        (BANK, [], {TEXT_MODEL_SPAM.id, TEXT_MODEL_PHISHING.id}),
        (NIGERIA, [], {TEXT_MODEL_SPAM.id, TEXT_MODEL_FRAUD.id}),
        (LETTER, ["In-Reply-To: <1@d.example>"], set()),
        ("See you at noon.", [], set()),
        ("", [], set()),
    ],
)
def test_what_is_said(body: str, fields: list[str], kinds: set[str]) -> None:
    found = [finding for finding in check(reading(body, *fields)) if finding.strength > 0.3]
    assert {finding.kind for finding in found} == kinds


@pytest.mark.parametrize(
    "fields",
    [
        ["In-Reply-To: <1@d.example>"],
        ["List-Post: <mailto:l@b.example>"],
        ["List-Unsubscribe: <https://b.example/u>"],
    ],
)
def test_it_does_not_decide_alone_where_somebody_vouches_for_the_mail(fields: list[str]) -> None:
    assert TEXT_MODEL_SURE.id in {finding.kind for finding in check(reading(OFFER))}
    assert TEXT_MODEL_SURE.id not in {finding.kind for finding in check(reading(OFFER, *fields))}


def test_it_does_not_decide_alone_on_a_few_words() -> None:
    short = reading("Buy cheap viagra now! http://pills.test/buy", subject="")
    assert TEXT_MODEL_SURE.id not in {finding.kind for finding in check(short)}


def test_the_finding_shows_what_weighed() -> None:
    first = next(iter(check(reading(OFFER))))
    assert float(first.facts["probability"]) > 0.8
    assert first.facts["weighed"]


def test_mail_that_can_be_ended_gets_part_of_the_strength() -> None:
    assert 0 < strength(reading(OFFER, "List-Unsubscribe: <https://b.example/u>")) < strength(reading(OFFER))


def test_mail_that_links_to_its_own_site_gets_part_of_the_strength() -> None:
    own = OFFER.replace("pills.test", "b.example")
    assert 0 < strength(reading(own)) < strength(reading(OFFER))


@pytest.mark.parametrize(("result", "quieter"), [("pass", True), ("permerror", True), ("fail", False)])
@pytest.mark.parametrize("domain", ["b.example", "mail.b.example"])
def test_mail_that_its_sender_signed_gets_part_of_the_strength(domain: str, result: Result, quieter: bool) -> None:
    plain = reading(OFFER)
    signed = msgspec.structs.replace(plain, authentication=Authentication(dkim=(Dkim(result, domain),)))
    assert (strength(signed) < strength(plain)) == quieter
    assert (TEXT_MODEL_SURE.id in {finding.kind for finding in check(signed)}) != quieter


def test_the_signature_of_somebody_else_counts_for_nothing() -> None:
    plain = reading(OFFER)
    signed = msgspec.structs.replace(plain, authentication=Authentication(dkim=(Dkim("pass", "other.example"),)))
    assert strength(signed) == strength(plain)


def test_a_mail_daemon_in_any_case_is_one() -> None:
    raw = f"From: MAILER-DAEMON@b.example\r\nSubject: Failure Notice\r\n\r\n{OFFER}\r\n".encode()
    assert strength(Reading(read(raw), Envelope("a@b.example"))) == 0


@pytest.mark.parametrize("sender", ["MAILER-DAEMON@b.example", "postmaster@b.example"])
def test_returned_mail_is_not_judged(sender: str) -> None:
    assert strength(reading(OFFER, envelope=sender)) == 0


def test_a_report_is_not_judged() -> None:
    raw = f"From: x@b.example\r\nContent-Type: multipart/report; boundary=b\r\n\r\n--b\r\n\r\n{OFFER}\r\n--b--\r\n"
    assert strength(Reading(read(raw.encode()), Envelope("a@b.example"))) == 0
