"""Files inside files: every layer is seen, every limit is said."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.opening import damaged, open_file

from gatepost.files.values import MAX_DEPTH, UnpackBudget

PAYLOAD = b"the payload that must be found"


def zipped(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return out.getvalue()


def tarred(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        zipped(("in.txt", PAYLOAD)),
        zipped(("in.txt", PAYLOAD), method=zipfile.ZIP_STORED),
        zipped(("in.txt", PAYLOAD), method=zipfile.ZIP_BZIP2),
        zipped(("in.txt", PAYLOAD), method=zipfile.ZIP_LZMA),
        zipped(("outer.zip", zipped(("in.txt", PAYLOAD)))),
        gzip.compress(PAYLOAD, mtime=0),
        bz2.compress(PAYLOAD),
        lzma.compress(PAYLOAD),
        tarred("in.txt", PAYLOAD),
        tarred("a/very/long/" + "x" * 150 + "/in.txt", PAYLOAD),
        gzip.compress(tarred("in.txt", PAYLOAD), mtime=0),
        b"MZ stub of a self-extracting archive\0" + zipped(("in.txt", PAYLOAD)),
        zipped(("in.txt", PAYLOAD)) + b"trailing noise",
    ],
)
def test_the_payload_is_found(content: bytes) -> None:
    assert any(PAYLOAD in file.content for file in open_file(content)[1:])


def test_paths_lead_through_every_layer() -> None:
    content = zipped(("inner.zip", zipped(("in.txt", PAYLOAD))))
    assert [file.path for file in open_file(content, name="outer.zip")] == [
        "1/outer.zip",
        "1/outer.zip/inner.zip",
        "1/outer.zip/inner.zip/in.txt",
    ]


def test_an_entry_missing_from_the_directory_is_found() -> None:
    first, second = zipped(("shown.txt", b"harmless")), zipped(("hidden.txt", PAYLOAD))
    hidden = second[: second.index(b"PK\x01\x02")]
    names = [name for file in open_file(hidden + first)[1:] for name in file.names]
    assert sorted(names) == ["hidden.txt", "shown.txt"]


def test_names_of_both_headers_are_kept() -> None:
    content = zipped(("invoice.txt", PAYLOAD)).replace(b"invoice.txt", b"invoice.exe", 1)
    assert open_file(content)[1].names == ("invoice.txt", "invoice.exe")


def test_a_lie_about_encryption_does_not_keep_us_out() -> None:
    content = bytearray(zipped(("in.txt", PAYLOAD)))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert open_file(bytes(content))[1].content == PAYLOAD


def test_encryption_that_both_headers_state_is_said() -> None:
    content = bytearray(zipped(("in.txt", PAYLOAD)))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    content[6] |= 1
    outer, inner = open_file(bytes(content))
    assert outer.unread == ("encrypted",)
    assert inner.names == ("in.txt",)


def test_a_bomb_is_cut_off_by_its_ratio() -> None:
    content = zipped(("zeros", bytes(64 << 20)))
    budget = UnpackBudget()
    outer, inner = open_file(content, budget=budget)
    assert outer.unread == ("ratio",)
    assert len(inner.content) == budget.spent < 64 << 20


def test_the_budget_is_one_for_all_files() -> None:
    content = zipped(*((f"{n}", n.to_bytes(2, "big") * 50_000) for n in range(20)))
    budget = UnpackBudget(max_bytes=1_000_000)
    outer, *_ = open_file(content, budget=budget)
    assert outer.unread == ("size",)
    assert budget.spent == 1_000_000


def test_too_many_files_are_said() -> None:
    content = zipped(*((f"{n}.js", b"%d" % n) for n in range(100)))
    outer, *inner = open_file(content, budget=UnpackBudget(max_files=50))
    assert outer.unread == ("count",)
    assert len(inner) == 50


def test_depth_is_said() -> None:
    content = PAYLOAD
    for _ in range(MAX_DEPTH + 3):
        content = zipped(("inner.zip", content), method=zipfile.ZIP_STORED)
    found = open_file(content)
    assert len(found) == MAX_DEPTH + 1
    assert found[-1].unread == ("depth",)


def test_entries_that_overlap_cost_no_more_than_the_budget() -> None:
    """Each of 2,000 local headers claims all that follows it: read naively, that is 2,000 times the archive."""
    header = b"PK\x03\x04\x14\0\x08\0\x08\0" + bytes(16) + b"\x01\0\0\0a"
    empty_blocks = b"\0\0\0\xff\xff" * 100_000
    budget = UnpackBudget()
    open_file(header * 2_000 + empty_blocks, budget=budget)
    assert budget.read <= 256 << 20


def test_the_same_bytes_are_opened_once() -> None:
    inner = zipped(("in.txt", PAYLOAD))
    found = open_file(zipped(("one.zip", inner), ("two.zip", inner)))
    assert [file.names[0] for file in found] == ["a.bin", "one.zip", "two.zip", "in.txt"]


def test_damage_gives_what_stood_before_it() -> None:
    content = gzip.compress(PAYLOAD * 10_000)
    outer, inner = open_file(content[:-200])
    assert outer.unread == ("damaged",)
    assert inner.content.startswith(PAYLOAD)


FRAGMENTS = st.sampled_from(
    [
        b"PK\x03\x04",
        b"PK\x01\x02",
        b"PK\x05\x06",
        b"\x1f\x8b\x08",
        b"BZh9",
        b"\xfd7zXZ\0",
        b"ustar",
        bytes(30),
        b"\xff" * 20,
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.binary(max_size=40)), max_size=40).map(b"".join))
def test_no_bytes_raise(content: bytes) -> None:
    assert open_file(content)[:1] if content else not open_file(content)


@given(damaged(zipped(("a.txt", PAYLOAD), ("b/c.txt", PAYLOAD * 50)), 8))
def test_no_damage_to_a_real_archive_raises(content: bytes) -> None:
    assert open_file(content)
