"""What is encrypted for its recipient is stated; what is only signed is not."""

import pytest

from gatepost.checks.files.protected_document import check
from gatepost.files.values import File, Trait
from gatepost.findings import Reading
from gatepost.mail.message import Message, Part

ENVELOPED = bytes.fromhex("308006092a864886f70d010703a080")
SIGNED = bytes.fromhex("308006092a864886f70d010702a080")


@pytest.mark.parametrize(
    ("part", "forms"),
    [
        (Part("1", content_type="application/pkcs7-mime", content=ENVELOPED), ["S/MIME"]),
        (Part("1", content_type="application/x-pkcs7-mime", content=ENVELOPED), ["S/MIME"]),
        (Part("1", content_type="multipart/encrypted"), ["OpenPGP"]),
        (Part("1", content=b"-----BEGIN PGP MESSAGE-----\n\nhQ"), ["OpenPGP"]),
        (Part("1", content_type="application/pkcs7-mime", content=SIGNED), []),
        (Part("1", content_type="multipart/signed"), []),
        (Part("1", content=b"-----BEGIN PGP SIGNED MESSAGE-----\n\nHello"), []),
        (Part("1", content=b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n"), []),
    ],
)
def test_parts(part: Part, forms: list[str]) -> None:
    findings = list(check(Reading(Message(parts=(part,)))))
    assert [finding.facts["form"] for finding in findings] == forms
    assert {finding.kind for finding in findings} <= {"limit:encrypted"}


def test_documents() -> None:
    protected = File("1/a.docx", b"", "ole", "0" * 64, traits=(Trait("encrypted", "Office"),))
    opened = File("3/c.xlsx", b"", "ole", "2" * 64, traits=(Trait("default-password"),))
    given = File("4/d.pdf", b"", "pdf", "3" * 64, traits=(Trait("document-password", "123"),))
    plain = File("2/b.docx", b"", "zip", "1" * 64)
    findings = list(check(Reading(files=(protected, plain, opened, given))))
    assert [(finding.where, finding.kind) for finding in findings] == [
        ("1/a.docx", "limit:encrypted"),
        ("3/c.xlsx", "file:default-password"),
        ("4/d.pdf", "file:document-password"),
    ]
