"""Storage through a real PgBouncer, in both of its modes that keep a transaction on one server."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from bench.ports import free_port
from bench.scanning import await_port
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.store import open_store
from gatepost.store.engine import now
from gatepost.store.errors import StorageError
from gatepost.store.postgres import PostgresEngine, connect, split_pooler
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store

# Fewer servers than clients, so that statements of one client do run on several.
INI = """[databases]
* = host={folder} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
"""


@pytest.fixture(params=["session", "transaction"])
def pooled_url(request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path) -> Iterator[str]:
    """The address of the database through a PgBouncer of this test's own."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("not run: there is no pgbouncer")
    with started(program, postgres_url, str(request.param), tmp_path) as port:
        yield f"postgresql://postgres@127.0.0.1:{port}/gatepost?pooler={request.param}"


@contextmanager
def started(program: str, postgres_url: str, mode: str, folder: Path) -> Iterator[int]:
    """A PgBouncer before the server of the tests; it does not run as root."""
    sockets = parse_qs(urlsplit(postgres_url).query)["host"][0]
    ini, port = folder / "pgbouncer.ini", free_port()
    ini.write_text(INI.format(folder=sockets, port=port, mode=mode, size=3 if mode == "transaction" else 60))
    owner = Path(sockets).stat().st_uid
    command = [program, str(ini)]
    if os.getuid() == 0:
        name = pwd.getpwuid(owner or pwd.getpwnam("nobody").pw_uid).pw_name
        folder.chmod(0o755)
        shared = Path(tempfile.mkdtemp(prefix="gatepost-pgbouncer-"))
        shared.chmod(0o755)
        ini = Path(shutil.copy(ini, shared / "pgbouncer.ini"))
        ini.chmod(0o644)
        command = [program, "-u", name, str(ini)]
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        await_port(port)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def use(url: str, folder: Path, scenario: Callable[[Store], Awaitable[None]]) -> None:
    """Open the store and close it again."""

    async def run() -> None:
        store = open_store(url, folder)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(run())


@pytest.mark.process
def test_everything_works_through_it(pooled_url: str, new_record: NewRecord, tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        tenant = await new_tenant(store, "mine")
        records = [new_record(completed=now() - step, tenant=tenant.uid) for step in range(300)]
        # Records, searches, changes, snapshots and streams at the same time, over three servers.
        await asyncio.gather(
            *map(store.messages.record, records),
            *(store.messages.search(MessageFilter(tenant=tenant.uid)) for _ in range(10)),
            *(store.tenants.all() for _ in range(20)),
            *(store.quarantine.hold(record) for record in records[:50]),
        )
        assert (await store.messages.count(MessageFilter(tenant=tenant.uid))).messages == 300
        for _ in range(3):
            read = [record async for batch in store.messages.recent(tenant.uid, 250) for record in batch]
            assert len(read) == 250
        assert (await store.quarantine.totals())[0] == 50
        assert await store.messages.purge(now() + 10) >= 0
        await asyncio.wait_for(store.publishing.watch_rollout(lambda: None), 2) if "transaction" in pooled_url else None

    use(pooled_url, tmp_path, scenario)


@pytest.mark.process
def test_planner_settings_hold_behind_it(pooled_url: str, postgres_url: str, tmp_path: Path) -> None:
    names = ("plan_cache_mode", "idle_in_transaction_session_timeout")

    async def read(store: Store) -> None:
        await store.prove_writable()
        engine = PostgresEngine(pooled_url)
        async with engine._connection() as connection:
            short = [await connection.fetchval(f"SHOW {name}") for name in names]
        await engine.close()
        async with connect(pooled_url) as connection:
            lasting = [await connection.fetchval(f"SHOW {name}") for name in names]
        assert (short, lasting) == (["force_generic_plan", "5s"], ["force_generic_plan", "0"])
        # Another client of the pooler gets a server without any of it.
        other = await asyncpg.connect(split_pooler(pooled_url)[0], statement_cache_size=0)
        async with other.transaction():
            assert [await other.fetchval(f"SHOW {name}") for name in names] == ["auto", "0"]
        await other.close()

    use(pooled_url, tmp_path, read)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://a@b/c", ("postgresql://a@b/c", "")),
        ("postgresql://a@b/c?pooler=session", ("postgresql://a@b/c", "session")),
        ("postgresql://a@b/c?pooler=transaction&ssl=require", ("postgresql://a@b/c?ssl=require", "transaction")),
        ("postgresql://a@b/c?ssl=require&pooler=transaction", ("postgresql://a@b/c?ssl=require", "transaction")),
    ],
)
def test_addresses(url: str, expected: tuple[str, str]) -> None:
    assert split_pooler(url) == expected


@pytest.mark.process
def test_an_address_that_hides_a_pooler_is_told_to_name_it(pooled_url: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"leads to a pooler.*pooler=session or pooler=transaction"):
        open_store(split_pooler(pooled_url)[0], tmp_path)


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="pooler must be session or transaction"):
        open_store("postgresql://a@127.0.0.1:1/c?pooler=statement", tmp_path)
