"""Held mail through both kinds of core, with real workers, a real quarantine and a real next hop."""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from PIL import Image
from tests.https_servers import serving, write_certificate
from tests.idle_guard import IdleGuard

from gatepost.abby import held_mail
from gatepost.abby.cores import Down, LocalCore
from gatepost.abby.held_mail import HeldMailOnCores
from gatepost.abby.remote_core import RemoteCore
from gatepost.analysis.report import Report
from gatepost.guard.http_source import build_rest_app
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Answers, Questions
from gatepost.scanning import held_mail as orders
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import open_store
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.errors import StorageError
from gatepost.store.store import Store
from gatepost.view.message import build_view, draw_picture
from gatepost.view.values import NotShown, Picture, View
from gatepost.workers import warmup
from gatepost.workers.jobs import Job
from gatepost.workers.pool import PoolSettings, WorkerPool

FAULT_INJECTION = str(Path(__file__).parents[1] / "fault_injection.py")
ANN = Actor("user", "ann")
SECRET = "a shared secret"
REPORT = Report("spam", "quarantine", (), 730, "it adds up")
OURS, THEIRS = "0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa02"


def message() -> bytes:
    packed = io.BytesIO()
    Image.new("RGB", (60, 60), "red").save(packed, "png")
    made = EmailMessage()
    made["From"], made["Subject"] = "ann@x.example", "<script>alert(1)</script>"
    made.set_content("<b>hello</b>")
    made.add_attachment(packed.getvalue(), maintype="image", subtype="png", filename="p.png")
    return made.as_bytes()


RAW = message()


class Deployment:
    def __init__(self, store: Store, folder: Path, hop: str, pool: WorkerPool | None) -> None:
        self.store, self.folder = store, folder
        self.relay = Relay(hop, "off", "gatepost.test")
        self.raw = RawFolder(folder / "q")
        self.guard, self.pool = IdleGuard(), pool
        self.quarantine = Quarantine(store, self.raw, Routing.through(self.relay), pool)
        # A core of the same deployment whose folder has none of it.
        self.empty = LocalCore(self.guard, Quarantine(store, RawFolder(folder / "other"), None, pool))
        self.core: LocalCore | RemoteCore = LocalCore(self.guard, self.quarantine)

    def room(self, *cores: Any) -> HeldMailOnCores:
        return HeldMailOnCores(self.store.quarantine, cores or (self.empty, self.core))

    async def hold(self, raw: bytes = RAW, tenant: str | None = OURS) -> str:
        envelope = Envelope("ann@x.example", ("bob@y.example",), tenant=tenant)
        with Spool(self.folder / "spool").new() as body:
            body.write(raw)
            await body.finish()
            asked = ScanRequest(new_id(), 1_000, envelope)
            await self.quarantine.keep(asked, ScanResult(asked.ggrid, 1_000, 2_000, REPORT), body)
        return asked.ggrid

    async def actions(self) -> list[str]:
        return [f"{each.actor.label} {each.action}" for each in (await self.store.audit.page(AuditFilter())).rows]


async def from_zone(_job: Job[Any], questions: Questions) -> Answers:
    return warmup.answers_to(questions)


@asynccontextmanager
async def served(deployment: Deployment) -> AsyncIterator[RemoteCore]:
    """The core behind its own HTTPS port."""
    pair = write_certificate(deployment.folder)
    app = build_rest_app(deployment.guard, SECRET, Spool(deployment.folder / "spool"), bytes, deployment.quarantine)
    async with serving(app, pair) as address:
        remote = RemoteCore(address, SECRET, pair[0])
        try:
            yield remote
        finally:
            await remote.close()


def every_order(ggrid: str, tenant: str | None = None) -> tuple[orders.HeldMailOrder[Any], ...]:
    return (
        orders.ViewOrder(ggrid, tenant),
        orders.PictureOrder(ggrid, tenant, index=0),
        orders.ExportOrder(ggrid, tenant, by=ANN),
        orders.DeleteOrder(ggrid, tenant, by=ANN),
        orders.ReleaseOrder(ggrid, tenant, by=ANN),
    )


