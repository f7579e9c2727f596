"""`read`: the whole message, its addresses and its header-wide defects."""

import msgspec
import pytest

from gatepost.mail.budget import DEFECTS
from gatepost.mail.reader import read
from gatepost.names import MAX_FIELD, MAX_SUBJECT, Address

RAW = (
    b"Received: from x by y\r\nFrom: Ann <ann@Example.ORG>, bob@example.org\r\nReply-To: c@example.org\r\n"
    b"To: d@example.org\r\nCc: E <e@example.org>\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\r\nhello\r\n"
)


def test_fields_of_a_message() -> None:
    message = read(RAW)
    assert message.subject == "café"
    assert message.senders == (Address("Ann", "ann", "example.org"), Address("", "bob", "example.org"))
    assert message.reply_to == (Address("", "c", "example.org"),)
    assert [str(address) for address in message.recipients] == ["d@example.org", "e@example.org"]
    assert message.raw[message.header_end :] == b"hello\r\n"
    assert b"".join(field.raw for field in message.headers.fields) + b"\r\n" == RAW[: message.header_end]
    assert [text.visible.strip() for text in message.texts] == ["hello"]
    assert message.defects == ()


@pytest.mark.parametrize(
    ("name", "kind"), [("X-Note", "limit:header-size"), ("From", "limit:header-size"), ("To", "limit:addresses")]
)
@pytest.mark.parametrize("letter", ["a", "é"])
def test_a_field_has_a_most_and_says_so(name: str, kind: str, letter: str) -> None:
    def read_field(length: int) -> tuple[str, list[tuple[str, str]]]:
        message = read(f"{name}: {letter * length}\r\nX: y\r\n\r\nhello\r\n".encode())
        assert message.raw[message.header_end :] == b"hello\r\n"
        return message.headers.fields[0].value, [(each.kind, each.detail) for each in message.defects]

    assert read_field(MAX_FIELD) == (letter * MAX_FIELD, [])
    assert read_field(MAX_FIELD + 1) == (letter * MAX_FIELD, [(kind, name.lower())])


def test_a_parameter_is_as_long_as_its_field() -> None:
    message = read(b'Content-Type: text/plain; x="' + b"a" * 2 * MAX_FIELD + b'"; name=b\r\n\r\nhello\r\n')
    assert message.headers.first("content-type") == 'text/plain; x="' + "a" * (MAX_FIELD - 15)
    # It ends within its quotes.
    assert [each.kind for each in message.defects] == ["limit:header-size", "mime:odd-content-type"]


def test_a_subject_has_a_most_and_says_so() -> None:
    def read_subject(length: int) -> tuple[str, list[tuple[str, str, str]]]:
        message = read(b"From: a@b.example\r\nSubject: =?utf-8?q?" + b"=C3=A9" * length + b"?=\r\n\r\nhello\r\n")
        return message.subject, [(each.kind, each.where, each.detail) for each in message.defects]

    assert read_subject(MAX_SUBJECT) == ("é" * MAX_SUBJECT, [])
    said = ("limit:text-size", "subject", "1000 of 1001 characters read")
    assert read_subject(MAX_SUBJECT + 1) == ("é" * MAX_SUBJECT, [said])


def test_a_message_is_frozen() -> None:
    with pytest.raises(AttributeError):
        read(RAW).subject = "other"  # type: ignore[misc]
    assert msgspec.structs.asdict(read(RAW)) == msgspec.structs.asdict(read(RAW))


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        (b"", ["mime:no-header"]),
        (b"\r\nhello", ["mime:no-header"]),
        (b"hello\r\nworld\r\n", ["mime:no-header"]),
        (b"From a Mon Jan 1\r\n\r\nhello", ["mime:no-header"]),
        (b"X: y\r\n\r\n", []),
        (b"From: a@b\r\nFrom: a@b\r\n\r\n", []),
        (b"From: a@b\r\nFrom: c@d\r\n\r\n", ["mime:duplicate-header"]),
        (b"From: a@b\r\nSubject: x\r\nSubject: y\r\n\r\n", ["mime:duplicate-header"]),
        (b"From: a@b\r\nReceived: x\r\nReceived: y\r\n\r\n", []),
    ],
)
def test_header_defects(raw: bytes, kinds: list[str]) -> None:
    assert [defect.kind for defect in read(raw).defects] == kinds


@pytest.mark.parametrize("end", [b"", b"\r", b"\n", b"\r\n"])
def test_a_message_whose_lines_end_with_cr_is_read_as_it_is_shown(end: bytes) -> None:
    mail = b"From: Ann <ann@example.org>\rSubject: Minutes\rContent-Type: multipart/mixed; boundary=b\r\r"
    mail += (
        b"--b\r\rSee https://house.example/minutes\r--b\rContent-Disposition: attachment; filename=a.txt\r\rx\r--b--"
    )
    message = read(mail + end)
    assert (message.subject, [str(each) for each in message.senders]) == ("Minutes", ["ann@example.org"])
    assert [part.path for part in message.parts] == ["1", "1.1", "1.2"]
    assert [link.host for link in message.links] == ["house.example"]
    assert [(each.kind, each.where) for each in message.defects] == [("mime:bare-cr", "1")]


def test_cr_is_no_line_end_where_others_are() -> None:
    """Who takes LF for a line end would read another message."""
    mixed = b"From: a@b\rSubject: x\r\r\nhttps://evil.example/\r\n"
    assert read(mixed).raw == mixed


def test_all_senders_of_all_from_fields() -> None:
    assert [str(sender) for sender in read(b"From: a@b\r\nFrom: c@d\r\n\r\n").senders] == ["a@b", "c@d"]


def test_every_kind_has_a_title_and_a_place() -> None:
    assert all(kind.id.startswith(("mime:", "limit:", "html:", "text:")) and kind.title for kind in DEFECTS)
