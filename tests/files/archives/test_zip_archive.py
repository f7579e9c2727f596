"""Encrypted zip archives, opened with what the mail gives away."""

import base64
import io
import struct
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.opening import damaged, open_file

from gatepost.files.archives import zip_archive
from gatepost.files.archives.zip_archive import TraditionalCipher
from gatepost.files.values import MAX_SLOW, Trait, UnpackBudget

PAYLOAD = b"the payload that must be found"
# Made with 7-Zip from a file of that text; `aes128` and `cryptos` are not packed below the cipher.
SAMPLES: dict[str, str] = {
    "aes256": (
        "UEsDBDMAAQBjAGYTb10AAAAAOgAAAB4AAAAGAAsAaW4udHh0AZkHAAIAQUUDAAATAEZdBgKhe16xXuDDVaEoua9HqpcGa/I3Fdo5h1M3/wtz"
        "Tv6pXq7UoYUJaT5tlfTE/UgYngKbgxtwUEsBAj8DMwABAGMAZhNvXQAAAAA6AAAAHgAAAAYALwAAAAAAAAAggKSBAAAAAGluLnR4dAoAIAAA"
        "AAAAAQAYAK0t2tGodN0BAAAAAAAAAAAAAAAAAAAAAAGZBwACAEFFAwAAUEsFBgAAAAABAAEAYwAAAGkAAAAAAA=="
    ),
    "aes128": (
        "UEsDBDMAAQBjAGYTb10AAAAAMgAAAB4AAAAGAAsAaW4udHh0AZkHAAIAQUUBAAAg/KykvsVM0uLrfu8/sByf3PAXk+HQOI2eukBMBShnG+qJ"
        "r761JkGSEuIhYmmxdEBEOFBLAQI/AzMAAQBjAGYTb10AAAAAMgAAAB4AAAAGAC8AAAAAAAAAIICkgQAAAABpbi50eHQKACAAAAAAAAEAGACt"
        "LdrRqHTdAQAAAAAAAAAAAAAAAAAAAAABmQcAAgBBRQEAAFBLBQYAAAAAAQABAGMAAABhAAAAAAA="
    ),
    "crypto": (
        "UEsDBBQAAQAAAGYTb12i3Yq7KgAAAB4AAAAGAAAAaW4udHh0mFyt4o1zj2OAGnbeoElit/t2V1TlhZyiGwy3EJ/ep/3wZ4pxMymq7N9kUEsB"
        "Aj8DFAABAAAAZhNvXaLdirsqAAAAHgAAAAYAJAAAAAAAAAAggKSBAAAAAGluLnR4dAoAIAAAAAAAAQAYAK0t2tGodN0BAAAAAAAAAAAAAAAA"
        "AAAAAFBLBQYAAAAAAQABAFgAAABOAAAAAAA="
    ),
    "cryptos": (
        "UEsDBBQAAQAAAGYTb12i3Yq7KgAAAB4AAAAGAAAAaW4udHh0Zow1tZAwfj7CP/o3COyZMUnDaaW6UueOWbK+f4/eqqEJO4mk1d73FgaCUEsB"
        "Aj8DFAABAAAAZhNvXaLdirsqAAAAHgAAAAYAJAAAAAAAAAAggKSBAAAAAGluLnR4dAoAIAAAAAAAAQAYAK0t2tGodN0BAAAAAAAAAAAAAAAA"
        "AAAAAFBLBQYAAAAAAQABAFgAAABOAAAAAAA="
    ),
}


def sample(name: str) -> bytes:
    return base64.b64decode(SAMPLES[name])


def enciphered(data: bytes, password: bytes) -> bytes:
    """The old cipher the other way: what goes in is what stirs the registers."""
    out = bytearray()
    for byte in data:
        clone = TraditionalCipher(password + data[: len(out)])
        out.append(byte ^ clone.decipher(b"\0")[0])
    return bytes(out)


def locked(content: bytes, password: bytes) -> bytes:
    """A zip with one deflated entry under the old cipher."""
    packed = zlib.compress(content, wbits=-15)
    crc = zlib.crc32(content)
    body = enciphered(bytes(11) + bytes([crc >> 24]) + packed, password)
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("in.txt", body)
    raw = bytearray(plain.getvalue())
    central = raw.index(b"PK\x01\x02")
    for place in (6, central + 8):
        raw[place] |= 1
    for place in (8, central + 10):
        raw[place] = 8
    for place in (14, central + 16):
        raw[place : place + 4] = crc.to_bytes(4, "little")
    return bytes(raw)


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize(
    "text", ["The password is 7361", "Passwort: 7361", "пароль 7361.", "解压密码：7361", "mot de passe «7361»"]
)
def test_the_password_in_the_mail_opens_it(name: str, text: str) -> None:
    outer, inner = open_file(sample(name), text)
    assert (inner.names, inner.content, outer.unread) == (("in.txt",), PAYLOAD, ())
    assert outer.traits == (Trait("opened-with-password", "7361"),)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_without_it_the_archive_stays_unread(name: str) -> None:
    outer, inner = open_file(sample(name), "The password is 7362, or was it 7363?")
    assert (inner.content, outer.unread, outer.traits) == (b"", ("encrypted",), ())


