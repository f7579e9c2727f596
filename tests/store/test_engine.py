"""Many clients at once, and clients that are killed: no call is half there, no count is wrong, nothing is lost."""

import asyncio
import random
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import aclosing
from pathlib import Path

from gatepost.lists.catalogue import BY_NAME, make_custom_list
from gatepost.lists.entries import list_network_keys
from gatepost.store import open_store
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.lists import ListEntry, NewEntry
from gatepost.store.paging import Page
from gatepost.store.store import Store

ANN = Actor("key", "ann")
IPS = BY_NAME["blocked-ips"]
PER_CALL = 7


async def all_of(store: Store, list_name: str) -> list[ListEntry]:
    async with aclosing(store.lists.stream(None, list_name)) as batches:
        return [entry async for batch in batches for entry in batch]


async def size(store: Store, list_name: str) -> int:
    return next(state.size for state in await store.lists.all(None) if state.definition.name == list_name)


def test_clients_that_add_and_delete_the_same_entries_at_once(storage_url: str, tmp_path: Path) -> None:
    """Two stores, as two processes would have them: afterwards the counts are exactly what is there."""
    keys = [f"192.0.2.{number}" for number in range(40)] + [f"10.{number}.0.0/16" for number in range(20)]

    async def client(store: Store, seed: int) -> None:
        chance = random.Random(seed)
        for call in range(30):
            some = chance.sample(keys, chance.randint(1, 30))
            if chance.random() < 0.5:
                entries = [NewEntry(key, key, f"{seed}.{call}") for key in some]
                assert await store.lists.add(None, IPS, entries, ANN) == len(some)
            else:
                assert await store.lists.remove(None, IPS.name, some, ANN) <= len(some)

    async def run() -> None:
        stores = [open_store(storage_url, tmp_path) for _ in range(2)]
        await asyncio.gather(*(client(stores[seed % 2], seed) for seed in range(4)))
        entries = await all_of(stores[0], IPS.name)
        assert await size(stores[1], IPS.name) == len(entries)
        asked = tuple(dict.fromkeys(key for entry in entries for key in list_network_keys(entry.key.split("/")[0])))
        hits = {hit.key for hit in await stores[1].list_lookup.find(None, (("network", asked),))}
        assert hits == {entry.key for entry in entries}, "the prefix lengths were counted right"
        assert await stores[0].lists.remove(None, IPS.name, keys, ANN) == len(entries)
        assert await size(stores[1], IPS.name) == 0
        assert await stores[1].list_lookup.find(None, (("network", asked),)) == ()
        for store in stores:
            await store.close()

    asyncio.run(run())


def test_a_full_list_stays_within_its_size_whoever_fills_it(storage_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        stores = [open_store(storage_url, tmp_path) for _ in range(2)]
        few = make_custom_list("few", "url", "block", "Few", "", 50)
        await stores[0].lists.create(None, few, ANN)

        async def fill(number: int) -> int:
            entries = [NewEntry(f"{number}.{each}", f"{number}.{each}") for each in range(7)]
            added = await stores[number % 2].lists.add(None, few, entries, ANN)
            return added if isinstance(added, int) else 0

        added = await asyncio.gather(*map(fill, range(20)))
        assert sum(added) == 49
        assert await size(stores[0], "few") == len(await all_of(stores[1], "few")) == 49
        for store in stores:
            await store.close()

    asyncio.run(run())


CLIENT = textwrap.dedent("""
    import asyncio, itertools, sys
    from pathlib import Path
    from gatepost.lists.catalogue import BY_NAME
    from gatepost.store import open_store
    from gatepost.store.audit import Actor
    from gatepost.store.lists import NewEntry

    by, urls = Actor("key", "k"), BY_NAME["blocked-urls"]

    async def main(url, per_call):
        store = open_store(url, Path())
        numbers = itertools.count()

        async def keep_going():
            for number in numbers:
                keys = [f"{number}.{each}" for each in range(per_call)]
                await store.lists.add(None, urls, [NewEntry(key, key) for key in keys], by)
                print("add", number, flush=True)
                if number % 3 == 0:
                    await store.lists.remove(None, urls.name, keys, by)
                    print("delete", number, flush=True)

        await asyncio.gather(*(keep_going() for _ in range(8)))

    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
""")


def test_a_kill_loses_nothing_that_was_acknowledged_and_leaves_nothing_half(storage_url: str, tmp_path: Path) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, storage_url, str(PER_CALL)], stdout=subprocess.PIPE, text=True
    )
    assert client.stdout
    acknowledged = [client.stdout.readline() for _ in range(1_000)]
    client.kill()
    # A last line may be cut off by the kill.
    acknowledged += [line for line in client.stdout if line.endswith("\n")]
    client.wait()
    client.stdout.close()
    done = {(action, int(number)) for action, number in map(str.split, acknowledged)}
    assert len(done) >= 1_000

    async def run() -> None:
        store = open_store(storage_url, tmp_path)
        entries = await all_of(store, "blocked-urls")
        present = Counter(int(entry.key.split(".")[0]) for entry in entries)
        assert set(present.values()) == {PER_CALL}, "each call is there whole, or not at all"
        for action, number in done:
            if action == "delete":
                assert number not in present
            elif number % 3:
                assert number in present
        assert await size(store, "blocked-urls") == len(entries)
        counts: Counter[str] = Counter()
        page = await store.audit.page(AuditFilter(), limit=1_000)
        while page.rows:
            for record in page.rows:
                counts[record.action] += record.count
            page = await store.audit.page(AuditFilter(), page.next, 1_000) if page.next else Page(())
        assert counts["entries.add"] - counts["entries.delete"] == len(entries), "the trail has exactly what was kept"
        await store.close()

    asyncio.run(run())
