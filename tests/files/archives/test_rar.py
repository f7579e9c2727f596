"""RAR archives: names and encryption of both versions, stored content, and no damage that raises."""

import hashlib
import zlib
from base64 import b64decode
from collections.abc import Callable
from functools import partial

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from tests.files.opening import damaged, open_file

from gatepost.files.archives import libarchive, rar
from gatepost.files.values import UnpackBudget

PAYLOAD = b"the payload that must be found"
# Made by RAR itself, with the password "password": a packed file of version 5, and headers of version 4. Both are from
# the tests of rarfile (Marko Kreen, ISC licence), the first one cut after its first file.
PACKED5 = b64decode(
    "UmFyIRoHAQDz4YLrCwEFBwAGAQGAgIAA1maebhMDAp8ABJ8AACJDfqmAAAEDQ01UUkFSNSBhcmNoaXZlIC0gbm9oZHItcGFzc3dv"
    "cmQKAJib2Y5ZAgM8wAAEgBCkgwLq7ii6gAMBCnN0ZXN0MS50eHQwAQADD36YLN0a4hw2x6OR2o0IimigOq0m9IJ7h9VMclznO2ln"
    "gVHP9jZJwW4YaiIPCgMCgMwgl+YozAFvXOSKu4lkW22a9BUVMg/KTEgfLmj8fkUbh1+PPsmRIRwPkcBeDl2ssikAolPsTaFiZXO/"
    "K9VBSFSBmxJSN991GbI6NQMFAAA="
)
HEADERS4 = b64decode(
    "UmFyIRoHAM6Zc4AADQAAAAAAAACY1Tq5m8CEetYBvlQkcAN6cyEpKUCXohc1cprF8D3HQC5hCrn2MVuFgqTv/LM+JOWSkOKBJtX2"
    "wmRB7i77ioOPQi4iqlBdTFwQcuX7mT93DVrpSjrY7wkbmNU6uZvAhHrgk6bgBhhZgRckD0gYRCZWzW3Il1n5yk+V/eyFQeD/gRUK"
    "0PH1FYhqgwo0Dt/+cVtpBmRzjL/o9eJZbr4WjZ26d1KB1TV7gf0yMPF0Xp0orZjVOrmbwIR6dIy81NU11D/kThYdYR8m0/Q0386I"
    "NhTRDFu591U24qTRWsmoeCTTV7Pbytd0QmK/KTvemhS0e7+CD3hh8RGhLlmOAwyqyYLM0lkh0Q0nU8mY1Tq5m8CEeiFJy/Kkf8qh"
    "7lpaFqOduVm4qHdRd4RikUFNk+MW3RDETPeZFQgxvtea461h2iBZTsc5KJPBOCQP5YLdUag94813UoHVNXuB/TIw8XRenSitmNU6"
    "uZvAhHr+K+c+7BoP0loh9TTiLQXDBNQmWBgpFMkwbcxZPeTL7ukZoSK0czQe+YMmTw3TTWZnvwax5cWy7HR9RC6q8ilw79Adzh03"
    "/BChsuTURg7LHJjVOrmbwIR6Lp7OhWfY9IXm3WrcZPa2fA=="
)


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
    outer, inner = open_file(content)
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
    outer, inner = open_file(content)
    assert (outer.unread, inner.names, inner.content) == (("encrypted",), names, b"")


@pytest.mark.parametrize("content", [older(method=0x33), newer(method=3)])
def test_what_nobody_can_unpack_is_said(content: bytes) -> None:
    """The data is none that RAR would write, so libarchive stumbles, too."""
    outer, *inner = open_file(content)
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
    outer, inner = open_file(content[: place + 10])
    assert (inner.content, outer.unread) == (PAYLOAD[:10], ("damaged",))


def test_a_claim_of_many_files_ends_with_the_budget() -> None:
    one = newer()
    file = one[len(rar.RAR5) : -8]
    outer, *inner = open_file(rar.RAR5 + file * 100, budget=UnpackBudget(max_files=20))
    assert (len(inner), outer.unread) == (20, ("count",))


WHOLE = [older(), newer(), older(flags=0x200), newer(extra=b"\x02\x01\0")]


@given(st.sampled_from(WHOLE).flatmap(partial(damaged, start=7)))
def test_no_damage_raises(content: bytes) -> None:
    assert open_file(content)


@given(st.binary(max_size=200))
def test_no_headers_raise(content: bytes) -> None:
    for mark in (rar.RAR4, rar.RAR5):
        list(rar.read_members(mark + content, UnpackBudget()))


@pytest.mark.parametrize("bits", [11, 15, 31])
def test_a_dictionary_of_any_size_costs_a_child_alone(bits: int) -> None:
    """One field of the header asks for up to 4 GB (or more in later versions), and the kernel gives half of one."""
    outer, inner = open_file(newer(method=1 | bits << 3))
    assert (outer.unread, inner.names, inner.content) == (("unsupported",), ("in.txt",), b"")


def test_a_folder_with_content_is_said() -> None:
    assert "unsupported" in open_file(newer(kind=1))[0].unread


