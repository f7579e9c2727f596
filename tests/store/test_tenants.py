"""Tenants: unique names, their domains, and a deletion that leaves nothing of theirs but the audit trail."""

from collections.abc import Awaitable, Callable

import pytest

from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.store import deferred_deletes
from gatepost.store.api_keys import ApiKey, KeyRefused
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.entries import NewEntry
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.messages import MessageRecord
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

Use = Callable[[Callable[[Store], Awaitable[None]]], None]

ANN = Actor("user", "ann")


async def new_tenant(store: Store, name: str) -> Tenant:
    tenant = await store.create_tenant(name, ANN)
    assert isinstance(tenant, Tenant)
    return tenant


def test_tenants(use: Use) -> None:
    async def scenario(store: Store) -> None:
        assert await store.tenants() == ()
        first, second = await new_tenant(store, "Müller"), await new_tenant(store, "b")
        assert first.uid != second.uid
        assert first.name == "Müller"
        assert await store.tenants() == (first, second)
        assert await store.tenant(first.uid.upper()) == first
        assert await store.tenant(new_id()) is None
        assert await store.tenant("\0") is None
        assert await store.create_tenant("b") == NameTaken("b")

    use(scenario)


def test_domains_belong_to_one_tenant(use: Use) -> None:
    async def scenario(store: Store) -> None:
        one, two = await new_tenant(store, "one"), await new_tenant(store, "two")
        given = await store.set_tenant_domains(one.uid, ["b.example", "a.example", "a.example"], ANN)
        assert given == Tenant(one.uid, "one", one.created, ("a.example", "b.example"))
        assert await store.tenant(one.uid) == given
        assert await store.tenants() == (given, two)
        assert await store.tenant_of("a.example") == one.uid
        assert await store.tenant_of("c.example") is None
        assert await store.set_tenant_domains(two.uid, ["c.example", "b.example"], ANN) == NameTaken("b.example")
        assert await store.tenant_of("c.example") is None, "nothing of it"
        await store.set_tenant_domains(one.uid, ["a.example"], ANN)
        assert await store.set_tenant_domains(two.uid, ["b.example"], ANN) == Tenant(
            two.uid, "two", two.created, ("b.example",)
        )
        assert await store.set_tenant_domains(new_id(), [], ANN) == NotFound("tenant")

    use(scenario)


def test_a_deleted_tenant_leaves_only_its_trail(
    use: Use, new_record: Callable[..., MessageRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_deletes, "BATCH", 3)

    async def scenario(store: Store) -> None:
        gone, stays = await new_tenant(store, "gone"), await new_tenant(store, "stays")
        keys, records = {}, {}
        for tenant in (gone, stays):
            entries = [NewEntry(str(n), str(n)) for n in range(10)]
            await store.add_entries(tenant.uid, BY_NAME["blocked-urls"], entries, ANN)
            await store.set_tenant_domains(tenant.uid, [f"{tenant.name}.example"], ANN)
            created = await store.create_api_key("k", tenant.uid, False, None)
            assert isinstance(created, tuple)
            keys[tenant.name] = created[0]
            records[tenant.name] = [new_record(tenant=tenant.uid) for _ in range(7)]
            for record in records[tenant.name]:
                await store.record_message(record)
        assert await store.delete_tenant(gone.uid.upper(), ANN) == Tenant(
            gone.uid, "gone", gone.created, ("gone.example",)
        )
        assert await store.delete_tenant(gone.uid, ANN) == NotFound("tenant")
        assert [tenant.name for tenant in await store.tenants()] == ["stays"]
        assert await store.tenant_of("gone.example") is None
        assert await store.api_key(keys["gone"]) == KeyRefused("unknown")
        assert isinstance(await store.api_key(keys["stays"]), ApiKey)
        assert [await store.message(record.ggrid) for record in records["gone"]] == [None] * 7
        assert [await store.message(record.ggrid) for record in records["stays"]] == records["stays"]
        assert not any(state.size for state in await store.lists(gone.uid))
        assert await store.lookup(gone.uid, (("url", ("1",)),)) == ()
        assert len(await store.lookup(stays.uid, (("url", ("1",)),))) == 1
        assert {record.action for record in (await store.audit_page(AuditFilter(scope=gone.uid))).rows} == {
            *("tenant.create", "tenant.domains", "tenant.delete", "entries.add", "apikey.create"),
        }
        again = await new_tenant(store, "gone")
        assert again.uid != gone.uid

    use(scenario)


def test_what_a_killed_deletion_left_is_swept_later(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: Store) -> None:
        tenant = await new_tenant(store, "t")
        await store.add_entries(tenant.uid, BY_NAME["blocked-urls"], [NewEntry("a", "a")], ANN)
        with monkeypatch.context() as patched:
            patched.setattr(type(store), "_delete_hidden", _killed)
            with pytest.raises(RuntimeError):
                await store.delete_tenant(tenant.uid, ANN)
        before = store.counters().changes
        await store.purge_expired(0)
        first = store.counters().changes - before
        await store.purge_expired(0)
        assert first == 5, "one that finds nothing expired, then entries, list, tenant, and one that finds nothing"
        assert store.counters().changes - before - first == 2, "nothing is left"

    use(scenario)


async def _killed(_store: object) -> None:
    raise RuntimeError
