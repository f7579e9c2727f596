"""Notices to recipients: planned as one step, sent once to one's own people, taken back while they rest."""

from collections.abc import Awaitable, Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest

from gatepost.analysis.report import Report
from gatepost.digests.mail import list_languages
from gatepost.digests.notices import OUTSIDE, NoticeSender, ToldMessage, build_notice, find_told
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.service.schedules import NO_NEXT_HOP, NoticeSchedule
from gatepost.smtp.client import Tenancy
from gatepost.smtp.routing import Relay, Routing
from gatepost.store import recipient_notices
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.digests import DigestPreferences
from gatepost.store.message_records import MessageRecord
from gatepost.store.recipient_notices import DayLimit, MessageToTell, RecipientNotice
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.times import now

WORK = "018f0000-0000-7000-8000-000000000001"


class Deployment:
    """A store with one tenant, and what sends its notices."""

    def __init__(self, store: Store, hop: str) -> None:
        self.store, self.relay, self.tenant = store, Relay(hop, "off", "gw.example"), ""

    async def prepare(self) -> None:
        made = await self.store.tenants.create(new_id())
        assert isinstance(made, Tenant)
        self.tenant = made.uid
        await self.store.tenants.set_domains(self.tenant, ["example.com"])

    def sender(self) -> NoticeSender:
        async def no_pause(_seconds: float) -> None:
            return None

        tenancy = Tenancy({}, self.store.tenants.of_domain)
        routing = Routing.through(self.relay)
        return NoticeSender(self.store, routing, tenancy, "filter@gw.example", {}, 300, no_pause)

    async def mail(
        self, *recipients: str, subject: str = "Offer", held: bool = False, is_trial: bool = False
    ) -> MessageToTell:
        decision = "quarantine" if held else "deliver"
        report = Report("phishing", decision, (), 900, "it adds up", subject=subject, senders=("ann@shop.example",))  # type: ignore[arg-type]
        envelope = Envelope("ann@shop.example", recipients, tenant=self.tenant)
        source = "page" if is_trial else ""
        record = MessageRecord(new_id(), now(), now(), envelope, 9, "ab" * 32, report, source=source)
        await self.store.messages.record(record)
        if held:
            await self.store.quarantine.hold(record)
        return MessageToTell(record.ggrid, self.tenant, recipients)


