"""A database that cannot be used is refused with a sentence that has no password in it."""

import socket
from pathlib import Path

import pytest

from gatepost.store import StorageError, cluster, open_store


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StorageError, match="cannot be reached") as refusal:
        open_store(f"postgresql://u:secret@127.0.0.1:{port}/db", tmp_path)
    assert "secret" not in str(refusal.value)


def test_no_such_database(postgres_server: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="create the database first"):
        open_store(postgres_server.replace("/postgres?", "/absent?"), tmp_path)


def test_not_utf8(postgres_server: str, postgres_url: str, tmp_path: Path) -> None:
    import asyncio

    import asyncpg

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
        ("postgresql://u:p@h:5432/db?x=p", "postgresql://h:5432/db"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgres://u:p%40@[::1]/db", "postgres://[::1]/db"),
        ("postgresql://u:p?p@h/db", "postgresql://h/db"),
        ("postgresql://h/db?user=a@b&password=p", "postgresql://b"),
    ],
)
def test_addresses_are_shown_without_secrets(url: str, shown: str) -> None:
    assert cluster.shown(url) == shown
