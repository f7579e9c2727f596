"""What is known from delivered mail, on both engines: days add up, nothing shrinks, and a tenant sees its own only."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.ids import new_id
from gatepost.mail.sender_history import ALL_MAIL, Facet, facet_key
from gatepost.store import open_store
from gatepost.store.sightings import Sighting, SightingBatch
from gatepost.store.store import Store

KEYS = [facet_key(Facet.HOST, f"{n}.example") for n in range(20)]
LOW, HIGH = -(1 << 63), (1 << 63) - 1


def seen(day: int, *keys: int, tenant: str | None = None, times: int = 1, held: int = 0) -> SightingBatch:
    return SightingBatch(tenant, day, dict.fromkeys(keys, times) if times else {}, dict.fromkeys(keys, held))


async def test_days_and_messages_add_up(store: Store) -> None:
    a, b, c = KEYS[:3]

    await store.sightings.record([seen(10, a, b), seen(10, a, times=4)])
    await store.sightings.record([seen(12, a, LOW, HIGH)])
    await store.sightings.record([seen(12, a)])
    assert await store.sightings.find(None, [a, b, c, LOW, HIGH]) == {
        a: Sighting(10, 12, 2, 7, 0),
        b: Sighting(10, 10, 1, 1, 0),
        LOW: Sighting(12, 12, 1, 1, 0),
        HIGH: Sighting(12, 12, 1, 1, 0),
    }
    assert await store.sightings.find(None, []) == {}
    assert await store.sightings.count(None) == 4
    await store.sightings.record([])


async def test_what_comes_late_makes_nothing_younger(store: Store) -> None:
    (a,) = KEYS[:1]

    await store.sightings.record([seen(12, a)])
    await store.sightings.record([seen(11, a)])
    assert await store.sightings.find(None, [a]) == {a: Sighting(11, 12, 1, 2, 0)}


async def test_what_is_held_counts_where_something_is_known_and_makes_nothing_known(store: Store) -> None:
    a, b = KEYS[:2]

    await store.sightings.record([seen(1, a)])
    await store.sightings.record([seen(2, a, b, times=0, held=3)])
    assert await store.sightings.find(None, [a, b]) == {a: Sighting(1, 1, 1, 1, 3)}


async def test_a_tenant_sees_its_own(store: Store) -> None:
    mine, theirs = new_id(), new_id()
    (a,) = KEYS[:1]

    await store.sightings.record([seen(1, a, tenant=mine), seen(2, a)])
    assert await store.sightings.find(mine.upper(), [a]) == {a: Sighting(1, 1, 1, 1, 0)}
    assert await store.sightings.find(theirs, [a]) == {}
    assert await store.sightings.find(None, [a]) == {a: Sighting(2, 2, 1, 1, 0)}
    assert await store.sightings.count(theirs) == 0


async def test_a_departed_tenant_leaves_nothing(store: Store) -> None:
    tenant = await store.tenants.create("t")
    uid = getattr(tenant, "uid", "")
    await store.sightings.record([seen(1, *KEYS, tenant=uid), seen(1, *KEYS)])
    await store.tenants.delete(uid)
    assert (await store.sightings.count(uid), await store.sightings.count(None)) == (0, len(KEYS))


async def test_what_was_not_seen_for_long_is_forgotten(store: Store) -> None:
    a, b, *_ = KEYS

    await store.sightings.record([seen(1, a, b), seen(1, *KEYS, tenant="t")])
    await store.sightings.record([seen(5, b)])
    assert await store.sightings.purge(1, 100) == 0
    assert await store.sightings.purge(5, 100) == 1 + len(KEYS)
    assert (await store.sightings.find(None, KEYS)).keys() == {b}


async def test_too_many_keys_cost_those_seen_on_one_day_first_and_only_their_own_scope(store: Store) -> None:
    regular, flood = KEYS[:5], KEYS[5:]

    await store.sightings.record([seen(1, ALL_MAIL, *regular), seen(1, *regular, tenant="other")])
    await store.sightings.record([seen(2, *regular)])
    await store.sightings.record([seen(9, *flood)])
    assert await store.sightings.purge(0, 10) == len(KEYS) + 1 - 10
    assert (await store.sightings.find(None, [ALL_MAIL, *regular])).keys() == {ALL_MAIL, *regular}
    assert await store.sightings.count("other") == len(regular)
    assert await store.sightings.purge(0, 3) == 7 + 2
    assert ALL_MAIL in await store.sightings.find(None, [ALL_MAIL]), "how old the memory is, is never forgotten"


def test_guards_that_write_at_the_same_time_lose_nothing(postgres_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        stores = [open_store(postgres_url, tmp_path) for _ in range(3)]
        every = [*KEYS, ALL_MAIL]
        await asyncio.gather(
            *(
                store.sightings.record([SightingBatch(None, 7, {each: 1 + (each // 16 + n) % 3 for each in every})])
                for n, store in enumerate(stores)
                for _ in range(5)
            )
        )
        found = await stores[0].sightings.find(None, KEYS)
        assert {sighting.delivered for sighting in found.values()} == {5 * (1 + 2 + 3)}
        assert [store.counters().failures for store in stores] == [0, 0, 0]
        assert await stores[2].sightings.find(None, KEYS) == found, "what one guard learned all know"
        for store in stores:
            await store.close()

    asyncio.run(run())


_KILLED = """
import asyncio, os, sys
from pathlib import Path
from gatepost.store import open_store, upgrading
from gatepost.store.sightings import SightingBatch

