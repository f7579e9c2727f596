"""ar, cpio and rpm: every member is read, every lie is said, nothing raises; and archives behind pictures."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files import archive_formats as formats
from tests.files.document_formats import PNG, program
from tests.files.opening import damaged, open_file

PAYLOAD = b"the payload that must be found\n" * 3
MAKERS = (formats.ar, formats.deb, formats.cpio, formats.old_cpio, formats.binary_cpio, formats.rpm)


@pytest.mark.parametrize("make", MAKERS)
def test_content_is_read(make: formats.Make) -> None:
    *_, inner = open_file(make("in.txt", PAYLOAD))
    assert (inner.names, inner.content) == (("in.txt",), PAYLOAD)


@pytest.mark.parametrize("make", [formats.ar, formats.cpio, formats.old_cpio, formats.binary_cpio, formats.rpm])
def test_what_is_cut_short_is_said(make: formats.Make) -> None:
    whole = make("in.txt", PAYLOAD)
    assert any("damaged" in file.unread for file in open_file(whole[: len(whole) * 2 // 3]))


def test_long_names_of_ar() -> None:
    table = b"a very long name of a file.js/\n"
    head = f"{'//':<48}{len(table):<10}`\n".encode()
    body = table + b"\n" * (len(table) & 1)
    member = formats.ar("x", PAYLOAD)[8:].replace(b"x/" + b" " * 14, b"/0" + b" " * 14)
    *_, inner = open_file(b"!<arch>\n" + head + body + member)
    assert inner.names == ("a very long name of a file.js",)
    bsd = f"{'#1/8':<16}{0:<12}{0:<6}{0:<6}{644:<8}{8 + len(PAYLOAD):<10}`\n".encode() + b"name.js\0" + PAYLOAD
    *_, inner = open_file(b"!<arch>\n" + bsd)
    assert (inner.names, inner.content) == (("name.js",), PAYLOAD)


def test_an_empty_container_is_not_clean() -> None:
    assert open_file(b"!<arch>\n")[0].unread == ("damaged",)


def test_a_program_behind_a_picture_is_a_program() -> None:
    picture, appended = open_file(PNG + program("", b""))
    assert (picture.type, appended.type) == ("png", "exe")


def test_an_ordinary_picture_holds_nothing() -> None:
    assert len(open_file(PNG + b"MZ and PE are letters, 7z and Rar! are words")) == 1


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([make("in.txt", PAYLOAD) for make in MAKERS]).flatmap(partial(damaged, most=8)))
def test_no_damage_raises(content: bytes) -> None:
    assert open_file(content)
