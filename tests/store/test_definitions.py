"""Every scope has the usual lists; custom ones of the same kinds come and go."""

from collections.abc import Awaitable, Callable

import msgspec

from gatepost.lists.catalogue import BY_NAME, LISTS
from gatepost.store.interface import Actor, CountingStore, ListState, Missing, NewEntry, Taken, Tenant

Use = Callable[[Callable[[CountingStore], Awaitable[None]]], None]

ANN = Actor("key", "ann")
MINE = msgspec.structs.replace(
    BY_NAME["blocked-urls"], name="mine", display_name="Mine", description="My own", max_size=7, custom=True
)


async def new_tenant(store: CountingStore, name: str) -> str:
    tenant = await store.create_tenant(name)
    assert isinstance(tenant, Tenant)
    return tenant.uid


def test_the_usual_lists_are_there_from_the_start(use: Use) -> None:
    async def scenario(store: CountingStore) -> None:
        tenant = await new_tenant(store, "t")
        for scope in (None, tenant):
            assert await store.lists(scope) == tuple(ListState(definition, 0) for definition in LISTS)
        await store.add_entries(tenant, BY_NAME["own-domains"], [NewEntry("a.example", "a.example")], ANN)
        assert {state.definition.name: state.size for state in await store.lists(tenant) if state.size} == {
            "own-domains": 1
        }
        assert not any(state.size for state in await store.lists(None))
        assert await store.list_definition(tenant, "own-domains") == BY_NAME["own-domains"]

    use(scenario)


def test_custom_lists(use: Use) -> None:
    async def scenario(store: CountingStore) -> None:
        tenant = await new_tenant(store, "t")
        assert await store.list_definition(None, "mine") is None
        assert await store.create_list(None, MINE, ANN) == MINE
        assert await store.list_definition(None, "mine") == MINE
        assert await store.list_definition(tenant, "mine") is None
        assert await store.create_list(None, MINE, ANN) == Taken("mine")
        usual = msgspec.structs.replace(BY_NAME["blocked-urls"], custom=True)
        assert await store.create_list(tenant, usual, ANN) == Taken("blocked-urls")
        assert await store.create_list("0198a000-0000-7000-8000-000000000001", MINE, ANN) == Missing("tenant")
        await store.add_entries(None, MINE, [NewEntry("a", "a"), NewEntry("b", "b")], ANN)
        assert (await store.lists(None))[-1] == ListState(MINE, 2)
        assert await store.delete_list(None, "blocked-urls", ANN) == Missing("list")
        assert await store.delete_list(tenant, "mine", ANN) == Missing("list")
        assert await store.delete_list(None, "mine", ANN) == 2
        assert await store.delete_list(None, "mine", ANN) == Missing("list")
        assert await store.create_list(None, MINE, ANN) == MINE
        assert (await store.lists(None))[-1] == ListState(MINE, 0), "the old entries are gone"
        assert await store.entries(None, "mine", ["a"]) == ()

    use(scenario)


def test_one_name_means_one_thing_where_both_scopes_are_seen(use: Use) -> None:
    async def scenario(store: CountingStore) -> None:
        one, two = await new_tenant(store, "one"), await new_tenant(store, "two")
        allow = msgspec.structs.replace(MINE, category="allow")
        assert await store.create_list(one, MINE, ANN) == MINE
        assert await store.create_list(two, allow, ANN) == allow, "tenants do not see each other"
        assert await store.create_list(None, MINE, ANN) == Taken("mine")
        await store.delete_list(two, "mine", ANN)
        assert await store.create_list(None, MINE, ANN) == MINE
        assert await store.create_list(two, allow, ANN) == Taken("mine")

    use(scenario)
