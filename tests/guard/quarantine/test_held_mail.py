"""What a core lets people do with held mail, over a real quarantine; nobody parses anything here."""

from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from tests.conftest import Enter
from tests.guard.quarantine.conftest import Deployment

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
from gatepost.store.audit import Actor, AuditFilter
from gatepost.view.values import Picture, View
from gatepost.workers.jobs import Job
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import PICTURE, VIEW

T = TypeVar("T")

ANN = Actor("user", "ann")
RAW = b"Subject: x\r\n\r\ny\r\n"
OURS, THEIRS = new_id(), new_id()


class Looker(WorkerPool):
    """Answers as it was told, and remembers what it was to look at."""

    def __init__(self) -> None:
        self.answer: View | Picture = View(left_out=("this one",))
        self.jobs: list[Job[Any]] = []

    async def show(self, job: Job[T]) -> T:
        self.jobs.append(job)
        return cast("T", self.answer)


@pytest.fixture
def looker() -> Looker:
    return Looker()


@pytest.fixture
def deployment(storage_url: str, tmp_path: Path, looker: Looker, enter: Enter) -> Deployment:
    return enter(Deployment(storage_url, tmp_path, None, viewer=looker))


async def hold(deployment: Deployment, tenant: str | None = OURS) -> str:
    return await deployment.hold(RAW, Envelope("a@x.example", ("b@y.example",), tenant=tenant))


async def test_a_look_goes_to_the_workers(deployment: Deployment, looker: Looker) -> None:
    ggrid = await hold(deployment)
    assert await deployment.quarantine.carry_out(ViewOrder(ggrid, OURS)) == looker.answer
    looker.answer = Picture(b"png", 1, 1)
    assert await deployment.quarantine.carry_out(PictureOrder(ggrid, OURS, index=7)) == looker.answer
    first, second = looker.jobs
    assert (first.purpose, first.body.read(), first.ggrid) == (VIEW, RAW, ggrid)
    assert (second.purpose, second.index) == (PICTURE, 7)


async def test_what_is_another_tenants_is_not_there(deployment: Deployment, looker: Looker) -> None:
    for ggrid in (await hold(deployment, THEIRS), await hold(deployment, None), new_id()):
        assert await deployment.quarantine.carry_out(ViewOrder(ggrid, OURS)) == NotHeld()
        assert await deployment.quarantine.carry_out(PictureOrder(ggrid, OURS, index=0)) == NotHeld()
        assert await deployment.quarantine.carry_out(ExportOrder(ggrid, OURS, by=ANN)) == NotHeld()
        assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, OURS, by=ANN)) == NotHeld()
        assert await deployment.quarantine.carry_out(ReleaseOrder(ggrid, OURS, by=ANN)) == NotHeld()
    assert looker.jobs == []
    assert (await deployment.store.audit.page(AuditFilter())).rows == ()


async def test_an_export_is_audited_and_a_deletion_ends_it(deployment: Deployment) -> None:
    ggrid = await hold(deployment)
    assert await deployment.quarantine.carry_out(ExportOrder(ggrid, OURS, by=ANN)) == RAW
    assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, OURS, by=ANN)) == Deleted()
    assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, OURS, by=ANN)) == NotHeld()
    assert not await deployment.quarantine.delete(DeleteOrder(ggrid, OURS, by=ANN))
    assert await deployment.quarantine.carry_out(ReleaseOrder(ggrid, OURS, by=ANN)) == NotHeld()
    assert await deployment.raw.get(ggrid) is None
    assert [
        (each.actor, each.action, each.scope) for each in (await deployment.store.audit.page(AuditFilter())).rows
    ] == [
        (ANN, "quarantine.delete", OURS),
        (ANN, "quarantine.export", OURS),
    ]


async def test_a_core_without_the_bytes_leaves_the_record_alone(deployment: Deployment) -> None:
    ggrid = await hold(deployment)
    await deployment.raw.delete(ggrid)
    assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, by=ANN)) == NotHeld()
    assert await deployment.quarantine.carry_out(ViewOrder(ggrid)) == NotHeld()
    assert await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=ANN)) == NotHeld()
    assert await deployment.state(ggrid) == "held", "another core may have them, and nothing was claimed"


async def test_what_is_being_released_is_not_deleted(deployment: Deployment) -> None:
    ggrid = await hold(deployment)
    await deployment.store.quarantine.claim(ggrid, "somebody", 1, 1 << 50)
    assert await deployment.quarantine.carry_out(DeleteOrder(ggrid, by=ANN)) == Busy()
    assert await deployment.raw.get(ggrid) == RAW
