"""Messages that Outlook saved or attached are read as the mail that they were."""

import base64
import struct

import pytest
from tests.files.compound_files import make_compound

from gatepost.files.documents.compound import SIGNATURE
from gatepost.files.documents.saved_messages import find_reported_messages, open_saved_message
from gatepost.mail.part_places import MAX_MESSAGES
from gatepost.mail.reader import read

HEADER = (
    "Received: from mx.offers.example ([192.0.2.9])\r\n by mx.acme.example; Tue, 10 Nov 2026 09:12:00 +0000\r\n"
    'From: "Kettles" <a@offers.example>\r\nTo: ann@acme.example\r\nSubject: Kettles by the ton\r\n'
    'Content-Type: multipart/alternative;\r\n boundary="gone"\r\n'
    "Content-Transfer-Encoding: 7bit\r\nMIME-Version: 1.0\r\n"
)
BODY = "Kettles by the ton. Buy today."
PAGE = b'<p>Kettles by the ton. <a href="https://kettles.example/buy">Buy today</a></p>'


def msg(**streams: bytes) -> bytes:
    stated = {"007D001F": HEADER.encode("utf-16-le"), "1000001F": BODY.encode("utf-16-le"), "10130102": PAGE}
    values = {f"__substg1.0_{name}": value for name, value in (stated | streams).items() if value}
    return make_compound({"__properties_version1.0": bytes(32), **values})


def property_of(number: int, kind: int, value: bytes) -> bytes:
    padded = value + bytes(-len(value) % 4)
    return struct.pack("<HHII", kind, number, 1, len(value)) + padded


def table(*properties: bytes) -> bytes:
    return struct.pack("<I", len(properties)) + b"".join(properties)


def attribute(level: int, number: int, value: bytes) -> bytes:
    return struct.pack("<BHHI", level, number, 6, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)


def tnef(*attributes: bytes) -> bytes:
    return b"\x78\x9f\x3e\x22\x01\0" + b"".join(attributes)


def embedded(message: bytes) -> bytes:
    """A container whose attachment is a message."""
    said = table(
        property_of(0x3701, 0x0D, bytes(16) + message), property_of(0x3001, 0x1F, "Kettles\0".encode("utf-16-le"))
    )
    return tnef(attribute(2, 0x9002, bytes(14)), attribute(2, 0x9005, said))


SAVED = tnef(
    attribute(
        1,
        0x9003,
        table(
            property_of(0x007D, 0x1F, HEADER.encode("utf-16-le") + b"\0\0"),
            property_of(0x1000, 0x1E, BODY.encode() + b"\0"),
            property_of(0x1013, 0x102, PAGE),
        ),
    )
)


def report(name: str, kind: str, content: bytes) -> bytes:
    head = b"From: ann@acme.example\r\nTo: spam@acme.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    part = f'Content-Type: {kind}; name="{name}"\r\nContent-Transfer-Encoding: base64\r\n\r\n'.encode()
    return head + b"--b\r\n\r\nPlease look.\r\n--b\r\n" + part + base64.encodebytes(content) + b"\r\n--b--\r\n"


@pytest.mark.parametrize("content", [msg(), SAVED], ids=["msg", "tnef"])
def test_header_bodies_and_links_are_those_of_the_mail(content: bytes) -> None:
    message = read(open_saved_message(content))
    assert [str(sender) for sender in message.senders] == ["a@offers.example"]
    assert message.subject == "Kettles by the ton"
    assert message.headers.all("content-type") == ('multipart/alternative; boundary="=_saved-message"',)
    assert message.headers.first("received")
    assert [text.form for text in message.texts] == ["plain", "html"]
    assert [link.host for link in message.links] == ["kettles.example"]


def test_a_message_without_its_header_section_has_the_properties_for_fields() -> None:
    streams = {
        "0037001F": "Kettles\r\nBcc: x@x.example",
        "0C1A001E": "",
        "5D01001F": "a@offers.example",
        "0E04001F": "Ann",
    }
    encoded = {name: value.encode("utf-16-le") for name, value in streams.items()}
    message = read(open_saved_message(msg(**{"007D001F": b"", **encoded})))
    assert message.subject == "Kettles Bcc: x@x.example"
    assert [str(sender) for sender in message.senders] == ["a@offers.example"]
    assert not message.headers.all("bcc")


def test_attachments_are_files_of_the_message() -> None:
    folder = "__attach_version1.0_#00000000"
    streams = {
        "__substg1.0_007D001F": HEADER.encode("utf-16-le"),
        f"{folder}/__substg1.0_37010102": b"MZ" * 40,
        f"{folder}/__substg1.0_3707001F": 'k"\r\nX: y.exe'.encode("utf-16-le"),
    }
    files = [part for part in read(open_saved_message(make_compound(streams))).files if part.names]
    assert [(part.names, part.content) for part in files] == [(("k X: y.exe",), b"MZ" * 40)]


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [
        ("Kettles.msg", "application/vnd.ms-outlook", msg()),
        ("Kettles.MSG", "application/octet-stream", msg()),
        ("winmail.dat", "application/ms-tnef", embedded(SAVED)),
        ("winmail.dat", "application/octet-stream", embedded(msg())),
    ],
)
def test_forms_in_which_outlook_attaches_a_message(name: str, kind: str, content: bytes) -> None:
    (found,) = find_reported_messages(report(name, kind, content))
    assert read(found).subject == "Kettles by the ton"


def test_a_message_attached_as_mail_is_taken_once() -> None:
    inner = b"From: a@offers.example\r\nSubject: Kettles\r\n\r\nBy the ton.\r\n"
    nested = report("x.msg", "application/vnd.ms-outlook", msg())
    found = find_reported_messages(report("a.eml", "message/rfc822", nested) + inner)
    assert [read(each).subject for each in found] == [""]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        SIGNATURE,
        SIGNATURE + bytes(2_000),
        msg()[:700],
        make_compound({"WordDocument": b"text"}),
        SAVED[:40],
        tnef(attribute(2, 0x9002, bytes(14)), attribute(2, 0x800F, b"only a file")),
        b"From: a@offers.example\r\n\r\nMail.",
    ],
)
def test_what_is_no_saved_message_gives_nothing(content: bytes) -> None:
    assert open_saved_message(content) == b""
    assert find_reported_messages(report("a.msg", "application/octet-stream", content)) == ()


def test_the_letter_that_carries_a_report_is_not_reported() -> None:
    """Its own winmail.dat is the letter itself once more."""
    assert find_reported_messages(report("winmail.dat", "application/ms-tnef", SAVED)) == ()


def test_their_number_is_bounded() -> None:
    part = b'Content-Type: application/octet-stream; name="a.msg"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    body = b"--b\r\n" + part + base64.encodebytes(msg()) + b"\r\n"
    head = b"From: ann@acme.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    assert len(find_reported_messages(head + body * 15 + b"--b--\r\n")) == MAX_MESSAGES
