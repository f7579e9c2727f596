"""Second factors of users: the secrets of their authenticator apps, encrypted, and the codes that are used up. Security
keys, which have no secret here, are the subject of `security_keys`.

A secret of TOTP has to be known in clear to check a code, so it cannot be hashed. It is encrypted with AES-256-GCM and
a key that lies in a file of the data folder (`totp.key`) and not in the database: a database or a backup alone does not
contain the secrets. The user's uid is authenticated with it, so that a row copied to another user is worthless. The
file is made when it is first needed, readable by its owner only. Several machines that share a database need the same
file.

Secrets from before this was so are encrypted when the service starts, and when one of them is used.
"""

import base64
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, now, query, storable
from gatepost.store.errors import NotFound, StorageError
from gatepost.store.recovery_codes import replace_recovery_codes
from gatepost.store.sign_in_attempts import forget_browsers
from gatepost.store.users import SELECT_USER, Credentials, User, delete_sessions, parse_user

KEY_FILE = "totp.key"
KEY_BYTES = 32
NONCE_BYTES = 12
# What an encrypted secret begins with; Base32, as a secret in clear is written, has no colon.
PREFIX = "aesgcm:"

_SET_TOTP = "UPDATE users SET totp_secret = $2, totp_step = $3 WHERE uid = $1"
_USE_STEP = "UPDATE users SET totp_step = $2 WHERE uid = $1 AND totp_step < $2"
_CLEAR = "SELECT uid, totp_secret FROM users WHERE totp_secret IS NOT NULL AND totp_secret NOT LIKE 'aesgcm:%'"
_ENCRYPT = "UPDATE users SET totp_secret = $3 WHERE uid = $1 AND totp_secret = $2"
_DELETE_KEYS = "DELETE FROM security_keys WHERE user_uid = $1"
_ANY_ENCRYPTED = "SELECT 1 FROM users WHERE totp_secret LIKE 'aesgcm:%' LIMIT 1"


