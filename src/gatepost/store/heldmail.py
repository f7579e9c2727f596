"""Held mail in the database: what is held, for whom, and how far its release has come.

A release is a small state machine. `held` becomes `releasing` under a lease, which keeps everybody else away for longer
than a delivery can take, and then `released`, or `held` again where the next hop did not take the message. A process
that dies in between leaves `releasing` behind: the message is still here, and once the lease is over it can be released
again. That doubles a message only if the death fell between the next hop's answer and our record of it, which no
protocol over SMTP can rule out (RFC 1047).
"""

from collections.abc import Sequence

import msgspec

from gatepost.store import messages
from gatepost.store.auditing import noted
from gatepost.store.findable import fold
from gatepost.store.interface import Actor, HeldFilter, HeldMail, MessageRecord, Release
from gatepost.store.work import Bulk, Many, Read, Row, Work, Write, storable

MAX_PAGE = 1_000
# What an index of PostgreSQL takes: 2,704 bytes for all of its columns together.
MAX_ADDRESS = 500
MAX_SUBJECT = 200
UNDECIDED_MILLISECONDS = 86_400_000

COLUMNS = (
    *("ggrid", "created", "completed", "kept", "tenant", "verdict", "sender", "sender_domain", "size", "sha256"),
    *("detail", "state", "holder", "lease", "released", "released_by", "released_to", "subject", "score", "gone"),
)
_KEEP = """INSERT INTO held
(ggrid, created, completed, kept, tenant, verdict, sender, sender_domain, size, sha256, detail, subject, score,
state, holder, lease) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'held', '', 0)
ON CONFLICT (ggrid) DO NOTHING"""
_RECIPIENTS = Bulk(
    "INSERT INTO held_recipients (ggrid, address, domain) VALUES (?1, ?2, ?3)",
    """INSERT INTO held_recipients (ggrid, address, domain)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[])""",
    (),
)
READ = """SELECT ggrid, created, completed, size, sha256, detail,
kept, state, lease, released, released_by, released_to FROM held"""
_ONE = READ + " WHERE ggrid = $1"
_PAGE = READ + " WHERE {} ORDER BY ggrid DESC LIMIT $1"
_BY_ADDRESS = "ggrid IN (SELECT ggrid FROM held_recipients WHERE address = {})"
_BY_DOMAIN = "ggrid IN (SELECT ggrid FROM held_recipients WHERE domain = {})"
_CLAIM = """UPDATE held SET state = 'releasing', holder = $2, lease = $4
WHERE ggrid = $1 AND (state = 'held' OR (state = 'releasing' AND lease < $3))"""
_GIVE_BACK = "UPDATE held SET state = 'held', holder = '', lease = 0 WHERE ggrid = $1 AND holder = $2"
_RELEASED = """UPDATE held SET state = 'released', gone = 1, holder = '', lease = 0,
released = $2, released_by = $3, released_to = $4 WHERE ggrid = $1 AND state <> 'released'"""
_LOCKED = """SELECT ggrid, tenant FROM held
WHERE ggrid = $1 AND (state = 'held' OR (state = 'releasing' AND lease < $2)) FOR UPDATE"""
_DELETE = ("DELETE FROM held_recipients WHERE ggrid = ANY($1)", "DELETE FROM held WHERE ggrid = ANY($1)")
# What was released stays for as long as its result is kept: the release is a part of that record.
_OVERDUE = """SELECT ggrid FROM held WHERE kept < $1 AND (state = 'held' OR (state = 'releasing' AND lease < $2)
OR (state = 'released' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.ggrid = held.ggrid)))
ORDER BY kept LIMIT $3 FOR UPDATE"""
_OF_TENANT = "SELECT ggrid FROM held WHERE tenant = $1 ORDER BY ggrid LIMIT $2 FOR UPDATE"
_NEEDED = "SELECT ggrid FROM held WHERE ggrid = ANY($1) AND state <> 'released'"
_SIZE = "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM held WHERE state <> 'released'"
_TOTALS = "SELECT count(size), CAST(coalesce(sum(size), 0) AS BIGINT) FROM held WHERE state <> 'released'"
_UNDECIDED = "SELECT count(*) FROM undecided WHERE digest = $1 AND time > $2"
_NOTE_UNDECIDED = "INSERT INTO undecided (digest, time) VALUES ($1, $2)"
_FORGET_UNDECIDED = "DELETE FROM undecided WHERE time <= $1"


