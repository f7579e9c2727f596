"""RAR archives: names and encryption of both versions, stored content, and no damage that raises."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.files.archives import libarchive, rar
from gatepost.files.values import File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

PAYLOAD = b"the payload that must be found"


def older(
    name: bytes = b"in.txt", flags: int = 0, method: int = 0x30, main: int = 0, content: bytes = PAYLOAD
) -> bytes:
    """A RAR 4 archive with one file."""
    size = len(content).to_bytes(4, "little")
    head = size + size + b"\x03" + zlib.crc32(content).to_bytes(4, "little") + bytes(4) + bytes([29, method])
    head += len(name).to_bytes(2, "little") + (0o100644).to_bytes(4, "little") + name
    return (
        rar.RAR4 + block(0x73, main, bytes(6)) + block(0x74, flags | 0x8000, head) + content + block(0x7B, 0x4000, b"")
    )


def block(kind: int, flags: int, body: bytes) -> bytes:
    rest = bytes([kind]) + flags.to_bytes(2, "little") + (7 + len(body)).to_bytes(2, "little") + body
    return (zlib.crc32(rest) & 0xFFFF).to_bytes(2, "little") + rest


def varying(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block5(kind: int, flags: int, body: bytes) -> bytes:
    rest = varying(kind) + varying(flags) + body
    rest = varying(len(rest)) + rest
    return zlib.crc32(rest).to_bytes(4, "little") + rest


def newer(
    name: str = "in.txt",
    method: int = 0,
    extra: bytes = b"",
    content: bytes = PAYLOAD,
    crypt: bool = False,
    kind: int = 0,
) -> bytes:
    """A RAR 5 archive with one file."""
    raw = name.encode()
    body = varying(len(extra)) if extra else b""
    body += varying(len(content)) + varying(4 | kind) + varying(len(content)) + varying(0o100644)
    body += (
        zlib.crc32(content).to_bytes(4, "little") + varying(method << 7) + varying(1) + varying(len(raw)) + raw + extra
    )
    file = block5(2, 2 | bool(extra), body) + content
    return (
        rar.RAR5 + (block5(4, 0, bytes(20)) if crypt else b"") + block5(1, 0, varying(0)) + file + block5(5, 0, b"\0")
    )


def files_of(content: bytes, budget: UnpackBudget | None = None) -> tuple[File, ...]:
    return find_files(Message(parts=(Part("1", names=("a.rar",), content=content),)), budget)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (older(), "in.txt"),
        (older(b"dir\\in.txt"), "dir\\in.txt"),
        (older("grün.txt".encode("cp437")), "grün.txt"),
        # Unicode, written as: one character from the low byte, then a copy of six from the plain name.
        (older(b"?in.txt\0" + bytes([0x04, 0b01_11_00_00, 0x3F, 4]), flags=0x200), "\u043fin.txt"),
        (older(b"\xd0\xb0.txt", flags=0x200), "а.txt"),
        (newer(), "in.txt"),
        (newer("папка/счёт.exe"), "папка/счёт.exe"),
    ],
)
def test_what_is_stored_is_read(content: bytes, name: str) -> None:
    outer, inner = files_of(content)
    assert (inner.names, inner.content, outer.unread) == ((name,), PAYLOAD, ())


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (older(flags=4), ("in.txt",)),
        (newer(extra=varying(2) + b"\x01\0"), ("in.txt",)),
        (older(main=0x80), ("",)),  # the headers, too
        (newer(crypt=True), ("",)),
    ],
)
def test_encryption_is_said(content: bytes, names: tuple[str, ...]) -> None:
    outer, inner = files_of(content)
    assert (outer.unread, inner.names, inner.content) == (("encrypted",), names, b"")


@pytest.mark.parametrize("content", [older(method=0x33), newer(method=3)])
def test_what_nobody_can_unpack_is_said(content: bytes) -> None:
    """The data is none that RAR would write, so libarchive stumbles, too."""
    outer, *inner = files_of(content)
    assert inner[0].names == ("in.txt",)
    assert set(outer.unread) & {"unsupported"}


@pytest.mark.skipif(not libarchive.is_installed(), reason="not run: libarchive is not installed")
@pytest.mark.parametrize("content", [older(), newer()])
def test_libarchive_reads_within_the_budget(content: bytes) -> None:
    whole, short = UnpackBudget(), UnpackBudget(max_bytes=10)
    assert [member.content for member in libarchive.read_members(content, "rar", whole, ["a"])] == [PAYLOAD]
    (cut,) = libarchive.read_members(content, "rar", short, ["a"])
    assert (cut.names, cut.content, cut.unread, short.spent) == (("a",), PAYLOAD[:10], "size", 10)


@pytest.mark.parametrize("content", [older(), newer()])
def test_what_is_cut_short_is_said(content: bytes) -> None:
    place = content.index(PAYLOAD)
    outer, inner = files_of(content[: place + 10])
    assert (inner.content, outer.unread) == (PAYLOAD[:10], ("damaged",))


def test_a_claim_of_many_files_ends_with_the_budget() -> None:
    one = newer()
    file = one[len(rar.RAR5) : -8]
    outer, *inner = files_of(rar.RAR5 + file * 100, UnpackBudget(max_files=20))
    assert (len(inner), outer.unread) == (20, ("count",))


@given(st.sampled_from([older(), newer(), older(flags=0x200), newer(extra=b"\x02\x01\0")]), st.data())
def test_no_damage_raises(sample: bytes, data: st.DataObject) -> None:
    content = bytearray(sample)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(7, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert files_of(bytes(content))


@given(st.binary(max_size=200))
def test_no_headers_raise(content: bytes) -> None:
    for mark in (rar.RAR4, rar.RAR5):
        list(rar.read_members(mark + content, UnpackBudget()))


@pytest.mark.parametrize("bits", [11, 15, 31])
def test_a_dictionary_beyond_the_limit_is_not_given_to_a_decoder(bits: int) -> None:
    """One field of the header asks for up to 4 GB (or more in later versions); 128 MB are given."""
    outer, inner = files_of(newer(method=1 | bits << 3))
    assert (outer.unread, inner.names, inner.content) == (("unsupported",), ("in.txt",), b"")


def test_a_folder_with_content_is_said() -> None:
    assert "unsupported" in files_of(newer(kind=1))[0].unread
