"""Second factors, on both engines: encrypted with a key that is not in the database, used once, bound to sessions."""

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.store.accounts import ROOT, new_analyst
from tests.store.conftest import Use

from gatepost.ids import new_id
from gatepost.store import open_store
from gatepost.store.audit import AuditFilter
from gatepost.store.errors import NotFound, StorageError
from gatepost.store.sealed_secrets import KEY_FILE, PREFIX, SecretKey
from gatepost.store.sessions import WebSession
from gatepost.store.store import Store
from gatepost.store.users import Credentials, User

FAR = 1 << 50
SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


async def found(store: Store, name: str) -> Credentials:
    credentials = await store.users.credentials(name)
    assert credentials
    return credentials


def run_sql(url: str, statement: str) -> list[Any]:
    """A statement as somebody with the database runs it."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:"))) as connection, connection:
            return connection.execute(statement).fetchall()

    async def run() -> list[Any]:
        connection = await asyncpg.connect(url)
        rows = await connection.fetch(statement)
        await connection.close()
        return [tuple(row) for row in rows]

    return asyncio.run(run())


async def test_a_code_works_once(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    changed = await store.second_factors.set_totp(ann.uid, SECRET, ROOT, step=100)
    assert isinstance(changed, User)
    assert changed.totp
    assert not await store.second_factors.use_totp_step(ann.uid, 100), "the code that proved it is used up"
    assert sum(await asyncio.gather(*(store.second_factors.use_totp_step(ann.uid, 101) for _ in range(10)))) == 1
    assert not await store.second_factors.use_totp_step(ann.uid, 99)
    assert await store.second_factors.use_totp_step(ann.uid, 103)
    assert not await store.second_factors.use_totp_step(new_id(), 1)
    known = await found(store, "ann")
    assert (await store.second_factors.totp_secret(known), known.totp_step) == (SECRET, 103)
    removed = await store.second_factors.set_totp(ann.uid, None, ROOT)
    assert isinstance(removed, User)
    assert not removed.totp
    assert await store.second_factors.totp_secret(await found(store, "ann")) is None
    assert await store.second_factors.set_totp(new_id(), None, ROOT) == NotFound("user")


def test_the_database_does_not_contain_the_secret(use: Use, storage_url: str, tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        for name in ("ann", "bob"):
            user = await new_analyst(store, name)
            await store.second_factors.set_totp(user.uid, SECRET, ROOT)

    use(scenario)
    stored = [row[0] for row in run_sql(storage_url, "SELECT totp_secret FROM users")]
    assert len(set(stored)) == 2, "the same secret is not the same text twice"
    assert all(text.startswith(PREFIX) and SECRET not in text for text in stored)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    if storage_url.startswith("sqlite:"):
        for file in tmp_path.glob("g.db*"):
            assert SECRET.encode() not in file.read_bytes()


def test_secrets_of_an_older_version_are_encrypted(use: Use, storage_url: str, tmp_path: Path) -> None:
    async def prepare(store: Store) -> None:
        for name in ("ann", "bob", "cid"):
            await new_analyst(store, name)

    use(prepare)
    if storage_url.startswith("sqlite:"):
        run_sql(storage_url, f"UPDATE users SET totp_secret = '{SECRET}' WHERE name <> 'cid'")
    else:
        run_sql(storage_url, f"UPDATE users SET totp_secret = '{SECRET}' WHERE name <> 'cid' RETURNING uid")

    async def upgrade(store: Store) -> None:
        assert await store.second_factors.totp_secret(await found(store, "ann")) == SECRET
        assert await store.secrets.seal_clear() == 1, "the one that was used is encrypted already"
        assert await store.secrets.seal_clear() == 0
        for name in ("ann", "bob"):
            known = await found(store, name)
            assert str(known.totp_secret).startswith(PREFIX)
            assert await store.second_factors.totp_secret(known) == SECRET
        assert not (await found(store, "cid")).user.totp

    use(upgrade)


async def test_a_secret_of_one_user_is_worthless_in_the_row_of_another(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob")
    await store.second_factors.set_totp(ann.uid, SECRET, ROOT)
    known = await found(store, "ann")
    with pytest.raises(StorageError, match="damaged"):
        await store.second_factors.totp_secret(Credentials(bob, "", known.totp_secret))


def test_another_key_is_noticed_and_none_is_made_beside_it(use: Use, storage_url: str, tmp_path: Path) -> None:
    async def prepare(store: Store) -> None:
        ann = await new_analyst(store, "ann")
        await store.second_factors.set_totp(ann.uid, SECRET, ROOT)

    use(prepare)
    kept = (tmp_path / KEY_FILE).read_bytes()
    (tmp_path / KEY_FILE).unlink()

    async def without(store: Store) -> None:
        known = await found(store, "ann")
        with pytest.raises(StorageError, match="missing"):
            await store.second_factors.totp_secret(known)
        with pytest.raises(StorageError, match="missing"):
            await store.second_factors.set_totp(known.user.uid, SECRET, ROOT)
        assert not (tmp_path / KEY_FILE).exists()

    use(without)
    SecretKey(tmp_path / KEY_FILE).encrypt("u", SECRET)

    async def other(store: Store) -> None:
        known = await found(store, "ann")
        with pytest.raises(StorageError, match="another key"):
            await store.second_factors.totp_secret(known)
        assert isinstance(await store.second_factors.set_totp(known.user.uid, None, ROOT), User), (
            "removing it needs no key"
        )

    use(other)
    assert (tmp_path / KEY_FILE).read_bytes() != kept


@pytest.mark.parametrize("content", [b"", b"short", b"!" * 44, b"\xff\x00"])
def test_a_key_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEY_FILE).write_bytes(content)
    with pytest.raises(StorageError, match=KEY_FILE):
        SecretKey(tmp_path / KEY_FILE).encrypt("u", SECRET)


def test_processes_that_make_the_key_at_once_use_the_same(tmp_path: Path) -> None:
    async def run() -> list[str]:
        keys = [SecretKey(tmp_path / KEY_FILE) for _ in range(8)]
        return await asyncio.gather(*(asyncio.to_thread(key.encrypt, "u", SECRET) for key in keys))

    sealed = asyncio.run(run())
    assert {SecretKey(tmp_path / KEY_FILE).decrypt("u", each) for each in sealed} == {SECRET}
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]


async def test_switching_it_ends_the_other_sessions(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    for secret in (SECRET, None):
        kept = await store.sessions.create(ann.uid, f"kept {secret}", FAR, "", "", strong=True)
        await store.sessions.create(ann.uid, f"other {secret}", FAR, "", "", strong=True)
        assert isinstance(kept, WebSession)
        await store.second_factors.set_totp(ann.uid, secret, ROOT, keep=kept.id)
        assert await store.sessions.find(f"kept {secret}", kept.created)
        assert not await store.sessions.find(f"other {secret}", kept.created)


async def test_a_session_does_not_begin_with_proofs_that_have_changed(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    before = await found(store, "ann")
    await store.second_factors.set_totp(ann.uid, SECRET, ROOT)
    assert await store.sessions.create(ann.uid, "1", FAR, "", "", proven=before) == NotFound("user")
    now = await found(store, "ann")
    assert isinstance(await store.sessions.create(ann.uid, "2", FAR, "", "", proven=now), WebSession)
    await store.users.set_password(ann.uid, "new", ROOT)
    assert await store.sessions.create(ann.uid, "3", FAR, "", "", proven=now) == NotFound("user")


def test_a_store_without_second_factors_makes_no_key(tmp_path: Path) -> None:
    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        assert await store.secrets.seal_clear() == 0
        await store.close()

    asyncio.run(run())
    assert not (tmp_path / KEY_FILE).exists()


async def test_recovery_codes_are_counted_used_once_and_go_with_the_factor(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob")
    assert await store.second_factors.renew_recovery_codes(ann.uid, ["d1"], ROOT) == NotFound("user"), (
        "without a second factor"
    )
    await store.second_factors.set_totp(ann.uid, SECRET, ROOT, recovery=["d1", "d2", "d3"])
    await store.second_factors.set_totp(bob.uid, SECRET, ROOT, recovery=["e1"])
    assert await store.second_factors.count_recovery_codes(ann.uid.upper()) == 3
    used = await asyncio.gather(*(store.second_factors.use_recovery_code(ann, "d2", "192.0.2.1") for _ in range(5)))
    assert sorted(used) == [False, False, False, False, True], "of many at once, one"
    assert not await store.second_factors.use_recovery_code(bob, "d1", ""), "it is not theirs"
    assert await store.second_factors.count_recovery_codes(ann.uid) == 2
    assert isinstance(await store.second_factors.renew_recovery_codes(ann.uid, ["f1", "f2"], ROOT), User)
    assert not await store.second_factors.use_recovery_code(ann, "d1", ""), "it was replaced"
    await store.second_factors.set_totp(ann.uid, None, ROOT)
    assert await store.second_factors.count_recovery_codes(ann.uid) == 0
    await store.users.delete(bob.uid, ROOT)
    assert await store.second_factors.count_recovery_codes(bob.uid) == 0
    actions = [each.action for each in (await store.audit.page(AuditFilter(), limit=50)).rows]
    assert actions.count("user.recoveryCode") == 1
    assert actions.count("user.recoveryCodes") == 1
