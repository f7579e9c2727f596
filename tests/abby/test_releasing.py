"""`POST /v1/messages/{ggrid}/release` over a real quarantine and a real next hop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.idle_guard import IdleGuard

from gatepost.abby import held_mail
from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores, Down, LocalCore
from gatepost.analysis.report import Report
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import Busy, DeleteOrder, HeldMailOrder, NotHeld, ReleaseOutcome
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import open_store
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store

RELEASER, READER, BARE, TRUSTED = "aa" * 32, "bb" * 32, "cc" * 32, "dd" * 32
TOKENS = [
    StaticApiTokenSettings(name="desk", token=RELEASER, permissions=["messages.release", "messages.read"]),
    StaticApiTokenSettings(
        name="trusted", token=TRUSTED, permissions=["messages.release", "messages.releaseDangerous"]
    ),
    StaticApiTokenSettings(name="reader", token=READER, permissions=["messages.read"]),
    StaticApiTokenSettings(name="mta", token=BARE),
]
REPORT = Report("spam", "quarantine", (), 730, "it adds up")
ENVELOPE = Envelope("ann@x.example", ("bob@y.example",))


class Elsewhere:
    """A core that answers a release as it was told."""

    def __init__(self, answer: ReleaseOutcome | Down) -> None:
        self.answer = answer

    async def carry_out(self, _order: HeldMailOrder[Any]) -> Any:
        return self.answer


class Deployment:
    def __init__(self, store: Store, folder: Path, hop: str) -> None:
        self.store, self.folder = store, folder
        self.relay = Relay(hop, "off", "gatepost.test")
        self.quarantine = Quarantine(store, RawFolder(folder / "q"), Routing.through(self.relay))
        self.core = LocalCore(IdleGuard(), self.quarantine)

    async def hold(self, report: Report = REPORT) -> str:
        with Spool(self.folder / "spool").new() as body:
            body.write(b"Subject: x\r\n\r\ny\r\n")
            await body.finish()
            asked = ScanRequest(new_id(), 1_000, ENVELOPE)
            record = MessageRecord(asked.ggrid, 1_000, 2_000, ENVELOPE, body.size, body.sha256, report)
            await self.store.messages.record(record)
            await self.quarantine.keep(asked, ScanResult(asked.ggrid, 1_000, 2_000, report), body)
        return asked.ggrid

    def client(self, *cores: Any) -> httpx.AsyncClient:
        services = create_services(
            cores=Cores([self.core]),
            held_mail_cores=cores or (self.core,),
            store=self.store,
            spool=Spool(self.folder / "spool"),
        )
        app = create_app(services, tokens=TOKENS)
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://abby")


Deployed = AbstractAsyncContextManager[Deployment]


@pytest.fixture
def deployed(tmp_path: Path, next_hop: Any) -> Deployed:
    @asynccontextmanager
    async def deploy() -> AsyncIterator[Deployment]:
        store = open_store("sqlite:g.db", tmp_path)
        deployment = Deployment(store, tmp_path, next_hop.url)
        try:
            yield deployment
        finally:
            await deployment.quarantine.finish()
            await deployment.relay.close()
            await store.close()

    return deploy()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def post(client: httpx.AsyncClient, ggrid: str, token: str = RELEASER, **options: Any) -> httpx.Response:
    return await client.post(f"/v1/messages/{ggrid}/release", headers=bearer(token), **options)


def error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


async def test_released_once_and_on_record(deployed: Deployed, next_hop: Any) -> None:
    async with deployed as deployment:
        ggrid = await deployment.hold()
        async with deployment.client() as client:
            before = (await client.get(f"/v1/messages/{ggrid}", headers=bearer(READER))).json()
            assert before["release"] is None
            answer = await post(client, ggrid.upper())
            assert answer.status_code == 200
            body = answer.json()
            assert body == {
                "ggrid": ggrid,
                "released": body["released"],
                "releasedBy": "token:desk",
                "recipients": ["bob@y.example"],
            }
            again = await post(client, ggrid, content=b'{"recipients": ["eve@z.example"]}')
            assert (again.status_code, again.json()) == (200, body)
            after = (await client.get(f"/v1/messages/{ggrid}", headers=bearer(READER))).json()
            assert after == {**before, "release": body}
            assert after["decision"] == "quarantine"
        assert [recipients for _, recipients, _ in next_hop.mail] == [("bob@y.example",)]
        assert [each.actor for each in (await deployment.store.audit.page(AuditFilter())).rows] == [
            Actor("token", "desk")
        ]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("", (401, "unauthorized")),
        ("x", (401, "unauthorized")),
        (BARE, (403, "forbidden")),
        (READER, (403, "forbidden")),
    ],
)
async def test_who_may(deployed: Deployed, next_hop: Any, token: str, expected: tuple[int, str]) -> None:
    async with deployed as deployment:
        ggrid = await deployment.hold()
        async with deployment.client() as client:
            # The same for what is held and what is not: a token that may not release learns nothing.
            assert error(await post(client, ggrid, token)) == expected
            assert error(await post(client, new_id(), token)) == expected
        assert next_hop.mail == []


async def test_what_is_not_held_is_not_found(deployed: Deployed) -> None:
    async with deployed as deployment, deployment.client() as client:
        record = MessageRecord(new_id(), 1, 2, ENVELOPE, 3, "", REPORT)
        await deployment.store.messages.record(record)
        assert error(await post(client, record.ggrid)) == (404, "message_not_found"), "a result without its mail"
        for ggrid in ("0198c5a2-7c11-7d3e-9f00-00000000bb01", "nonsense", "%00", "..%2f.."):
            assert error(await post(client, ggrid)) in ((404, "message_not_found"), (404, "not_found"))


async def test_a_next_hop_that_refuses(deployed: Deployed, next_hop: Any) -> None:
    async with deployed as deployment:
        ggrid = await deployment.hold()
        next_hop.answers["."] = "450 internal secret of the next hop"
        async with deployment.client() as client:
            answer = await post(client, ggrid)
            assert error(answer) == (503, "delivery_failed")
            assert "450" in answer.text
            assert "secret" not in answer.text
            assert answer.headers["retry-after"]
            next_hop.answers.clear()
            assert (await post(client, ggrid)).status_code == 200


async def test_many_at_once_get_the_answer_of_one(deployed: Deployed, next_hop: Any) -> None:
    async with deployed as deployment:
        ggrid = await deployment.hold()
        next_hop.open.clear()
        async with deployment.client() as client:
            calls = [asyncio.create_task(post(client, ggrid)) for _ in range(10)]
            await asyncio.to_thread(next_hop.seen.wait, 20)
            next_hop.open.set()
            answers = await asyncio.gather(*calls)
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        assert len(next_hop.mail) == 1


async def test_the_core_that_has_it_is_found(deployed: Deployed, next_hop: Any) -> None:
    async with deployed as deployment:
        ggrid = await deployment.hold()
        async with deployment.client(Elsewhere(NotHeld()), Elsewhere(Down("dead"))) as client:
            assert error(await post(client, ggrid)) == (503, "core_unavailable")
        async with deployment.client(Elsewhere(NotHeld())) as client:
            assert error(await post(client, ggrid)) == (404, "message_not_found")
        async with deployment.client(Elsewhere(Down("dead")), Elsewhere(NotHeld()), deployment.core) as client:
            assert (await post(client, ggrid)).status_code == 200
        assert len(next_hop.mail) == 1


async def test_one_that_was_cut_off_is_busy_for_a_while(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_mail, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(held_mail, "POLL_SECONDS", 0.01)
    async with deployed as deployment:
        ggrid = await deployment.hold()
        await deployment.store.quarantine.claim(ggrid, "somebody who died", 1, 1 << 50)
        async with deployment.client() as client:
            assert error(await post(client, ggrid)) == (503, "delivery_failed")
        async with deployment.client(Elsewhere(Busy())) as client:
            await deployment.store.quarantine.give_back(ggrid, "somebody who died")
            assert error(await post(client, ggrid)) == (503, "delivery_failed")
            await deployment.quarantine.delete(DeleteOrder(ggrid, by=Actor("cli")))
            assert error(await post(client, ggrid)) == (404, "message_not_found")


async def test_malware_needs_a_permission_of_its_own(deployed: Deployed, next_hop: Any) -> None:
    async with deployed as deployment:
        ggrid = await deployment.hold(msgspec.structs.replace(REPORT, verdict="malware"))
        async with deployment.client() as client:
            refused = await post(client, ggrid)
            assert error(refused) == (403, "forbidden")
            assert "right of its own" in refused.json()["message"]
            assert next_hop.mail == []
            assert (await post(client, ggrid, TRUSTED)).status_code == 200
