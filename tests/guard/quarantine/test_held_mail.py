"""What a core lets people do with held mail, over a real quarantine; nobody parses anything here."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from gatepost.analysis.report import Report
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import (
    Busy,
    Deleted,
    DeleteOrder,
    ExportOrder,
    NotHeld,
    PictureOrder,
    ReleaseOrder,
    ViewOrder,
)
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.store import open_store
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.store import Store
from gatepost.view.values import Picture, View
from gatepost.workers.jobs import Job
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import PICTURE, VIEW

T = TypeVar("T")

ANN = Actor("user", "ann")
RAW = b"Subject: x\r\n\r\ny\r\n"
REPORT = Report("spam", "quarantine", (), 730, "it adds up")
OURS, THEIRS = new_id(), new_id()


class Looker(WorkerPool):
    """Answers as it was told, and remembers what it was to look at."""

    def __init__(self) -> None:
        self.answer: View | Picture = View(left_out=("this one",))
        self.jobs: list[Job[Any]] = []

    async def show(self, job: Job[T]) -> T:
        self.jobs.append(job)
        return cast("T", self.answer)


class Deployment:
    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.raw = RawFolder(folder / "q")
        self.looker = Looker()
        self.quarantine = Quarantine(store, self.raw, None, self.looker)

    async def hold(self, tenant: str | None = OURS) -> str:
        envelope = Envelope("a@x.example", ("b@y.example",), tenant=tenant)
        with Spool(self.folder / "spool").new() as body:
            body.write(RAW)
            body.finish()
            asked = ScanRequest(new_id(), 1_000, envelope)
            await self.quarantine.keep(asked, ScanResult(asked.ggrid, 1_000, 2_000, REPORT), body)
        return asked.ggrid


Use = Callable[[Callable[[Deployment], Awaitable[None]]], None]


@pytest.fixture
def use(tmp_path: Path) -> Use:
    def used(scenario: Callable[[Deployment], Awaitable[None]]) -> None:
        async def run() -> None:
            store = open_store("sqlite:g.db", tmp_path)
            try:
                await scenario(Deployment(store, tmp_path))
            finally:
                await store.close()

        asyncio.run(run())

    return used


def test_a_look_goes_to_the_workers(use: Use) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        assert await deployment.quarantine.carry_out(ViewOrder(ggrid, OURS)) == deployment.looker.answer
        deployment.looker.answer = Picture(b"png", 1, 1)
        assert await deployment.quarantine.carry_out(PictureOrder(ggrid, OURS, index=7)) == deployment.looker.answer
        first, second = deployment.looker.jobs
        assert (first.purpose, first.body.read(), first.ggrid) == (VIEW, RAW, ggrid)
        assert (second.purpose, second.index) == (PICTURE, 7)

    use(scenario)


def test_what_is_another_tenants_is_not_there(use: Use) -> None:
    async def scenario(deployment: Deployment) -> None:
        for ggrid in (await deployment.hold(THEIRS), await deployment.hold(None), new_id()):
            assert await deployment.quarantine.carry_out(ViewOrder(ggrid, OURS)) == NotHeld()
            assert await deployment.quarantine.carry_out(PictureOrder(ggrid, OURS, index=0)) == NotHeld()
            assert await deployment.quarantine.carry_out(ExportOrder(ggrid, OURS, by=ANN)) == NotHeld()
            assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, OURS, by=ANN)) == NotHeld()
            assert await deployment.quarantine.carry_out(ReleaseOrder(ggrid, OURS, by=ANN)) == NotHeld()
        assert deployment.looker.jobs == []
        assert (await deployment.store.audit.page(AuditFilter())).rows == ()

    use(scenario)


def test_an_export_is_audited_and_a_deletion_ends_it(use: Use) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        assert await deployment.quarantine.carry_out(ExportOrder(ggrid, OURS, by=ANN)) == RAW
        assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, OURS, by=ANN)) == Deleted()
        assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, OURS, by=ANN)) == NotHeld()
        assert await deployment.raw.get(ggrid) is None
        assert [
            (each.actor, each.action, each.scope) for each in (await deployment.store.audit.page(AuditFilter())).rows
        ] == [
            (ANN, "quarantine.delete", OURS),
            (ANN, "quarantine.export", OURS),
        ]

    use(scenario)


def test_a_core_without_the_bytes_leaves_the_record_alone(use: Use) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        await deployment.raw.delete(ggrid)
        assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, by=ANN)) == NotHeld()
        assert await deployment.quarantine.carry_out(ViewOrder(ggrid)) == NotHeld()
        assert await deployment.quarantine.one(ggrid) is not None

    use(scenario)


def test_what_is_being_released_is_not_deleted(use: Use) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        await deployment.store.quarantine.claim(ggrid, "somebody", 1, 1 << 50)
        assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, by=ANN)) == Busy()
        assert await deployment.raw.get(ggrid) == RAW

    use(scenario)
