"""Two cores on one storage: what is reported at one, and what its pool teaches, the other knows within seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.waiting_client import WaitingClient

from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.learning.run import learn_pool
from gatepost.mail.message import Envelope
from gatepost.policy.layers import unchanged_policies
from gatepost.policy.rules import OwnRule
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody, Spool
from gatepost.service.core import build_guard
from gatepost.service.data_folder import DataFolder
from gatepost.service.plan import Plan, SharedParts
from gatepost.settings.keys import GuardSettings, LearningSettings
from gatepost.smtp.services import ReportReading
from gatepost.store import open_store
from gatepost.store.audit import CLI, Actor
from gatepost.store.feedback import MailReport
from gatepost.store.learning import TaughtMessage
from gatepost.store.own_rules import RuleSet
from gatepost.store.store import Store
from gatepost.times import now
from gatepost.workers.protocol import Extracted

ANN = Actor("user", "ann")
SECONDS = 120.0
LETTER = """The gardeners will come on Monday morning and begin with the hedge behind the kitchen. Please leave
the side gate open for them and bring the chairs inside before eight. After lunch they plant bulbs along the path, so
walk on the gravel for a week or two. Questions about the colours go to Martha, who has chosen tulips and a few lilies.
The bill is shared among the four houses as it was last year, and the shed key hangs on its usual hook by the door.
"""


def mail(number: int, kind: str) -> bytes:
    """Messages of one mailbox: offers that its owner does not want, and minutes that the owner does."""
    offers = "kettles are made in our works and leave by ship each month ask for the list of parts and prices".split()
    minutes = "the committee met on the roof garden and agreed to paint the fence before the winter begins".split()
    words = offers if kind == "offer" else minutes
    turned = words[number % 7 :] + words[: number % 7]
    body = " ".join(turned) + f"\r\nunit{number * 7919 % 1000} line{number * 104729 % 997}\r\n"
    head = f"From: Desk <desk{number}@{kind}s.example>\r\nTo: ann@house.example\r\nSubject: {kind} {number}\r\n"
    return (
        f"{head}Date: Sun, 15 Nov 2026 10:00:00 +0000\r\nMessage-ID: <{number}@{kind}s.example>\r\n\r\n{body}".encode()
    )


async def scan(guard: Guard, raw: bytes) -> ScanResult:
    envelope = Envelope("desk@works.example", ("ann@house.example",), "192.0.2.7", "mx.works.example")
    result = await guard.scan(ScanRequest(new_id(), now(), envelope, "rest"), BytesBody(raw))
    assert isinstance(result, ScanResult)
    return result


async def wait_for(check: Callable[[], Awaitable[bool]]) -> bool:
    """Whether something comes true: in a second or two, and later on a busy machine."""
    for _ in range(int(SECONDS / 0.25)):
        if await check():
            return True
        await asyncio.sleep(0.25)
    return await check()


@pytest.mark.process
@pytest.mark.parametrize("engine", [pytest.param("sqlite", marks=pytest.mark.variant), "postgresql"])
def test_what_one_core_learns_the_other_knows(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'g.db'}" if engine == "sqlite" else str(request.getfixturevalue("postgres_url"))

    async def scenario() -> None:
        stores = [open_store(url, tmp_path) for _ in range(2)]
        settings = GuardSettings(worker_processes=1)
        plan, spool = Plan(DataFolder(tmp_path), settings), Spool(tmp_path)
        policies = [PoliciesInForce(unchanged_policies(), store.own_rules) for store in stores]
        cores = [
            build_guard(plan, settings, SharedParts(store, spool, each, CollectorRegistry()))
            for store, each in zip(stores, policies, strict=True)
        ]
        for core, each in zip(cores, policies, strict=True):
            await each.start()
            await core.start()
        try:
            await _report_and_judge(stores[0], *cores)
            await _rule_and_judge(stores[0], cores[1])
            await _report_by_mail(stores[0], *cores)
            if engine == "sqlite":
                await _teach_and_judge(stores[0], *cores)
        finally:
            for each in policies:
                await each.stop()
            for core, store in zip(cores, stores, strict=True):
                await core.stop()
                await store.close()

    asyncio.run(scenario())


async def _report_and_judge(store: Store, here: Guard, there: Guard) -> None:
    """A report at one core marks near-copies at the other."""
    text = mail(3, "minute") + LETTER.encode()
    first = await scan(here, text)
    assert (await scan(there, text)).report.decision == "deliver"
    assert await store.feedback.report_wrong(first.ggrid, "should have been held", ANN)

    async def is_marked() -> bool:
        return "campaign:marked" in (await scan(there, text)).report.tags

    assert await wait_for(is_marked)


async def _report_by_mail(store: Store, here: Guard, there: Guard) -> None:
    """A message that is forwarded to a reporting address marks near-copies at the other core."""
    text = mail(5, "offer") + LETTER.replace("gardeners", "plumbers").encode()
    head = b"From: ann@house.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nLook.\r\n"
    report = head + b"--b\r\nContent-Type: message/rfc822\r\n\r\n" + text + b"\r\n--b--\r\n"
    request = ScanRequest(new_id(), now(), Envelope("ann@house.example"), "smtp")
    reading = await here.read_report(request, BytesBody(report))
    assert isinstance(reading, ReportReading)
    assert reading.carrier.senders == ("ann@house.example",)
    (message,) = reading.messages
    assert (message.sender, bool(message.features), bool(message.signature)) == ("offers.example", True, True)
    assert await store.messages.find(request.ggrid) is None
    assert await store.feedback.report_mail(MailReport(request.ggrid, None, ANN, True, reading.messages)) == 1

    async def is_marked() -> bool:
        return "campaign:marked" in (await scan(there, text)).report.tags

    assert await wait_for(is_marked)


async def _rule_and_judge(store: Store, there: Guard) -> None:
    """A rule that is saved at one core is applied by the workers of the other, and no longer when it is deleted."""
    text = mail(4, "minute")
    rule = OwnRule('sender_domain == "minutes.example" && "x-none" in headers || size > 10', "Minutes", "spam", 9.0)
    saved = await store.own_rules.put(None, "no-minutes", rule, 0, ANN)
    assert isinstance(saved, RuleSet)

    async def has_rule() -> bool:
        return "rule:no-minutes" in (await scan(there, text)).report.tags

    async def has_no_rule() -> bool:
        return not await has_rule()

    assert await wait_for(has_rule)
    report = (await scan(there, text)).report
    (line,) = [line for line in report.lines if line.kind == "rule:no-minutes"]
    assert (line.title, line.weight, line.override) == ("Minutes", 900, "rule of the deployment")
    assert isinstance(await store.own_rules.delete(None, "no-minutes", saved.version, ANN), RuleSet)
    assert await wait_for(has_no_rule)


async def _teach_and_judge(store: Store, here: Guard, there: Guard) -> None:
    """Reports at one core teach a model, and the other judges by it; after a rollback it does not."""
    for kind, says in (("offer", True), ("minute", False)):
        taught = []
        for number in range(60):
            # The core that reads a reported message puts nothing on record.
            request = ScanRequest(new_id(), now(), Envelope())
            found = await here.read_features(request, BytesBody(mail(number, kind)), WaitingClient())
            assert isinstance(found, Extracted)
            assert found.row
            taught.append(TaughtMessage(f"{kind}{number}", found.row))
        assert await store.learning.add_reports(None, CLI, taught, unwanted=says) == 60
    assert await store.messages.find(request.ggrid) is None
    delivered = await scan(there, mail(500, "offer"))
    assert delivered.report.features
    assert "text:learnt-unwanted" not in delivered.report.tags
    outcome = await learn_pool(store, unchanged_policies(), LearningSettings(), None)
    assert outcome
    assert outcome.result == "taken", outcome.reason
    assert outcome.look_back is not None
    assert outcome.look_back.considered > 0

    async def is_learnt() -> bool:
        return "text:learnt-unwanted" in (await scan(there, mail(501, "offer"))).report.tags

    assert await wait_for(is_learnt)
    report = (await scan(there, mail(502, "offer"))).report
    (line,) = [line for line in report.lines if line.kind == "text:learnt-unwanted"]
    assert line.facts["taught_by"] == f"122 reports of the deployment (model {outcome.version})"
    assert "text:learnt-unwanted" not in (await scan(there, mail(503, "minute"))).report.tags
    assert (await store.learning.roll_back(None, ANN))[0] == outcome.version

    async def is_forgotten() -> bool:
        return "text:learnt-unwanted" not in (await scan(there, mail(504, "offer"))).report.tags

    assert await wait_for(is_forgotten)