async def run() -> None:
    store = open_store("sqlite:g.db", Path(sys.argv[1]))
    await store.sightings.record([SightingBatch(None, 3, {1: 1})])
    asyncio.ensure_future(store.sightings.record([SightingBatch(None, 4, {1: 1})]))
    await asyncio.sleep(0)
    os.kill(os.getpid(), 9)

asyncio.run(run())
"""


def test_after_a_kill_it_goes_on(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False).returncode == -9

    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        found = await store.sightings.find(None, [1])
        assert found in ({1: Sighting(3, 3, 1, 1, 0)}, {1: Sighting(3, 4, 2, 2, 0)})
        await store.sightings.record([seen(5, 1)])
        assert (await store.sightings.find(None, [1]))[1].last == 5
        await store.close()

    asyncio.run(run())


BATCHES = st.lists(
    st.builds(
        SightingBatch,
        st.sampled_from([None, "t"]),
        st.integers(0, 5),
        st.dictionaries(st.sampled_from(KEYS[:4]), st.integers(1, 3)),
        st.dictionaries(st.sampled_from(KEYS[:4]), st.integers(1, 3)),
    ),
    max_size=6,
)


@given(BATCHES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_never_decrease(tmp_path: Path, batches: list[SightingBatch]) -> None:
    async def run() -> None:
        store = open_store(f"sqlite:{new_id()}.db", tmp_path)
        before: dict[str | None, dict[int, Sighting]] = {None: {}, "t": {}}
        for batch in batches:
            await store.sightings.record([batch])
            for tenant, known in before.items():
                now = await store.sightings.find(tenant, KEYS[:4])
                for each, was in known.items():
                    assert now[each].days >= was.days
                    assert now[each].delivered >= was.delivered
                    assert now[each].held >= was.held
                    assert now[each].first <= was.first <= now[each].last
                    assert now[each].days <= 6
                if tenant != batch.tenant:
                    assert now == known
                before[tenant] = now
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1_234])
async def test_many_keys_are_asked_for_in_several_statements(store: Store, count: int) -> None:
    many = list(range(16, 16 + 16 * count, 16))

    await store.sightings.record([seen(1, *many)] if many else [])
    assert len(await store.sightings.find(None, many)) == count
