"""Notes of analysts on messages.

All notes of one step carry the id of its work (`bulk_actions`), so that the step can be taken back as a whole. Notes of
a scope are bounded, and the oldest go first; they go with the history of messages too.
"""

from collections.abc import Sequence

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.sql import insert_many, sql

MAX_NOTE = 2_000
# Notes that are shown of one message, and that one scope keeps.
MAX_SHOWN = 100
MAX_OF_SCOPE = 50_000
PURGE_BATCH = 1_000

_INSERT = insert_many("message_notes", "id, ggrid, scope, said, by_name, created, work")
_OF_MESSAGE = sql("""SELECT id, said, by_name, created FROM message_notes WHERE ggrid = $1
ORDER BY id DESC LIMIT $2""")
_TAKE_BACK = sql("DELETE FROM message_notes WHERE work = $1")
_OF_WORK = sql("SELECT scope, said FROM message_notes WHERE work = $1 LIMIT 1")
# Ids are in the order of time.
_DELETE_MANY = sql("""DELETE FROM message_notes WHERE scope = $1
AND id <= (SELECT id FROM message_notes WHERE scope = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)""")
_DELETE_OLD = sql("DELETE FROM message_notes WHERE id IN (SELECT id FROM message_notes WHERE created < $1 LIMIT $2)")


class MessageNote(msgspec.Struct, frozen=True):
    """A note on a message."""

    id: str
    said: str
    by: str
    created: int


class MessageNotes(Operations):
    """Notes, each for the users who may see the message."""

    @change
    def add(self, messages: Sequence[tuple[str, str | None]], said: str, by: Actor, work: str = "") -> Work[int]:
        """Write the same note on some messages, given the ggrid and the tenant of each; one line of the audit trail for
        each tenant says it."""
        moment, text = now(), storable(said[:MAX_NOTE])
        by_scope: dict[str, list[str]] = {}
        for ggrid, tenant in messages:
            by_scope.setdefault(normalize_scope(tenant) or "", []).append(storable(ggrid.lower()))
        for scope, ggrids in by_scope.items():
            rest = (scope, text, storable(by.name), moment, work)
            yield _INSERT.of([(new_id(), each, *rest) for each in ggrids])
            yield Write(_DELETE_MANY, (scope, MAX_OF_SCOPE))
            sample = (ggrids[0], text, *ggrids[1:])
            yield from write_audit(moment, by, "message.note", scope or None, count=len(ggrids), sample=sample)
        return sum(map(len, by_scope.values()))

    @query
    def of(self, ggrid: str) -> Work[tuple[MessageNote, ...]]:
        """The notes on this message, newest first. Whoever asks may see the message."""
        rows = yield Read(_OF_MESSAGE, (storable(ggrid.lower()), MAX_SHOWN))
        return tuple(MessageNote(uid, said, by, int(created)) for uid, said, by, created in rows)

    @change
    def take_back(self, work: str, by: Actor) -> Work[int]:
        """Take a step back; returns how many notes went."""
        rows = yield Read(_OF_WORK, (storable(work),))
        if not work or not rows:
            return 0
        scope, said = rows[0]
        deleted: int = yield Write(_TAKE_BACK, (storable(work),))
        yield from write_audit(now(), by, "message.noteTakenBack", scope or None, count=deleted, sample=(said,))
        return deleted

    async def purge(self, before: int) -> int:
        """Delete notes that were written before that time; returns how many."""
        return await self._repeat_write(_DELETE_OLD, before, PURGE_BATCH)