def test_a_packed_entry_under_the_old_cipher() -> None:
    content = PAYLOAD * 20
    outer, inner = open_file(locked(content, b"infected"))
    assert (inner.content, outer.unread) == (content, ())
    assert outer.traits == (Trait("opened-with-password", "infected"),)


def test_a_wrong_password_that_passes_the_first_check_does_not_open_it() -> None:
    """One wrong password of 256 gets past the header's one byte."""
    content = locked(PAYLOAD * 20, b"secret")
    entry = zip_archive.read_entries(content, 10)[0]
    data = content[entry.start : entry.start + 12]
    wrong = next(
        word for word in map(str, range(5000)) if TraditionalCipher(word.encode()).decipher(data)[-1] == entry.check
    )
    assert open_file(content, f"password {wrong}")[0].unread == ("encrypted",)


def test_the_old_cipher_has_a_budget() -> None:
    content = locked(b"x", b"1234")
    long = bytearray(content)
    central = long.index(b"PK\x01\x02")
    padding = MAX_SLOW + 1
    size = int.from_bytes(long[central + 20 : central + 24], "little") + padding
    long[central + 20 : central + 24] = size.to_bytes(4, "little")
    long[18:22] = size.to_bytes(4, "little")
    body = bytes(long[:central]) + bytes(padding) + bytes(long[central:])
    end = body.rindex(b"PK\x05\x06")
    body = body[: end + 16] + (central + padding).to_bytes(4, "little") + body[end + 20 :]
    budget = UnpackBudget()
    assert "encrypted" in open_file(body, "", budget)[0].unread
    assert budget.slow <= MAX_SLOW


def test_many_locked_entries_are_not_all_tried() -> None:
    first = sample("aes256")
    local, central = (
        first[: first.index(b"PK\x01\x02")],
        first[first.index(b"PK\x01\x02") : first.rindex(b"PK\x05\x06")],
    )
    directory = b"".join(central[:42] + (n * len(local)).to_bytes(4, "little") + central[46:] for n in range(500))
    end = b"PK\x05\x06" + bytes(8) + len(directory).to_bytes(4, "little") + (500 * len(local)).to_bytes(4, "little")
    budget = UnpackBudget()
    outer, *inner = open_file(local * 500 + directory + end + b"\0\0", "password: nothing", budget)
    assert (len(inner), outer.unread) == (500, ("encrypted",))
    assert budget.attempts < 200


@given(st.sampled_from([sample(name) for name in sorted(SAMPLES)]).flatmap(damaged))
def test_no_damage_raises(content: bytes) -> None:
    assert open_file(content, "password 7361")


def large(content: bytes, *, end: bool) -> bytes:
    """A zip whose sizes stand in the extra fields of zip64, as writers do that do not know them beforehand."""
    name, packed = b"in.txt", zlib.compress(content)[2:-4]
    extra = struct.pack("<HHQQ", 1, 16, len(content), len(packed))
    most = 0xFFFFFFFF
    local = b"PK\x03\x04" + struct.pack(
        "<HHHHHIIIHH", 45, 0, 8, 0, 0, zlib.crc32(content), most, most, len(name), len(extra)
    )
    data = local + name + extra + packed
    wide = struct.pack("<HHQQQ", 1, 24, len(content), len(packed), 0)
    entry = struct.pack(
        "<HHHHHHIIIHHHHHII", 45, 45, 0, 8, 0, 0, zlib.crc32(content), most, most, len(name), len(wide), 0, 0, 0, 0, most
    )
    directory = b"PK\x01\x02" + entry + name + wide
    tail = b""
    if end:
        tail = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, len(directory), len(data))
        tail += b"PK\x06\x07" + struct.pack("<IQI", 0, len(data) + len(directory), 1)
    size, offset = (most, most) if end else (len(directory), len(data))
    return data + directory + tail + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, size, offset, 0)


@pytest.mark.parametrize("end", [False, True])
def test_sizes_of_zip64(end: bool) -> None:
    (member,) = zip_archive.read_members(large(b"the payload" * 99, end=end), UnpackBudget())
    assert (member.names, member.content, member.unread) == (("in.txt",), b"the payload" * 99, None)
    (behind,) = zip_archive.read_members(b"stub" * 9 + large(b"the payload" * 99, end=end), UnpackBudget())
    assert behind.content == member.content