class TotpKey:
    """The key that secrets are encrypted with, read from its file when it is first needed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._key = b""

    def encrypt(self, uid: str, secret: str) -> str:
        """Return a secret as it is stored; the file of the key is made if there is none."""
        key = self._load(may_create=True)
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, secret.encode("ascii", "replace"), uid.encode("ascii", "replace"))
        return f"{PREFIX}{_key_id(key)}:{base64.b64encode(sealed).decode('ascii')}"

    def decrypt(self, uid: str, stored: str) -> str:
        """Return a secret in clear; raises `StorageError` if it was encrypted with another key."""
        if not stored.startswith(PREFIX):
            return stored
        key = self._load(may_create=False)
        named, _, sealed = stored.removeprefix(PREFIX).partition(":")
        if named != _key_id(key):
            raise StorageError(f"A second factor was encrypted with another key than that of {self._file}.")
        try:
            raw = base64.b64decode(sealed, validate=True)
            opened = AESGCM(key).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], uid.encode("ascii", "replace"))
        except (InvalidTag, ValueError):
            raise StorageError("A second factor in the database is damaged.") from None
        return opened.decode("ascii")

    def check_present(self) -> None:
        """Raise `StorageError` if there is no file with the key."""
        self._load(may_create=False)

    def _load(self, *, may_create: bool) -> bytes:
        if not self._key:
            if may_create:
                self._create()
            try:
                key = base64.b64decode(self._file.read_bytes().strip(), validate=True)
            except FileNotFoundError:
                raise StorageError(f"{self._file} is missing: second factors cannot be checked without it.") from None
            except (OSError, ValueError) as fault:
                raise StorageError(f"{self._file} cannot be read: {fault}.") from None
            if len(key) != KEY_BYTES:
                raise StorageError(f"{self._file} is not a key of {KEY_BYTES} bytes in Base64.")
            self._key = key
        return self._key

    def _create(self) -> None:
        """Make the file, whole or not at all; of two processes that make it at once, one wins and both use it."""
        if self._file.exists():
            return
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(8)}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            try:
                os.link(fresh, self._file)
            except FileExistsError:
                return
            finally:
                fresh.unlink()
        except OSError as fault:
            raise StorageError(f"{self._file} cannot be written: {fault.strerror or fault}.") from None


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"gatepost totp key" + key).hexdigest()[:16]


class SecondFactorStore(Operations):
    """The second factors of users. Every change of them is audited and ends the user's other sessions."""

    _totp_key: TotpKey

    async def set_totp(
        self,
        uid: str,
        secret: str | None,
        by: Actor,
        step: int = 0,
        *,
        keep: str | None = None,
        keep_browser: str | None = None,
        recovery: Sequence[str] = (),
    ) -> User | NotFound:
        """Set or remove the second factor; codes up to `step` (the one that proved it) are used up already. All
        sessions of the user end but the one with the id `keep`, since they began with other proofs, and all known
        browsers are forgotten but `keep_browser`. `recovery` are the digests of the recovery codes that go with it;
        those of the factor before are void. Without it they stay, if the user has a security key."""
        name = storable(uid.lower())
        stored = None if secret is None else await self._encrypt(name, secret)
        return await self._set_totp(name, stored, by, step, keep, keep_browser, tuple(recovery))

    async def totp_secret(self, found: Credentials) -> str | None:
        """Return the secret of a user in clear, None if there is none. Raises `StorageError` without the right key."""
        stored, uid = found.totp_secret, found.user.uid
        if stored is None:
            return None
        secret = self._totp_key.decrypt(uid, stored)
        if secret == stored:
            await self._replace_clear([(uid, stored, await self._encrypt(uid, stored))])
        return secret

    async def encrypt_totp_secrets(self) -> int:
        """Encrypt the secrets that are stored in clear; returns how many there were."""
        clear = await self._clear_secrets()
        if not clear:
            return 0
        return await self._replace_clear([(uid, secret, await self._encrypt(uid, secret)) for uid, secret in clear])

    @change
    def forget_second_factors(self, uid: str, by: Actor) -> Work[User | NotFound]:
        """Remove the authenticator app, all security keys and the recovery codes of a user who has lost them. All
        sessions end, and all known browsers are forgotten."""
        name = storable(uid.lower())
        if not (yield Write(_SET_TOTP, (name, None, 0))):
            return NotFound("user")
        keys = yield Write(_DELETE_KEYS, (name,))
        user = parse_user((yield Read(SELECT_USER, (name,)))[0])
        yield from delete_sessions(name)
        yield from forget_browsers(name)
        yield from replace_recovery_codes(name, ())
        sample = (f"{user.name} {user.uid}", user.role, "removed", *((f"{keys} security keys",) if keys else ()))
        yield from write_audit(now(), by, "user.totp", user.tenant, count=1, sample=sample)
        return user

    @change
    def use_totp_step(self, uid: str, step: int) -> Work[bool]:
        """Use up the code of a step and all before; False where that was done before, so no code works twice."""
        return bool((yield Write(_USE_STEP, (storable(uid.lower()), step))))

    async def _encrypt(self, uid: str, secret: str) -> str:
        """Encrypt a secret. A key is not made on a machine that lacks the one which other secrets were encrypted
        with."""
        if await self._has_encrypted():
            self._totp_key.check_present()
        return self._totp_key.encrypt(uid, secret)

    @query
    def _has_encrypted(self) -> Work[bool]:
        return bool((yield Read(_ANY_ENCRYPTED)))

    @query
    def _clear_secrets(self) -> Work[list[tuple[str, str]]]:
        return [(row[0], row[1]) for row in (yield Read(_CLEAR))]

    @change
    def _replace_clear(self, replaced: list[tuple[str, str, str]]) -> Work[int]:
        count = 0
        for row in replaced:
            count += yield Write(_ENCRYPT, row)
        return count

    @change
    def _set_totp(
        self,
        uid: str,
        stored: str | None,
        by: Actor,
        step: int,
        keep: str | None,
        keep_browser: str | None,
        recovery: tuple[str, ...],
    ) -> Work[User | NotFound]:
        if not (yield Write(_SET_TOTP, (uid, stored, step))):
            return NotFound("user")
        rows = yield Read(SELECT_USER, (uid,))
        user = parse_user(rows[0])
        yield from delete_sessions(user.uid, keep)
        yield from forget_browsers(user.uid, keep_browser)
        if stored or not user.keys:
            yield from replace_recovery_codes(user.uid, recovery)
        sample = (f"{user.name} {user.uid}", user.role, "set" if stored else "removed")
        yield from write_audit(now(), by, "user.totp", user.tenant, count=1, sample=sample)
        return user
