"""Packed records: small ones as they are, others compressed, and those of older versions still read."""

import threading
import zlib

import msgspec
import pytest

from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.store import record_packing
from gatepost.store.record_packing import COMPRESS_FROM, DEFLATED, PLAIN, ZSTANDARD, Detail, pack, unpack

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
