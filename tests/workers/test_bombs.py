"""Bombs in mail, through sealed workers: each is unscannable, and the mail beside it is not disturbed."""

import asyncio
import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from email.message import EmailMessage

import pytest
from tests.workers.pools import running

from gatepost.analysis.report import Report
from gatepost.process.cpu_account import SPENT
from gatepost.scanning.spool import BytesBody
from gatepost.workers import warmup
from gatepost.workers.jobs import Job, PoolCounters
from gatepost.workers.pool import PoolSettings
from gatepost.workers.protocol import JUDGE

LETTER = b"From: ann@sender.example\nTo: bob@receiver.example\nSubject: Lunch\nMessage-ID: <1@x>\n\nAt noon?\n"


def zeros() -> bytes:
    """A gigabyte of zeros in a megabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = block * 1024 + packer.flush()
    name = b"zeros"
    local = b"PK\x03\x04\x14\0\0\0\x08\0" + bytes(8) + struct.pack("<IIHH", len(data), 1 << 30, len(name), 0) + name
    central = b"PK\x01\x02\x14\0\x14\0\0\0\x08\0" + bytes(8)
    central += struct.pack("<IIHHHHHII", len(data), 1 << 30, len(name), 0, 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + bytes(4) + struct.pack("<HHIIH", 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + end


def nested() -> bytes:
    """Sixteen archives in each of sixteen, five deep, with a gigabyte of zeros in each: as 42.zip has it."""
    inner = zeros()
    for _ in range(5):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(16):
                archive.writestr(f"{number}.zip", inner)
        inner = out.getvalue()
    return inner


def picture() -> bytes:
    """A PNG of sixty thousand pixels a side."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
        + chunk(b"IEND", b"")
    )


def page() -> bytes:
    """A PDF with an embedded file that unfolds twice, to sixty-four megabytes."""
    bomb = zlib.compress(zlib.compress(bytes(64 << 20), 9), 9)
    objects = [
        b"<< /Type /Catalog /Names << /EmbeddedFiles << /Names [(a) 2 0 R] >> >> >>",
        b"<< /Type /Filespec /F (a.txt) /EF << /F 3 0 R >> >>",
        b"<< /Type /EmbeddedFile /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n%b\nendstream"
        % (len(bomb), bomb),
    ]
    body = b"".join(b"%d 0 obj\n%b\nendobj\n" % (number, text) for number, text in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"


BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros.zip": zeros,
    "nested.zip": nested,
    "picture.png": picture,
    "page.pdf": page,
}


def mail(name: str, content: bytes) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ann@sender.example", "bob@receiver.example", "File"
    message["Message-ID"] = "<2@x>"
    message.set_content("See the file.")
    message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


async def analysed(*raws: bytes) -> tuple[list[Report], PoolCounters]:
    async with running(PoolSettings(2, 120.0, 40.0, 512 << 20)) as pool:
        jobs = [Job(JUDGE, str(at), warmup.ENVELOPE, BytesBody(raw), warmup.NOW) for at, raw in enumerate(raws)]
        return await asyncio.gather(*map(pool.run, jobs)), pool.counters()


@pytest.fixture(scope="module")
def moment() -> tuple[dict[str, Report], list[Report], PoolCounters]:
    """All bombs at once with eight ordinary letters."""
    raws = [mail(name, make()) for name, make in BOMBS.items()]
    reports, counters = asyncio.run(analysed(*raws, *[LETTER] * 8))
    return dict(zip(BOMBS, reports, strict=False)), reports[len(BOMBS) :], counters


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_unscannable(name: str, moment: tuple[dict[str, Report], list[Report], PoolCounters]) -> None:
    bomb = moment[0][name]
    assert (bomb.verdict, bomb.decision) == ("unscannable", "quarantine"), bomb.reason
    # What is linear in so many bytes may take all the time that there is for a message of a megabyte.
    is_spent = ("files", SPENT) in [(outcome.stage, outcome.reason) for outcome in bomb.outcomes]
    assert is_spent or any(tag.startswith("limit:archive-") for tag in bomb.tags)


def test_all_bombs_at_once_cost_no_worker_and_disturb_nobody(
    moment: tuple[dict[str, Report], list[Report], PoolCounters],
) -> None:
    _, others, counters = moment
    assert [report.verdict for report in others] == ["clean"] * 8
    assert sum(counters.kills.values()) == 0
