"""Secrets that storage has to give back in clear: of authenticator apps, of links in digests, and of calls of alerts.

They cannot be hashed, since they are used as they are. They are encrypted with AES-256-GCM and a key that lies in a
file of the data folder (`secrets.key`) and not in the database: a database or a backup alone does not contain the
secrets. What a secret is for (the user's uid, the name of an alert) is authenticated with it, so that a row copied to
another place is worthless. The file is made when it is first needed, readable by its owner only; one that an older
version has made (`totp.key`) is used until the key is replaced.

The file has one key a line. The first one encrypts. The others are those before it, which backups of their time need.
A process reads the file again when it changes, or when it meets a key that it does not know.

Several machines that share a database need the same file. So on PostgreSQL, keys of digests and secrets of alerts are
encrypted only once `gatepost secrets rotate` was run there, after which every machine must have the file; secrets of
authenticator apps always are. On SQLite everything is encrypted when the service starts.
"""

import asyncio
import base64
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gatepost.process.logs import Logger
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Engine, Operations, Read, Work, Write, change, now, query
from gatepost.store.errors import StorageError
from gatepost.store.sql import Sql, sql

KEY_FILE = "secrets.key"
OLD_KEY_FILE = "totp.key"
KEY_BYTES = 32
NONCE_BYTES = 12
# Keys that a file keeps: the one in use, and those that backups were made with.
MAX_KEYS = 8
# What an encrypted secret begins with; neither Base32 nor hexadecimal digits nor a URL begin like this.
PREFIX = "aesgcm:"
DIGEST_KEY = "digest key"

log = Logger("gatepost.store")


