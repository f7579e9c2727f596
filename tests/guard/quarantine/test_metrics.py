"""The quarantine's figures, as Prometheus gets them."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from gatepost.analysis.report import Report
from gatepost.guard.metrics import QuarantineMetrics
from gatepost.guard.quarantine.quarantine import Cleanup, Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.process.metrics import exposition
from gatepost.scanning.held_mail import DeleteOrder, NotSent, Released, ReleaseOrder
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError

RAW = b"From: a@x.example\r\n\r\nhello\r\n"
ENVELOPE = Envelope("a@x.example", ("b@y.example",))


async def held(quarantine: Quarantine) -> str:
    asked = ScanRequest(new_id(), 1, ENVELOPE)
    report = Report("malware", "quarantine", (), 0, "")
    await quarantine.keep(asked, ScanResult(asked.ggrid, 1, 2, report), BytesBody(RAW))
    return asked.ggrid


def figures(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.name.removeprefix("gatepost_quarantine_"): sample.value
        for family in text_string_to_metric_families(exposition(registry).decode())
        for sample in family.samples
    }


async def test_what_is_held_and_what_was_done(tmp_path: Path, next_hop: Any) -> None:
    store, raw = open_store("sqlite:g.db", tmp_path), RawFolder(tmp_path / "q")
    relay = Relay(next_hop.url, "off", "gate.example")
    tally, registry = QuarantineMetrics(store.quarantine, 4 * len(RAW)), CollectorRegistry()
    registry.register(tally)
    quarantine = Quarantine(store, raw, Routing.through(relay), max_size=4 * len(RAW), metrics=tally)
    # Nothing is claimed before anybody has looked.
    assert "held" not in figures(registry)
    first, second, _, last = [await held(quarantine) for _ in range(4)]
    try:
        await held(quarantine)
    except StorageError:
        pass
    assert isinstance(await quarantine.carry_out(ReleaseOrder(first, by=CLI, dangerous=True)), Released)
    assert isinstance(
        await quarantine.carry_out(ReleaseOrder(first, by=CLI, dangerous=True)), Released
    )  # the same release, counted once
    next_hop.answers["."] = "451 later"
    assert isinstance(await quarantine.carry_out(ReleaseOrder(second, by=CLI, dangerous=True)), NotSent)
    assert await quarantine.delete(DeleteOrder(last, by=CLI))
    assert not await quarantine.delete(DeleteOrder(last, by=CLI))
    await tally.refresh()
    assert figures(registry) == {
        "held": 2,
        "bytes": 2 * len(RAW),
        "bytes_maximum": 4 * len(RAW),
        "kept_total": 4,
        "released_total": 1,
        "release_failures_total": 1,
        "deleted_total": 1,
        "expired_total": 0,
        "failures_total": 1,
    }
    await Cleanup(store, raw, 1, clock=lambda: 4e9, metrics=tally).purge()
    await tally.refresh()
    # Two were held, and of one only the note was left that it had been released.
    assert (figures(registry)["held"], figures(registry)["expired_total"]) == (0, 3)
    await relay.close()
    await store.close()


async def test_a_database_that_blinks_leaves_the_last_figure() -> None:
    class Records:
        gone = False

        async def totals(self) -> tuple[int, int]:
            if self.gone:
                raise StorageError("gone")
            return 3, 30

    records: Any = Records()
    tally, registry = QuarantineMetrics(records, None), CollectorRegistry()
    registry.register(tally)
    await tally.refresh()
    records.gone = True
    with pytest.raises(StorageError):
        await tally.refresh()
    assert (figures(registry)["held"], figures(registry)["bytes"]) == (3, 30)
