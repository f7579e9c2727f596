"""Copies of delivered messages that were taken out of mailboxes: where each was, so that it can be put back.

Of a mailbox only a digest is stored: its address is in the record of the message, and goes with it. Every step is in
the audit trail, in the same transaction.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, change, large_query, normalize_scope, now, query, storable
from gatepost.store.sql import Row, insert_many, sql

RemovalState: TypeAlias = Literal["moved", "deleted", "restored", "absent", "failed"]
MAX_LISTED = 500
PURGE_BATCH = 1_000

_COLUMNS = "ggrid, mailbox, copy, scope, state, folder, reason, by_name, modified"
_PUT = insert_many(
    "removed_mail",
    _COLUMNS,
    "(ggrid, mailbox, copy) DO UPDATE SET state = excluded.state, folder = excluded.folder, reason = excluded.reason,"
    " by_name = excluded.by_name, modified = excluded.modified",
)
_OF_MESSAGE = sql(f"SELECT {_COLUMNS} FROM removed_mail WHERE ggrid = $1 ORDER BY mailbox, copy")  # noqa: S608
_COUNT = sql(
    """SELECT count(*) FROM removed_mail WHERE scope = $1 AND modified >= $2 AND state IN ('moved', 'deleted')"""
)
_LISTED = sql(f"""SELECT {_COLUMNS} FROM removed_mail WHERE modified >= $1 AND ($2 = '' OR scope = $2)
ORDER BY modified DESC, ggrid, mailbox, copy LIMIT $3""")  # noqa: S608
_DELETE_OLD = sql("""DELETE FROM removed_mail WHERE (ggrid, mailbox, copy) IN
(SELECT ggrid, mailbox, copy FROM removed_mail WHERE modified < $1 LIMIT $2)""")


class RemovedCopy(msgspec.Struct, frozen=True):
    """What became of one copy of a message. `copy` tells those of a mailbox apart, and is "" where none was found;
    `folder` is where it was, as the server writes that name."""

    ggrid: str
    mailbox: str
    copy: str
    scope: str | None
    state: RemovalState
    folder: str = ""
    reason: str = ""
    by: str = ""
    modified: int = 0


def digest_mailbox(address: str) -> str:
    """Return the digest under which a mailbox is known."""
    return hashlib.blake2b(address.casefold().encode("utf-8", "replace"), digest_size=16, person=b"mailbox").hexdigest()


def find_removed(ggrid: str) -> Work[tuple[RemovedCopy, ...]]:
    """What became of the copies of a message in mailboxes."""
    rows = yield Read(_OF_MESSAGE, (storable(ggrid.lower()),))
    return tuple(map(_read, rows))


class RemovedMail(Operations):
    """Copies that were taken out of mailboxes."""

    @change
    def record(self, copies: Sequence[RemovedCopy], by: Actor) -> Work[None]:
        """Record what became of the copies of one message, with one line of the audit trail."""
        if not copies:
            return
        moment, name, first = now(), storable(by.name), copies[0]
        scope = normalize_scope(first.scope) or ""
        rows = [
            (each.ggrid, each.mailbox, each.copy, scope, each.state, storable(each.folder), storable(each.reason[:300]))
            for each in copies
        ]
        yield _PUT.of([(*row, name, moment) for row in rows])
        done = [each for each in copies if each.state in ("moved", "deleted", "restored")]
        action = "message.putBack" if any(each.state == "restored" for each in copies) else "message.removed"
        if done:
            sample = (first.ggrid, done[0].state)
            yield from write_audit(moment, by, action, scope or None, count=len(done), sample=sample)

    @query
    def of(self, ggrid: str) -> Work[tuple[RemovedCopy, ...]]:
        """What became of the copies of a message."""
        return (yield from find_removed(ggrid))

    @query
    def count_since(self, scope: str | None, moment: int) -> Work[int]:
        """How many copies of a tenant's mail were removed since a time."""
        return int((yield Read(_COUNT, (normalize_scope(scope) or "", moment)))[0][0])

    @large_query
    def listed(self, since: int, scope: str | None) -> Work[tuple[RemovedCopy, ...]]:
        """The copies of a tenant, or of all mail, since a time; the newest first, up to `MAX_LISTED`."""
        return tuple(map(_read, (yield Read(_LISTED, (since, normalize_scope(scope) or "", MAX_LISTED)))))

    async def purge(self, before: int) -> int:
        """Forget what was done before that time; returns how many copies."""
        return await self._repeat_write(_DELETE_OLD, before, PURGE_BATCH)


def _read(row: Row) -> RemovedCopy:
    ggrid, mailbox, copy, scope, *rest = row
    return RemovedCopy(ggrid, mailbox, copy, scope or None, *rest)
