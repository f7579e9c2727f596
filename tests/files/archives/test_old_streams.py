"""Streams of old and rare kinds: what was packed comes out, and no damage raises or runs on."""

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.files import archive_formats as formats
from tests.files.opening import damaged

from gatepost.files.archives import libarchive
from gatepost.files.archives.decompress import lzip
from gatepost.files.archives.libarchive_child import Format
from gatepost.files.values import MAX_LIBRARY_CALLS, UnpackBudget

TEXT = bytes(random.Random(5).choices(b"abcdefgh \n", k=40_000))
LZ4 = Path("/usr/bin/lz4")
BY_LIBRARY: dict[Format, formats.Make] = {"compress": formats.compress, "lz4": formats.lz4}
needs_library = pytest.mark.skipif(not libarchive.is_installed(), reason="not run: libarchive is not installed")


def unpack(packed: bytes, kind: Format, most: int = 1 << 20) -> tuple[bytes, str | None]:
    (member,) = libarchive.read_members(packed, kind, UnpackBudget(most))
    return member.content, member.unread


@pytest.mark.parametrize("content", [b"a", b"abc" * 900, TEXT, bytes(range(256)) * 40])
def test_what_was_packed_comes_out(content: bytes) -> None:
    assert lzip(formats.lzip("", content), 1 << 20) == (content, None)


@needs_library
@pytest.mark.parametrize("kind", BY_LIBRARY)
def test_what_was_packed_comes_out_of_the_library(kind: Format) -> None:
    content, unread = unpack(BY_LIBRARY[kind]("", TEXT), kind)
    assert content.startswith(TEXT)
    assert unread is None
    content, unread = unpack(BY_LIBRARY[kind]("", TEXT), kind, 1_000)
    assert (content, unread) == (TEXT[:1_000], "size")


@needs_library
def test_what_is_cut_short_is_said_and_not_handed_on_as_it_is() -> None:
    packed = formats.lz4("", TEXT)
    for most in (3, 9, len(packed) // 2, len(packed) - 1):
        assert unpack(packed[:most], "lz4")[1] == "unsupported"


@needs_library
@pytest.mark.skipif(not LZ4.exists(), reason="not run: lz4 is not installed")
@pytest.mark.parametrize("options", [[], ["-9"], ["-BD"], ["-l"], ["--content-size"]])
def test_frames_of_lz4_itself(options: list[str]) -> None:
    packed = subprocess.run([LZ4, "-c", *options], input=TEXT, capture_output=True, check=True).stdout
    assert unpack(packed, "lz4") == (TEXT, None)


def test_the_limit_holds() -> None:
    assert lzip(formats.lzip("", TEXT), 1_000) == (TEXT[:1_000], "size")


@settings(max_examples=100, deadline=None)
@given(damaged(formats.lzip("", b"the payload that must be found" * 9)))
def test_no_damage_raises(packed: bytes) -> None:
    assert len(lzip(packed, 10_000)[0]) <= 10_000


def test_a_message_has_so_many_calls_of_the_library() -> None:
    budget = UnpackBudget()
    budget.library_calls = MAX_LIBRARY_CALLS
    packed = formats.lz4("", TEXT)
    assert [member.unread for member in libarchive.read_members(packed, "lz4", budget)] == ["unsupported"]
