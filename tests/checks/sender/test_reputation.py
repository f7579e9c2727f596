"""The check of `sender/reputation`: what zones say becomes findings, and an allow zone speaks for the host alone."""

import pytest

from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.history import reputation
from gatepost.files.values import File
from gatepost.findings.kinds import Finding
from gatepost.mail.message import Link, Message
from gatepost.questions import Listing, Reputation, ReputationSubject

LINK = Link("https://www.bad.com/x", "https://www.bad.com/x", "www.bad.com", "Pay", "1.2", "html")
FILE = File("1.3/a.exe", b"MZ", "exe", "ab" * 32, ("a.exe",))
VALUES = {"host": "8.8.4.4", "link": "www.bad.com", "sender": "bad.com", "address": "a@bad.com", "file": "ab" * 32}


def found(*listings: Listing, silent: tuple[tuple[str, str], ...] = (), trusted: bool = False) -> list[Finding]:
    message = Message(links=(LINK,))
    said = Reputation(listings, silent)
    return list(reputation(Reading(message, files=(FILE,), reputation=said, protected=Protected(host_trusted=trusted))))


def listing(subject: ReputationSubject, means: str) -> Listing:
    return Listing(subject, VALUES[subject], "block", "127.0.0.2", means, 0.5, "sends spam")


@pytest.mark.parametrize(
    ("subject", "means", "kind", "where", "about"),
    [
        ("host", "listed", "reputation:listed-host", "sending host", ""),
        ("host", "dynamic", "reputation:dynamic-host", "sending host", ""),
        ("host", "allowed", "reputation:allowed-host", "sending host", ""),
        ("link", "listed", "reputation:listed-link", "1.2", LINK.url),
        ("link", "phishing", "reputation:phishing-link", "1.2", LINK.url),
        ("link", "malware", "reputation:malware-link", "1.2", LINK.url),
        ("link", "new", "reputation:new-link", "1.2", LINK.url),
        ("sender", "listed", "reputation:listed-sender", "sender", ""),
        ("sender", "phishing", "reputation:phishing-sender", "sender", ""),
        ("sender", "malware", "reputation:phishing-sender", "sender", ""),
        ("sender", "new", "reputation:new-sender", "sender", ""),
        ("address", "listed", "reputation:listed-address", "address", ""),
        ("file", "malware", "reputation:listed-file", "1.3/a.exe", "ab" * 32),
    ],
)
def test_each_meaning_is_a_finding(subject: ReputationSubject, means: str, kind: str, where: str, about: str) -> None:
    (finding,) = found(listing(subject, means))
    assert finding.kind == kind
    assert (finding.where, finding.about, finding.strength) == (where, about, 0.5)
    facts = {"value": VALUES[subject], "zone": "block", "answer": "127.0.0.2", "meaning": "sends spam"}
    assert finding.facts == facts


def test_an_allow_zone_speaks_for_the_host_and_for_nothing_else() -> None:
    of_host = [listing("host", means) for means in ("listed", "dynamic", "allowed")]
    kinds = [finding.kind for finding in found(*of_host, listing("link", "listed"))]
    assert kinds == ["reputation:allowed-host", "reputation:listed-link"]


def test_a_relay_of_the_operator_is_not_held_against_a_message() -> None:
    assert found(listing("host", "listed"), trusted=True) == []


def test_what_no_zone_can_mean_is_nothing() -> None:
    assert found(listing("file", "new"), listing("address", "phishing")) == []


def test_a_zone_that_is_not_believed_is_named() -> None:
    (finding,) = found(silent=(("block", "it does not answer"),))
    assert finding.kind == "reputation:no-answer"
    assert finding.facts == {"zone": "block", "reason": "it does not answer"}