def keep(record: MessageRecord, now: int) -> Work[bool]:
    """Put a message among the held ones; False where its ggrid is known already, held or released."""
    ggrid, envelope = record.ggrid.lower(), record.envelope
    sender = folded(envelope.sender)
    row = (
        *(ggrid, record.created, record.completed, now, envelope.tenant, record.report.verdict),
        *(sender, _domain(sender), record.size, record.sha256, messages.packed(record)),
        *(fold(record.report.subject[:MAX_SUBJECT])[:MAX_SUBJECT], record.report.score),
    )
    if not (yield Write(_KEEP, row)):
        return False
    addresses = sorted({folded(recipient) for recipient in envelope.recipients})
    if addresses:
        rows = [(ggrid, address, _domain(address)) for address in addresses]
        yield msgspec.structs.replace(_RECIPIENTS, rows=rows)
    return True


def find(ggrid: str, tenant: str | None) -> Work[HeldMail | None]:
    """One message, of that tenant if one is named."""
    rows = yield Read(_ONE, (storable(ggrid.lower()),))
    mail = mail_of(rows[0]) if rows else None
    return mail if mail and tenant in (None, mail.record.envelope.tenant) else None


def page(wanted: HeldFilter, before: str | None, limit: int) -> Work[tuple[HeldMail, ...]]:
    """Those that fit, newest first: ids sort by time."""
    tests: dict[str, object] = {}
    if wanted.tenant is not None:
        tests["tenant = {}"] = storable(wanted.tenant.lower())
    if wanted.verdict is not None:
        tests["verdict = {}"] = storable(wanted.verdict)
    if wanted.sender is not None:
        tests["sender = {}" if is_address(wanted.sender) else "sender_domain = {}"] = sought(wanted.sender)
    if wanted.recipient is not None:
        tests[_BY_ADDRESS if is_address(wanted.recipient) else _BY_DOMAIN] = sought(wanted.recipient)
    if wanted.since is not None:
        tests["kept >= {}"] = wanted.since
    if before is not None:
        tests["ggrid < {}"] = storable(before.lower())
    stated = [test.format(f"${place}") for place, test in enumerate(tests, 2)]
    stated.append("state = 'released'" if wanted.released else "state <> 'released'")
    rows = yield Read(_PAGE.format(" AND ".join(stated)), (max(0, min(limit, MAX_PAGE)), *tests.values()))
    return tuple(map(mail_of, rows))


def claim(ggrid: str, holder: str, now: int, until: int) -> Work[bool]:
    """Take a message for oneself, to release it; False where it is not there to be taken."""
    return bool((yield Write(_CLAIM, (storable(ggrid.lower()), holder, now, until))))


def give_back(ggrid: str, holder: str) -> Work[None]:
    """It was not delivered: it is held as before."""
    yield Write(_GIVE_BACK, (storable(ggrid.lower()), holder))


def released(ggrid: str, recipients: Sequence[str], by: Actor, now: int) -> Work[Release]:
    """It was delivered. That is so whoever holds it now, and whatever became of the lease."""
    uid = storable(ggrid.lower())
    release = Release(now, storable(by.label), tuple(map(storable, recipients)))
    shown = msgspec.json.encode(release.recipients).decode()
    rows = yield Read(_ONE, (uid,))
    if rows and (yield Write(_RELEASED, (uid, now, release.by, shown))):
        scope = mail_of(rows[0]).record.envelope.tenant
        sample = (uid, *release.recipients)
        yield from noted(now, by, "quarantine.release", scope, count=len(release.recipients), sample=sample)
        return release
    return (rows and mail_of(rows[0]).release) or release