Deploy = Callable[..., AbstractAsyncContextManager[Deployment]]


@pytest.fixture(params=["local", "remote"])
def deploy(request: pytest.FixtureRequest, tmp_path: Path, next_hop: Any) -> Deploy:
    """A deployment with a core in this process, and again with one over HTTPS; with workers if a test needs them."""

    @asynccontextmanager
    async def deployed(*, workers: bool = False) -> AsyncIterator[Deployment]:
        async with AsyncExitStack() as stack:
            store = open_store("sqlite:g.db", tmp_path)
            stack.push_async_callback(store.close)
            pool = None
            if workers:
                stack.enter_context(mock.patch.dict(os.environ, GATEPOST_FAULT_INJECTION=FAULT_INJECTION))
                settings = PoolSettings(1, 60.0, 20.0, 192 << 20)
                pool = WorkerPool(settings, from_zone, shipped_policy())
                await pool.start()
                stack.push_async_callback(pool.stop)
            deployment = Deployment(store, tmp_path, next_hop.url, pool)
            stack.push_async_callback(deployment.relay.close)
            stack.push_async_callback(deployment.quarantine.finish)
            if request.param == "remote":
                deployment.core = await stack.enter_async_context(served(deployment))
            yield deployment

    return deployed


async def test_a_message_and_its_picture_are_shown_and_a_poisoned_one_is_not(deploy: Deploy) -> None:
    async with deploy(workers=True) as deployment:
        room, ggrid = deployment.room(), await deployment.hold()
        seen = await room.carry_out(orders.ViewOrder(ggrid.upper(), OURS))
        assert isinstance(seen, View)
        assert seen == build_view(RAW)
        assert [line.value for line in seen.headers if line.name == "Subject"] == ["<script>alert(1)</script>"]
        (line,) = seen.pictures
        drawn = await room.carry_out(orders.PictureOrder(ggrid, OURS, index=line.index))
        assert isinstance(drawn, Picture)
        assert drawn == draw_picture(RAW, 0)
        assert await room.carry_out(orders.PictureOrder(ggrid, OURS, index=99)) == NotShown("there is no such picture")
        poison = await deployment.hold(b"X-Gatepost-Fault: parse:die\r\n" + RAW)
        assert await room.carry_out(orders.ViewOrder(poison)) == NotShown("it crashed the worker")
        assert isinstance(await room.carry_out(orders.ViewOrder(ggrid)), View)


async def test_a_message_is_taken_away_and_deleted_on_record(deploy: Deploy) -> None:
    async with deploy() as deployment:
        room, ggrid = deployment.room(), await deployment.hold()
        assert await room.carry_out(orders.ExportOrder(ggrid, OURS, by=ANN)) == RAW
        assert await room.carry_out(orders.DeleteOrder(ggrid, OURS, by=ANN)) == orders.Deleted()
        assert await room.carry_out(orders.DeleteOrder(ggrid, OURS, by=ANN)) == orders.NotHeld()
        assert await deployment.raw.get(ggrid) is None
        assert await deployment.actions() == ["user:ann quarantine.delete", "user:ann quarantine.export"]


async def test_a_message_of_which_the_bytes_are_lost_can_be_deleted(deploy: Deploy) -> None:
    async with deploy() as deployment:
        room, ggrid = deployment.room(), await deployment.hold()
        await deployment.raw.delete(ggrid)
        assert await room.carry_out(orders.ViewOrder(ggrid)) == orders.NotHeld()
        assert await room.carry_out(orders.ExportOrder(ggrid, by=ANN)) == orders.NotHeld()
        assert await room.carry_out(orders.DeleteOrder(ggrid, OURS, by=ANN)) == orders.Deleted()
        assert await deployment.quarantine.one(ggrid) is None


