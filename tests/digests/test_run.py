"""Digests are planned from held mail and sent once, on both engines, through a real next hop."""

import re
from email import message_from_bytes
from email.policy import default
from typing import Any

import msgspec
import pytest
from tests.store.accounts import new_tenant

from gatepost.analysis.report import Report
from gatepost.digests.mail import DigestSender, read_link
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.service.schedules import DigestSchedule
from gatepost.settings.delivery import DigestSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.routing import Relay, Routing
from gatepost.store.audit import CLI, Actor
from gatepost.store.digests import DIGEST, DigestPreferences, DigestRecord
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import now

REPORT = Report("spam", "quarantine", (), 700, "it adds up", subject="Offer", senders=("ann@shop.example",))
LINK = re.compile(r"https://mail\.example/digest/([A-Za-z0-9_-]+)")


class Deployment:
    """A store with one tenant, and what sends its digests."""

    def __init__(self, store: Store, hop: str) -> None:
        self.store, self.relay = store, Relay(hop, "off", "gw.example")
        self.tenant = ""

    def sender(self, **settings: Any) -> DigestSender:
        async def no_pause(_seconds: float) -> None:
            return None

        chosen = DigestSettings(**settings)
        routing, tenancy = Routing.through(self.relay), Tenancy({}, self.store.tenants.of_domain)
        return DigestSender(
            self.store, routing, tenancy, chosen, "https://mail.example", "filter@gw.example", {}, no_pause
        )

    async def prepare(self, **preferences: Any) -> None:
        made = await new_tenant(self.store, new_id())
        self.tenant = made.uid
        await self.store.tenants.set_domains(self.tenant, ["example.com"])
        await self.prefer(**preferences)

    async def prefer(self, **preferences: Any) -> None:
        seen = (await self.store.digests.scope(self.tenant)).modified
        wanted = DigestPreferences(**{"enabled": True, **preferences})
        assert await self.store.digests.put_preferences(self.tenant, wanted, seen, CLI)

    async def hold(self, *recipients: str, report: Report = REPORT, tenant: str | None = "own") -> str:
        owner = self.tenant if tenant == "own" else tenant
        envelope = Envelope("ann@shop.example", recipients or ("bob@example.com",), tenant=owner)
        record = MessageRecord(new_id(), now(), now(), envelope, 9, "ab" * 32, report)
        await self.store.quarantine.hold(record)
        return record.ggrid

    async def send(self, **settings: Any) -> DigestRecord:
        record = await self.sender(**settings).run(self.tenant, at_once=True)
        assert isinstance(record, DigestRecord)
        return record


def text_of(raw: bytes) -> str:
    body = message_from_bytes(raw, policy=default).get_body(("plain",))
    assert body
    return str(body.get_content())


async def test_each_recipient_gets_one_digest_of_its_own_mail(deployment: Deployment, next_hop: Any) -> None:
    both = await deployment.hold("bob@example.com", "Cy@example.com", "eve@outside.example")
    only = await deployment.hold("bob@example.com")
    await deployment.hold("bob@example.com", tenant=None)
    record = await deployment.send()
    assert (record.sent, record.failed) == (2, 0)
    keys = await deployment.store.digests.keys()
    found = {}
    for sender, recipients, raw in next_hop.mail:
        assert sender == "filter@gw.example"
        links = [read_link(text, keys, now()) for text in LINK.findall(text_of(raw))]
        found[recipients] = {link.item for link in links if link}
    assert found == {("bob@example.com",): {both, only}, ("cy@example.com",): {both}}
    assert (await deployment.send()).sent == 0, "nothing was held since"
    await deployment.hold("cy@example.com")
    assert (await deployment.send()).sent == 1
    assert len(next_hop.mail) == 3


async def test_a_kill_before_the_record_repeats_one_digest_and_loses_none(
    deployment: Deployment, next_hop: Any
) -> None:
    for name in "abc":
        await deployment.hold(f"{name}@example.com")
    sender, mark, calls = deployment.sender(), deployment.store.digests.mark_sent, []

    async def dies(uid: str, expires: int, fault: str = "") -> None:
        calls.append(uid)
        if len(calls) == 2:
            raise StorageError("the process was killed here")
        await mark(uid, expires, fault)

    deployment.store.digests.mark_sent = dies  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        await sender.run(deployment.tenant, at_once=True)
    assert len(next_hop.mail) == 2
    schedule = DigestSchedule(deployment.store, sender)
    await schedule.look()
    assert [recipients for _, recipients, _ in next_hop.mail].count(("b@example.com",)) <= 2
    assert {recipients[0][0] for _, recipients, _ in next_hop.mail} == {"a", "b", "c"}
    assert len(next_hop.mail) == 4
    ids = [message_from_bytes(raw)["Message-ID"] for _, _, raw in next_hop.mail]
    assert len(set(ids)) == 3, "the repeated one is the same message"
    await schedule.look()
    assert len(next_hop.mail) == 4


