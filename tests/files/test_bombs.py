"""Archives made to exhaust the program that opens them: every one ends with the budget, and says so."""

import bz2
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard
from tests.files.opening import open_file

from gatepost.files.archives import unpack
from gatepost.files.archives.decompress import MAX_MEMBERS
from gatepost.files.values import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    MAX_READ,
    MAX_SLOW,
    Member,
    UnpackBudget,
    UnreadReason,
)

MEGABYTE = bytes(1 << 20)
GIGABYTE = 1 << 30


def is_within_budget(budget: UnpackBudget) -> bool:
    return budget.spent <= MAX_BYTES and budget.read <= MAX_READ and budget.files <= MAX_FILES


def deflated_gigabyte() -> bytes:
    """A raw deflate stream of a gigabyte of zeros, without packing one."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(MEGABYTE) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * 1024 + b"\x03\x00"


def zip_bomb() -> bytes:
    body = deflated_gigabyte()
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("zeros", body)
    raw = bytearray(plain.getvalue())
    raw[8] = raw[raw.rindex(b"PK\x01\x02") + 10] = 8
    return bytes(raw)


def sevenzip_bomb() -> bytes:
    """Chunks of LZMA2, each starting afresh, so that one can be repeated."""
    chain = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    chunks = lzma.compress(MEGABYTE, lzma.FORMAT_RAW, filters=chain)[:-1] * 1024 + b"\0"
    packed, unpacked = b"\xf0" + len(chunks).to_bytes(4, "little"), b"\xf0" + GIGABYTE.to_bytes(4, "little")
    header = b"\x01\x04\x06\x00\x01\x09" + packed + b"\x00\x07\x0b\x01\x00\x01\x21\x21\x01\x14\x0c" + unpacked
    header += b"\x00\x00\x05\x01\x11\x05\x00" + "z\0".encode("utf-16-le") + b"\x00\x00"
    start = b"7z\xbc\xaf\x27\x1c\0\4" + bytes(4) + struct.pack("<QQI", len(chunks), len(header), 0)
    return start + chunks + header


def cab_bomb() -> bytes:
    packed = b"CK" + zlib.compress(bytes(32_768), 9, wbits=-15)
    count = 32_768
    data = (bytes(4) + struct.pack("<HH", len(packed), 32_768) + packed) * count
    entry = struct.pack("<IIHHHH", GIGABYTE, 0, 0, 0, 0, 0) + b"z\0"
    head = b"MSCF" + bytes(12) + struct.pack("<I", 44) + bytes(4) + b"\x03\x01\x01\0\x01\0\0\0" + bytes(4)
    return head + struct.pack("<IHH", 44 + len(entry), count, 1) + entry + data


BOMBS: dict[str, tuple[Callable[[], bytes], UnreadReason]] = {
    "zip": (zip_bomb, "size"),
    "gzip": (lambda: b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + deflated_gigabyte() + bytes(8), "size"),
    "bzip2": (lambda: bz2.compress(MEGABYTE) * 1024, "ratio"),
    "xz": (lambda: lzma.compress(MEGABYTE) * 1024, "ratio"),
    "zstd": (lambda: zstandard.compress(MEGABYTE) * 1024, "ratio"),
    "7z": (sevenzip_bomb, "ratio"),
    "cab": (cab_bomb, "size"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.variant if name in ("gzip", "cab", "xz", "7z") else []) for name in BOMBS],
)
def test_a_gigabyte_of_zeros(name: str) -> None:
    make, reason = BOMBS[name]
    content = make()
    budget = UnpackBudget()
    outer, *_ = open_file(content, budget=budget)
    assert outer.type == name
    assert len(content) < 4 << 20
    assert outer.unread == (reason,)
    assert budget.spent <= MAX_BYTES
    assert is_within_budget(budget)


def test_a_million_streams_one_after_the_other() -> None:
    one = zlib.compress(b"", wbits=31)
    budget = UnpackBudget()
    outer, inner = open_file(one * 100_000, budget=budget)
    assert (outer.unread, inner.content) == (("count",), b"")
    assert MAX_MEMBERS < 100_000


def zipped(*entries: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


@pytest.mark.variant
def test_sixteen_zips_in_each_of_sixteen_zips() -> None:
    """The style of 42.zip: the same bytes are opened once, however often they are there."""
    content = zip_bomb()
    for _ in range(5):
        content = zipped(*((f"{number}.zip", content) for number in range(16)))
    budget = UnpackBudget()
    found = open_file(content, budget=budget)
    assert {reason for file in found for reason in file.unread} & {"size", "ratio"}
    assert budget.files <= 16 * 5 + 1
    assert is_within_budget(budget)


def test_a_million_different_nested_files() -> None:
    def level(depth: int, path: str) -> bytes:
        if depth == 0:
            return path.encode()
        return zipped(*((f"{n}", level(depth - 1, f"{path}{n}")) for n in range(2 if depth > 3 else 10)))

    budget = UnpackBudget()
    found = open_file(level(5, ""), budget=budget)
    assert budget.files == MAX_FILES
    assert any("count" in file.unread for file in found)


def test_a_very_deep_nest() -> None:
    content = b"bottom"
    for number in range(200):
        content = zipped((f"{number}.zip", content))
    budget = UnpackBudget()
    found = open_file(content, budget=budget)
    assert (len(found), found[-1].unread) == (MAX_DEPTH + 1, ("depth",))


def test_an_archive_that_holds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quine: unpacking gives the same bytes again, for ever."""

    def itself(content: bytes, *_: object) -> Iterator[Member]:
        yield Member(("again.ace",), content)

    monkeypatch.setitem(unpack._READERS, "ace", itself)
    budget = UnpackBudget()
    found = open_file(b"\x00\x01\x02\x03\x04\x05\x06**ACE**\x14\x14", budget=budget)
    assert [file.path for file in found] == ["1/a.bin", "1/a.bin/again.ace"]


