"""What people say of decisions is on the audit trail."""

from collections.abc import Awaitable, Callable

from tests.store_reading import list_reports

from gatepost.ids import new_id
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store

NewRecord = Callable[..., MessageRecord]
Use = Callable[[Callable[[Store], Awaitable[None]]], None]

ANN = Actor("user", "ann", "7")


def test_a_report_is_audited_and_read_back(use: Use, new_record: NewRecord) -> None:
    tenant = new_id()

    async def scenario(store: Store) -> None:
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

    use(scenario)


def test_what_is_not_on_record_or_another_tenants_is_not_reported(use: Use, new_record: NewRecord) -> None:
    ours, theirs = new_id(), new_id()

    async def scenario(store: Store) -> None:
        other, global_one = new_record(tenant=theirs), new_record()
        await store.messages.record(other)
        await store.quarantine.hold(global_one)
        for ggrid in (other.ggrid, global_one.ggrid, new_id(), "nonsense"):
            assert not await store.feedback.report_wrong(ggrid, "should have been held", ANN, ours)
        assert (await store.audit.page(AuditFilter())).rows == ()

    use(scenario)
