"""OpenPGP messages in the clear: what any program opens without a key is opened, and only encryption is called so."""

import email.message
import random
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files import openpgp_formats as p

from gatepost.mail.encodings.openpgp import LiteralFile, OpenPgpContent, find_openpgp, is_openpgp
from gatepost.mail.reader import read

ROOM = 1 << 24
CONTENT = b"The quick brown fox. " * 90


def one(content: bytes, room: int = ROOM) -> OpenPgpContent:
    (opened,) = find_openpgp(content, room)
    return opened


@pytest.mark.parametrize("title", p.FORMATS)
def test_every_form_is_opened(title: str) -> None:
    assert one(p.FORMATS[title]("a.txt", CONTENT)) == OpenPgpContent((LiteralFile("a.txt", CONTENT),))


def test_encryption_is_said_and_nothing_else_is() -> None:
    assert one(p.ENCRYPTED) == OpenPgpContent(encrypted=True)
    assert one(p.armoured(p.ENCRYPTED)) == OpenPgpContent(encrypted=True)
    assert one(p.armoured(p.short(2, b"\x04" + bytes(60)), "SIGNATURE")) == OpenPgpContent()
    assert one(p.armoured(b"", "PUBLIC KEY BLOCK")) == OpenPgpContent()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xa3",
        b"\xa3\x09abc",
        b"\xcb\x05plain",
        b"\xff\xd8\xff\xe0" + bytes(40),
        "élève à l'école".encode("latin-1"),
        "Übung macht den Meister".encode("cp1252"),
        "Ёлка".encode("koi8-r"),
        "日本語の手紙".encode("shift_jis"),
        "日本語の手紙".encode(),
        b"\x89PNG\r\n\x1a\n" + bytes(40),
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
        b"\x84\x00\x00" + bytes(100),
    ],
)
def test_other_bytes_are_no_packets(content: bytes) -> None:
    assert not is_openpgp(content)
    assert list(find_openpgp(content, ROOM)) == []


def test_a_name_lets_gpg_open_odd_packets() -> None:
    odd = p.literal("a.js", CONTENT).replace(b"b\x04a.js", b"?\x04a.js")
    assert list(find_openpgp(odd, ROOM)) == []
    (opened,) = find_openpgp(odd, ROOM, ("a.js.gpg",))
    assert opened.files == (LiteralFile("a.js", CONTENT),)


def test_random_bytes_are_no_packets() -> None:
    """Fewer than one of five thousand files of noise begins as a packet does."""
    noise = random.Random(31)
    assert sum(is_openpgp(noise.randbytes(600)) for _ in range(20_000)) < 4


def test_a_wrong_checksum_hides_nothing() -> None:
    packed = bytearray(b"\x02" + zlib.compress(p.literal("a.js", CONTENT)))
    packed[-1] ^= 1
    opened = one(p.open_ended(p.COMPRESSED, bytes(packed)))
    assert opened.files == (LiteralFile("a.js", CONTENT),)
    assert opened.is_damaged


