"""Actions on many held messages: which messages, in which order, how far the work is, and what became of each. Changes
of list entries that can be taken back are kept in the same way, with what the entries were as items.

The record is made before the work begins, so that a user can look at it and confirm it, and the work is done under a
lease. A process that dies leaves the rest of the items undone and says so: the results that are stored are those of the
first items. Whoever continues begins behind them; every action can be repeated without harm.

Notes on messages carry the id of such work, so that a step can be taken back as a whole. Notes of a scope are bounded,
and the oldest go first; they go with the history of messages too.
"""

from collections.abc import Iterator, Sequence

import msgspec

from gatepost.ids import new_id
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.sql import insert_many, sql

MAX_ITEMS = 10_000
# Records of one user; of more, the oldest go.
MAX_KEPT = 100
# How long a process has the work to itself without storing a result.
LEASE_MILLISECONDS = 120_000
KEPT_MILLISECONDS = 30 * 86_400_000
# A result that begins so is no fault: the rest says what was before.
BEFORE = "before="

_COLUMNS = "id, user_uid, action, items, results, created, finished, lease"
_INSERT = sql(f"INSERT INTO bulk_actions ({_COLUMNS}) VALUES ($1, $2, $3, $4, '[]', $5, NULL, 0)")  # noqa: S608
_SELECT = sql(f"SELECT {_COLUMNS} FROM bulk_actions WHERE id = $1 AND user_uid = $2")  # noqa: S608
_OPEN = sql("""SELECT id, action, created FROM bulk_actions
WHERE user_uid = $1 AND substr(action, 1, length($2)) = $2 AND finished IS NULL AND lease = 0
ORDER BY id DESC LIMIT $3""")
_CLAIM = sql("UPDATE bulk_actions SET lease = $3 WHERE id = $1 AND lease < $2 AND finished IS NULL")
_LOCK = sql("SELECT items, results FROM bulk_actions WHERE id = $1 AND finished IS NULL @lock(UPDATE)")
_STORE = sql("UPDATE bulk_actions SET results = $2, lease = $3, finished = $4 WHERE id = $1")
_DELETE_OLD = sql("DELETE FROM bulk_actions WHERE created < $1")
# Ids are in the order of time.
_DELETE_MANY = sql("""DELETE FROM bulk_actions WHERE user_uid = $1 AND lease < $2
AND id <= (SELECT id FROM bulk_actions WHERE user_uid = $1 ORDER BY id DESC LIMIT 1 OFFSET $3)""")

_strings = msgspec.json.Decoder(tuple[str, ...])


class BulkAction(msgspec.Struct, frozen=True):
    """An action on many messages. `results` has one for each of the first items: "" if it succeeded, or what was before
    behind `BEFORE`, which an undo needs; else the reason. Nothing was begun while `lease` is 0; until `lease` some
    process works. An item is the ggrid of a message; in an undo, what was before may stand behind it."""

    id: str
    user_uid: str
    action: str
    items: tuple[str, ...]
    results: tuple[str, ...]
    created: int
    finished: int | None
    lease: int

    @property
    def succeeded(self) -> tuple[str, ...]:
        """The messages for which it succeeded."""
        return tuple(item for item, result in self._with_results if _is_success(result))

    @property
    def undone_items(self) -> tuple[str, ...]:
        """The items of the action that takes this one back: what succeeded, with what was before."""
        done = ((item, result) for item, result in self._with_results if _is_success(result))
        return tuple(f"{item} {result.removeprefix(BEFORE)}".rstrip() for item, result in done)

    @property
    def failed(self) -> tuple[tuple[str, str], ...]:
        """The messages for which it failed, each with the reason."""
        found = ((item.partition(" ")[0], result) for item, result in self._with_results)
        return tuple((ggrid, result) for ggrid, result in found if not _is_success(result))

    @property
    def _with_results(self) -> Iterator[tuple[str, str]]:
        return zip(self.items, self.results, strict=False)


