"""ar, cpio and rpm: every member is read, every lie is said, nothing raises; and archives behind pictures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files import archive_formats as formats
from tests.files.document_formats import PNG, program

from gatepost.files.values import File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

PAYLOAD = b"the payload that must be found\n" * 3
MAKERS = (formats.ar, formats.deb, formats.cpio, formats.old_cpio, formats.binary_cpio, formats.rpm)


def files_of(content: bytes, budget: UnpackBudget | None = None) -> tuple[File, ...]:
    return find_files(Message(parts=(Part("1", names=("a.bin",), content=content),)), budget)


@pytest.mark.parametrize("make", MAKERS)
def test_content_is_read(make: formats.Make) -> None:
    *_, inner = files_of(make("in.txt", PAYLOAD))
    assert (inner.names, inner.content) == (("in.txt",), PAYLOAD)


@pytest.mark.parametrize("make", [formats.ar, formats.cpio, formats.old_cpio, formats.binary_cpio, formats.rpm])
def test_what_is_cut_short_is_said(make: formats.Make) -> None:
    whole = make("in.txt", PAYLOAD)
    assert any("damaged" in file.unread for file in files_of(whole[: len(whole) * 2 // 3]))


def test_long_names_of_ar() -> None:
    table = b"a very long name of a file.js/\n"
    head = f"{'//':<48}{len(table):<10}`\n".encode()
    body = table + b"\n" * (len(table) & 1)
    member = formats.ar("x", PAYLOAD)[8:].replace(b"x/" + b" " * 14, b"/0" + b" " * 14)
    *_, inner = files_of(b"!<arch>\n" + head + body + member)
    assert inner.names == ("a very long name of a file.js",)
    bsd = f"{'#1/8':<16}{0:<12}{0:<6}{0:<6}{644:<8}{8 + len(PAYLOAD):<10}`\n".encode() + b"name.js\0" + PAYLOAD
    *_, inner = files_of(b"!<arch>\n" + bsd)
    assert (inner.names, inner.content) == (("name.js",), PAYLOAD)


def test_an_empty_container_is_not_clean() -> None:
    assert files_of(b"!<arch>\n")[0].unread == ("damaged",)


@pytest.mark.parametrize("make", [formats.rar5, formats.sevenzip, formats.cabinet, formats.zipped])
def test_an_archive_behind_a_picture_is_read(make: formats.Make) -> None:
    picture, *inner = files_of(PNG + make("in.txt", PAYLOAD))
    assert picture.type == "png"
    assert PAYLOAD in [file.content for file in inner]


def test_a_program_behind_a_picture_is_a_program() -> None:
    picture, appended = files_of(PNG + program("", b""))
    assert (picture.type, appended.type) == ("png", "exe")


def test_an_ordinary_picture_holds_nothing() -> None:
    assert len(files_of(PNG + b"MZ and PE are letters, 7z and Rar! are words")) == 1


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(MAKERS), st.data())
def test_no_damage_raises(make: formats.Make, data: st.DataObject) -> None:
    content = bytearray(make("in.txt", PAYLOAD))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert files_of(bytes(content))
