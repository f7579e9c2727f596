"""Secrets at rest on both engines: encrypted, brought over from older versions, under a new key, and under none."""

import asyncio
import base64
import stat
from pathlib import Path

import msgspec
import pytest
from tests.store.conftest import Use
from tests.store.test_second_factors import run_sql

from gatepost.settings.events import WebAlert
from gatepost.store.alerts import AlertDefinition
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.errors import StorageError
from gatepost.store.sealed_secrets import KEY_FILE, OLD_KEY_FILE, PREFIX, SecretCounts, SecretKey
from gatepost.store.store import Store
from gatepost.store.users import User

DAY = 86_400_000
TOTP = "JBSWY3DPEHPK3PXP"
URL = "https://hooks.example/services/T0/B0/secret-path"


async def fill(store: Store) -> tuple[bytes, str]:
    """A secret of each kind; returns those that are made here."""
    user = await store.users.create("ann", "administrator", None, "hash", CLI)
    assert isinstance(user, User)
    await store.second_factors.set_totp(user.uid, TOTP, CLI)
    key = await store.digests.current_key(DAY)
    made = await store.alerts.put("night", WebAlert(kinds=("message.held",), url=URL), 0, CLI)
    assert isinstance(made, AlertDefinition)
    return key.secret, made.alert.secret


async def read(store: Store) -> tuple[str | None, bytes, str, str]:
    found = await store.users.credentials("ann")
    assert found
    (alert,) = await store.alerts.all()
    key = (await store.digests.keys())[0]
    assert (await store.digests.current_key(DAY)).secret == key.secret
    return await store.second_factors.totp_secret(found), key.secret, alert.alert.url, alert.alert.secret


def all_text(url: str) -> str:
    """Everything that the three tables and the audit trail have."""
    tables = ("users", "digest_keys", "alert_definitions", "audit")
    return "".join(str(run_sql(url, f"SELECT * FROM {table}")) for table in tables)


def test_nothing_of_a_secret_is_in_the_database(use: Use, storage_url: str, tmp_path: Path) -> None:
    made: list[tuple[bytes, str]] = []

    async def scenario(store: Store) -> None:
        # On PostgreSQL, machines that share the database need the file first.
        await store.secrets.rotate(CLI)
        made.append(await fill(store))
        assert await read(store) == (TOTP, made[0][0], URL, made[0][1])
        # The secret stays with the address, and another address gets another one.
        (seen,) = await store.alerts.all()
        again = await store.alerts.put("night", WebAlert(kinds=("node.state",), url=URL), seen.modified, CLI)
        assert isinstance(again, AlertDefinition)
        assert again.alert.secret == made[0][1]
        other = WebAlert(kinds=("node.state",), url="https://other.example/x")
        moved = await store.alerts.put("night", other, again.modified, CLI)
        assert isinstance(moved, AlertDefinition)
        assert moved.alert.secret not in ("", made[0][1])
        assert await store.alerts.put("night", other, again.modified, CLI) == "changed"

    use(scenario)
    text = all_text(storage_url)
    for secret in (TOTP, "secret-path", "other.example/x", made[0][0].hex(), made[0][1]):
        assert secret not in text
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600


def write_clear(url: str, digest_key: bytes, secret: str) -> None:
    """What an older version had stored."""
    alert = msgspec.json.encode({"kinds": ["message.held"], "url": URL, "secret": secret}).decode()
    for statement in (
        f"UPDATE users SET totp_secret = '{TOTP}'",
        f"UPDATE digest_keys SET secret = '{digest_key.hex()}'",
        f"UPDATE alert_definitions SET settings = '{alert}'",
    ):
        run_sql(url, statement if url.startswith("sqlite:") else f"{statement} RETURNING 1")


def test_secrets_of_an_older_version_are_brought_over(use: Use, storage_url: str) -> None:
    made: list[tuple[bytes, str]] = []

    async def prepare(store: Store) -> None:
        made.append(await fill(store))

    use(prepare)
    write_clear(storage_url, *made[0])
    is_local = storage_url.startswith("sqlite:")

    async def upgrade(store: Store) -> None:
        assert await store.secrets.count() == SecretCounts(clear=4)
        # What a start does: on PostgreSQL other machines may not have the file yet.
        assert await store.secrets.seal_clear() == (3 if is_local else 1)
        assert await store.secrets.count() == SecretCounts(clear=0 if is_local else 3, current=4 if is_local else 1)
        assert await store.secrets.seal_clear() == 0
        await store.secrets.rotate(CLI)
        assert await store.secrets.count() == SecretCounts(current=4)
        assert await read(store) == (TOTP, made[0][0], URL, made[0][1])
        await store.digests.current_key(DAY, renew=True)
        assert await store.secrets.count() == SecretCounts(current=5)

    use(upgrade)
    assert made[0][0].hex() not in all_text(storage_url)