def crypt_record(password: str, power: int = 4, salt: bytes = b"s" * 16, *, iv: bytes = b"") -> tuple[bytes, bytes]:
    """A record of encryption of RAR 5 with a check value, and the key."""
    long = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, (1 << power) + 32)
    check = bytes(long[n] ^ long[n + 8] ^ long[n + 16] ^ long[n + 24] for n in range(8))
    record = varying(0) + varying(1) + bytes([power]) + salt + iv + check + hashlib.sha256(check).digest()[:4]
    return record, hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1 << power)


def encrypt(key: bytes, data: bytes, iv: bytes) -> bytes:
    cipher = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return cipher.update(data + bytes(-len(data) % 16))


def encrypted5(password: str = "7361", power: int = 4, content: bytes = PAYLOAD, name: str = "in.txt") -> bytes:
    """A RAR 5 archive with one stored file that is encrypted."""
    iv = b"i" * 16
    record, key = crypt_record(password, power, iv=iv)
    data = encrypt(key, content, iv)
    extra = varying(len(record) + 1) + varying(1) + record
    body = varying(len(extra)) + varying(len(data)) + varying(4) + varying(len(content)) + varying(0o100644)
    body += bytes(4) + varying(0) + varying(1) + varying(len(name)) + name.encode() + extra
    return rar.RAR5 + block5(1, 0, varying(0)) + block5(2, 3, body) + data + block5(5, 0, b"\0")


def hidden5(password: str = "7361", power: int = 4) -> bytes:
    """The same with encrypted headers."""
    record, key = crypt_record(password, power)
    inner = encrypted5(password, power)[len(rar.RAR5) :]
    out = rar.RAR5 + block5(4, 0, record)
    end = block5(5, 0, b"\0")
    first = block5(1, 0, varying(0))
    size = len(encrypt(key, PAYLOAD, b"i" * 16))
    file, data = inner[len(first) : -len(end) - size], inner[-len(end) - size : -len(end)]
    for number, (header, content) in enumerate(((first, b""), (file, data), (end, b""))):
        iv = bytes([number]) * 16
        out += iv + encrypt(key, header, iv) + content
    return out


def encrypted4(password: str = "7361", content: bytes = PAYLOAD) -> bytes:
    """A RAR 4 archive with one stored file that is encrypted."""
    salt = b"saltsalt"
    key, iv = rar._derive_key4(password, salt)
    data = encrypt(key, content, iv)
    head = len(data).to_bytes(4, "little") + len(content).to_bytes(4, "little") + b"\x03"
    head += zlib.crc32(content).to_bytes(4, "little") + bytes(4) + bytes([29, 0x30]) + (6).to_bytes(2, "little")
    head += (0o100644).to_bytes(4, "little") + b"in.txt" + salt
    return rar.RAR4 + block(0x73, 0, bytes(6)) + block(0x74, 0x8404, head) + data + block(0x7B, 0x4000, b"")


def opened(content: bytes, *passwords: str) -> list[tuple[str, bytes, str | None, str]]:
    members = rar.read_members(content, UnpackBudget(), passwords)
    return [(member.names[0], member.content, member.unread, member.password) for member in members]


@pytest.mark.parametrize("make", [encrypted5, hidden5, encrypted4])
def test_a_password_of_the_mail_opens_an_archive(make: Callable[[], bytes]) -> None:
    assert opened(make(), "wrong", "7361") == [("in.txt", PAYLOAD, None, "7361")]
    assert [unread for _, _, unread, _ in opened(make(), "wrong")] == ["encrypted"]
    assert [unread for _, _, unread, _ in opened(make())] == ["encrypted"]


def test_a_packed_file_of_a_real_archive_is_opened() -> None:
    found = opened(PACKED5, "wrong", "password")
    assert [(name, password) for name, _, _, password in found] == [("stest1.txt", "password")]
    if libarchive.is_installed():
        assert found[0][1].startswith(b"000\n001\n")
        assert len(found[0][1]) == 2048


def test_the_headers_of_a_real_archive_are_opened() -> None:
    assert [name for name, *_ in opened(HEADERS4, "password")] == ["file1.txt", "file2.txt"]


def test_files_that_no_password_opens_keep_their_names() -> None:
    second = encrypted5("other", name="b.txt")[len(rar.RAR5) + len(block5(1, 0, varying(0))) :]
    both = encrypted5()[: -len(block5(5, 0, b"\0"))] + second
    assert opened(both, "7361") == [("in.txt", PAYLOAD, None, "7361"), ("b.txt", b"", "encrypted", "")]


def test_many_rounds_are_not_computed_and_that_is_said() -> None:
    budget = UnpackBudget()
    (member,) = rar.read_members(
        encrypted5().replace(b"\x01\x04" + b"s" * 16, b"\x01\x18" + b"s" * 16), budget, ("7361",)
    )
    assert (member.unread, budget.untried) == ("encrypted", 1)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_damaged_encryption_does_not_raise(noise: bytes, place: int) -> None:
    for content in (encrypted5(), hidden5()):
        list(rar.read_members(content[:place] + noise + content[place + len(noise) :], UnpackBudget(), ("7361",)))