async def test_a_release_goes_where_it_is_told_once(deploy: Deploy, next_hop: Any) -> None:
    async with deploy() as deployment:
        room, ggrid = deployment.room(), await deployment.hold()
        first = await room.carry_out(
            orders.ReleaseOrder(ggrid, OURS, by=ANN, recipients=("security@y.example",), anywhere=True)
        )
        assert isinstance(first, orders.Released)
        assert (first.ggrid, first.by, first.recipients) == (ggrid, "user:ann", ("security@y.example",))
        again = orders.ReleaseOrder(ggrid, by=Actor("user", "bob"), recipients=("eve@z.example",))
        assert await room.carry_out(again) == first
        assert [recipients for _, recipients, _ in next_hop.mail] == [("security@y.example",)]
        assert await room.carry_out(orders.ViewOrder(ggrid)) == orders.NotHeld()
        assert await room.carry_out(orders.DeleteOrder(ggrid, by=ANN)) == orders.NotHeld()
        assert await deployment.actions() == ["user:ann quarantine.release"]


async def test_a_recipient_that_is_none_is_refused(deploy: Deploy, next_hop: Any) -> None:
    async with deploy() as deployment:
        ggrid = await deployment.hold()
        outcome = await deployment.room().carry_out(
            orders.ReleaseOrder(ggrid, OURS, by=ANN, recipients=("a@b.example>\r\nDATA",))
        )
        assert isinstance(outcome, orders.NotSent)
        assert next_hop.mail == []


@pytest.mark.parametrize("caller", [OURS, "", "nonsense"])
async def test_another_tenants_mail_is_not_held(deploy: Deploy, next_hop: Any, caller: str) -> None:
    async with deploy() as deployment:
        room = deployment.room()
        for ggrid in (
            await deployment.hold(tenant=THEIRS),
            await deployment.hold(tenant=None),
            new_id(),
            "nonsense",
            "../x",
        ):
            for order in every_order(ggrid, caller):
                assert await room.carry_out(order) == orders.NotHeld()
        assert (await deployment.actions(), next_hop.mail) == ([], [])


async def test_a_core_checks_the_tenant_itself(deploy: Deploy, next_hop: Any) -> None:
    async with deploy() as deployment:
        ggrid = await deployment.hold(tenant=THEIRS)
        for order in every_order(ggrid, OURS):
            assert await deployment.core.carry_out(order) == orders.NotHeld()
        assert (await deployment.actions(), next_hop.mail) == ([], [])


async def test_storage_that_fails_is_a_core_that_is_down(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_self: RawFolder, _ggrid: str) -> bytes:
        raise StorageError("the disk is gone")

    async with deploy() as deployment:
        ggrid = await deployment.hold()
        monkeypatch.setattr(RawFolder, "get", broken)
        room = deployment.room(deployment.core)
        assert isinstance(await room.carry_out(orders.ViewOrder(ggrid)), Down)
        assert isinstance(await room.carry_out(orders.ExportOrder(ggrid, by=ANN)), Down)
        assert isinstance(await room.carry_out(orders.DeleteOrder(ggrid, by=ANN)), Down)
        assert await deployment.quarantine.one(ggrid) is not None


async def test_a_core_that_is_gone_is_told_and_another_is_asked(deploy: Deploy) -> None:
    async with deploy() as deployment:
        gone = RemoteCore("https://127.0.0.1:1", SECRET, None)
        ggrid = await deployment.hold()
        alone = deployment.room(gone, deployment.empty)
        for order in every_order(ggrid):
            assert isinstance(await alone.carry_out(order), Down)
        assert await deployment.room(gone, deployment.core).carry_out(orders.ExportOrder(ggrid, by=ANN)) == RAW
        await gone.close()


async def test_a_core_with_another_secret_lets_nobody_look(deploy: Deploy) -> None:
    async with deploy() as deployment:
        ggrid = await deployment.hold()
        if isinstance(deployment.core, RemoteCore):
            stranger = RemoteCore(deployment.core.name, "a wrong secret", deployment.folder / "cert.pem")
            for order in (orders.ViewOrder(ggrid), orders.ExportOrder(ggrid, by=ANN)):
                answer = await stranger.carry_out(order)
                assert isinstance(answer, Down)
                assert "401" in answer.reason
            await stranger.close()
        assert await deployment.actions() == []