def overlapping(count: int) -> bytes:
    """Each entry's data is a quoted header, then the next entry's data; all end in one kernel of zeros."""
    kernel = zlib.compress(bytes(21 << 20), 9, wbits=-15)
    local = b"PK\x03\x04\x14\0\0\0\x08\0" + bytes(8)
    body, central, place = kernel, b"", 0
    pieces: list[bytes] = []
    for number in reversed(range(count)):
        name = b"%04d" % number
        header = local + struct.pack("<IIHH", len(body), 0, len(name), 0) + name
        pieces.append(header)
        quote = b"\0" + struct.pack("<HH", len(header), len(header) ^ 0xFFFF) + header
        body = quote + body
    raw = body
    for number in range(count):
        place = 39 * number + 5
        name = b"%04d" % number
        central += b"PK\x01\x02\x14\0\x14\0\0\0\x08\0" + bytes(8)
        central += struct.pack("<IIHHHHHII", len(raw) - place - 34, 0, len(name), 0, 0, 0, 0, 0, place) + name
    return raw + central + b"PK\x05\x06" + bytes(8) + struct.pack("<IIH", len(central), len(raw), 0)


@pytest.mark.variant
def test_entries_that_share_their_data() -> None:
    content = overlapping(250)
    budget = UnpackBudget()
    outer, *inner = open_file(content, budget=budget)
    assert len(content) < 100_000
    assert 21 << 20 > len(inner[0].content) > 1 << 20
    assert set(outer.unread) <= {"ratio", "size"}
    assert outer.unread
    assert is_within_budget(budget)


def folders_of_nothing() -> bytes:
    """A disc image whose root is full of folders that overlap each other, each full of entries for itself."""
    itself = bytes([34]) + bytes(31) + b"\x01\0"
    image = bytearray(0x8000) + b"\x01CD001" + bytes(150)
    root = bytearray(34)
    root[2:6], root[10:14] = (20).to_bytes(4, "little"), (1 << 20).to_bytes(4, "little")
    image += root
    image += bytes(20 * 2048 - len(image))
    for number in range(600):
        folder = bytearray(36)
        folder[0], folder[25], folder[32], folder[33:35] = 36, 2, 2, b"%02d" % (number % 100)
        folder[2:6], folder[10:14] = (20 + number).to_bytes(4, "little"), (1 << 20).to_bytes(4, "little")
        image += bytes(folder) + itself * 59
    return bytes(image)


@pytest.mark.parametrize(
    "content",
    [
        b"Rar!\x1a\x07\x00" + b"\0\0\x75\0\0\x07\0" * 500_000,
        b"Rar!\x1a\x07\x01\x00" + b"\0\0\0\0\x02\x01\0" * 500_000,
        folders_of_nothing(),
        b"7z\xbc\xaf\x27\x1c\0\4" + bytes(4) + struct.pack("<QQI", 0, 4 << 20, 0) + b"\x01\x04" + bytes(4 << 20),
    ],
    ids=["rar4", "rar5", "iso", "7z"],
)
def test_headers_that_hold_nothing_are_not_all_read(content: bytes) -> None:
    budget = UnpackBudget()
    outer, *_ = open_file(content, budget=budget)
    assert outer.unread == ("count",)
    assert budget.files <= 1


def test_blocks_that_hold_nothing_are_not_all_read() -> None:
    """Two thousand folders of a cabinet lead to the same 65,535 empty blocks."""
    count = 2_000
    entry = b"".join(struct.pack("<IIHHHH", 1, 0, number, 0, 0, 0) + b"z\0" for number in range(count))
    start = 36 + 8 * count
    head = b"MSCF" + bytes(12) + struct.pack("<I", start) + bytes(4) + b"\x03\x01"
    head += struct.pack("<HHHI", count, count, 0, 0)
    folders = struct.pack("<IHH", start + len(entry), 65_535, 0) * count
    budget = UnpackBudget()
    outer, *_ = open_file(head + folders + entry + bytes(8 * 65_535), budget=budget)
    assert outer.type == "cab"
    assert "size" in outer.unread or "ratio" in outer.unread
    assert budget.slow <= MAX_SLOW


@pytest.mark.variant
def test_two_hundred_thousand_files_in_fifty_megabytes() -> None:
    count, size = 200_000, 170
    locals_, centrals = [], []
    local = b"PK\x03\x04\x14\0" + bytes(8 + 4) + struct.pack("<II", size, size) + b"\x06\0\0\0"
    central = b"PK\x01\x02\x14\0\x14\0" + bytes(8 + 4) + struct.pack("<IIHHHHHI", size, size, 6, 0, 0, 0, 0, 0)
    for number in range(count):
        name = b"%06d" % number
        centrals.append(central + (number * (36 + size)).to_bytes(4, "little") + name)
        locals_.append(local + name + name * 28 + b"xx")
    directory = b"".join(centrals)
    start = b"".join(locals_)
    content = start + directory + b"PK\x05\x06" + bytes(8) + struct.pack("<IIH", len(directory), len(start), 0)
    budget = UnpackBudget()
    outer, *inner = open_file(content, budget=budget)
    assert len(content) > 50_000_000
    assert (outer.unread, len(inner)) == (("count",), MAX_FILES)
    assert budget.spent == (MAX_FILES + 1) * size  # the one that is too many was read before it was counted
    assert inner[-1].names == ("001999",)
