"""Requests and entries of recipients, and what of them is erased with an address; on both engines."""

import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.ids import new_id
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.digests import DigestPreferences
from gatepost.store.privacy import Person
from gatepost.store.recipients import RequestFilter
from gatepost.store.store import Store

BOB = "b@rcpt.example"


async def test_requests_are_made_once_paged_and_decided_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.store.recipients.MAX_OPEN_OF_RECIPIENT", 3)
    tenant = new_id()

    first = new_id()
    assert await store.recipients.ask_for_release(first, tenant, "B@rcpt.example", "a\0" + "x" * 900)
    assert await store.recipients.ask_for_release(first, tenant, BOB, "again")
    for _ in range(2):
        assert await store.recipients.ask_for_release(new_id(), tenant, BOB, "")
    assert not await store.recipients.ask_for_release(new_id(), tenant, BOB, ""), "that is enough"
    assert await store.recipients.ask_for_release(new_id(), None, "c@rcpt.example", "")
    assert (await store.recipients.count_open(tenant), await store.recipients.count_open()) == (3, 4)
    page = await store.recipients.requests(RequestFilter(tenant), limit=2)
    assert (len(page.rows), page.next) == (2, page.rows[1].id)
    rest = await store.recipients.requests(RequestFilter(tenant), page.next or "", 2)
    assert [row.ggrid for row in rest.rows] == [first]
    assert len(rest.rows[0].said) == 500
    wanted = RequestFilter(kind="release", address="C@rcpt.example")
    assert [row.scope for row in (await store.recipients.requests(wanted)).rows] == [None]
    uid = rest.rows[0].id
    assert await store.recipients.find_request(uid, new_id()) is None
    assert await store.recipients.decide(uid, "denied", Actor("user", "ann"), "no\0")
    assert not await store.recipients.decide(uid, "granted", CLI, ""), "it is decided"
    decided = (await store.recipients.requests(RequestFilter(tenant, "denied"))).rows[0]
    assert (decided.state, decided.decided_by, decided.note) == (
        "denied",
        "user:ann",
        "no\N{REPLACEMENT CHARACTER}",
    )
    assert (await store.audit.page(AuditFilter(action="request."))).rows[0].actor.name == "ann"


async def test_what_recipients_have_goes_with_their_address_and_with_their_tenant(
    store: Store, new_record: NewRecord
) -> None:
    made = await new_tenant(store, new_id())
    tenant, record = made.uid, new_record(tenant=made.uid)
    await store.quarantine.hold(record)
    await store.digests.put_preferences(tenant, DigestPreferences(enabled=True, own_entries=True), 0, CLI)
    await store.recipients.put_entry(tenant, BOB, "a@sender.example", "block", CLI)
    await store.recipients.put_entry(tenant, "c@rcpt.example", BOB, "allow", CLI)
    assert [each.sender for each in await store.recipients.entries(tenant)] == ["a@sender.example", BOB]
    await store.recipients.ask_for_release(record.ggrid, tenant, BOB, "please")
    await store.quarantine.mark_released_to(record.ggrid, BOB, Actor("recipient", BOB), new_id())
    assert list(await store.quarantine.recipient_releases(record.ggrid)) == [BOB]
    person = Person(BOB)
    assert {table for table, _ in await store.privacy.recipient_data_about(person)} == {
        "recipient_entries",
        "recipient_requests",
        "recipient_releases",
    }
    assert await store.privacy.erase_recipient_data(person) == 4
    assert await store.privacy.recipient_data_about(person) == ()
    assert await store.recipients.entries(tenant) == ()
    await store.recipients.put_entry(tenant, BOB, "a@sender.example", "block", CLI)
    await store.recipients.ask_for_release(record.ggrid, tenant, BOB, "please")
    await store.tenants.delete(tenant)
    assert await store.privacy.recipient_data_about(person) == ()
    assert await store.digests.scopes() == ()
    assert await store.digests.runs() == ()


async def test_a_request_ends_with_its_message(store: Store, new_record: NewRecord) -> None:
    record = new_record()
    await store.quarantine.hold(record)
    await store.recipients.ask_for_release(record.ggrid, None, BOB, "")
    assert await store.quarantine.delete(record.ggrid, CLI)
    assert await store.recipients.count_open() == 0