async def test_planning_goes_on_where_it_was_killed(
    deployment: Deployment, next_hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.store.digests.PLAN_STEP", 4)

    for number in range(6):
        await deployment.hold(f"r{number}@example.com")
    store, tenant = deployment.store, deployment.tenant
    dead = await store.jobs.hold(DIGEST, tenant, "dead", now() + 60_000)
    assert dead
    assert await store.digests.begin_planning(dead, now(), now() + 86_400_000)
    assert await store.digests.plan(dead, ["example.com"]) == 4
    assert await deployment.sender().run(tenant) is None, "the lease still stands"
    assert await store.digests.plan(msgspec.structs.replace(dead, holder="another"), ["example.com"]) == 0
    assert await store.jobs.renew(dead, now() - 1)
    await DigestSchedule(store, deployment.sender()).look()
    assert len(next_hop.mail) == 6


async def test_what_cannot_be_sent_waits_and_what_is_refused_is_said(deployment: Deployment, next_hop: Any) -> None:
    store, tenant = deployment.store, deployment.tenant
    await deployment.hold("a@example.com")
    await deployment.hold("b@example.com")
    next_hop.answers = {"RCPT TO:<a@": "451 later", "RCPT TO:<b@": "550 never"}
    record = await deployment.send()
    assert (record.sent, record.failed) == (0, 2)
    counts = await store.digests.counts(tenant)
    assert (counts.waiting, counts.failed) == (1, 1)
    next_hop.answers = {}
    assert (await deployment.send()).sent == 0, "it is not its turn yet"
    await deployment.hold("a@example.com")
    waiting = await store.digests.counts(tenant)
    assert waiting.waiting == 1


async def test_limits_of_a_run_and_of_a_digest(deployment: Deployment, next_hop: Any) -> None:
    for name in "abc":
        for _ in range(4):
            await deployment.hold(f"{name}@example.com")
    record = await deployment.send(max_recipients=2, max_messages=3)
    assert (record.sent, record.is_cut) == (2, True)
    text = text_of(next_hop.mail[0][2])
    assert len(LINK.findall(text)) == 3
    assert "1 more message is held" in text
    schedule = DigestSchedule(deployment.store, deployment.sender())
    await schedule.look()
    assert len(next_hop.mail) == 2, "the rest follows later"
    assert (await deployment.send()).sent == 1


async def test_mail_that_is_gone_is_not_listed(deployment: Deployment, next_hop: Any) -> None:
    gone, had = await deployment.hold(), await deployment.hold("bob@example.com", "cy@example.com")
    await deployment.store.quarantine.delete(gone, CLI)
    await deployment.store.quarantine.mark_released_to(
        had, "bob@example.com", Actor("recipient", "bob@example.com"), new_id()
    )
    assert (await deployment.send()).failed == 0
    assert [recipients for _, recipients, _ in next_hop.mail] == [("cy@example.com",)]
    assert (await deployment.store.digests.counts(deployment.tenant)).waiting == 0


async def test_without_a_tenant_the_domains_are_named(deployment: Deployment, next_hop: Any) -> None:
    deployment.tenant = ""
    await deployment.prefer(domains=("here.example", "example.com"))
    for address in ("a@here.example", "b@example.com", "c@outside.example"):
        await deployment.hold(address, tenant=None)
    await deployment.send()
    assert [recipients for _, recipients, _ in next_hop.mail] == [("a@here.example",)], "example.com is a tenant's"


async def test_only_who_wants_digests_gets_them(deployment: Deployment, next_hop: Any) -> None:
    await deployment.hold()
    schedule = DigestSchedule(deployment.store, deployment.sender())
    await schedule.look()
    assert not next_hop.mail, "they are not due"
    await deployment.prefer(enabled=False)
    assert (await deployment.send()).message == "digests are switched off"
    await schedule.look()
    assert not next_hop.mail
    await DigestSchedule(deployment.store, None).look()


async def test_a_day_has_one_run(deployment: Deployment) -> None:
    preferences = DigestPreferences(hour=7, zone="Europe/Berlin")
    summer = 1_782_885_600_000  # 2026-07-01 06:00 UTC, 08:00 there
    due = preferences.next_time(summer)
    assert due == summer + 23 * 3_600_000
    assert preferences.next_time(due) == due + 86_400_000
    assert DigestPreferences(zone="Nowhere/Land").next_time(summer) == summer + 3_600_000
    run = next(each for each in await deployment.store.digests.runs() if each.scope == deployment.tenant)
    assert now() < run.next_run <= now() + 86_400_000
    seen = (await deployment.store.digests.scope(deployment.tenant)).modified
    changed = msgspec.structs.replace(preferences, enabled=True)
    assert await deployment.store.digests.put_preferences(deployment.tenant, changed, seen - 1, CLI) is None


async def test_keys_are_replaced_and_revoked(deployment: Deployment) -> None:
    store = deployment.store
    first = await store.digests.current_key(1_000)
    assert await store.digests.current_key(1_000) == first
    second = await store.digests.current_key(1_000, renew=True)
    assert [key.number for key in await store.digests.keys()] == [second.number, first.number]
    assert first.secret != second.secret
    third = await store.digests.current_key(1_000, renew=True, revoke=True)
    assert [key.number for key in await store.digests.keys()] == [third.number]
