"""Tenants: unique names, their domains, and a deletion that leaves nothing of theirs but the audit trail."""

import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import tenants
from gatepost.store.api_keys import ApiKey, KeyRefused
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

ANN = Actor("user", "ann")


async def test_tenants(store: Store) -> None:
    assert await store.tenants.all() == ()
    first, second = await new_tenant(store, "Müller"), await new_tenant(store, "b")
    assert first.uid != second.uid
    assert first.name == "Müller"
    assert await store.tenants.all() == (first, second)
    assert await store.tenants.find(first.uid.upper()) == first
    assert await store.tenants.find(new_id()) is None
    assert await store.tenants.find("\0") is None
    assert await store.tenants.create("b") == NameTaken("b")


async def test_the_tenant_of_a_domain_is_the_one_of_now(store: Store) -> None:
    one = await new_tenant(store, "one")
    for domain in ("", "a.example", "b.example", "a.example"):
        await store.tenants.set_domains(one.uid, [domain] if domain else [], ANN)
        assert await store.tenants.of_domain("a.example") == (one.uid if domain == "a.example" else None)


async def test_domains_belong_to_one_tenant(store: Store) -> None:
    one, two = await new_tenant(store, "one"), await new_tenant(store, "two")
    given = await store.tenants.set_domains(one.uid, ["b.example", "a.example", "a.example"], ANN)
    assert given == Tenant(one.uid, "one", one.created, ("a.example", "b.example"))
    assert await store.tenants.find(one.uid) == given
    assert await store.tenants.all() == (given, two)
    assert await store.tenants.of_domain("a.example") == one.uid
    assert await store.tenants.of_domain("c.example") is None
    assert await store.tenants.set_domains(two.uid, ["c.example", "b.example"], ANN) == NameTaken("b.example")
    assert await store.tenants.of_domain("c.example") is None, "nothing of it"
    await store.tenants.set_domains(one.uid, ["a.example"], ANN)
    assert await store.tenants.set_domains(two.uid, ["b.example"], ANN) == Tenant(
        two.uid, "two", two.created, ("b.example",)
    )
    assert await store.tenants.set_domains(new_id(), [], ANN) == NotFound("tenant")


async def test_a_deleted_tenant_leaves_only_its_trail(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "BATCH", 3)

    gone, stays = await new_tenant(store, "gone"), await new_tenant(store, "stays")
    keys, records = {}, {}
    for tenant in (gone, stays):
        entries = [NewEntry(str(n), str(n)) for n in range(10)]
        await store.lists.add(tenant.uid, BY_NAME["blocked-urls"], entries, ANN)
        await store.tenants.set_domains(tenant.uid, [f"{tenant.name}.example"], ANN)
        created = await store.api_keys.create("k", tenant.uid, False, None)
        assert isinstance(created, tuple)
        keys[tenant.name] = created[0]
        records[tenant.name] = [new_record(tenant=tenant.uid) for _ in range(7)]
        for record in records[tenant.name]:
            await store.messages.record(record)
    assert await store.tenants.delete(gone.uid.upper(), ANN) == Tenant(
        gone.uid, "gone", gone.created, ("gone.example",)
    )
    assert await store.tenants.delete(gone.uid, ANN) == NotFound("tenant")
    assert [tenant.name for tenant in await store.tenants.all()] == ["stays"]
    assert await store.tenants.of_domain("gone.example") is None
    assert await store.api_keys.authenticate(keys["gone"]) == KeyRefused("unknown")
    assert isinstance(await store.api_keys.authenticate(keys["stays"]), ApiKey)
    assert [await store.messages.find(record.ggrid) for record in records["gone"]] == [None] * 7
    assert [await store.messages.find(record.ggrid) for record in records["stays"]] == records["stays"]
    assert not any(state.size for state in await store.lists.all(gone.uid))
    assert await store.list_lookup.find(gone.uid, (("url", ("1",)),)) == ()
    assert len(await store.list_lookup.find(stays.uid, (("url", ("1",)),))) == 1
    assert {record.action for record in (await store.audit.page(AuditFilter(scope=gone.uid))).rows} == {
        *("tenant.create", "tenant.domains", "tenant.delete", "entries.add", "apikey.create"),
    }
    again = await new_tenant(store, "gone")
    assert again.uid != gone.uid


async def test_what_a_killed_deletion_left_is_swept_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await new_tenant(store, "t")
    await store.lists.add(tenant.uid, BY_NAME["blocked-urls"], [NewEntry("a", "a")], ANN)
    with monkeypatch.context() as patched:
        patched.setattr(store.tenants, "_repeat", _killed)
        with pytest.raises(RuntimeError):
            await store.tenants.delete(tenant.uid, ANN)
    before = store.counters().changes
    await store.lists.purge_expired(0)
    first = store.counters().changes - before
    await store.lists.purge_expired(0)
    assert first == 5, "one that finds nothing expired, then entries, list, tenant, and one that finds nothing"
    assert store.counters().changes - before - first == 2, "nothing is left"


async def _killed(_store: object) -> None:
    raise RuntimeError
