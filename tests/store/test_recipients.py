"""Requests and entries of recipients, and what of them is erased with an address; on both engines."""

from collections.abc import Awaitable, Callable

import pytest

from gatepost.ids import new_id
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.digest_settings import DigestPreferences
from gatepost.store.messages import MessageRecord
from gatepost.store.personal_data import Person
from gatepost.store.recipient_requests import RequestFilter
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

NewRecord = Callable[..., MessageRecord]
Use = Callable[[Callable[[Store], Awaitable[None]]], None]
BOB = "b@rcpt.example"


def test_requests_are_made_once_paged_and_decided_once(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.store.recipient_requests.MAX_OPEN_OF_RECIPIENT", 3)
    tenant = new_id()

    async def scenario(store: Store) -> None:
        first = new_id()
        assert await store.ask_for_release(first, tenant, "B@rcpt.example", "a\0" + "x" * 900)
        assert await store.ask_for_release(first, tenant, BOB, "again")
        for _ in range(2):
            assert await store.ask_for_release(new_id(), tenant, BOB, "")
        assert not await store.ask_for_release(new_id(), tenant, BOB, ""), "that is enough"
        assert await store.ask_for_release(new_id(), None, "c@rcpt.example", "")
        assert (await store.open_requests(tenant), await store.open_requests()) == (3, 4)
        page = await store.recipient_requests(RequestFilter(tenant), limit=2)
        assert (len(page.rows), page.next) == (2, page.rows[1].id)
        rest = await store.recipient_requests(RequestFilter(tenant), page.next or "", 2)
        assert [row.ggrid for row in rest.rows] == [first]
        assert len(rest.rows[0].said) == 500
        wanted = RequestFilter(kind="release", address="C@rcpt.example")
        assert [row.scope for row in (await store.recipient_requests(wanted)).rows] == [None]
        uid = rest.rows[0].id
        assert await store.recipient_request(uid, new_id()) is None
        assert await store.decide_request(uid, "denied", Actor("user", "ann"), "no\0")
        assert not await store.decide_request(uid, "granted", CLI, ""), "it is decided"
        decided = (await store.recipient_requests(RequestFilter(tenant, "denied"))).rows[0]
        assert (decided.state, decided.decided_by, decided.note) == (
            "denied",
            "user:ann",
            "no\N{REPLACEMENT CHARACTER}",
        )
        assert (await store.audit_page(AuditFilter(action="request."))).rows[0].actor.name == "ann"

    use(scenario)


def test_what_recipients_have_goes_with_their_address_and_with_their_tenant(use: Use, new_record: NewRecord) -> None:
    async def scenario(store: Store) -> None:
        made = await store.create_tenant(new_id())
        assert isinstance(made, Tenant)
        tenant, record = made.uid, new_record(tenant=made.uid)
        await store.hold(record)
        await store.put_digest_preferences(tenant, DigestPreferences(enabled=True, own_entries=True), 0, CLI)
        await store.put_recipient_entry(tenant, BOB, "a@sender.example", "block", CLI)
        await store.put_recipient_entry(tenant, "c@rcpt.example", BOB, "allow", CLI)
        assert [each.sender for each in await store.recipient_entries(tenant)] == ["a@sender.example", BOB]
        await store.ask_for_release(record.ggrid, tenant, BOB, "please")
        await store.mark_released_to(record.ggrid, BOB, Actor("recipient", BOB), new_id())
        assert [each.address for each in await store.recipient_releases(record.ggrid)] == [BOB]
        person = Person(BOB)
        assert {table for table, _ in await store.recipient_data_about(person)} == {
            "recipient_entries",
            "recipient_requests",
            "recipient_releases",
        }
        assert await store.erase_recipient_data(person) == 4
        assert await store.recipient_data_about(person) == ()
        assert await store.recipient_entries(tenant) == ()
        await store.put_recipient_entry(tenant, BOB, "a@sender.example", "block", CLI)
        await store.ask_for_release(record.ggrid, tenant, BOB, "please")
        await store.delete_tenant(tenant)
        assert await store.recipient_data_about(person) == ()
        assert await store.digest_scopes() == ()
        assert await store.digest_runs() == ()

    use(scenario)


def test_a_request_ends_with_its_message(use: Use, new_record: NewRecord) -> None:
    async def scenario(store: Store) -> None:
        record = new_record()
        await store.hold(record)
        await store.ask_for_release(record.ggrid, None, BOB, "")
        assert await store.delete_held(record.ggrid, CLI)
        assert await store.open_requests() == 0

    use(scenario)
