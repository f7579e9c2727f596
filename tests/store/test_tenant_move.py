"""A tenant's mail moves to another database: while mail goes on, after a kill, and without a record that is lost."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.store.test_tenant_databases import OTHER, House, query

from gatepost.store import tenant_move
from gatepost.store.audit import Actor
from gatepost.store.engine import now
from gatepost.store.errors import StorageError
from gatepost.store.held_search import HeldFilter
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sightings import SightingBatch
from gatepost.store.store import Store
from gatepost.store.tenant_databases import find_moved_from
from gatepost.store.tenant_map import TenantMap
from gatepost.store.tenant_move import copy_tenant, delete_moved

DAY = 86_400_000


class KilledError(Exception):
    """The command ends here."""


@pytest.fixture
def house(postgres_url: str, other_postgres_url: str, tmp_path: Path) -> House:
    return House(postgres_url, other_postgres_url, tmp_path)


def test_a_move_that_is_killed_goes_on_and_loses_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_move, "BATCH", 3)
    near, before = house.near, TenantMap({OTHER: house.other})
    after = TenantMap({OTHER: house.other}, {near: OTHER})
    records = [house.mail(near, now() - step * DAY) for step in range(10)]
    others = house.mail(house.far, now())
    late = house.mail(near, now() + 1)
    ann = Actor("user", "ann")

    async def fill(store: Store) -> None:
        await asyncio.gather(*map(store.messages.record, [*records, others]))
        await asyncio.gather(*map(store.quarantine.hold, [*records[:4], others]))
        await store.sightings.record([SightingBatch(near, 20_000, {1: 2, 7: 1})])

    house.use(fill, before)

    def copy(killed_after: int = 10_000) -> None:
        def progress(done: int, _total: int) -> None:
            if done >= killed_after:
                raise KilledError

        asyncio.run(copy_tenant(house.first, house.other, OTHER, near, progress))

    with pytest.raises(KilledError):
        copy(killed_after=6)
    assert query(house.other, "SELECT count(*)::int FROM messages") == [(6,)]
    # A node does not start with a map that is ahead of the move.
    with pytest.raises(StorageError, match="still being copied"):
        house.use(fill, after)

    async def meanwhile(store: Store) -> None:
        await store.messages.record(late)
        assert await store.quarantine.delete(records[0].ggrid, ann)

    house.use(meanwhile, before)
    copy()

    async def closed(store: Store) -> None:
        another, foreign = house.mail(near, now()), house.mail(house.far, now())
        outcomes = await asyncio.gather(
            store.messages.record(another), store.messages.record(foreign), return_exceptions=True
        )
        assert isinstance(outcomes[0], StorageError)
        assert outcomes[1] is foreign
        with pytest.raises(StorageError):
            await store.quarantine.delete(records[1].ggrid, ann)
        with pytest.raises(StorageError):
            await store.quarantine.hold(another)

    house.use(closed, before)
    copy()  # once more changes nothing

    async def moved(store: Store) -> None:
        found = await store.messages.search(MessageFilter(tenant=near))
        assert {row.ggrid for row in found.rows} == {each.ggrid for each in (*records, late)}
        everything = await store.messages.search(MessageFilter())
        assert len(everything.rows) == len({row.ggrid for row in everything.rows}) == 13
        held = await store.quarantine.search(HeldFilter(tenant=near))
        assert {mail.record.ggrid for mail in held.rows} == {each.ggrid for each in records[1:4]}
        assert await store.sightings.count(near) == 2
        assert sum(each.messages for each in await store.traffic.buckets(near, 0, now() + DAY, DAY)) == 11
        assert await store.quarantine.delete(records[1].ggrid, ann)
        assert (await store.messages.record(msgspec.structs.replace(late, ggrid=house.mail(near, 5).ggrid))).ggrid

    house.use(moved, after)
    urls = {"first": house.first, OTHER: house.other}
    assert asyncio.run(find_moved_from(urls, OTHER, near)) == "first"
    outcome = asyncio.run(delete_moved(house.first, OTHER, near, lambda *_: None))
    assert outcome.is_done
    for table in ("messages", "held", "message_search"):
        assert query(house.first, f"SELECT DISTINCT tenant FROM {table}") == [(house.far,)]
    assert query(house.first, "SELECT count(*)::int FROM pg_trigger WHERE tgname LIKE 'elsewhere%'") == [(0,)]

    async def complete(store: Store) -> None:
        assert (await store.messages.count(MessageFilter(tenant=near))).messages == 12
        assert sum(each.messages for each in await store.traffic.buckets(None, 0, now() + DAY, DAY)) >= 13

    house.use(complete, after)
    with pytest.raises(StorageError, match="is in database other"):
        house.use(complete, before)


def test_back_to_the_first_database(house: House) -> None:
    mail = house.mail(house.far, now())

    async def keep(store: Store) -> None:
        await store.messages.record(mail)

    house.use(keep)
    asyncio.run(copy_tenant(house.other, house.first, "first", house.far, lambda *_: None))
    back = TenantMap({OTHER: house.other})

    async def find(store: Store) -> None:
        assert [row.ggrid for row in (await store.messages.search(MessageFilter())).rows] == [mail.ggrid]

    house.use(find, back)
    asyncio.run(delete_moved(house.other, "first", house.far, lambda *_: None))
    house.use(find, back)
    assert query(house.other, "SELECT count(*)::int FROM messages") == [(0,)]