async def test_a_long_message_comes_whole(deploy: Deploy) -> None:
    async with deploy() as deployment:
        raw = RAW + b"x" * (3 << 20)
        ggrid = await deployment.hold(raw)
        assert await deployment.room().carry_out(orders.ExportOrder(ggrid, by=ANN)) == raw


class Stalled:
    """A core that says nothing until all that are expected were asked; then it is down."""

    def __init__(self, name: str, expected: asyncio.Semaphore, everybody: asyncio.Event) -> None:
        self.name, self._left, self._everybody = name, expected, everybody
        self.asked = 0

    async def carry_out(self, _order: orders.HeldMailOrder[Any]) -> Any:
        self.asked += 1
        await self._left.acquire()
        if self._left.locked():
            self._everybody.set()
        await self._everybody.wait()
        return Down("no answer (it has stalled)", core=self.name)


async def test_stalled_cores_are_waited_for_together_and_named(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_mail, "ALONE_SECONDS", 0.01)
    async with deploy() as deployment:
        everybody, expected = asyncio.Event(), asyncio.Semaphore(3)
        cores = [Stalled(f"https://guard{n}:9785", expected, everybody) for n in range(3)]
        ggrid = await deployment.hold()
        outcome = await deployment.room(*cores).carry_out(orders.ExportOrder(ggrid, by=ANN))
        assert isinstance(outcome, Down)
        assert outcome.core == ", ".join(core.name for core in cores)
        # One that has the message does not wait for them.
        never = Stalled("https://guard9:9785", asyncio.Semaphore(2), asyncio.Event())
        room = deployment.room(never, deployment.core)
        assert await room.carry_out(orders.ExportOrder(ggrid, by=ANN)) == RAW
        assert never.asked == 1


async def test_the_core_of_the_record_is_named_and_asked_first_once_it_is_known(deploy: Deploy) -> None:
    async with deploy() as deployment:
        deployment.quarantine._core = "guard2:9785"
        ggrid = await deployment.hold()
        gone = RemoteCore("https://127.0.0.1:1", SECRET, None)
        outcome = await deployment.room(gone, deployment.empty).carry_out(orders.ViewOrder(ggrid))
        assert isinstance(outcome, Down)
        assert outcome.core == "guard2:9785"
        assert held_mail.explain_absence(outcome) == "the core that stores it (guard2:9785) is not answering"
        assert held_mail.explain_absence(outcome, named=False) == "the core that stores it is not answering"
        room = deployment.room(gone, deployment.core)
        assert await room.carry_out(orders.ExportOrder(ggrid, by=ANN)) == RAW
        await gone.close()
        assert await room.carry_out(orders.ExportOrder(ggrid, by=ANN)) == RAW, "a closed client would raise"


async def test_cores_with_one_store_each_do_everything_and_release_once(deploy: Deploy, next_hop: Any) -> None:
    """As with an object store or a shared folder: any core has the bytes, and a release claims them."""
    async with deploy() as deployment:
        other = Quarantine(deployment.store, deployment.raw, Routing.through(deployment.relay), deployment.pool)
        shared = LocalCore(deployment.guard, other)
        first, second = await deployment.hold(), await deployment.hold()
        assert await deployment.room(shared).carry_out(orders.ExportOrder(first, by=ANN)) == RAW
        rooms = (deployment.room(shared, deployment.core), deployment.room(deployment.core, shared))
        released = await asyncio.gather(*(room.carry_out(orders.ReleaseOrder(first, by=ANN)) for room in rooms))
        assert all(isinstance(each, orders.Released) for each in released)
        assert len(next_hop.mail) == 1
        assert await deployment.room(shared).carry_out(orders.DeleteOrder(second, by=ANN)) == orders.Deleted()
        assert await deployment.room(deployment.core).carry_out(orders.ViewOrder(second)) == orders.NotHeld()
        await other.finish()
