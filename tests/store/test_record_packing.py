"""Packed records: small ones as they are, others compressed, and those of older versions still read."""

import random
import threading
import zlib

import msgspec
import pytest
import zstandard
from tests.store.conftest import NewRecord

from gatepost.analysis.report import PreparedRecord, Report
from gatepost.mail.message import Envelope, Receipt
from gatepost.store import record_packing
from gatepost.store.record_packing import (
    COMPRESS_FROM,
    DEFLATED,
    PLAIN,
    ZSTANDARD,
    Detail,
    is_packed_report,
    pack,
    pack_report,
    unpack,
)
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store

ENVELOPE = Envelope("ann@example.org", ("bob@example.com",))


def _report(subject: str) -> Report:
    return Report("clean", "deliver", (), 0, "nothing was found", subject=subject)


@pytest.mark.parametrize(("least", "form"), [(1 << 20, PLAIN), (COMPRESS_FROM, ZSTANDARD)])
def test_what_is_packed_comes_back(least: int, form: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_packing, "COMPRESS_FROM", least)
    report = _report("word " * COMPRESS_FROM)
    packed = pack(Detail(ENVELOPE, report, "smtp"))
    assert packed[:1] == form
    assert (len(packed) < 2 * COMPRESS_FROM) == (form == ZSTANDARD)
    assert unpack(packed) == Detail(ENVELOPE, report, "smtp")


@pytest.mark.parametrize("recipients", [0, 1, 20, 1_000])
@pytest.mark.parametrize("size", [200, 5_000, 300_000])
def test_a_report_that_a_worker_has_packed_is_stored_in_the_same_form(recipients: int, size: int) -> None:
    chance = random.Random(size)
    subject = "".join(chance.choices("abcdefgh äß", k=size))
    envelope = Envelope("ann@example.org", tuple(f"user{number}@example.com" for number in range(recipients)))
    report = _report(subject)
    report.remember(PreparedRecord(pack_report(msgspec.msgpack.encode(report))))
    receipt = Receipt("node", "192.0.2.1", "4XyZ", 3)
    for detail in (Detail(envelope, report), Detail(envelope, report, "rest", receipt)):
        packed = pack(detail)
        assert unpack(packed) == detail
        if packed[:1] == ZSTANDARD:
            assert msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed[1:]), type=Detail) == detail


@pytest.mark.parametrize("lie", [b"no MessagePack at all", b"\x91" * 50_000, b"", b"cut"])
async def test_a_worker_that_lies_spoils_its_own_record_alone(lie: bytes, store: Store, new_record: NewRecord) -> None:
    """The record is still found, shown, counted and erased, and so are its neighbours."""
    frame = zstandard.ZstdCompressor(1).compress(lie or msgspec.msgpack.encode(_report("another" * 100)))
    frame = frame[:-3] if lie == b"cut" else frame
    assert is_packed_report(frame, 1 << 20)
    spoilt, sound = new_record(subject="spoilt"), new_record(subject="sound")
    spoilt.report.remember(PreparedRecord(frame, evidence=""))

    await store.messages.record(spoilt)
    await store.messages.record(sound)
    assert [each.subject for each in (await store.messages.search(MessageFilter())).rows] == ["sound", "spoilt"]
    page = await store.messages.search(MessageFilter(anywhere="192.0.2.1"))
    assert "sound" in [each.subject for each in page.rows]
    found = await store.messages.find(spoilt.ggrid)
    assert found is not None
    assert found.report.decision == ("undecided" if lie else "deliver")
    assert await store.messages.find(sound.ggrid) == sound
    assert set(await store.messages.heads([spoilt.ggrid, sound.ggrid])) == {spoilt.ggrid, sound.ggrid}
    assert await store.messages.timeline(sound.ggrid) is not None
    assert await store.messages.timeline(spoilt.ggrid) is not None
    assert await store.messages.purge(10_000) == 2


def test_what_older_versions_deflated_is_read() -> None:
    detail = Detail(ENVELOPE, _report("an old record " * 100))
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, 5)
    old = DEFLATED + deflate.compress(msgspec.msgpack.encode(detail)) + deflate.flush()
    assert unpack(old) == detail


def test_threads_pack_at_the_same_time() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        report = _report(f"subject {number} " * 400)
        wrong.extend(number for _ in range(50) if unpack(pack(Detail(ENVELOPE, report))).report != report)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
