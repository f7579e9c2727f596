"""Invitations, notebooks, tables, parts of workbooks: each goes to its reader by what it is."""

import base64
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.files.documents import dispatch
from gatepost.files.file_types import identify
from gatepost.files.values import Contents, File, UnpackBudget


def contents(content: bytes, name: str = "", declared: str = "") -> Contents:
    names = (name,) if name else ()
    return dispatch.inspect(
        File("1", content, identify(content), "0" * 64, names, declared, shown=bool(declared)), UnpackBudget()
    )


def seen(content: bytes, name: str = "", declared: str = "") -> dict[str, str]:
    return {trait.name: trait.detail for trait in contents(content, name, declared).traits}


INVITATION = b"""BEGIN:VCALENDAR\r
METHOD:REQUEST\r
BEGIN:VEVENT\r
ORGANIZER;CN=Ann:mailto:Ann@a.test\r
ATTENDEE:mailto:bob@b.test\r
ATTENDEE:mailto:eve@b.test\r
DESCRIPTION:Join at https://meet.te\r
 st/abc\\, then\\nrelax\r
ATTACH;ENCODING=BASE64;VALUE=BINARY;X-FILENAME=a.exe:TVoAAA==\r
END:VEVENT\r
END:VCALENDAR\r
"""


def test_an_invitation() -> None:
    found = contents(INVITATION)
    assert {trait.name: trait.detail for trait in found.traits} == {
        "calendar-method": "REQUEST",
        "calendar-organizer": "ann@a.test",
        "calendar-attendees": "2",
    }
    assert [link.url for link in found.links] == ["https://meet.test/abc"]
    assert (found.members[0].names, found.members[0].content) == (("a.exe",), b"MZ\0\0")


def test_a_notebook_gives_its_files() -> None:
    mark = bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac")
    head = bytes.fromhex("e4525c7b8cd8a74daeb15378d02996d3") + "open me.hta\0".encode("utf-16-le")
    content = head + mark + struct.pack("<Q", 5) + bytes(12) + b"<hta>" + mark + struct.pack("<Q", 1 << 60) + bytes(12)
    found = contents(content + b"\x89PNG\r\n\x1a\n")
    assert found.members[0].names == ("open me.hta",)
    assert [member.content for member in found.members] == [b"<hta>", b"\x89PNG\r\n\x1a\n"]
    assert [trait.detail for trait in found.traits] == ["open me.hta"]


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (b"=cmd|'/c calc'!A0\n", "a.csv", {"dde"}),
        (b"name,\"=2+5+cmd|'/c calc'!A0\"\n", "a.csv", {"dde"}),
        (b"@SUM(1+9)*cmd|'/c calc'!A0\n", "a.csv", set()),
        (b"+cmd|'/c calc'!A0\n", "a.csv", {"dde"}),
        (b"=cmd|'/c calc'!A0\n", "letter.eml", set()),  # no program opens it as a table
        (b"name|street|town\nann|a-b|c\n", "a.csv", set()),
        (b"-1,=A1+B2,text | more\n", "a.csv", set()),
        (b"ID;PWXL\nO;L;E;D\nNN;NAuto_Open;ER1C1\nE\n", "a.slk", {"macro", "macro-autorun", "macro-cells"}),
        (b"ID;PWXL\nC;Y1;X1;K1\nE\n", "a.slk", set()),
        (b"WEB\n1\nhttps://evil.test/x\n", "a.iqy", {"remote-object"}),
        (b"WEB design\n", "a.txt", set()),
    ],
)
def test_tables(content: bytes, name: str, expected: set[str]) -> None:
    assert set(seen(content, name)) == expected


def test_a_part_of_a_binary_workbook() -> None:
    service, topic = ("cmd", "/c calc")
    data = b"\x01\0" + b"".join(struct.pack("<I", len(text)) + text.encode("utf-16-le") for text in (service, topic))
    assert seen(b"\xe8\x02" + bytes([len(data)]) + data) == {"dde": "cmd /c calc"}


@pytest.mark.parametrize(
    "content", [b"=cmd|'/c calc'!A0", b"[InternetShortcut]\nURL=file://x/y", b"<w:instrText>DDE x</w:instrText>"]
)
def test_the_text_of_a_message_is_no_document(content: bytes) -> None:
    assert contents(content, declared="text/plain") == Contents()


def test_the_parts_of_a_document_belong_to_it() -> None:
    assert dispatch.is_document(File("1", b"PK\x03\x04 [Content_Types].xml", "zip", "0" * 64))
    assert not dispatch.is_document(File("1", b"PK\x03\x04 holiday.jpg", "zip", "0" * 64))


HEADS = st.sampled_from(
    [
        b"BEGIN:VCALENDAR\n",
        b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d" + bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac"),
        b"L\0\0\0\x01\x14\x02\0",
        b"{\\rtf1 \\objdata ",
        b"%PDF-1.7 1 0 obj <</JS",
        b"<html><script>atob(",
        b"<?xml ?><Relationship ",
        b"\xe8\x02",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        b"ID;P",
    ]
)


@settings(max_examples=300, deadline=None)
@given(HEADS, st.binary(max_size=2_000))
def test_no_bytes_raise(head: bytes, rest: bytes) -> None:
    assert isinstance(contents(head + rest, "a.csv"), Contents)


def test_lines_without_end() -> None:
    encoded = base64.b64encode(bytes(3_000_000))
    assert contents(b"BEGIN:VCALENDAR\nATTACH;ENCODING=BASE64:" + encoded).members[0].content == bytes(3_000_000)
