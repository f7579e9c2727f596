"""Streams that are decoded in Python: what was packed comes out, and no damage raises or runs on."""

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files import archive_formats as formats
from tests.files.opening import damaged

from gatepost.files.archives import decompress
from gatepost.files.archives.decompress import lzip

TEXT = bytes(random.Random(5).choices(b"abcdefgh \n", k=40_000))
LZ4 = Path("/usr/bin/lz4")
MAKERS = (formats.compress, formats.szdd, formats.lzip, formats.lz4)


@pytest.mark.parametrize("content", [b"a", b"abc" * 900, TEXT, bytes(range(256)) * 40])
def test_what_was_packed_comes_out(content: bytes) -> None:
    assert decompress.uncompress(formats.compress("", content), 1 << 20) == (content, None)
    assert decompress.szdd(formats.szdd("", content), 1 << 20) == (content, None)
    assert lzip(formats.lzip("", content), 1 << 20) == (content, None)
    assert decompress.lz4(formats.lz4("", content), 1 << 20)[0].startswith(content)


@pytest.mark.skipif(not LZ4.exists(), reason="not run: lz4 is not installed")
@pytest.mark.parametrize("options", [[], ["-9"], ["-BD"], ["-l"], ["--content-size"]])
def test_frames_of_lz4_itself(options: list[str]) -> None:
    packed = subprocess.run([LZ4, "-c", *options], input=TEXT, capture_output=True, check=True).stdout
    assert decompress.lz4(packed, 1 << 20) == (TEXT, None)


@pytest.mark.parametrize("make", MAKERS)
def test_the_limit_holds(make: formats.Make) -> None:
    decode = {"compress": decompress.uncompress, "szdd": decompress.szdd, "lzip": lzip, "lz4": decompress.lz4}
    content, unread = decode[make.__name__](make("", TEXT), 1_000)
    assert (content, unread) == (TEXT[:1_000], "size")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([make("", b"the payload that must be found" * 9) for make in MAKERS]).flatmap(damaged))
def test_no_damage_raises(packed: bytes) -> None:
    for decode in (decompress.uncompress, decompress.szdd, decompress.lz4, lzip):
        assert len(decode(packed, 10_000)[0]) <= 10_000