Use = Callable[[Callable[[Deployment], Awaitable[None]]], None]


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices rest for no time, unless a test says so."""
    monkeypatch.setattr(recipient_notices, "REST_MILLISECONDS", 0)


def read(raw: bytes) -> tuple[EmailMessage, str, str]:
    parsed = message_from_bytes(raw, policy=default)
    assert isinstance(parsed, EmailMessage)
    text, page = parsed.get_body(("plain",)), parsed.get_body(("html",))
    assert text
    assert page
    return parsed, str(text.get_content()), str(page.get_content())


def test_each_recipient_gets_one_notice_of_own_messages(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        messages = [
            await deployment.mail("bob@example.com", "Cy@example.com", "eve@outside.example", subject="Prize 1"),
            await deployment.mail("bob@example.com", subject="Prize 2", held=True),
        ]
        notices = deployment.store.recipient_notices
        assert await notices.plan(messages, "Call 4711.", CLI, WORK) == 3
        assert await deployment.sender().run() == (2, 1)
        found = {recipients: read(raw) for _, recipients, raw in next_hop.mail}
        assert set(found) == {("bob@example.com",), ("cy@example.com",)}
        mail, text, page = found["bob@example.com",]
        assert mail["Auto-Submitted"] == "auto-generated"
        for shown in (text, page):
            assert "Prize 1" in shown
            assert "Prize 2" in shown
            assert "Call 4711." in shown
            assert "http" not in shown, "a notice has no links"
        assert "delivered to you and proved" in text
        assert "held were not delivered" in text
        assert "Prize 2" not in found["cy@example.com",][1]
        counts = await notices.counts(WORK)
        assert (counts.all, counts.waiting, counts.failed) == (3, 0, 1)
        assert counts.faults == (("eve@outside.example", OUTSIDE),)
        assert await deployment.sender().run() == (0, 0), "each is sent once"
        notes = await deployment.store.message_notes.of([messages[0].ggrid])
        assert [note.said for note in notes] == ["Recipients are notified. Call 4711."]
        (record,) = (await deployment.store.audit.page(AuditFilter(action="message.notify"))).rows
        assert (record.scope, record.count) == (deployment.tenant, 3)

    use(scenario)


def test_a_step_is_taken_back_while_it_rests(use: Use, next_hop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipient_notices, "REST_MILLISECONDS", 60_000)

    async def scenario(deployment: Deployment) -> None:
        message, notices = (
            await deployment.mail("bob@example.com", "cy@example.com"),
            deployment.store.recipient_notices,
        )
        await notices.plan([message], "", CLI, WORK)
        assert await deployment.sender().run() == (0, 0)
        assert await notices.take_back(WORK, CLI) == (2, 0)
        assert await deployment.store.message_notes.of([message.ggrid]) == ()
        monkeypatch.setattr(recipient_notices, "REST_MILLISECONDS", 0)
        await notices.plan([message], "", CLI, WORK)
        first, second = await notices.due()
        assert await notices.claim(first)
        assert not await notices.claim(first), "another node has it"
        assert await notices.take_back(WORK, CLI) == (1, 1)
        assert not await notices.claim(second), "it was taken back"
        assert len(await deployment.store.message_notes.of([message.ggrid])) == 1
        assert await notices.take_back("", CLI) == (0, 0)
        assert await notices.purge(now() + 1) == 1
        assert next_hop.mail == []

    use(scenario)


def test_a_next_hop_that_is_down_or_refuses(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        message, notices = await deployment.mail("bob@example.com"), deployment.store.recipient_notices
        await notices.plan([message], "", CLI, WORK)
        await NoticeSchedule(deployment.store, None).look()
        assert (await notices.counts(WORK)).faults == (("bob@example.com", NO_NEXT_HOP),)
        next_hop.answers = {"RCPT TO:<b": "451 later", "RCPT TO:<c": "550 never"}
        assert await deployment.sender().run() == (0, 1)
        counts = await notices.counts(WORK)
        assert (counts.waiting, counts.failed) == (1, 0)
        assert "451" in counts.faults[0][1]
        assert await notices.due() == (), "it is tried again later"
        other = await deployment.mail("cy@example.com")
        await notices.plan([other], "", CLI, WORK)
        schedule = NoticeSchedule(deployment.store, deployment.sender())
        await schedule.look()
        (metric,) = schedule.collect()
        assert {each.labels["result"]: each.value for each in metric.samples if each.value} == {"failed": 1}
        assert (await notices.counts(WORK)).failed == 1

    use(scenario)


HOSTILE = "<script>x</script> https://evil.example/\r\nBcc: all@example.com \u202eexe"


@pytest.mark.parametrize("language", [code for code, _ in list_languages()])
def test_hostile_text_in_every_language(language: str) -> None:
    report = Report("phishing", "deliver", (), 900, "it adds up", subject=HOSTILE, senders=(HOSTILE,))
    record = MessageRecord(new_id(), now(), now(), Envelope(HOSTILE, ("bob@example.com",)), 9, "ab" * 32, report)
    notice = RecipientNotice(new_id(), "", None, "bob@example.com", (record.ggrid,), 23, HOSTILE, "ann", now())
    preferences = DigestPreferences(language=language)
    raw = build_notice(notice, [ToldMessage(record, True), ToldMessage(record, False)], preferences, "f@gw.example")
    mail, text, page = read(raw.as_bytes())
    assert mail["Bcc"] is None
    assert mail["Content-Language"] == language
    assert "<script" not in page
    assert "\u202e" not in text
    assert "22" in text or "21" in text, "how many are not listed"
    assert ('dir="rtl"' in page) == (language == "ar")


def test_a_tenant_has_so_many_notices_a_day(use: Use, next_hop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(deployment: Deployment) -> None:
        message, notices = await deployment.mail("a@example.com", "b@example.com"), deployment.store.recipient_notices
        other = MessageToTell(new_id(), None, ("c@example.com", "d@example.com", "e@example.com"))
        assert await notices.plan([message], "", CLI, WORK, 3) == 2
        assert await notices.plan([message], "", CLI, "second", 3) == DayLimit(deployment.tenant, 1, 2)
        assert await notices.find_limit([message], 3) == DayLimit(deployment.tenant, 1, 2)
        assert (await notices.counts("second")).all == 0, "of a step that is too large, nothing is sent"
        assert await notices.plan([other], "", CLI, "third", 3) == 3, "others have their own number"
        await notices.take_back(WORK, CLI)
        assert await notices.find_limit([message], 3) is None, "what was taken back does not count"
        assert await notices.plan([message], "", CLI, "fourth", 3) == 2
        assert await notices.find_limit([message], 3) is not None
        monkeypatch.setattr(recipient_notices, "now", lambda: now() + recipient_notices.DAY + 1_000)
        assert await notices.find_limit([message], 3) is None, "a day later"

    use(scenario)


def test_nobody_is_told_of_a_trial(use: Use, next_hop: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        mail, trial = await deployment.mail("bob@example.com"), await deployment.mail("bob@example.com", is_trial=True)
        told = await find_told(deployment.store, [trial.ggrid, mail.ggrid], deployment.tenant)
        assert [each.record.ggrid for each in told] == [mail.ggrid]
        assert await deployment.store.messages.trials([trial.ggrid, mail.ggrid, new_id()]) == {trial.ggrid}

    use(scenario)
