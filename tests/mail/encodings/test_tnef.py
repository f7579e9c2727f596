import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.outlook import PACKED_RTF, SIGNATURE, find_tnef
from gatepost.mail.reader import MessageParts


def attribute(level: int, name: int, value: bytes) -> bytes:
    return struct.pack("<BHHI", level, name, 6, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)


def prop(kind: int, name: int, value: bytes) -> bytes:
    return struct.pack("<HHII", kind, name, 1, len(value)) + value + bytes(-len(value) % 4)


def table(*props: bytes) -> bytes:
    return struct.pack("<I", len(props)) + b"".join(props)


def container(*attributes: bytes) -> bytes:
    return SIGNATURE + b"\x01\x00" + b"".join(attributes)


ATTACHED = (
    attribute(2, 0x9002, bytes(14)),
    attribute(2, 0x8010, b"INVOIC~1.EXE\0"),
    attribute(2, 0x800F, b"MZ payload"),
    attribute(
        2,
        0x9005,
        table(
            struct.pack("<HHI", 0x0003, 0x3705, 1),
            struct.pack("<HH", 0x0003, 0x8001) + bytes(16) + struct.pack("<III", 0, 7, 1),
            prop(0x001F, 0x3707, "Invoice €.exe\0".encode("utf-16le")),
            prop(0x001E, 0x370E, b"application/x-msdownload\0"),
        ),
    ),
)


def test_attachment_with_all_its_names() -> None:
    (file,) = find_tnef(container(*ATTACHED))
    assert file.names == ("INVOIC~1.EXE", "Invoice €.exe")
    assert (file.content, file.content_type, file.whole) == (b"MZ payload", "application/x-msdownload", True)


def test_bodies_and_several_attachments() -> None:
    html = attribute(1, 0x9003, table(prop(0x0102, 0x1013, b"<b>hello</b>")))
    files = list(find_tnef(container(html, *ATTACHED, *ATTACHED)))
    assert [(file.content_type, file.content) for file in files] == [
        ("text/html", b"<b>hello</b>"),
        ("application/x-msdownload", b"MZ payload"),
        ("application/x-msdownload", b"MZ payload"),
    ]


def test_broken_container_gives_what_stands_before_the_break() -> None:
    files = list(find_tnef(container(*ATTACHED) + struct.pack("<BHHI", 2, 0x800F, 6, 1 << 31) + b"x"))
    assert not files[-1].whole


def test_part_of_a_message() -> None:
    raw = b"From: a@b\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\n\r\n" + container(*ATTACHED)
    budget = ReadBudget()
    parts = MessageParts(raw, budget).flat
    assert [part.path for part in parts] == ["1", "1~tnef1"]
    assert parts[1].content == b"MZ payload"
    assert [defect.kind for defect in budget.defects] == ["mime:tnef"]


@given(st.binary(max_size=200), st.integers(0, 150))
def test_any_bytes(junk: bytes, cut: int) -> None:
    list(find_tnef(SIGNATURE + junk))
    list(find_tnef(container(*ATTACHED)[:cut] + junk))


@pytest.mark.variant
def test_rich_text_has_a_budget() -> None:
    """A megabyte of compressed text takes half a second, so that only so much of it is unpacked."""
    packed = struct.pack("<II", 12, 900 << 10) + b"LZFu" + bytes(4) + (b"\0" + b"a" * 8) * (900 << 7)
    raw = container(attribute(1, 0x9003, table(*[prop(0x0102, 0x1009, packed)] * 4)))
    files = list(find_tnef(raw))
    assert [file.content_type for file in files] == ["application/rtf", *[PACKED_RTF] * 3]
    budget = ReadBudget()
    MessageParts(b"From: a@b\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\n\r\n" + raw, budget)
    assert budget.work.rich_text <= budget.limits.rich_text
    assert "limit:decoded-size" in [defect.kind for defect in budget.defects]
