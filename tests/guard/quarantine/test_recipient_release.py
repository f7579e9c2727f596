"""One recipient gets its copy, and the others keep theirs held; with a real next hop, on both engines."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.analysis.report import Report
from gatepost.guard.quarantine.quarantine import DANGEROUS, NOT_FOR_RECIPIENTS, Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import Busy, NotHeld, NotSent, RecipientReleaseOrder, Released, ReleaseOrder
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import open_store
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.store import Store
from gatepost.times import now

RAW = b"From: ann@x.example\r\nSubject: lunch\r\n\r\ntext\r\n"
REPORT = Report("spam", "quarantine", (), 730, "it adds up", subject="lunch", senders=("ann@x.example",), features=b"f")
ANALYST = Actor("user", "ann", "u-1")


class Deployment:
    def __init__(self, store: Store, folder: Path, hop: str) -> None:
        self.store, self.raw, self.relay = store, RawFolder(folder), Relay(hop, "off", "gw.example")
        self.quarantine = Quarantine(store, self.raw, Routing.through(self.relay))

    async def hold(self, verdict: Any = "spam") -> str:
        envelope = Envelope("ann@x.example", ("Bob@y.example", "cy@y.example"))
        asked = ScanRequest(new_id(), 1_000, envelope)
        report = msgspec.structs.replace(REPORT, verdict=verdict)
        await self.quarantine.keep(asked, ScanResult(asked.ggrid, 1_000, 2_000, report), BytesBody(RAW))
        return asked.ggrid

    async def release(self, ggrid: str, address: str, by: Actor | None = None, *, dangerous: bool = False) -> Any:
        actor = by or Actor("recipient", address)
        order = RecipientReleaseOrder(ggrid, by=actor, recipient=address, dangerous=dangerous)
        return await self.quarantine.carry_out(order)


Use = Callable[[Callable[[Deployment], Awaitable[None]]], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def use(request: pytest.FixtureRequest, tmp_path: Path, next_hop: Any) -> Use:
    url = f"sqlite:{tmp_path / 'g.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")

    def used(scenario: Callable[[Deployment], Awaitable[None]]) -> None:
        async def run() -> None:
            store = open_store(url, tmp_path)
            deployment = Deployment(store, tmp_path / "q", next_hop.url)
            try:
                await scenario(deployment)
            finally:
                await deployment.quarantine.finish()
                await deployment.relay.close()
                await store.close()

        asyncio.run(run())

    return used


def test_one_copy_goes_and_the_other_stays(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        store, ggrid = deployment.store, await deployment.hold()
        outcome = await deployment.release(ggrid, "bob@Y.example")
        assert isinstance(outcome, Released)
        assert [recipients for _, recipients, _ in next_hop.mail] == [("Bob@y.example",)]
        mail = await store.quarantine.find(ggrid)
        assert mail
        assert (mail.state, mail.release) == ("held", None)
        assert await deployment.raw.get(ggrid) == RAW
        assert isinstance(await deployment.release(ggrid, "bob@y.example"), Released), "again: nothing is sent"
        assert len(next_hop.mail) == 1
        record = (await store.audit.page(AuditFilter(action="quarantine.release"))).rows[0]
        assert (record.actor.kind, record.actor.id, record.count) == ("recipient", "", 1)
        pools = await store.learning.pools()
        assert [(pool.wanted, pool.reporters) for pool in pools] == [(1, 1)]
        reports = await store.learning.pool_reports(None)
        assert "bob" not in reports[0].reporter, "a pool has no address of a person"
        last = await deployment.release(ggrid, "cy@y.example")
        assert isinstance(last, Released)
        mail = await store.quarantine.find(ggrid)
        assert mail
        assert mail.state == "released"
        assert await deployment.raw.get(ggrid) is None

    use(scenario)


def test_a_release_to_all_leaves_out_who_has_it(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        await deployment.release(ggrid, "bob@y.example")
        outcome = await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=ANALYST))
        assert isinstance(outcome, Released)
        assert [recipients for _, recipients, _ in next_hop.mail] == [("Bob@y.example",), ("cy@y.example",)]

    use(scenario)


@pytest.mark.parametrize("verdict", ["malware", "policy"])
def test_recipients_release_spam_and_bulk_only(use: Use, next_hop: Any, verdict: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold(verdict)
        assert await deployment.release(ggrid, "bob@y.example") == NOT_FOR_RECIPIENTS
        assert await deployment.release(ggrid, "bob@y.example", dangerous=True) == NOT_FOR_RECIPIENTS
        granted = await deployment.release(ggrid, "bob@y.example", ANALYST)
        if verdict in ("malware", "phishing"):
            assert granted == DANGEROUS
            granted = await deployment.release(ggrid, "bob@y.example", ANALYST, dangerous=True)
        assert isinstance(granted, Released)
        assert len(next_hop.mail) == 1

    use(scenario)


def test_who_is_no_recipient_gets_nothing(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        for address in ("eve@y.example", "", "bob@y.example\r\nRCPT TO:<eve@evil.example>", "@y.example"):
            assert await deployment.release(ggrid, address) == NotHeld()
        assert not next_hop.mail

    use(scenario)


def test_a_next_hop_that_refuses_and_a_release_under_way(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        ggrid = await deployment.hold()
        next_hop.answers = {"RCPT": "451 later"}
        assert isinstance(await deployment.release(ggrid, "bob@y.example"), NotSent)
        assert await deployment.store.quarantine.recipient_releases(ggrid) == {}
        next_hop.answers = {}
        moment = now()
        assert await deployment.store.quarantine.claim(ggrid, "other", moment, moment + 60_000)
        assert await deployment.release(ggrid, "bob@y.example") == Busy()
        await deployment.store.quarantine.give_back(ggrid, "other")
        both = await asyncio.gather(*(deployment.release(ggrid, "bob@y.example") for _ in range(4)))
        assert len(next_hop.mail) == 1
        assert {type(each) for each in both} <= {Released, Busy}

    use(scenario)
