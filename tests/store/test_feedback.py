"""What people say of decisions is on the audit trail."""

import msgspec
from tests.store.conftest import NewRecord
from tests.store_reading import list_reports

from gatepost.ids import new_id
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.campaigns import HeldSignature
from gatepost.store.feedback import Before, Correction, Noted
from gatepost.store.store import Store

ANN = Actor("user", "ann", "7")


async def test_a_report_is_audited_and_read_back(store: Store, new_record: NewRecord) -> None:
    tenant = new_id()

    held, seen = new_record(tenant=tenant), new_record()
    await store.quarantine.hold(held)
    await store.messages.record(seen)
    assert await store.feedback.report_wrong(held.ggrid.upper(), "should have been delivered", ANN, tenant)
    assert await store.feedback.report_wrong(seen.ggrid, "should have been held", ANN)
    first, second = await list_reports(store)
    assert (*first.sample, first.actor.label, first.scope) == (
        *(held.ggrid, "should have been delivered"),
        *("user:ann", tenant),
    )
    assert (second.sample[0], second.scope) == (seen.ggrid, None)
    assert second.id > first.id
    newest, _ = (await store.audit.page(AuditFilter())).rows
    assert (newest.actor, newest.action, newest.sample) == (
        *(ANN, "message.reported"),
        (seen.ggrid, "should have been held"),
    )


async def test_what_is_not_on_record_or_another_tenants_is_not_reported(store: Store, new_record: NewRecord) -> None:
    ours, theirs = new_id(), new_id()

    other, global_one = new_record(tenant=theirs), new_record()
    await store.messages.record(other)
    await store.quarantine.hold(global_one)
    for ggrid in (other.ggrid, global_one.ggrid, new_id(), "nonsense"):
        assert not await store.feedback.report_wrong(ggrid, "should have been held", ANN, ours)
    assert (await store.audit.page(AuditFilter())).rows == ()


async def test_a_report_that_is_taken_back_leaves_what_was_before(store: Store, new_record: NewRecord) -> None:
    bob = Actor("user", "bob", "8")
    delivered: Correction = "should have been delivered"
    held: Correction = "should have been held"

    text = tuple(range(1, 9))
    mail = new_record()
    mail = msgspec.structs.replace(mail, report=msgspec.structs.replace(mail.report, features=b"f", signature=text))
    await store.messages.record(mail)
    await store.campaigns.mark_held([HeldSignature(None, mail.ggrid, text, 5)])

    async def see() -> tuple[object, ...]:
        (mark,) = await store.campaigns.marks(0)
        pool = [(each.unwanted, each.reporter) for each in await store.learning.pool_reports(None)]
        flow = await store.quarantine.flow(None, 0, 1 << 60)
        return mark.says, mark.signature, sorted(pool), flow.mistaken

    first = await store.feedback.report_wrong(mail.ggrid, held, ANN)
    assert first == Noted(True, Before("held"))
    reported = ("unwanted", text, [(True, "user:ann")], 0)
    assert await see() == reported
    second = await store.feedback.report_wrong(mail.ggrid, delivered, ANN)
    assert second == Noted(True, Before("unwanted", taught=True))
    assert await see() == ("wanted", text, [(False, "user:ann")], 1)
    assert await store.feedback.take_back(mail.ggrid, delivered, second.before, ANN)
    assert await see() == reported
    third = await store.feedback.report_wrong(mail.ggrid, delivered, bob)
    assert third == Noted(True, Before("unwanted"))
    assert await store.feedback.take_back(mail.ggrid, held, first.before, ANN), "bob has said something else since"
    assert await see() == ("wanted", text, [(False, "user:bob")], 1)
    assert await store.feedback.take_back(mail.ggrid, delivered, third.before, bob)
    assert (await see())[0] == "unwanted", "bob found it so"
    assert (await see())[2:] == ([], 0)
    await store.feedback.take_back(mail.ggrid, held, Before(), ANN)
    assert (await see())[:2] == ("withdrawn", ())
    assert await store.feedback.state(mail.ggrid) is None
    assert not await store.feedback.take_back(mail.ggrid, held, Before(), ANN, new_id()), "another tenant's"
    assert not await store.feedback.take_back(new_id(), held, Before(), ANN)
