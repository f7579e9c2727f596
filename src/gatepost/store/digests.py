"""Digests in the database: planned from held mail, sent once, and what their links have done.

Planning goes through the held mail of a scope in the order in which it was held, some messages in each transaction, and
remembers how far it came. Each recipient has at most one digest that waits; mail that is held later extends it. So a
kill loses no digest: what was planned waits in storage. A digest counts as sent once the next hop has taken it and that
is recorded; a process that dies in between sends that one digest twice, since it is better to repeat it than to lose it
(RFC 1047 describes the same moment).

One process works on a scope at a time: its digests are a job (`jobs`).

Preferences are what a tenant wants of digests: whether, when, in which language, with which words, and what recipients
may do. The scope None has the preferences for mail without a tenant. Digests go to recipients in the domains of the
tenant; without a tenant the domains are named here, since mail can be addressed to anybody.
"""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from gatepost.ids import new_id
from gatepost.process.logs import Logger
from gatepost.store.audit import Actor, ChangedValue, write_audit
from gatepost.store.engine import (
    Engine,
    Many,
    Operations,
    Read,
    Work,
    Write,
    change,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.errors import StorageError
from gatepost.store.jobs import Job, is_held, plan_job, read_jobs
from gatepost.store.list_rows import raise_versions
from gatepost.store.message_records import normalize_address
from gatepost.store.quarantine import HeldMessage, find_held
from gatepost.store.sealed_secrets import DIGEST_KEY, SecretKey, Secrets
from gatepost.store.sql import Row, insert_many, sql

# Messages that are read in one step of planning; each may have a thousand recipients.
PLAN_STEP = 100
MAX_COUNTED = 10_000
KEY_MILLISECONDS = 30 * 86_400_000

log = Logger("gatepost.store")

DIGEST = "digest"

_PLANNING = sql("SELECT planned_until, after_kept, after_ggrid FROM digest_runs WHERE scope = $1")
_BEGIN = sql("UPDATE digest_runs SET planned_until = $2 WHERE scope = $1")
_ADVANCE = sql("UPDATE digest_runs SET after_kept = $2, after_ggrid = $3 WHERE scope = $1")
_HELD_OF_TENANT = sql("""SELECT kept, ggrid FROM held WHERE gone = 0 AND tenant = $1
AND (kept, ggrid) > ($2, $3) AND kept <= $4 ORDER BY kept, ggrid LIMIT $5""")
_HELD_OF_NOBODY = sql("""SELECT kept, ggrid FROM held WHERE gone = 0 AND tenant IS NULL AND $1 = ''
AND (kept, ggrid) > ($2, $3) AND kept <= $4 ORDER BY kept, ggrid LIMIT $5""")
_RECIPIENTS = sql("SELECT ggrid, address FROM held_recipients WHERE @one_of(ggrid, $1) AND @one_of(domain, $2)")
_PLAN = insert_many(
    "digests",
    "id, scope, address, since, until, attempts, next_try, fault, expires",
    "(scope, address) WHERE sent IS NULL DO UPDATE SET until = excluded.until",
)
_DIGEST = "id, scope, address, since, until, attempts, next_try, fault, sent, expires"
_WAITING = sql(f"""SELECT {_DIGEST} FROM digests WHERE scope = $1 AND sent IS NULL AND next_try <= $2
ORDER BY next_try, id LIMIT $3""")  # noqa: S608
_SELECT = sql(f"SELECT {_DIGEST} FROM digests WHERE id = $1")  # noqa: S608
_MESSAGES = sql("""SELECT r.ggrid FROM held_recipients AS r JOIN held AS h ON h.ggrid = r.ggrid
WHERE r.address = $1 AND h.gone = 0 AND h.kept > $2 AND h.kept <= $3 AND coalesce(h.tenant, '') = $4
AND NOT EXISTS (SELECT 1 FROM recipient_releases AS had WHERE had.ggrid = r.ggrid AND had.address = r.address)
ORDER BY r.ggrid DESC LIMIT $5""")
_COUNT_MESSAGES = sql(f"SELECT count(*) FROM ({_MESSAGES}) AS listed")  # noqa: S608
_SENT = sql("UPDATE digests SET sent = $2, expires = $3, fault = $4 WHERE id = $1")
_FAILED = sql("UPDATE digests SET attempts = attempts + 1, next_try = $2, fault = $3 WHERE id = $1")
_DROP = sql("DELETE FROM digests WHERE id = $1")
_USE = sql("INSERT INTO digest_uses (digest, item, used) VALUES ($1, $2, $3) ON CONFLICT (digest, item) DO NOTHING")
_IS_USED = sql("SELECT 1 FROM digest_uses WHERE digest = $1 AND item = $2")
_KEYS = sql("SELECT number, secret, created FROM digest_keys ORDER BY number DESC")
_ADD_KEY = sql("INSERT INTO digest_keys (number, secret, created) VALUES ($1, $2, $3) ON CONFLICT (number) DO NOTHING")
_PURGE = (
    sql("DELETE FROM digest_uses WHERE digest IN (SELECT id FROM digests WHERE sent IS NOT NULL AND expires < $1)"),
    sql("DELETE FROM digests WHERE sent IS NOT NULL AND expires < $1"),
)
_PURGE_KEYS = sql("DELETE FROM digest_keys WHERE created < $1")
_REVOKE = sql("DELETE FROM digest_keys WHERE number < $1")
_COUNTS = sql("""SELECT count(*), coalesce(sum(CASE WHEN sent IS NULL THEN 1 ELSE 0 END), 0),
coalesce(sum(CASE WHEN sent IS NOT NULL AND fault <> '' THEN 1 ELSE 0 END), 0) FROM digests WHERE scope = $1""")


class DigestRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What came of the last run: when it ended, how many digests were sent, how many were not and why. `is_cut`: it
    sent as many as one run may."""

    finished: int = 0
    sent: int = 0
    failed: int = 0
    message: str = ""
    is_cut: bool = False


class DigestRun(msgspec.Struct, frozen=True):
    """The work on the digests of a scope: when it is due, and what came of it last."""

    scope: str | None
    next_run: int
    record: DigestRecord = DigestRecord()


class Digest(msgspec.Struct, frozen=True):
    """A digest for one recipient: it lists what was held after `since`, up to `until`."""

    id: str
    scope: str | None
    address: str
    since: int
    until: int
    attempts: int = 0
    next_try: int = 0
    fault: str = ""
    sent: int | None = None
    expires: int = 0


class DigestCounts(msgspec.Struct, frozen=True):
    """How many digests of a scope are on record, how many of them wait, and how many could not be sent."""

    known: int
    waiting: int
    failed: int


class DigestKey(msgspec.Struct, frozen=True):
    """A key that links are signed with."""

    number: int
    secret: bytes
    created: int


_records = msgspec.json.Decoder(DigestRecord)


def digest_run(job: Job) -> DigestRun:
    """Return what is known of the work on the digests of a scope."""
    return DigestRun(job.scope or None, job.next_run, _records.decode(job.detail))


def _digest(row: Row) -> Digest:
    uid, scope, *rest = row
    return Digest(uid, scope or None, *rest)


MAX_INTRO = 1_000
MAX_DOMAINS = 1_000
DAY = 86_400_000

_SELECT_PREFERENCES = "SELECT scope, settings, modified, modified_by FROM digest_settings"
_PREFERENCES = sql(_SELECT_PREFERENCES + " ORDER BY scope")
_ONE = sql(_SELECT_PREFERENCES + " WHERE scope = $1")
_LOCK_ONE = sql(_ONE + " @lock(UPDATE)")
_PUT = sql("""INSERT INTO digest_settings (scope, settings, modified, modified_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (scope) DO UPDATE SET settings = excluded.settings, modified = excluded.modified,
modified_by = excluded.modified_by""")
_START = sql("""INSERT INTO digest_runs (scope, planned_until, after_kept, after_ggrid) VALUES ($1, 0, $2, '')
ON CONFLICT (scope) DO NOTHING""")
_SKIP = sql("UPDATE digest_runs SET after_kept = $2, after_ggrid = '' WHERE scope = $1 AND after_kept < $2")


class DigestPreferences(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Preferences of one scope. `hour` is that of `zone` (an IANA name, "" for UTC). `intro` stands above the list of
    messages. `own_entries`: recipients may allow and block senders for themselves. `domains` narrow the recipients."""

    enabled: bool = False
    language: str = "en"
    hour: int = 7
    zone: str = ""
    intro: str = ""
    own_entries: bool = False
    domains: tuple[str, ...] = ()

    @property
    def time_zone(self) -> tzinfo:
        """The zone, UTC where this machine does not know it."""
        try:
            return ZoneInfo(self.zone) if self.zone else UTC
        except (KeyError, ValueError, OSError):
            return UTC

    def next_time(self, moment: int) -> int:
        """When the hour comes next after this moment."""
        local = datetime.fromtimestamp(moment / 1000, self.time_zone)
        due = local.replace(hour=self.hour % 24, minute=0, second=0, microsecond=0)
        if due <= local:
            due += timedelta(days=1)
        # A day on which the clocks change has another length than the sum says.
        return int(due.astimezone(UTC).timestamp() * 1000)


class DigestScope(msgspec.Struct, frozen=True):
    """The preferences of a scope; `modified` is also the version by which a change is recognised, 0 for the default."""

    scope: str | None
    preferences: DigestPreferences
    modified: int = 0
    modified_by: str = ""


class Digests(Operations):
    """Preferences about digests, and their runs, links and keys."""

    def __init__(self, engine: Engine, key: SecretKey) -> None:
        super().__init__(engine)
        self._secret_key, self._secrets = key, Secrets(engine, key)

    @query
    def scopes(self) -> Work[tuple[DigestScope, ...]]:
        """Every scope that has preferences."""
        return tuple(map(_scope, (yield Read(_PREFERENCES))))

    @query
    def scope(self, scope: str | None) -> Work[DigestScope]:
        """The preferences of one scope."""
        owner = normalize_scope(scope)
        rows = yield Read(_ONE, (owner or "",))
        return _scope(rows[0]) if rows else DigestScope(owner, DigestPreferences())

    @change
    def put_preferences(
        self, scope: str | None, wanted: DigestPreferences, seen: int, by: Actor
    ) -> Work[DigestScope | None]:
        """Set the preferences of a scope; None where somebody changed them since `seen`. The first digest covers the
        day before."""
        owner = normalize_scope(scope) or ""
        rows = yield Read(_LOCK_ONE, (owner,))
        before = _scope(rows[0]) if rows else DigestScope(None, DigestPreferences())
        if before.modified != seen:
            return None
        moment = max(now(), seen + 1)
        values = (owner, storable(msgspec.json.encode(wanted).decode()), moment, storable(by.label))
        yield Write(_PUT, values)
        if wanted.enabled:
            yield from plan_job(DIGEST, owner, wanted.next_time(moment))
            yield Write(_START, (owner, moment - DAY))
            if not before.preferences.enabled:
                yield Write(_SKIP, (owner, moment - DAY))
        if wanted.own_entries != before.preferences.own_entries:
            yield from raise_versions(owner, moment)
        changes = [
            ChangedValue(name, str(getattr(before.preferences, name)), str(getattr(wanted, name)))
            for name in DigestPreferences.__struct_fields__
            if getattr(before.preferences, name) != getattr(wanted, name)
        ]
        yield from write_audit(moment, by, "digest.settings", owner or None, count=len(changes), changes=changes)
        return DigestScope(owner or None, wanted, moment, by.label)

    @query
    def runs(self) -> Work[tuple[DigestRun, ...]]:
        """The runs of all scopes that ever wanted digests."""
        return tuple(map(digest_run, (yield from read_jobs(DIGEST))))

    @change
    def begin_planning(self, job: Job, until: int, next_run: int) -> Work[bool]:
        """Have mail up to a time planned, and the next run be due then; False where the job was lost."""
        if not (yield from is_held(job)):
            return False
        yield Write(_BEGIN, (job.scope, until))
        yield from plan_job(job.kind, job.scope, next_run)
        return True

    @change
    def plan(self, job: Job, domains: Sequence[str]) -> Work[int]:
        """Plan digests for the recipients of the next held messages, in these domains; returns how many messages were
        read. Nothing is done where the job was lost."""
        owner = job.scope
        if not domains or not (yield from is_held(job)):
            return 0
        planning = yield Read(_PLANNING, (owner,))
        if not planning:
            return 0
        until, after_kept, after_ggrid = planning[0]
        held = _HELD_OF_TENANT if owner else _HELD_OF_NOBODY
        read = yield Read(held, (owner, after_kept, after_ggrid, until, PLAN_STEP))
        if not read:
            return 0
        kept = {ggrid: int(moment) for moment, ggrid in read}
        found = yield Read(_RECIPIENTS, (Many(tuple(kept)), Many(tuple(map(storable, domains)))))
        first: dict[str, int] = {}
        for ggrid, address in found:
            first[address] = min(first.get(address, kept[ggrid]), kept[ggrid])
        if first:
            yield _PLAN.of(
                [(new_id(), owner, address, since - 1, until, 0, 0, "", 0) for address, since in first.items()]
            )
        moment, ggrid = read[-1]
        yield Write(_ADVANCE, (owner, int(moment), ggrid))
        return len(read)

    @query
    def waiting(self, scope: str | None, limit: int = 100) -> Work[tuple[Digest, ...]]:
        """Digests of a scope that are to be sent now."""
        rows = yield Read(_WAITING, (normalize_scope(scope) or "", now(), limit))
        return tuple(map(_digest, rows))

    @query
    def find(self, uid: str) -> Work[Digest | None]:
        """One digest."""
        rows = yield Read(_SELECT, (storable(uid),))
        return _digest(rows[0]) if rows else None

    @query
    def messages(self, digest: Digest, limit: int) -> Work[tuple[tuple[HeldMessage, ...], int]]:
        """What a digest lists, the newest first: mail that is still held for its recipient, at most `limit` messages.
        Also how many there are, counted up to `MAX_COUNTED`."""
        values = (normalize_address(digest.address), digest.since, digest.until, digest.scope or "")
        rows = yield Read(_MESSAGES, (*values, limit))
        count = (yield Read(_COUNT_MESSAGES, (*values, MAX_COUNTED)))[0][0] if len(rows) == limit else len(rows)
        found = []
        for (ggrid,) in rows:
            if mail := (yield from find_held(ggrid, None)):
                found.append(mail)
        return tuple(found), int(count)

    @change
    def mark_sent(self, uid: str, expires: int, fault: str = "") -> Work[None]:
        """Record that the next hop has a digest, or with `fault` that it never takes it; its links end then."""
        yield Write(_SENT, (uid, now(), expires, storable(fault[:500])))

    @change
    def mark_failed(self, uid: str, next_try: int, fault: str) -> Work[None]:
        """Have a digest wait until it is tried again."""
        yield Write(_FAILED, (uid, next_try, storable(fault[:500])))

    @change
    def drop(self, uid: str) -> Work[None]:
        """Forget a digest that has nothing to list any more."""
        yield Write(_DROP, (uid,))

    @change
    def use_link(self, digest: str, item: str) -> Work[bool]:
        """Use a link; False where it was used before."""
        return bool((yield Write(_USE, (storable(digest), storable(item), now()))))

    @query
    def is_link_used(self, digest: str, item: str) -> Work[bool]:
        """Whether a link was used."""
        return bool((yield Read(_IS_USED, (storable(digest), storable(item)))))

    async def keys(self) -> tuple[DigestKey, ...]:
        """All keys, the newest first. One that cannot be decrypted is left out: its links do not work."""
        found = []
        for row in await self._stored_keys():
            try:
                found.append(await asyncio.to_thread(self._open_key, row))
            except StorageError as fault:
                log.error("a key of digests cannot be used", number=row[0], reason=str(fault))
        return tuple(found)

    async def current_key(self, lifetime: int, *, renew: bool = False, revoke: bool = False) -> DigestKey:
        """The key to sign with. A key is replaced after 30 days, or now with `renew`, and forgotten when no link that
        it signed is valid any more; links live for `lifetime` milliseconds. With `revoke`, all keys before it are
        forgotten now, and with them the links that they signed. Raises `StorageError` where it cannot be decrypted."""
        fresh = await self._secrets.seal(DIGEST_KEY, secrets.token_hex(32))
        row = await self._current_key(lifetime, fresh, renew=renew, revoke=revoke)
        return await asyncio.to_thread(self._open_key, row)

    def _open_key(self, row: Row) -> DigestKey:
        number, sealed, created = row
        return DigestKey(number, bytes.fromhex(self._secret_key.decrypt(DIGEST_KEY, sealed)), created)

    @query
    def _stored_keys(self) -> Work[Sequence[Row]]:
        rows: Sequence[Row] = yield Read(_KEYS)
        return rows

    @change
    def _current_key(self, lifetime: int, fresh: str, *, renew: bool, revoke: bool) -> Work[Row]:
        moment = now()
        keys = yield Read(_KEYS)
        if not keys or renew or keys[0][2] < moment - KEY_MILLISECONDS:
            yield Write(_ADD_KEY, (keys[0][0] + 1 if keys else 1, fresh, moment))
            keys = yield Read(_KEYS)
        number, sealed, created = keys[0]
        # A key signs for 30 days, and its last link lives for as long as links live.
        yield Write(_PURGE_KEYS, (min(created, moment - KEY_MILLISECONDS - lifetime),))
        if revoke:
            yield Write(_REVOKE, (number,))
        return number, sealed, created

    @change
    def purge(self, before: int) -> Work[None]:
        """Forget digests whose links have ended before a time."""
        for statement in _PURGE:
            yield Write(statement, (before,))

    @query
    def counts(self, scope: str | None) -> Work[DigestCounts]:
        """How many digests of a scope are on record."""
        rows = yield Read(_COUNTS, (normalize_scope(scope) or "",))
        return DigestCounts(*map(int, rows[0]))


def read_preferences(scope: str) -> Work[DigestPreferences]:
    """The preferences of a scope as a part of other work; "" is mail without a tenant."""
    rows = yield Read(_ONE, (scope,))
    return _scope(rows[0]).preferences if rows else DigestPreferences()


_preferences = msgspec.json.Decoder(DigestPreferences)


def _scope(row: Row) -> DigestScope:
    scope, settings, modified, modified_by = row
    return DigestScope(scope or None, _preferences.decode(settings), int(modified), modified_by)
