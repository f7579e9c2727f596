"""The role of the service on a PostgreSQL server: what the page about it grants is enough for everything, and other
roles of the server get nowhere."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from tests.doc_blocks import ROOT, read_blocks
from tests.own_postgres import PASSWORD, OwnPostgres, own_postgres
from tests.postgres_database import execute

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.store import copy, open_store
from gatepost.store.audit import CLI
from gatepost.store.engine import DAY_MILLISECONDS
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store

BLOCKS = [each.code for each in read_blocks(ROOT / "docs/postgresql.md") if each.language == "sql"][:2]


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgres]:
    with own_postgres(roles=False) as running:
        running.execute(f"CREATE ROLE stranger LOGIN PASSWORD '{PASSWORD}'")
        yield running


def read_statements(block: str, role: str) -> list[str]:
    """The statements of the page for another role and database, with the password of the tests."""
    text = re.sub(r"PASSWORD '[^']*'", f"PASSWORD '{PASSWORD}'", block).replace("gatepost", role)
    return [each.strip() for each in text.split(";") if each.strip()]


async def use(store: Store) -> None:
    """What a service does in a day, and what its commands do."""
    await store.tenants.create("Lakeside")
    await store.lists.add(None, BY_NAME["blocked-senders"], [NewEntry("a@x.example", "a@x.example")], CLI)
    report = Report("spam", "quarantine", (), 100, "r", subject="s")
    for day in range(3):
        moment = 1_790_000_000_000 + day * DAY_MILLISECONDS
        record = MessageRecord(new_id(), moment, moment, Envelope("a@x.example", ("b@y.example",)), 1, "0" * 64, report)
        await store.messages.record(record)
        await store.quarantine.hold(record)
    assert await store.messages.purge(1_790_000_000_000 + 2 * DAY_MILLISECONDS)


async def open_and_use(url: str, folder: Path) -> None:
    store = open_store(url, folder)
    try:
        await use(store)
    finally:
        await store.close()


@pytest.mark.parametrize("is_owner", [True, False])
@pytest.mark.process
def test_what_the_page_grants_is_enough(server: OwnPostgres, is_owner: bool, tmp_path: Path) -> None:
    role = "owner" if is_owner else "guest"
    created, granted = (read_statements(block, role) for block in BLOCKS)
    if is_owner:
        server.execute(*created)
    else:
        server.execute(created[0], f"CREATE DATABASE {role} ENCODING 'UTF8' TEMPLATE template0", *created[2:])
        execute(server.socket_url("postgres", role), *granted)
    url = server.socket_url(role, role)
    asyncio.run(open_and_use(url, tmp_path))
    copy.backup(url, tmp_path, tmp_path / "backup", lambda *_: None)
    copy.restore(url, tmp_path, tmp_path / "backup", lambda *_: None, force=True)
    rights = asyncio.run(
        ask(url, "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = $1", role)
    )
    assert rights is False
    stranger = server.socket_url("stranger", role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
        asyncio.run(ask(stranger, "SELECT 1"))
    execute(server.socket_url("postgres", role), f"GRANT CONNECT ON DATABASE {role} TO stranger")
    for statement in (
        "CREATE FUNCTION public.substr(text, integer, bigint) RETURNS text LANGUAGE sql AS 'SELECT $1'",
        f"CREATE SCHEMA {role}",
        "CREATE TEMPORARY TABLE users (name text)",
        "SELECT * FROM users",
        "DELETE FROM audit",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            asyncio.run(ask(stranger, statement))


async def ask(url: str, statement: str, *values: object) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()
