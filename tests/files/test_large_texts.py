"""Large texts of ordinary business: logs, tables, dumps. Their size alone is no reason to hold a message."""

import base64
import gzip
import io
import lzma
import quopri
import zipfile

import pytest
from tests.files.test_attacks import judge

from gatepost.files.file_types import identify
from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part
from gatepost.mail.reader import read

SIZE = 5_000_000
LINES = {
    "log": "2026-11-{day:02d}T10:00:00Z INFO host{day}.corp.example app[{number}]: order paid https://api.corp.example/v1/{number}\n",
    "csv": "{number},alpha,beta gamma,12.50,2026-10-{day:02d}\n",
    "json": '{{"id": {number}, "name": "alpha", "url": "https://x.corp.example/{number}"}}\n',
    "sql": "-- row {number}\nINSERT INTO orders VALUES ({number},'alpha','beta',NULL);\n",
    "txt": "Alpha beta gamma delta, the order of house number {number} is paid.\n",
}
HEAD = (
    b"From: Ann <ann@a.example>\r\nTo: bob@b.example\r\nSubject: The export\r\n"
    b"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMIME-Version: 1.0\r\n"
)


def make(kind: str, size: int = SIZE) -> bytes:
    block = "".join(LINES[kind].format(number=number, day=number % 28 + 1) for number in range(20_000)).encode()
    return (block * (size // len(block) + 1))[:size].replace(b"\n", b"\r\n")


def encode(content: bytes, encoding: str) -> bytes:
    if encoding == "base64":
        return base64.encodebytes(content).replace(b"\n", b"\r\n")
    return quopri.encodestring(content) if encoding == "quoted-printable" else content


def attach(content: bytes, kind: str, name: str, encoding: str) -> bytes:
    return (
        HEAD
        + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHello Bob, the export is attached.\r\n--b\r\n"
        + f'Content-Type: {kind}; name="{name}"\r\nContent-Disposition: attachment; filename="{name}"\r\n'.encode()
        + f"Content-Transfer-Encoding: {encoding}\r\n\r\n".encode()
        + encode(content, encoding)
        + b"\r\n--b--\r\n"
    )


@pytest.mark.parametrize(
    ("kind", "declared", "encoding"),
    [
        ("log", "text/plain", "base64"),
        ("log", "text/x-log", "8bit"),
        ("csv", "text/plain", "quoted-printable"),
        ("csv", "text/csv", "7bit"),
        ("json", "text/json", "base64"),
        ("sql", "text/plain", "7bit"),
        ("sql", "text/x-sql", "base64"),
        ("txt", "text/plain; format=flowed", "binary"),
        ("txt", "application/octet-stream", "base64"),
    ],
)
def test_attached(kind: str, declared: str, encoding: str) -> None:
    report = judge(attach(make(kind), declared, f"export.{kind}", encoding))
    assert report.decision == "deliver", report.tags
    if declared.startswith("text/") and declared != "text/csv":
        assert "limit:text-size" in report.tags


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "8bit"])
def test_as_the_body(encoding: str) -> None:
    head = f"Content-Type: text/plain\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
    report = judge(HEAD + head + encode(make("log"), encoding))
    assert report.decision == "deliver", report.tags
    assert "limit:text-size" in report.tags


def test_a_lure_at_the_end_of_a_long_text_is_read() -> None:
    lure = b"\r\nYour mailbox is full. Verify your password at https://login.evil.example/verify today.\r\n"
    message = read(attach(make("txt") + lure, "text/plain", "note.txt", "base64"))
    assert "login.evil.example" in {link.host for link in message.links}
    assert any("Verify your password" in text.visible for text in message.texts)


def zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize("name", ["server.log", "orders.csv"])
@pytest.mark.parametrize(
    "packed", ["zip", pytest.param("gz", marks=pytest.mark.variant), pytest.param("xz", marks=pytest.mark.variant)]
)
def test_packed_texts_that_are_cut(name: str, packed: str) -> None:
    """What is cut for its size is said; the rest of a log is a log."""
    content = make("log") * 6
    make_file = {
        "zip": lambda: zipped(name, content),
        "gz": lambda: gzip.compress(content),
        "xz": lambda: lzma.compress(content),
    }
    part = Part("1", content_type="application/octet-stream", names=(f"{name}.{packed}",), content=make_file[packed]())
    first, *_ = find_files(Message(parts=(part,)), UnpackBudget(8 << 20))
    assert first.unread == ("text",)


@pytest.mark.parametrize(("name", "content"), [("a.js", make("log") * 6), ("a.log", bytes(30 << 20))])
def test_other_files_that_are_cut(name: str, content: bytes) -> None:
    part = Part("1", content_type="application/zip", names=("a.zip",), content=zipped(name, content))
    first, *_ = find_files(Message(parts=(part,)), UnpackBudget(8 << 20))
    assert first.unread in (("size",), ("ratio",))


PROSE = b"Dear Sir, this is a letter of many words.\n" * 200


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        *((1024, mark) for mark in (b"BD", b"H+", b"HX")),
        (257, b"ustar"),
        (7, b"**ACE**"),
        (32, b"NXSB"),
        (3, b"NTFS    "),
        (2, b"-lh5-"),
        (2, b"-pm-a-"),
        (0x8001, b"CD001"),
        *(
            (0, mark)
            for mark in (b"MSCF", b"ITSF", b"LRZI", b"KDMV", b"EGGA", b"7kSt", b"zPQ", b"SIT!", b"hsqs", b"xar!")
        ),
        *((0, mark) for mark in (b"StuffIt", b"vhdxfile", b"conectix", b"!BDN", b"IsZ!", b"RE~^", b"BZh", b"Rar!")),
        (len(PROSE) - 512, b"koly"),
        (len(PROSE) - 512, b"conectix"),
    ],
)
def test_a_text_is_no_image_and_no_archive(place: int, mark: bytes) -> None:
    text = PROSE * 6 if place > len(PROSE) else PROSE
    letter = text[:place] + mark + text[place + len(mark) :]
    assert identify(letter) == "text"
