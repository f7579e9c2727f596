"""What only PostgreSQL has: a server that goes away and comes back, clients that get in each other's way, and addresses
that cannot be used."""

import asyncio
from contextlib import aclosing
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from gatepost.lists.catalogue import BY_NAME
from gatepost.process.hiding import hide
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.engine import Read, Work, Write
from gatepost.store.errors import StorageError
from gatepost.store.lists import NewEntry
from gatepost.store.postgres import MAX_STREAMS, PostgresEngine
from gatepost.store.sql import compose
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

URLS = BY_NAME["blocked-urls"]


@pytest.fixture
def storage_url(postgres_url: str) -> str:
    return postgres_url


async def _cut_off(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gatepost' "
        "AND datname = current_database()"
    )
    await connection.close()


async def _names(store: Store) -> list[str] | None:
    try:
        return [tenant.name for tenant in await store.tenants.all()]
    except StorageError:
        return None


async def test_connections_that_were_cut_are_made_anew(store: Store, postgres_url: str) -> None:
    await store.tenants.create("a")
    await _cut_off(postgres_url)
    # Until the end of a connection has arrived, what is asked over it fails.
    async with asyncio.timeout(60):
        while (found := await _names(store)) is None:  # noqa: ASYNC110  nothing else tells of it
            await asyncio.sleep(0.05)
    assert found == ["a"]


async def test_a_stream_that_is_cut_says_so(store: Store, postgres_url: str) -> None:
    await store.lists.add(None, URLS, [NewEntry(str(n), str(n)) for n in range(3_000)], CLI)
    async with aclosing(store.lists.stream(None, URLS.name)) as batches:
        assert await anext(batches)
        await _cut_off(postgres_url)
        with pytest.raises(StorageError, match=r"terminating connection|cannot be|was closed"):
            # One batch was read ahead, so it may still come.
            assert len([await anext(batches) for _ in range(2)]) < 2


def _crossing(first: str, second: str, met: asyncio.Event) -> Work[int]:
    yield Write(compose("UPDATE tenants SET created = created + 1 WHERE name = $1"), (first,))
    met.set()
    yield Read(compose("SELECT pg_sleep(0.1)"))
    changed: int = yield Write(compose("UPDATE tenants SET created = created + 1 WHERE name = $1"), (second,))
    return changed


def test_a_deadlock_is_resolved_by_doing_one_again(postgres_url: str, tmp_path: Path) -> None:
    async def run() -> None:
        engine = PostgresEngine(postgres_url)
        store = Store(engine, tmp_path)
        before = (await store.tenants.create("a"), await store.tenants.create("b"))
        met = asyncio.Event()
        one = asyncio.ensure_future(engine.change(partial(_crossing, "a", "b", met)))
        await met.wait()
        assert await engine.change(partial(_crossing, "b", "a", met)) == await one == 1
        created = [tenant.created for tenant in before if isinstance(tenant, Tenant)]
        assert [tenant.created for tenant in await store.tenants.all()] == [time + 2 for time in created]
        await store.close()

    asyncio.run(run())


async def test_streams_are_bounded(store: Store) -> None:
    await store.lists.add(None, URLS, [NewEntry("a", "a")], CLI)
    open_ones = [store.lists.stream(None, URLS.name) for _ in range(MAX_STREAMS)]
    for stream in open_ones:
        assert len(await anext(stream)) == 1
    with pytest.raises(StorageError, match="being read already"):
        await anext(store.lists.stream(None, URLS.name))
    for stream in open_ones:
        await stream.aclose()
    assert len(await anext(store.lists.stream(None, URLS.name))) == 1


@pytest.mark.parametrize("url", ["postgresql://h:notaport/db", "postgresql://[::1/db"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(StorageError):
        PostgresEngine(url)


def test_not_utf8(postgres_server: str, postgres_url: str, tmp_path: Path) -> None:
    async def make() -> None:
        connection = await asyncpg.connect(postgres_server)
        await connection.execute("DROP DATABASE IF EXISTS latin WITH (FORCE)")
        await connection.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        await connection.close()

    asyncio.run(make())
    with pytest.raises(StorageError, match="must be UTF8"):
        open_store(postgres_server.replace("/postgres?", "/latin?"), tmp_path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:5432/db?x=p", "postgresql://(hidden)@h:5432/db?x=p"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgres://u:p%40@[::1]/db", "postgres://(hidden)@[::1]/db"),
        ("postgresql://u:p?p@h/db", "postgresql://(hidden)@h/db"),
        ("postgresql://h/db?user=a@b&password=p", "postgresql://(hidden)@b&password=(hidden)"),
    ],
)
def test_addresses_are_shown_without_secrets(url: str, shown: str) -> None:
    assert hide(url) == shown