def test_a_new_key(use: Use, storage_url: str, tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        await store.secrets.rotate(CLI)
        await fill(store)
        before = await read(store)
        old = (tmp_path / KEY_FILE).read_bytes()
        assert await store.secrets.rotate(CLI) == 3, "a user, a key of digests, an alert"
        assert await read(store) == before
        assert await store.secrets.count() == SecretCounts(current=4)
        lines = (tmp_path / KEY_FILE).read_bytes().splitlines()
        assert lines[1:] == old.splitlines(), "a backup from before can still be read"
        await store.secrets.rotate(CLI, forget=True)
        assert len((tmp_path / KEY_FILE).read_bytes().splitlines()) == 1
        assert await read(store) == before
        page = await store.audit.page(AuditFilter(action="secrets.rotate"), None, 10)
        assert len(page.rows) == 3

    use(scenario)
    # A thief of the first key file has nothing of this database.
    assert all_text(storage_url).count(PREFIX) >= 4


async def test_a_key_that_was_given(store: Store, tmp_path: Path) -> None:
    """Where the file belongs to somebody else, a new key is put first on all machines, and then used."""
    await store.secrets.rotate(CLI)
    await fill(store)
    before, file = await read(store), tmp_path / KEY_FILE
    text = base64.b64encode(bytes(range(32))) + b"\n" + file.read_bytes()
    file.write_bytes(text)
    assert await store.secrets.count() == SecretCounts(earlier=4)
    assert await store.secrets.rotate(CLI, given=True) == 3
    assert await store.secrets.count() == SecretCounts(current=4)
    assert await read(store) == before
    assert file.read_bytes() == text


async def test_a_process_that_runs_takes_a_new_key_over(store: Store, tmp_path: Path) -> None:
    await store.secrets.rotate(CLI)
    await fill(store)
    before = await read(store)
    # Another process rotates: this one has the old key in memory.
    other = SecretKey(tmp_path / KEY_FILE)
    other.renew()
    sealed = other.encrypt("user", "x")
    assert store.secrets._key.decrypt("user", sealed) == "x"
    assert store.secrets._key.is_current(store.secrets._key.encrypt("user", "y"))
    assert await read(store) == before


def test_without_the_key(use: Use, tmp_path: Path) -> None:
    """Storage is not filled with secrets of another key; `lost` begins anew, and second factors wait for somebody."""

    async def prepare(store: Store) -> None:
        await store.secrets.rotate(CLI)
        await fill(store)

    use(prepare)
    (tmp_path / KEY_FILE).unlink()

    async def without(store: Store) -> None:
        assert await store.secrets.count() == SecretCounts(lost=4)
        assert await store.digests.keys() == ()
        (alert,) = await store.alerts.all()
        assert (alert.alert.url, alert.alert.secret, alert.alert.kinds) == ("", "", ("message.held",))
        for attempt in (
            store.digests.current_key(DAY),
            store.alerts.put("second", WebAlert(kinds=("message.held",), url=URL), 0, CLI),
            store.secrets.rotate(CLI),
        ):
            with pytest.raises(StorageError, match="missing"):
                await attempt
        assert not (tmp_path / KEY_FILE).exists()
        await store.secrets.rotate(CLI, lost=True)
        assert await store.secrets.count() == SecretCounts(current=1, lost=1)
        assert (await store.digests.current_key(DAY)).secret
        (alert,) = await store.alerts.all()
        changed = WebAlert(kinds=("message.held",), url=URL)
        assert isinstance(await store.alerts.put("night", changed, alert.modified, CLI), AlertDefinition)

    use(without)


def test_the_file_of_an_older_version_is_taken_over(tmp_path: Path) -> None:
    old = SecretKey(tmp_path / OLD_KEY_FILE)
    sealed = old.encrypt("uid", TOTP)
    found = SecretKey(tmp_path / KEY_FILE)
    assert found.decrypt("uid", sealed) == TOTP
    assert old.decrypt("uid", found.encrypt("uid", "new")) == "new", "the older version may be started again"
    found.renew()
    assert not (tmp_path / OLD_KEY_FILE).exists()
    assert found.decrypt("uid", sealed) == TOTP


def test_a_secret_is_worthless_in_another_place(tmp_path: Path) -> None:
    key = SecretKey(tmp_path / KEY_FILE)
    sealed = key.encrypt("digest key", "x")
    for purpose in ("alert secret a", "uid", ""):
        with pytest.raises(StorageError, match="damaged"):
            key.decrypt(purpose, sealed)
    for spoiled in (sealed[:-4], f"{sealed}AAAA", f"{PREFIX}{PREFIX}", PREFIX):
        with pytest.raises(StorageError):
            key.decrypt("digest key", spoiled)


def test_processes_that_rotate_at_once_leave_a_key_for_all(tmp_path: Path) -> None:
    key = SecretKey(tmp_path / KEY_FILE)
    key.encrypt("u", "x")

    async def renew() -> None:
        await asyncio.gather(*(asyncio.to_thread(SecretKey(tmp_path / KEY_FILE).renew) for _ in range(4)))

    asyncio.run(renew())
    assert key.decrypt("u", SecretKey(tmp_path / KEY_FILE).encrypt("u", "y")) == "y"
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]
