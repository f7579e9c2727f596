"""Messages attached to a report, in the forms in which mail programs attach them."""

import base64

import pytest

from gatepost.mail.part_places import MAX_MESSAGES, find_attached_messages

INNER = b"From: a@offers.example\r\nSubject: Kettles\r\n\r\nKettles by the ton.\r\n"
EML = b'Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename="Kettles.EML"\r\n'
RFC822 = b"Content-Type: message/rfc822\r\n"


def report(*parts: bytes) -> bytes:
    head = b"From: ann@acme.example\r\nTo: spam@acme.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    return head + b"".join(b"--b\r\n" + part + b"\r\n" for part in (b"\r\nPlease look.\r\n", *parts)) + b"--b--\r\n"


@pytest.mark.parametrize(
    "part",
    [
        RFC822 + b"\r\n" + INNER,
        RFC822 + b"Content-Disposition: attachment\r\n\r\n" + INNER,
        RFC822 + b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(INNER),
        EML + b"\r\n" + INNER,
        EML + b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(INNER),
    ],
)
def test_forms_in_which_a_message_is_attached(part: bytes) -> None:
    assert [each.strip() for each in find_attached_messages(report(part))] == [INNER.strip()]


def test_the_outermost_messages_count() -> None:
    nested = report(RFC822 + b"\r\n" + INNER).replace(b"=b", b"=c").replace(b"--b", b"--c")
    found = find_attached_messages(report(RFC822 + b"\r\n" + nested, RFC822 + b"\r\n" + INNER))
    assert len(found) == 2
    assert found[0].startswith(b"From: ann@")
    assert found[1].startswith(b"From: a@offers")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 50,
        INNER,
        report(),
        report(b"Content-Type: text/plain\r\n\r\nFrom: a@x.example\r\n"),
        report(RFC822 + b"\r\n"),
        report(b'Content-Type: application/pdf; name="a.pdf"\r\n\r\nx'),
        report(RFC822 + b"\r\n")[:90],
    ],
)
def test_mail_without_an_attached_message(raw: bytes) -> None:
    assert find_attached_messages(raw) == ()


def test_their_number_is_bounded() -> None:
    assert len(find_attached_messages(report(*[RFC822 + b"\r\n" + INNER] * 50))) == MAX_MESSAGES
