"""Small messages are held by the commit of their record, and large ones in the raw store, with the same outcome."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import Enter
from tests.guard.quarantine.conftest import RAW, REPORT, Deployment, request, result
from tests.guard.quarantine.test_quarantine import keeping_guard
from tests.waiting_client import WaitingClient

from gatepost.guard.metrics import QuarantineMetrics
from gatepost.process import logs
from gatepost.scanning.held_mail import DeleteOrder, ExportOrder, NotHeld, Released, ReleaseOrder
from gatepost.scanning.request import ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MAX_CONTENT

LARGE = b"Subject: large\r\n\r\n" + b"x" * MAX_CONTENT


@pytest.fixture
def deployment(storage_url: str, tmp_path: Path, next_hop: Any, enter: Enter) -> Deployment:
    """One that holds small messages in its database."""
    return enter(Deployment(storage_url, tmp_path, next_hop.url, in_database=True))


def files(folder: Path) -> list[Path]:
    return [path for path in (folder / "q").rglob("*") if path.is_file()]


@pytest.mark.parametrize(("raw", "is_file"), [(RAW, False), (LARGE[:MAX_CONTENT], False), (LARGE, True)])
async def test_a_scan_that_is_held(
    deployment: Deployment, tmp_path: Path, next_hop: Any, raw: bytes, is_file: bool
) -> None:
    guard, _ = keeping_guard(deployment, REPORT)
    asked = request()
    outcome = await guard.scan_in_turn(asked, BytesBody(raw), WaitingClient())
    assert isinstance(outcome, ScanResult)
    assert outcome.is_held is not is_file
    assert deployment.store.counters().commits == (2 if is_file else 1)
    assert len(files(tmp_path)) == is_file
    ggrid = asked.ggrid
    assert await deployment.quarantine.raw(ggrid) == raw
    assert await deployment.quarantine.carry_out(ExportOrder(ggrid, by=CLI)) == raw
    assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
    ((_, _, sent),) = next_hop.mail
    assert sent.endswith(raw.partition(b"\r\n\r\n")[2] + b"\r\n")
    assert await deployment.store.quarantine.content(ggrid) is None
    assert await deployment.quarantine.raw(ggrid) is None
    assert not files(tmp_path)


async def test_it_is_counted_once_and_deleted_whole(deployment: Deployment) -> None:
    guard, _ = keeping_guard(deployment, REPORT)
    asked = request()
    with logs.capture() as logged:
        await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
    assert [each["event"] for each in logged].count("message held") == 1
    assert await deployment.store.quarantine.totals() == (1, len(RAW))
    # The same one again, as a core gets it whose first answer was lost.
    await deployment.quarantine.keep(asked, result(asked), BytesBody(RAW))
    assert await deployment.store.quarantine.totals() == (1, len(RAW))
    await deployment.quarantine.carry_out(DeleteOrder(asked.ggrid, by=CLI))
    assert await deployment.store.quarantine.content(asked.ggrid) is None
    assert await deployment.quarantine.carry_out(ExportOrder(asked.ggrid, by=CLI)) == NotHeld()


async def test_what_is_held_later_lies_in_the_database_too(deployment: Deployment, tmp_path: Path) -> None:
    """Such as what stayed undecided three times: its record was written before."""
    ggrid = await deployment.hold()
    assert await deployment.store.quarantine.content(ggrid) == RAW
    await deployment.quarantine.take_back(ggrid)
    assert await deployment.store.quarantine.content(ggrid) is None
    assert not files(tmp_path)


async def test_bytes_that_no_row_knows_are_swept(deployment: Deployment, tmp_path: Path) -> None:
    held = await deployment.hold()
    large = await deployment.hold(LARGE)
    orphan = request().ggrid
    await deployment.raw.put(orphan, BytesBody(LARGE))
    half = tmp_path / "q" / orphan[-2:] / f".{orphan}.eml.0011223344556677"
    half.write_bytes(LARGE[:100])
    assert await deployment.quarantine.raw(orphan) is None
    assert await deployment.tidying.sweep(0) == 1
    assert [path.stem for path in files(tmp_path)] == [large]
    assert await deployment.quarantine.raw(held) == RAW
    assert await deployment.quarantine.raw(large) == LARGE


async def test_a_full_quarantine_takes_no_more(storage_url: str, tmp_path: Path) -> None:
    async with Deployment(storage_url, tmp_path, None, in_database=True, max_size=2 * len(RAW) + 1) as deployment:
        guard, _ = keeping_guard(deployment, REPORT)
        # The first one is held when the sum of all is known, which is after its record.
        for is_with_record in (False, True):
            asked = request()
            outcome = await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
            assert isinstance(outcome, ScanResult)
            assert outcome.is_held is is_with_record
            assert await deployment.quarantine.raw(asked.ggrid) == RAW
        asked = request()
        with pytest.raises(StorageError, match="maxSize"):
            await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
        assert await deployment.state(asked.ggrid) == "none"


async def test_failures_are_counted(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise StorageError("no")

    counted: list[str] = []
    monkeypatch.setattr(QuarantineMetrics, "count", lambda _self, name, *_: counted.append(name))
    monkeypatch.setattr(deployment.store.quarantine, "hold", fail)
    asked = request()
    with pytest.raises(StorageError):
        await deployment.quarantine.keep(asked, result(asked), BytesBody(RAW))
    held = msgspec.structs.replace(result(asked), is_held=True)
    await deployment.quarantine.keep(asked, held, BytesBody(RAW))
    assert counted == ["failures", "kept"]
