"""Retention of a tenant of its own, shorter or longer than that of the deployment, on both engines."""

import msgspec
import pytest
from tests.store.conftest import NewRecord
from tests.store_reading import mail_engine

from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.store import messages, quarantine
from gatepost.store.audit import AuditFilter
from gatepost.store.engine import Write
from gatepost.store.errors import NotFound
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sql import compose
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

DAY = 86_400_000
NOW = 100 * DAY


async def make_tenants(store: Store) -> tuple[str, str, str]:
    """Tenants with 5 days, with 60 days, and without a retention of their own."""
    made = [await store.tenants.create(name) for name in ("short", "long", "plain")]
    short, long, plain = (tenant.uid for tenant in made if isinstance(tenant, Tenant))
    await store.tenants.set_retention(short, 5, 5)
    await store.tenants.set_retention(long.upper(), 60, 60)
    return short, long, plain


def aged(base: MessageRecord, tenant: str | None, days: int) -> MessageRecord:
    envelope = Envelope("a@x.example", ("b@y.example",), tenant=tenant)
    return msgspec.structs.replace(base, ggrid=new_id(), completed=NOW - days * DAY, envelope=envelope)


async def test_settings(store: Store) -> None:
    short, long, plain = await make_tenants(store)
    assert await store.tenants.retention_limits("history", NOW) == {short: NOW - 5 * DAY, long: NOW - 60 * DAY}
    changed = await store.tenants.set_retention(short, None, 7)
    assert isinstance(changed, Tenant)
    assert (changed.history_days, changed.quarantine_days) == (None, 7)
    assert await store.tenants.retention_limits("history", NOW) == {long: NOW - 60 * DAY}
    assert await store.tenants.retention_limits("quarantine", NOW) == {short: NOW - 7 * DAY, long: NOW - 60 * DAY}
    assert await store.tenants.set_retention(new_id(), 5, 5) == NotFound("tenant")
    (last, *_) = (await store.audit.page(AuditFilter(action="tenant.retention"))).rows
    assert (last.scope, last.sample) == (short, ("history: default", "quarantine: 7"))
    assert plain in {tenant.uid for tenant in await store.tenants.all() if tenant.history_days is None}


@pytest.mark.parametrize("batch", [2, 500])
async def test_results(store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(messages, "PURGE_BATCH", batch)

    short, long, plain = await make_tenants(store)
    kept = set()
    for tenant, days, stays in (
        *((short, 3, True), (short, 6, False), (short, 50, False)),
        *((long, 3, True), (long, 40, True), (long, 50, True), (long, 61, False)),
        *((plain, 20, True), (plain, 31, False)),
        *((None, 20, True), (None, 31, False), (None, 70, False)),
    ):
        record = aged(new_record(), tenant, days)
        await store.messages.record(record)
        kept |= {record.ggrid} if stays else set()
    limits = await store.tenants.retention_limits("history", NOW)
    assert await store.messages.purge(NOW - 30 * DAY, limits) == 6
    assert {row.ggrid for row in (await store.messages.search(MessageFilter())).rows} == kept
    assert await store.messages.purge(NOW - 30 * DAY, limits) == 0


@pytest.mark.parametrize("batch", [2, 500])
async def test_held_mail(store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(quarantine, "PURGE_BATCH", batch)

    short, long, plain = await make_tenants(store)
    kept = set()
    for tenant, days, stays in (
        *((short, 3, True), (short, 6, False), (long, 40, True), (long, 50, True), (long, 61, False)),
        *((plain, 31, False), (None, 20, True), (None, 31, False)),
    ):
        record = aged(new_record(), tenant, days)
        await store.quarantine.hold(record)

        def age(ggrid: str = record.ggrid, days: int = days):  # type: ignore[no-untyped-def]
            yield Write(compose("UPDATE held SET kept = $2 WHERE ggrid = $1"), (ggrid, NOW - days * DAY))

        await mail_engine(store).change(age)
        kept |= {record.ggrid} if stays else set()
    limits = await store.tenants.retention_limits("quarantine", NOW)
    assert await store.quarantine.purge(NOW - 30 * DAY, limits) == 4
    assert {row.record.ggrid for row in (await store.quarantine.search(HeldFilter())).rows} == kept
    assert await store.quarantine.purge(NOW - 30 * DAY) == 2
