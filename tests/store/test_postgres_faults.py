"""What is wrong with a server is said in its own words, with what to do: each row against a real server that has the
fault."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest
from bench.ports import free_port
from tests.doc_blocks import blocks_of
from tests.own_postgres import OwnPostgres, own_postgres
from tests.postgres_database import execute

from gatepost.service.certificates import sign_certificate
from gatepost.store import open_store, postgres, postgres_faults
from gatepost.store.errors import StorageError
from gatepost.store.postgres import upgrade_schema

Address: TypeAlias = Callable[[OwnPostgres], str]


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgres]:
    with own_postgres() as running:
        yield running


FAULTS: dict[str, tuple[Address, str, str]] = {
    "wrong password": (
        lambda server: server.url(password="wrong"),
        'password authentication failed for user "gatepost" (28P01)',
        "check user and password in storage.url",
    ),
    "no role": (
        lambda server: server.socket_url("nobody_here"),
        'role "nobody_here" does not exist (28000)',
        "create the role with LOGIN and a password",
    ),
    "a role that may not log in": (
        lambda server: server.socket_url("nologin"),
        'role "nologin" is not permitted to log in (28000)',
        "ALTER ROLE … LOGIN",
    ),
    "no database": (
        lambda server: server.url(database="none"),
        'database "none" does not exist (3D000)',
        "create the database first, with the encoding UTF8",
    ),
    "no privilege to connect": (
        lambda server: server.url(database="closed"),
        'permission denied for database "closed" (42501)',
        "GRANT CONNECT",
    ),
    "no privilege to create tables": (
        lambda server: server.url("poor"),
        "permission denied for schema public (42501)",
        "make the role the owner of the database",
    ),
    "a host that may not connect": (
        lambda server: server.url("blocked"),
        'pg_hba.conf rejects connection for host "127.0.0.1", user "blocked", database "gatepost"',
        "allow this host, user and database in pg_hba.conf",
    ),
    "TLS is required": (
        lambda server: server.url("secure"),
        'no pg_hba.conf entry for host "127.0.0.1", user "secure", database "gatepost", no encryption (28000)',
        "in pg_hba.conf",
    ),
    "the server has no TLS": (
        lambda server: server.url(more="?sslmode=require"),
        "rejected SSL upgrade",
        "turn ssl on in postgresql.conf, or say sslmode=prefer",
    ),
    "no authority": (
        lambda server: server.url(more="?sslmode=verify-full&sslrootcert=/nonexistent/ca.pem"),
        "no such file or socket",
        "are host and sslrootcert in storage.url right?",
    ),
    "too many connections": (
        lambda server: server.url("limited"),
        'too many connections for role "limited" (53300)',
        "raise max_connections of the server, or put PgBouncer before it",
    ),
    "read-only": (
        lambda server: server.url("reader", "readonly"),
        "in a read-only transaction (25006)",
        "name the primary in storage.url",
    ),
    "an unknown host": (
        lambda _server: "postgresql://gatepost@no-such-host.invalid/gatepost",
        "its host name is not known",
        "check it in storage.url",
    ),
    "nobody listens": (
        lambda _server: f"postgresql://gatepost:right@127.0.0.1:{free_port()}/gatepost",
        "connection refused",
        "is it running, and does listen_addresses have this address?",
    ),
    "no socket": (
        lambda _server: "postgresql://gatepost@/gatepost?host=/nonexistent",
        "no such file or socket",
        "are host and sslrootcert in storage.url right?",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_server_speaks_for_itself(fault: str, server: OwnPostgres, tmp_path: Path) -> None:
    address, words, advice = FAULTS[fault]
    with pytest.raises(StorageError) as raised:
        open_store(address(server), tmp_path)
    said = str(raised.value)
    assert words in said
    assert advice in said
    assert "right" not in said.split("; ", maxsplit=1)[0], "no password is shown"
    assert said.startswith("postgresql://")
    assert said.endswith((".", "?"))


@pytest.mark.variant
def test_what_the_page_prints_works(tmp_path: Path) -> None:
    """The statements of the pages, in their order: those before a service has started, those that look at it, and what
    ends the notes of other databases."""
    blocks = [block.code for block in blocks_of("sql")]
    assert len(blocks) == 5
    with own_postgres(roles=False) as server:
        for code in blocks[:2]:
            database = "postgres" if "CREATE DATABASE" in code else "gatepost"
            execute(server.socket_url("postgres", database), *filter(str.strip, code.split(";\n")))

        async def use() -> None:
            store = open_store(server.url(password="correct-horse-battery"), tmp_path)
            await store.tenants.create("a")
            for code in blocks[2:4]:
                connection = await asyncpg.connect(server.socket_url("postgres"))
                rows = await connection.fetch(code)
                await connection.close()
                assert rows, code
            await store.close()
            notes = "INSERT INTO meta VALUES ('database', 'first 0'), ('database.west', '1')"
            connection = await asyncpg.connect(server.socket_url("postgres"))
            await connection.execute(f"{notes};{blocks[4]}")
            assert await connection.fetchval("SELECT count(*) FROM meta WHERE key LIKE 'data%'") == 0
            assert await connection.fetchval("SELECT count(*) FROM meta") == 3
            await connection.close()

        asyncio.run(use())


def test_a_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(StorageError) as raised:
        open_store(f"postgresql://gatepost@127.0.0.1:{silent.getsockname()[1]}/gatepost", tmp_path)
    assert "no answer within" in str(raised.value)


def test_a_server_that_is_too_old(server: OwnPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_faults, "LEAST_VERSION", 99)
    with pytest.raises(StorageError, match=r"is PostgreSQL \d+; Gatepost needs 99 or later: upgrade the server"):
        open_store(server.url(), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root has a HOME that others cannot read")
def test_a_home_that_cannot_be_read_does_not_matter(server: OwnPostgres, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    code = "import sys; from gatepost.store.postgres import upgrade_schema; upgrade_schema(sys.argv[1]); print('well')"
    command = [sys.executable, "-I", "-c", code, server.url()]
    ended = subprocess.run(
        command, env={"HOME": str(home)}, user="nobody", capture_output=True, text=True, check=False, cwd="/"
    )
    assert ended.stdout == "well\n", ended.stderr


@pytest.mark.variant
def test_a_standby_cannot_be_written(tmp_path: Path) -> None:
    async def prove_writable(url: str, folder: Path) -> None:
        store = open_store(url, folder)
        try:
            await store.prove_writable()
        finally:
            await store.close()

    with own_postgres() as server:
        upgrade_schema(server.url())
        server.stop()
        # Without a primary it stays in recovery, as a standby whose primary is away.
        (server.data / "standby.signal").touch()
        server.start()
        # A standby with the right schema can be opened and read; what is to be kept is refused.
        with pytest.raises(StorageError, match=r"25006\); name the primary in storage.url"):
            asyncio.run(prove_writable(server.url(), tmp_path))
        with pytest.raises(StorageError, match="no server of the address can be written"):
            upgrade_schema(server.url(more="?target_session_attrs=read-write"))


@pytest.mark.variant
def test_a_certificate_that_is_not_trusted() -> None:
    """The server of the tests is built without TLS."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not installed:
        pytest.skip("not run: there is no PostgreSQL with TLS (Debian: apt-get install postgresql)")
    with own_postgres(installed[-1].parent) as server:
        server.stop()
        for name in ("server", "other"):
            pem, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
            (server.folder / f"{name}.pem").write_bytes(pem)
            (server.folder / f"{name}.key").write_bytes(key)
            (server.folder / f"{name}.key").chmod(0o600)
            owner = server.data.stat()
            os.chown(server.folder / f"{name}.key", owner.st_uid, owner.st_gid)
        tls = {"ssl": "on", "ssl_cert_file": str(server.folder / "server.pem")}
        server.start(**tls, ssl_key_file=str(server.folder / "server.key"))
        verified = f"?sslmode=verify-full&sslrootcert={server.folder}"
        upgrade_schema(server.url("gatepost", more=f"{verified}/server.pem"))
        with pytest.raises(StorageError, match=r"its certificate is not accepted .*name its authority"):
            upgrade_schema(server.url(more=f"{verified}/other.pem"))
