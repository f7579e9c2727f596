"""The checks of `files/traits`: the tricks, and what looks like them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds
from tests.files.openpgp_formats import ENCRYPTED, armoured, literal, signed

from gatepost.auth.results import Authentication, Dmarc
from gatepost.checks.files.traits import calendar_invitation, protected_document, traits
from gatepost.checks.reading import Protected, Reading
from gatepost.files.values import File, Trait
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part
from gatepost.mail.sender_history import SenderHistory, Standing
from gatepost.names import Address
from gatepost.questions import FacetAge

PROVEN = Authentication(dmarc=Dmarc(dkim_aligned=True))
MET = SenderHistory(True, Standing(FacetAge(5, 60)))


# Tricks that a reader sees and a check states: each trait leads to its kind, and ordinary ones to none.
@pytest.mark.parametrize(
    ("trait", "kinds"),
    [
        (Trait("remote-template", "http://evil.test/t.dotm"), ["file:remote-template"]),
        (Trait("remote-object", "http://evil.test/x"), ["file:remote-object"]),
        (Trait("embedded-object", "a.txt"), ["file:embedded-object"]),
        (Trait("equation-editor", "Equation.3"), ["file:equation-editor"]),
        (Trait("program-action", "cmd /c calc"), ["file:program-action"]),
        (Trait("embedded-command", "cmd /c calc"), ["file:program-action"]),
        (Trait("installer", "MSI"), ["file:installer"]),
        (Trait("pdf-javascript", "app.alert(1)"), ["file:pdf-javascript"]),
        (Trait("pdf-launch", "cmd.exe"), ["file:pdf-launch"]),
        (Trait("pdf-embedded-file", "invoice.xml"), ["file:pdf-embedded-file"]),
        (Trait("pdf-open-action", "JavaScript"), ["file:pdf-open-action"]),
        (Trait("pdf-submit-form", "https://a.test/"), ["file:pdf-submit-form"]),
        (Trait("smuggling", "zip, 900 bytes"), ["file:html-smuggling"]),
        (Trait("written-page", "900 bytes"), ["file:html-written-page"]),
        (Trait("page-password-field", "pass"), ["file:html-password-form"]),
        (Trait("page-form", "action=x"), ["file:html-form"]),
        (Trait("page-script", "x()"), ["file:html-script"]),
        (Trait("page-svg-script", "x()"), ["file:svg-script"]),
        (Trait("page-meta-refresh", "https://a.test/"), ["file:html-redirect"]),
        (Trait("pdf-form", "AcroForm"), []),
        (Trait("page-base", "https://a.test/"), []),
        (Trait("calendar-method", "REQUEST"), []),
        (Trait("internet-shortcut", "https://a.test/"), []),
        (Trait("encrypted", "PDF"), []),
        (Trait("document-password", "1234"), []),
    ],
)
def test_traits(trait: Trait, kinds: list[str]) -> None:
    reading = Reading(files=(File("1/a", b"", "data", "0" * 64, traits=(trait,)), File("2/b", b"", "pdf", "1" * 64)))
    findings = list(traits(reading))
    assert [finding.kind for finding in findings] == kinds
    assert all(finding.about == "0" * 64 for finding in findings)


# Macros: a fact; those that start by themselves or reach out: a sign.
@pytest.mark.parametrize(
    ("noted", "kinds"),
    [
        ((("macro", "Module1"),), ["file:macro"]),
        ((("macro", "Module1"), ("macro", "Module2")), ["file:macro"]),
        ((("macro", "M"), ("macro-autorun", "AutoOpen")), ["file:macro", "file:macro-autorun"]),
        ((("macro", "M"), ("macro-call", "wscript.shell")), ["file:macro", "file:macro-call"]),
        ((("macro", "Excel 4.0"), ("macro-cells", "hidden")), ["file:macro", "file:excel4-macro"]),
        ((), []),  # a letter
        ((("embedded-object", "chart"),), ["file:embedded-object"]),
        ((("encrypted", "Word"),), []),
        ((("pdf-form", "AcroForm"),), []),
    ],
)
def test_macro(noted: tuple[tuple[str, str], ...], kinds: list[str]) -> None:
    file = File("1/a.doc", b"", "ole", "0" * 64, traits=tuple(Trait(*trait) for trait in noted))
    assert find_kinds(traits, Reading(files=(file,))) == kinds


def test_a_part_stands_for_its_document() -> None:
    file = File("1/a.docm/x.bin", b"", "ole", "0" * 64, traits=(Trait("macro", "M"),), within="d" * 64)
    assert [finding.about for finding in traits(Reading(files=(file,)))] == ["d" * 64]


# What is encrypted for its recipient is stated; what is only signed is not.
ENVELOPED = bytes.fromhex("308006092a864886f70d010703a080")
SIGNED = bytes.fromhex("308006092a864886f70d010702a080")


@pytest.mark.parametrize(
    ("part", "forms"),
    [
        (Part("1", content_type="application/pkcs7-mime", content=ENVELOPED), ["S/MIME"]),
        (Part("1", content_type="application/x-pkcs7-mime", content=ENVELOPED), ["S/MIME"]),
        (Part("1", content=ENCRYPTED), ["OpenPGP"]),
        (Part("1", content=armoured(ENCRYPTED)), ["OpenPGP"]),
        (Part("1", content=b"See:\n" + armoured(ENCRYPTED)), ["OpenPGP"]),
        (Part("1", content_type="multipart/encrypted"), []),
        (Part("1", content=b"-----BEGIN PGP MESSAGE-----\n\nhQ"), []),
        (Part("1", content=armoured(signed(literal("", b"Hello")))), []),
        (Part("1", content_type="application/pkcs7-mime", content=SIGNED), []),
        (Part("1", content_type="multipart/signed"), []),
        (Part("1", content=b"-----BEGIN PGP SIGNED MESSAGE-----\n\nHello"), []),
        (Part("1", content=b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n"), []),
    ],
)
def test_encrypted_parts(part: Part, forms: list[str]) -> None:
    message = Message(parts=(part,))
    findings = list(protected_document(Reading(message, files=find_files(message))))
    assert list(dict.fromkeys(finding.facts["form"] for finding in findings)) == forms
    assert {finding.kind for finding in findings} <= {"limit:encrypted"}


def test_protected_documents() -> None:
    protected = File("1/a.docx", b"", "ole", "0" * 64, traits=(Trait("encrypted", "Office"),))
    opened = File("3/c.xlsx", b"", "ole", "2" * 64, traits=(Trait("default-password"),))
    given = File("4/d.pdf", b"", "pdf", "3" * 64, traits=(Trait("document-password", "123"),))
    plain = File("2/b.docx", b"", "zip", "1" * 64)
    findings = list(protected_document(Reading(files=(protected, plain, opened, given))))
    assert [(finding.where, finding.kind) for finding in findings] == [
        ("1/a.docx", "limit:encrypted"),
        ("1/a.docx", "file:encrypted-document"),
        ("3/c.xlsx", "file:default-password"),
        ("4/d.pdf", "file:document-password"),
    ]


# Invitations in another's name, beside those of colleagues, assistants and one's own.
@pytest.mark.parametrize(
    ("method", "organiser", "kinds"),
    [
        ("REQUEST", "boss@bank.example", ["file:calendar-organizer"]),
        ("PUBLISH", "boss@bank.example", ["file:calendar-organizer"]),
        ("REQUEST", "ann@sender.test", []),
        ("REQUEST", "room@rooms.sender.test", []),  # same owner
        ("REQUEST", "bob@receiver.test", []),  # an invitation of one's own, forwarded
        ("REPLY", "boss@bank.example", []),  # an answer names the organiser who asked
        ("CANCEL", "boss@bank.example", []),
        ("", "boss@bank.example", []),  # a calendar file, no invitation
    ],
)
def test_organiser(method: str, organiser: str, kinds: list[str]) -> None:
    traits = [Trait("calendar-organizer", organiser)] + ([Trait("calendar-method", method)] if method else [])
    file = File("1/a.ics", b"", "ics", "0" * 64, traits=tuple(traits))
    message = Message(senders=(Address("", "ann", "sender.test"),), recipients=(Address("", "bob", "receiver.test"),))
    assert find_kinds(calendar_invitation, Reading(message, files=(file,))) == kinds


@pytest.mark.parametrize(
    ("reading", "strength"),
    [
        (Reading(), 1.0),
        (Reading(authentication=PROVEN), 1.0),
        (Reading(sender_history=MET), 1.0),
        (Reading(sender_history=MET, authentication=PROVEN), 0.4),
        (Reading(protected=Protected(host_trusted=True)), 0.4),
    ],
)
def test_a_macro_that_starts_by_itself_is_excused_by_a_proven_sender_alone(reading: Reading, strength: float) -> None:
    file = File("1/a.doc", b"", "ole", "0" * 64, traits=(Trait("macro-autorun", "AutoOpen"),))
    (finding,) = traits(msgspec.structs.replace(reading, files=(file,)))
    assert finding.strength == strength