class SecretKey:
    """The key that secrets are encrypted with, read from its file when it is first needed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._keys: tuple[bytes, ...] = ()
        self._read: tuple[int, int] = (0, 0)

    def encrypt(self, purpose: str, secret: str) -> str:
        """Return a secret as it is stored; the file of the key is made if there is none."""
        key = self._load(may_create=True)[0]
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, secret.encode("utf-8", "replace"), purpose.encode())
        return f"{PREFIX}{_key_id(key)}:{base64.b64encode(sealed).decode('ascii')}"

    def decrypt(self, purpose: str, stored: str) -> str:
        """Return a secret in clear; raises `StorageError` if it was encrypted with another key."""
        if not is_sealed(stored):
            return stored
        named, _, sealed = stored.removeprefix(PREFIX).partition(":")
        key = next((each for each in self._load(may_create=False) if _key_id(each) == named), None)
        if key is None:
            raise StorageError(f"A secret in the database was encrypted with another key than those of {self._file}.")
        try:
            raw = base64.b64decode(sealed, validate=True)
            opened = AESGCM(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError):
            raise StorageError("A secret in the database is damaged.") from None
        return opened.decode("utf-8")

    def check_present(self) -> None:
        """Raise `StorageError` if there is no file with the key."""
        self._load(may_create=False)

    def is_current(self, stored: str) -> bool:
        """Whether a secret is encrypted with the key that is in use."""
        return stored.startswith(f"{PREFIX}{_key_id(self._load(may_create=True)[0])}:")

    def renew(self, *, forget: bool = False) -> None:
        """Put a new key before those of the file; with `forget`, before none."""
        before = () if forget or not self._exists() else self._load(may_create=False)
        self._write((secrets.token_bytes(KEY_BYTES), *before)[:MAX_KEYS], replace=True)

    def keep_current(self) -> None:
        """Forget all keys but the one in use."""
        self._write(self._load(may_create=False)[:1], replace=True)

    def _exists(self) -> bool:
        return self._find().exists()

    def _find(self) -> Path:
        """Return the file, or that of an older version where it alone is there."""
        old = self._file.with_name(OLD_KEY_FILE)
        return old if not self._file.exists() and old.exists() else self._file

    def _load(self, *, may_create: bool) -> tuple[bytes, ...]:
        try:
            if may_create and not self._exists():
                self._write((secrets.token_bytes(KEY_BYTES),))
            file = self._find()
            state = file.stat()
            if not self._keys or self._read != (state.st_mtime_ns, state.st_ino):
                lines = file.read_bytes().split()
                self._keys = tuple(base64.b64decode(line, validate=True) for line in lines[:MAX_KEYS])
                self._read = (state.st_mtime_ns, state.st_ino)
        except FileNotFoundError:
            raise StorageError(f"{self._file} is missing: secrets in the database cannot be read without it.") from None
        except (OSError, ValueError) as fault:
            raise StorageError(f"{self._file} cannot be read: {fault}.") from None
        if not self._keys or any(len(key) != KEY_BYTES for key in self._keys):
            self._keys = ()
            raise StorageError(f"{self._file} has not one key of {KEY_BYTES} bytes in Base64 on each line.")
        return self._keys

    def _write(self, keys: Iterable[bytes], *, replace: bool = False) -> None:
        """Write the file, whole or not at all; of two processes that make it at once, one wins and both use it."""
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(8)}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(b"".join(base64.b64encode(key) + b"\n" for key in keys))
                stream.flush()
                os.fsync(stream.fileno())
            try:
                if replace:
                    fresh.replace(self._file)
                    self._file.with_name(OLD_KEY_FILE).unlink(missing_ok=True)
                else:
                    os.link(fresh, self._file)
            except FileExistsError:
                return
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as fault:
            raise StorageError(f"{self._file} cannot be written: {fault.strerror or fault}.") from None


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"gatepost totp key" + key).hexdigest()[:16]


def is_sealed(stored: str) -> bool:
    """Whether a secret is stored encrypted."""
    return stored.startswith(PREFIX)


def alert_purpose(name: str, field: str) -> str:
    """Return what a secret of an alert is for."""
    return f"alert {field} {name}"


# Of a table: its rows, and a change of one row that nobody changed meanwhile.
_TOTP = sql("SELECT uid, totp_secret FROM users WHERE totp_secret IS NOT NULL")
_SET_TOTP = sql("UPDATE users SET totp_secret = $3 WHERE uid = $1 AND totp_secret = $2")
_DIGEST_KEYS = sql("SELECT number, secret FROM digest_keys")
_SET_DIGEST_KEY = sql("UPDATE digest_keys SET secret = $3 WHERE number = $1 AND secret = $2")
_ALERTS = sql("SELECT name, settings FROM alert_definitions")
_SET_ALERT = sql("UPDATE alert_definitions SET settings = $3 WHERE name = $1 AND settings = $2")
_DELETE_DIGEST_KEY = sql("DELETE FROM digest_keys WHERE number = $1")
_ADD_DIGEST_KEY = sql("INSERT INTO digest_keys (number, secret, created) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
_ANY_SEALED = sql("""SELECT 1 FROM digest_keys WHERE secret LIKE 'aesgcm:%'
UNION ALL SELECT 1 FROM alert_definitions WHERE settings LIKE '%"aesgcm:%' LIMIT 1""")
_ANY_SEALED_TOTP = sql("SELECT 1 FROM users WHERE totp_secret LIKE 'aesgcm:%' LIMIT 1")

_Key: TypeAlias = str | int
_IsDone: TypeAlias = Callable[[str], bool]
# A statement, and for each row its key, what it has and what it gets.
_Replacement: TypeAlias = tuple[Sql, list[tuple[_Key, str, str]]]


class SecretCounts(msgspec.Struct, frozen=True):
    """How many secrets there are: in clear, under the key in use, under one before it, and under none that is here."""

    clear: int = 0
    current: int = 0
    earlier: int = 0
    lost: int = 0


class Secrets(Operations):
    """All secrets that are encrypted in the database, whatever they are for."""

    def __init__(self, engine: Engine, key: SecretKey) -> None:
        super().__init__(engine)
        self._key = key

    async def seal(self, purpose: str, secret: str) -> str:
        """Return a key of digests or a secret of an alert as it is to be stored."""
        if not secret or not await self.protects():
            return secret
        await self.check_key()
        return await asyncio.to_thread(self._key.encrypt, purpose, secret)

    async def protects(self) -> bool:
        """Whether keys of digests and secrets of alerts are encrypted."""
        return self._engine.is_local or await self._has_sealed()

    async def check_key(self) -> None:
        """Raise `StorageError` on a machine that lacks the key which others have encrypted with: one of its own would
        be worthless to them."""
        if await self._has_sealed() or await self._has_sealed_totp():
            await asyncio.to_thread(self._key.check_present)

    async def seal_clear(self, *, every: bool = True) -> int:
        """Encrypt what an older version has stored in clear; returns how many secrets. On PostgreSQL, and not with
        `every`, those of authenticator apps alone, unless the others are encrypted there."""
        every = every and await self.protects()
        return await self._encrypt_again(is_sealed, every=every)

    async def rotate(self, by: Actor, *, given: bool = False, forget: bool = False, lost: bool = False) -> int:
        """Encrypt everything with a new key; returns how many secrets. With `given` it is the first one of the file
        instead, which somebody has put there. With `forget` the file keeps no key before it. With `lost`, keys of
        digests and addresses of alerts that cannot be read are deleted."""
        if not lost:
            await self.check_key()
        if not given:
            self._key.renew(forget=lost and not self._has_key())
        if lost:
            await self._replace(await self._drop_lost())
        await self._add_digest_key(self._key.encrypt(DIGEST_KEY, secrets.token_hex(32)))
        count = await self._encrypt_again(self._key.is_current, every=True)
        if forget:
            self._key.keep_current()
        await self._note(by, count)
        return count

    def _has_key(self) -> bool:
        try:
            self._key.check_present()
        except StorageError:
            return False
        return True

    async def count(self) -> SecretCounts:
        """Count all secrets by how they are stored."""
        found = dict.fromkeys(("clear", "current", "earlier", "lost"), 0)
        for purpose, stored in await self._list():
            if not is_sealed(stored):
                found["clear"] += 1
                continue
            try:
                self._key.decrypt(purpose, stored)
                found["current" if self._key.is_current(stored) else "earlier"] += 1
            except StorageError:
                found["lost"] += 1
        return SecretCounts(**found)

    async def _list(self) -> list[tuple[str, str]]:
        users, keys, alerts = await self._rows()
        listed = [(str(uid), stored) for uid, stored in users] + [(DIGEST_KEY, stored) for _, stored in keys]
        for name, settings in alerts:
            fields = msgspec.json.decode(settings)
            listed += [(alert_purpose(name, field), fields[field]) for field in ("url", "secret") if fields.get(field)]
        return listed

    async def _encrypt_again(self, is_done: _IsDone, *, every: bool) -> int:
        users, keys, alerts = await self._rows()
        replaced: list[_Replacement] = [(_SET_TOTP, self._reseal(users, is_done))]
        if every:
            replaced.append((_SET_DIGEST_KEY, self._reseal(keys, is_done, DIGEST_KEY)))
            changed = [(name, before, self._reseal_alert(name, before, is_done)) for name, before in alerts]
            replaced.append((_SET_ALERT, [row for row in changed if row[1] != row[2]]))
        if not any(rows for _, rows in replaced):
            return 0
        return await self._replace(replaced)

    def _reseal(
        self, rows: Iterable[tuple[_Key, str]], is_done: _IsDone, purpose: str = ""
    ) -> list[tuple[_Key, str, str]]:
        found = []
        for key, before in rows:
            after = self._encrypt(purpose or str(key), before, is_done)
            if after != before:
                found.append((key, before, after))
        return found

    def _reseal_alert(self, name: str, before: str, is_done: _IsDone) -> str:
        fields = msgspec.json.decode(before)
        for field in ("url", "secret"):
            if fields.get(field):
                fields[field] = self._encrypt(alert_purpose(name, field), fields[field], is_done)
        return msgspec.json.encode(fields).decode()

    def _encrypt(self, purpose: str, before: str, is_done: _IsDone) -> str:
        if is_done(before):
            return before
        try:
            return self._key.encrypt(purpose, self._key.decrypt(purpose, before))
        except StorageError as fault:
            log.error("a secret cannot be encrypted again", reason=str(fault))
            return before

    async def _drop_lost(self) -> list[_Replacement]:
        """Return the changes that remove what no key opens any more; second factors are removed by administrators."""
        _, keys, alerts = await self._rows()
        dropped: list[tuple[_Key, str, str]] = []
        for number, stored in keys:
            if not self._opens(DIGEST_KEY, stored):
                dropped.append((number, "", ""))
        emptied: list[tuple[_Key, str, str]] = []
        for name, before in alerts:
            fields = msgspec.json.decode(before)
            lost = [
                each for each in ("url", "secret") if not self._opens(alert_purpose(name, each), fields.get(each, ""))
            ]
            if lost:
                rest = {each: value for each, value in fields.items() if each not in ("url", "secret")}
                emptied.append((name, before, msgspec.json.encode(rest).decode()))
        return [(_DELETE_DIGEST_KEY, dropped), (_SET_ALERT, emptied)]

    def _opens(self, purpose: str, stored: str) -> bool:
        try:
            self._key.decrypt(purpose, stored)
        except StorageError:
            return False
        return True

    @query
    def _has_sealed(self) -> Work[bool]:
        return bool((yield Read(_ANY_SEALED)))

    @query
    def _has_sealed_totp(self) -> Work[bool]:
        return bool((yield Read(_ANY_SEALED_TOTP)))

    @query
    def _rows(self) -> Work[tuple[list[tuple[str, str]], list[tuple[int, str]], list[tuple[str, str]]]]:
        users = [(row[0], row[1]) for row in (yield Read(_TOTP))]
        keys = [(int(row[0]), row[1]) for row in (yield Read(_DIGEST_KEYS))]
        return users, keys, [(row[0], row[1]) for row in (yield Read(_ALERTS))]

    @change
    def _replace(self, replaced: list[_Replacement]) -> Work[int]:
        count = 0
        for statement, rows in replaced:
            for row in rows:
                count += yield Write(statement, row[:1] if statement == _DELETE_DIGEST_KEY else row)
        return count

    @change
    def _add_digest_key(self, sealed: str) -> Work[None]:
        """Make the first key of digests where there is none: it shows that secrets are encrypted here."""
        if not (yield Read(_DIGEST_KEYS)):
            yield Write(_ADD_DIGEST_KEY, (1, sealed, now()))

    @change
    def _note(self, by: Actor, count: int) -> Work[None]:
        yield from write_audit(now(), by, "secrets.rotate", count=count)
