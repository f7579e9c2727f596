"""What analysts write down about messages: notes, and who looks into which message.

Notes and assignments are entries that are only added; the last assignment of a message is the one that holds. All
entries of one step carry the id of its work (`bulk_actions`), so that the step can be taken back as a whole: what was
before holds again. Entries of a scope are bounded, and the oldest go first; they go with the history of messages too.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    insert_many,
    normalize_scope,
    now,
    query,
    storable,
    write_rows,
)

NoteKind: TypeAlias = Literal["note", "assign"]
MAX_NOTE = 2_000
# Entries that are shown of one message, and that one scope keeps.
MAX_SHOWN = 100
MAX_OF_SCOPE = 50_000
PURGE_BATCH = 1_000

_COLUMNS = "id, ggrid, scope, kind, said, by_name, created, work"
_INSERT = insert_many(
    "message_notes",
    "id text, ggrid text, scope text, kind text, said text, by_name text, created bigint, work text",
)
_OF_MESSAGES = f"""SELECT {_COLUMNS} FROM message_notes WHERE ggrid = ANY($1) ORDER BY id DESC LIMIT $2"""  # noqa: S608
_TAKE_BACK = "DELETE FROM message_notes WHERE work = $1"
_OF_WORK = "SELECT scope, kind, said FROM message_notes WHERE work = $1 LIMIT 1"
# Ids are in the order of time.
_DELETE_MANY = """DELETE FROM message_notes WHERE scope = $1
AND id <= (SELECT id FROM message_notes WHERE scope = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)"""
_DELETE_OLD = "DELETE FROM message_notes WHERE id IN (SELECT id FROM message_notes WHERE created < $1 LIMIT $2)"


class MessageNote(msgspec.Struct, frozen=True):
    """A note on a message, or its assignment to the user whose name `said` is; "" assigns it to nobody."""

    id: str
    ggrid: str
    scope: str | None
    kind: NoteKind
    said: str
    by: str
    created: int
    work: str = ""


class MessageNotes(Operations):
    """Notes and assignments, each for the users who may see the message."""

    @change
    def add(
        self, messages: Sequence[tuple[str, str | None]], kind: NoteKind, said: str, by: Actor, work: str = ""
    ) -> Work[int]:
        """Write the same on some messages, given the ggrid and the tenant of each; one line of the audit trail for each
        tenant says it."""
        moment, text = now(), storable(said[:MAX_NOTE])
        by_scope: dict[str, list[str]] = {}
        for ggrid, tenant in messages:
            by_scope.setdefault(normalize_scope(tenant) or "", []).append(storable(ggrid.lower()))
        for scope, ggrids in by_scope.items():
            yield from insert_notes(scope, ggrids, kind, text, by, work)
            sample = (ggrids[0], text, *ggrids[1:])
            yield from write_audit(moment, by, f"message.{kind}", scope or None, count=len(ggrids), sample=sample)
        return sum(map(len, by_scope.values()))

    @query
    def of(self, ggrids: Sequence[str]) -> Work[tuple[MessageNote, ...]]:
        """What was written on these messages, newest first. Whoever asks may see the messages."""
        some = Many(tuple(storable(each.lower()) for each in ggrids))
        rows = (yield Read(_OF_MESSAGES, (some, MAX_SHOWN * len(ggrids)))) if some.values else ()
        return tuple(map(_note, rows))

    @change
    def take_back(self, work: str, by: Actor) -> Work[int]:
        """Take a step back: what was written before holds again. Returns how many entries went."""
        rows = yield Read(_OF_WORK, (storable(work),))
        if not work or not rows:
            return 0
        scope, kind, said = rows[0]
        deleted: int = yield Write(_TAKE_BACK, (storable(work),))
        yield from write_audit(now(), by, f"message.{kind}TakenBack", scope or None, count=deleted, sample=(said,))
        return deleted

    async def purge(self, before: int) -> int:
        """Delete what was written before that time; returns how many."""
        return await self._repeat(partial(write_rows, _DELETE_OLD, before, PURGE_BATCH))


def insert_notes(scope: str, ggrids: Sequence[str], kind: NoteKind, said: str, by: Actor, work: str) -> Work[None]:
    """Write the same on messages of one scope, as a part of a step that has its own line of the audit trail."""
    moment, text = now(), storable(said[:MAX_NOTE])
    rows = [(new_id(), storable(each.lower()), scope, kind, text, storable(by.name), moment, work) for each in ggrids]
    yield _INSERT.of(rows)
    yield Write(_DELETE_MANY, (scope, MAX_OF_SCOPE))


def find_assignee(notes: Sequence[MessageNote]) -> str:
    """The user whom a message is assigned to, "" for nobody, of its entries, newest first."""
    return next((note.said for note in notes if note.kind == "assign"), "")


def _note(row: Row) -> MessageNote:
    uid, ggrid, scope, kind, said, by, created, work = row
    return MessageNote(uid, ggrid, scope or None, kind, said, by, int(created), work)