def _is_success(result: str) -> bool:
    return not result or result.startswith(BEFORE)


class BulkActions(Operations):
    """Actions on many messages, each known to the user who asked for it."""

    @change
    def create(self, user_uid: str, action: str, items: Sequence[str]) -> Work[BulkAction]:
        """Record what is to be done with at most `MAX_ITEMS` messages. Old records are deleted, and those of the user
        behind the last `MAX_KEPT`, unless somebody works on them."""
        made = BulkAction(new_id(), user_uid, action, tuple(items[:MAX_ITEMS]), (), now(), None, 0)
        yield Write(_DELETE_OLD, (made.created - KEPT_MILLISECONDS,))
        yield Write(_DELETE_MANY, (user_uid, made.created, MAX_KEPT - 1))
        encoded = storable(msgspec.json.encode(made.items).decode())
        yield Write(_INSERT, (made.id, made.user_uid, made.action, encoded, made.created))
        return made

    @query
    def find(self, uid: str, user_uid: str) -> Work[BulkAction | None]:
        """An action of this user; None where there is none."""
        rows = yield Read(_SELECT, (storable(uid), user_uid))
        if not rows:
            return None
        uid, _, action, items, results, *times = rows[0]
        return BulkAction(uid, user_uid, action, _strings.decode(items), _strings.decode(results), *times)

    @query
    def not_begun(self, user_uid: str, action: str, limit: int) -> Work[tuple[tuple[str, str, int], ...]]:
        """The newest actions of this user that begin with a text and that nobody has begun: id, action and time."""
        rows = yield Read(_OPEN, (user_uid, storable(action), limit))
        return tuple((uid, name, created) for uid, name, created in rows)

    @change
    def claim(self, uid: str) -> Work[bool]:
        """Claim the work; False where it is finished or somebody does it."""
        moment = now()
        return bool((yield Write(_CLAIM, (storable(uid), moment, moment + LEASE_MILLISECONDS))))

    @change
    def add_results(self, uid: str, results: Sequence[str]) -> Work[None]:
        """Store the results of the next items, and the end of the work with those of the last."""
        rows = yield Read(_LOCK, (storable(uid),))
        if rows:
            together = (*_strings.decode(rows[0][1]), *map(storable, results))
            moment = now()
            end = moment if len(together) >= len(_strings.decode(rows[0][0])) else None
            encoded = msgspec.json.encode(together).decode()
            yield Write(_STORE, (storable(uid), encoded, moment + LEASE_MILLISECONDS, end))


MAX_NOTE = 2_000
# Notes that are shown of one message, and that one scope keeps.
MAX_SHOWN = 100
MAX_OF_SCOPE = 50_000
PURGE_BATCH = 1_000

_INSERT_NOTES = insert_many("message_notes", "id, ggrid, scope, said, by_name, created, work")
_OF_MESSAGE = sql("""SELECT id, said, by_name, created FROM message_notes WHERE ggrid = $1
ORDER BY id DESC LIMIT $2""")
_TAKE_BACK = sql("DELETE FROM message_notes WHERE work = $1")
_OF_WORK = sql("SELECT scope, said FROM message_notes WHERE work = $1 LIMIT 1")
# Ids are in the order of time.
_DELETE_MANY_NOTES = sql("""DELETE FROM message_notes WHERE scope = $1
AND id <= (SELECT id FROM message_notes WHERE scope = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)""")
_DELETE_OLD_NOTES = sql(
    "DELETE FROM message_notes WHERE id IN (SELECT id FROM message_notes WHERE created < $1 LIMIT $2)"
)


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
            yield _INSERT_NOTES.of([(new_id(), each, *rest) for each in ggrids])
            yield Write(_DELETE_MANY_NOTES, (scope, MAX_OF_SCOPE))
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
        return await self._repeat_write(_DELETE_OLD_NOTES, before, PURGE_BATCH)
