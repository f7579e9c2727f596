"""One recipient gets its copy, and the others keep theirs held; with a real next hop, on both engines."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.guard.conftest import both_engines
from tests.guard.quarantine.conftest import Deployment

from gatepost.analysis.report import Report
from gatepost.guard.quarantine.quarantine import DANGEROUS, NOT_FOR_RECIPIENTS
from gatepost.mail.message import Envelope
from gatepost.scanning.held_mail import Busy, NotHeld, NotSent, RecipientReleaseOrder, Released, ReleaseOrder
from gatepost.store.audit import Actor, AuditFilter

RAW = b"From: ann@x.example\r\nSubject: lunch\r\n\r\ntext\r\n"
REPORT = Report("spam", "quarantine", (), 730, "it adds up", subject="lunch", senders=("ann@x.example",), features=b"f")
ENVELOPE = Envelope("ann@x.example", ("Bob@y.example", "cy@y.example"))
ANALYST = Actor("user", "ann", "u-1")


pytestmark = both_engines


async def hold(deployment: Deployment, verdict: Any = "spam") -> str:
    return await deployment.hold(RAW, ENVELOPE, msgspec.structs.replace(REPORT, verdict=verdict))


async def release(
    deployment: Deployment, ggrid: str, address: str, by: Actor | None = None, *, dangerous: bool = False
) -> Any:
    actor = by or Actor("recipient", address)
    order = RecipientReleaseOrder(ggrid, by=actor, recipient=address, dangerous=dangerous)
    return await deployment.quarantine.carry_out(order)


async def test_one_copy_goes_and_the_other_stays(deployment: Deployment, next_hop: Any) -> None:
    store, ggrid = deployment.store, await hold(deployment)
    outcome = await release(deployment, ggrid, "bob@Y.example")
    assert isinstance(outcome, Released)
    assert [recipients for _, recipients, _ in next_hop.mail] == [("Bob@y.example",)]
    mail = await store.quarantine.find(ggrid)
    assert mail
    assert (mail.state, mail.release) == ("held", None)
    assert await deployment.raw.get(ggrid) == RAW
    assert isinstance(await release(deployment, ggrid, "bob@y.example"), Released), "again: nothing is sent"
    assert len(next_hop.mail) == 1
    record = (await store.audit.page(AuditFilter(action="quarantine.release"))).rows[0]
    assert (record.actor.kind, record.actor.id, record.count) == ("recipient", "", 1)
    pools = await store.learning.pools()
    assert [(pool.wanted, pool.reporters) for pool in pools] == [(1, 1)]
    reports = await store.learning.pool_reports(None)
    assert "bob" not in reports[0].reporter, "a pool has no address of a person"
    last = await release(deployment, ggrid, "cy@y.example")
    assert isinstance(last, Released)
    mail = await store.quarantine.find(ggrid)
    assert mail
    assert mail.state == "released"
    assert await deployment.raw.get(ggrid) is None


async def test_a_release_to_all_leaves_out_who_has_it(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await hold(deployment)
    await release(deployment, ggrid, "bob@y.example")
    outcome = await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=ANALYST))
    assert isinstance(outcome, Released)
    assert [recipients for _, recipients, _ in next_hop.mail] == [("Bob@y.example",), ("cy@y.example",)]


@pytest.mark.parametrize("verdict", ["malware", "policy"])
async def test_recipients_release_spam_and_bulk_only(deployment: Deployment, next_hop: Any, verdict: str) -> None:
    ggrid = await hold(deployment, verdict)
    assert await release(deployment, ggrid, "bob@y.example") == NOT_FOR_RECIPIENTS
    assert await release(deployment, ggrid, "bob@y.example", dangerous=True) == NOT_FOR_RECIPIENTS
    granted = await release(deployment, ggrid, "bob@y.example", ANALYST)
    if verdict in ("malware", "phishing"):
        assert granted == DANGEROUS
        granted = await release(deployment, ggrid, "bob@y.example", ANALYST, dangerous=True)
    assert isinstance(granted, Released)
    assert len(next_hop.mail) == 1


async def test_who_is_no_recipient_gets_nothing(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await hold(deployment)
    for address in ("eve@y.example", "", "bob@y.example\r\nRCPT TO:<eve@evil.example>", "@y.example"):
        assert await release(deployment, ggrid, address) == NotHeld()
    assert not next_hop.mail


async def test_a_next_hop_that_refuses_and_a_release_under_way(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await hold(deployment)
    next_hop.answers = {"RCPT": "451 later"}
    assert isinstance(await release(deployment, ggrid, "bob@y.example"), NotSent)
    assert await deployment.store.quarantine.recipient_releases(ggrid) == {}
    next_hop.answers = {}
    moment = int(deployment.now * 1_000)
    assert await deployment.store.quarantine.claim(ggrid, "other", moment, moment + 60_000)
    assert await release(deployment, ggrid, "bob@y.example") == Busy()
    await deployment.store.quarantine.give_back(ggrid, "other")
    both = await asyncio.gather(*(release(deployment, ggrid, "bob@y.example") for _ in range(4)))
    assert len(next_hop.mail) == 1
    assert {type(each) for each in both} <= {Released, Busy}