def delete(ggrid: str, tenant: str | None, by: Actor, now: int) -> Work[bool]:
    """Take a message out, unless it is being released; False where there is none."""
    rows = yield Read(_LOCKED, (storable(ggrid.lower()), now))
    if not rows or tenant not in (None, rows[0][1]):
        return False
    yield from _deleted([rows[0][0]])
    yield from noted(now, by, "quarantine.delete", rows[0][1], count=1, sample=[rows[0][0]])
    return True


def exported(ggrid: str, tenant: str | None, by: Actor, now: int) -> Work[None]:
    """Somebody took the bytes out."""
    yield from noted(now, by, "quarantine.export", tenant, count=1, sample=[storable(ggrid.lower())])


def purge(before: int, now: int, limit: int) -> Work[int]:
    """Forget at most `limit` messages that were kept before a time."""
    return (yield from _deleted([row[0] for row in (yield Read(_OVERDUE, (before, now, limit)))]))


def purge_tenant(tenant: str, limit: int) -> Work[int]:
    """Forget at most `limit` messages of a tenant that is gone."""
    return (yield from _deleted([row[0] for row in (yield Read(_OF_TENANT, (tenant, limit)))]))


def needed(ggrids: Sequence[str]) -> Work[frozenset[str]]:
    """Those of these whose raw bytes are still wanted."""
    rows = (yield Read(_NEEDED, (Many(tuple(map(storable, ggrids))),))) if ggrids else ()
    return frozenset(row[0] for row in rows)


def size() -> Work[int]:
    """Bytes of all that is held."""
    rows = yield Read(_SIZE)
    return int(rows[0][0])


def totals() -> Work[tuple[int, int]]:
    """How many messages are held, and their bytes."""
    rows = yield Read(_TOTALS)
    return int(rows[0][0]), int(rows[0][1])


def undecided_before(digest: str, now: int) -> Work[int]:
    """How often it was undecided in the last day; this time is noted, and counts from the next on."""
    rows = yield Read(_UNDECIDED, (storable(digest), now - UNDECIDED_MILLISECONDS))
    yield Write(_NOTE_UNDECIDED, (storable(digest), now))
    return int(rows[0][0])


def forget_undecided(now: int) -> Work[int]:
    """Drop what is older than a day."""
    forgotten: int = yield Write(_FORGET_UNDECIDED, (now - UNDECIDED_MILLISECONDS,))
    return forgotten


def with_release(ggrid: str) -> Work[MessageRecord | None]:
    """The record of one analysis, and its release where there was one."""
    record = yield from messages.find(ggrid)
    if record is None:
        return None
    rows = yield Read(_ONE, (record.ggrid,))
    return msgspec.structs.replace(record, release=mail_of(rows[0]).release) if rows else record


def folded(address: str) -> str:
    """An address as it is compared and kept for searching."""
    return storable(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">").lower())


def _deleted(ggrids: Sequence[str]) -> Work[int]:
    if ggrids:
        for statement in _DELETE:
            yield Write(statement, (Many(tuple(ggrids)),))
    return len(ggrids)


def _domain(address: str) -> str:
    return address.rpartition("@")[2].rstrip(".") if "@" in address else ""


def is_address(text: str) -> bool:
    """`ann@example.org` is an address, `example.org` and `@example.org` are domains; nothing at all is no sender."""
    return "@" in text.strip()[1:] or not folded(text)


def sought(text: str) -> str:
    """An address or a domain as it is kept for searching."""
    sought = folded(text)
    return sought if is_address(text) else sought.removeprefix("@").rstrip(".")


def mail_of(row: Row) -> HeldMail:
    """The message of a row with the columns of `READ`."""
    *record, kept, state, lease, time, by, recipients = row
    release = None
    if time is not None:
        release = Release(time, by, msgspec.json.decode(recipients, type=tuple[str, ...]))
    return HeldMail(messages.from_row(*record), kept, state, lease, release)