def test_cut_bzip2_gives_what_there_is() -> None:
    noise = random.Random(3).randbytes(2_000_000)
    packed = p.compressed("bzip2", p.literal("a.bin", noise))
    opened = one(packed[: len(packed) * 3 // 4])
    assert opened.is_damaged
    assert noise.startswith(opened.files[0].content)
    assert len(opened.files[0].content) > 500_000


def test_budgets() -> None:
    bomb = p.compressed("bzip2", p.literal("a", bytes(30 << 20)))
    assert one(bomb, 1 << 30).is_cut
    assert sum(len(file.content) for file in one(bomb, 1 << 30).files) <= 4 << 20
    deep = p.literal("a", CONTENT)
    for _ in range(30):
        deep = p.compressed("zlib", deep, p.new)
    assert one(deep).is_cut
    assert one(p.short(p.MARKER, b"PGP") * 5_000 + p.literal("a", CONTENT)).is_cut
    assert len(one(p.literal("a", b"x") * 500).files) == 50
    tiny = bytes([0xC0 | p.LITERAL]) + b"\xe0b" * 300_000 + b"\0"
    assert one(b"\xca\x03PGP" + tiny).is_cut
    many = p.armoured(p.literal("a", b"x")) * 200
    assert len(list(find_openpgp(many, ROOM))) == 50


@given(st.binary(max_size=300), st.sampled_from(sorted(p.FORMATS)), st.integers(0, 3_000), st.integers(0, 255))
def test_any_bytes_are_read(tail: bytes, title: str, place: int, byte: int) -> None:
    content = bytearray(p.FORMATS[title]("a.txt", CONTENT) + tail)
    content[place % len(content)] = byte
    for opened in find_openpgp(bytes(content), ROOM):
        assert sum(len(file.content) for file in opened.files) <= ROOM


def test_text_in_armour_is_text_of_the_message() -> None:
    """Mail programs show what stands in the armour, so its text and its links are the message's."""
    body = "Hello,\n\n" + p.armoured(p.literal("", b"Please log in at https://login.evil.example/a today.")).decode()
    message = read(b"From: a@a.example\r\nSubject: x\r\n\r\n" + body.encode())
    assert any("Please log in" in text.visible for text in message.texts)
    assert "login.evil.example" in {link.host for link in message.links}


def test_pgp_mime_is_read_as_mail() -> None:
    inner = email.message.EmailMessage()
    inner.set_content("The letter itself.")
    inner.add_attachment(b"MZ" + bytes(90), "application", "octet-stream", filename="a.exe")
    entity = inner.as_bytes().replace(b"MIME-Version: 1.0\n", b"")
    outer = (
        b'From: a@a.example\nMIME-Version: 1.0\nContent-Type: multipart/encrypted; boundary=x; protocol="application/'
        b'pgp-encrypted"\n\n--x\nContent-Type: application/pgp-encrypted\n\nVersion: 1\n\n--x\n'
        b"Content-Type: application/octet-stream\n\n%b\n--x--\n"
    ) % p.armoured(p.signed(p.literal("", entity)))
    message = read(outer)
    assert any("The letter itself." in text.visible for text in message.texts)
    assert [part.names for part in message.files if part.content.startswith(b"MZ")] == [("a.exe",)]


SIGNED_TEXT = (
    b"-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA512\r\n\r\nnew ActiveXObject('a')\r\n- --i;\r\n- From x\r\n"
    b"-----BEGIN PGP SIGNATURE-----\r\n\r\niQ==\r\n-----END PGP SIGNATURE-----\r\n"
)


def test_a_file_that_is_signed_in_the_clear_is_what_gpg_writes() -> None:
    first, *_ = find_openpgp(SIGNED_TEXT * 2, ROOM, ("run.js.asc",))
    assert first.files == (LiteralFile("", b"new ActiveXObject('a')\r\n--i;\r\nFrom x"),) * 2
    assert all(not opened.files for opened in find_openpgp(SIGNED_TEXT, ROOM)), "a body is shown as it is"
    message = email.message.EmailMessage()
    message.set_content("Hello")
    message.add_attachment(SIGNED_TEXT, maintype="application", subtype="octet-stream", filename="run.js.asc")
    assert ("run.js",) in [part.names for part in read(message.as_bytes()).parts]


@pytest.mark.process
def test_files_that_gpg_makes_are_opened(tmp_path: Path) -> None:
    if not (program := shutil.which("gpg")):
        pytest.skip("not run: gpg is not installed")
    plain = tmp_path / "setup.bin"
    plain.write_bytes(b"MZ" + bytes(range(256)) * 40)
    forms = ([], ["-a"], ["--rfc2440"], *(["--compress-algo", each] for each in ("zip", "zlib", "bzip2", "none")))
    base = [program, "--homedir", str(tmp_path), "--batch", "--yes", "--quiet", "--no-autostart"]
    for options in forms:
        subprocess.run([*base, "-o", str(tmp_path / "made"), *options, "--store", str(plain)], check=True)
        opened = one((tmp_path / "made").read_bytes())
        assert [file.content for file in opened.files] == [plain.read_bytes()], options
        piped = subprocess.run([*base, *options, "--store"], input=plain.read_bytes(), capture_output=True, check=True)
        assert [file.content for file in one(piped.stdout).files] == [plain.read_bytes()], options
