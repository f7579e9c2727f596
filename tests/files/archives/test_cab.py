"""Cabinets: stored and MSZIP folders, blocks that need the block before, and no damage that raises."""

import zlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.opening import damaged, open_file

from gatepost.files.archives import old_archives
from gatepost.files.values import UnpackBudget

PAYLOAD = b"the payload that must be found"


def cabinet(content: bytes, method: int = 0, name: bytes = b"in.txt", reserve: bytes = b"") -> bytes:
    """A cabinet with one file."""
    blocks = [content[place : place + 32_768] for place in range(0, len(content), 32_768)]
    data, before = b"", b""
    for block in blocks:
        packed = block
        if method == 1:
            packer = zlib.compressobj(wbits=-15, zdict=before)
            packed = b"CK" + packer.compress(block) + packer.flush()
            before = block
        data += bytes(4) + len(packed).to_bytes(2, "little") + len(block).to_bytes(2, "little") + packed
    extra = len(reserve).to_bytes(2, "little") + b"\0\0" + reserve if reserve else b""
    files_at = 36 + len(extra) + 8
    entry = len(content).to_bytes(4, "little") + bytes(4) + bytes(2) + bytes(4) + bytes(2) + name + b"\0"
    start = files_at + len(entry)
    folder = start.to_bytes(4, "little") + len(blocks).to_bytes(2, "little") + method.to_bytes(2, "little")
    head = b"MSCF" + bytes(4) + (start + len(data)).to_bytes(4, "little") + bytes(4) + files_at.to_bytes(4, "little")
    head += bytes(4) + b"\x03\x01\x01\0\x01\0" + bytes([4 if reserve else 0, 0]) + bytes(4)
    return head + extra + folder + entry + data


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (cabinet(PAYLOAD), PAYLOAD),
        (cabinet(PAYLOAD, 1), PAYLOAD),
        (cabinet(PAYLOAD, reserve=b"signature"), PAYLOAD),
        (cabinet(bytes(range(256)) * 400, 1), bytes(range(256)) * 400),
    ],
)
def test_content_is_read(content: bytes, expected: bytes) -> None:
    outer, inner = open_file(content)
    assert (inner.names, inner.content, outer.unread) == (("in.txt",), expected, ())


def test_a_method_that_nobody_knows_is_said() -> None:
    outer, *inner = open_file(cabinet(PAYLOAD, 9))
    assert outer.unread == ("unsupported",)
    assert "in.txt" in [name for file in inner for name in file.names]


def test_lzx_is_named_and_not_unpacked() -> None:
    """No native decoder sees it."""
    outer, inner = open_file(cabinet(PAYLOAD, 0x1503))
    assert (outer.unread, inner.names, inner.content) == (("unsupported",), ("in.txt",), b"")


def test_damage_is_said() -> None:
    content = cabinet(bytes(range(256)) * 400, 1)
    outer, inner = open_file(content[:-50])
    assert outer.unread == ("damaged",)
    assert 0 < len(inner.content) < 256 * 400


def test_entries_that_overlap_pay_each_time() -> None:
    content = cabinet(bytes(60_000))
    start = content.index(b"in.txt") - 16
    entry = content[start : start + 23]
    many = content[:28] + (50).to_bytes(2, "little") + content[30:start] + entry * 50 + content[start + 23 :]
    shift = 49 * len(entry)
    moved = (int.from_bytes(many[36:40], "little") + shift).to_bytes(4, "little")
    budget = UnpackBudget()
    outer, *inner = open_file(many[:36] + moved + many[40:], budget=budget)
    assert len(inner) == 50
    assert budget.spent == 50 * 60_000
    assert outer.unread == ()


SAMPLES = [cabinet(PAYLOAD), cabinet(PAYLOAD * 50, 1), cabinet(PAYLOAD, 1, reserve=b"x")]


@given(st.sampled_from(SAMPLES).flatmap(partial(damaged, start=4)))
def test_no_damage_raises(content: bytes) -> None:
    assert open_file(content)


@given(st.binary(max_size=200))
def test_no_header_raises(content: bytes) -> None:
    list(old_archives.read_cab(b"MSCF" + content, UnpackBudget(), ()))
