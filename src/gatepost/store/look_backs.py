"""Looks back: which delivered messages new entries of a list would have held, remembered for the people of the list.

Only ids and entries are stored. Sender, recipients and subject are read from the messages when a look back is shown, so
they are gone when the messages are.

Entries that were added through the List API wait for their look back, in one row for each call that added some. A row
is written in the transaction that adds the entries, so a kill loses none. All rows of a list are taken together:
however many calls a program makes, the list is looked back for once. One process works on them at a time (`jobs`), and
a row goes when its look back is done. What may wait is limited for each list and each scope; calls beyond that add
their entries and wait for nothing.
"""

from collections.abc import Sequence
from typing import get_args

import msgspec

from gatepost.store.audit import SYSTEM, Actor, ActorKind, write_audit
from gatepost.store.engine import Many, Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.learning import ModelLookBack
from gatepost.store.list_rows import find_list
from gatepost.store.message_records import find_lines
from gatepost.store.sql import Row, sql

# Looks back of one list that are kept, and hits of one that are.
MAX_KEPT = 50
MAX_HITS = 500
# Messages and recipients of each that are told at once.
MAX_ANNOUNCED, MAX_RECIPIENTS = 20, 5

_INSERT = sql("""INSERT INTO look_backs (list_id, time, actor, entries, days, considered, reached, found, hits)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id""")
_PRUNE = sql("""DELETE FROM look_backs WHERE list_id = $1
AND id NOT IN (SELECT id FROM look_backs WHERE list_id = $1 ORDER BY id DESC LIMIT $2)""")
_SELECT = """SELECT id, time, actor, entries, days, considered, reached, found, hits
FROM look_backs WHERE list_id = $1"""
_SELECT_LAST = sql(_SELECT + " ORDER BY id DESC LIMIT $2")
_SELECT_ONE = sql(_SELECT + " AND id = $2")
_SET_OF_MODEL = sql("UPDATE learnt_models SET look_back = $2 WHERE id = $1")
_SCOPE_OF_MODEL = sql("SELECT scope FROM learnt_models WHERE id = $1")


class LookBack(msgspec.Struct, frozen=True):
    """What was found in the delivered mail of some days. `hits` are ggrids with the entry that each would have hit, the
    newest first, at most 500 of `found`. `reached` is the time back to which mail was looked at, where that was not
    the whole time."""

    time: int
    actor: str
    entries: int
    days: int
    considered: int
    found: int
    hits: tuple[tuple[str, str], ...] = ()
    reached: int | None = None
    id: int = 0


_hits = msgspec.json.Decoder(tuple[tuple[str, str], ...])


# Calls that can wait for one list, and for all lists of a scope.
MAX_WAITING, MAX_WAITING_IN_SCOPE = 200, 1_000
LOOK_BACK = "lookBack"

_COUNT = sql("SELECT count(*) FROM look_back_queue WHERE list_id = $1")
_COUNT_IN_SCOPE = sql("""SELECT count(*) FROM look_back_queue
WHERE list_id IN (SELECT id FROM lists WHERE scope = $1)""")
_QUEUE = sql("INSERT INTO look_back_queue (list_id, time, actor, keys) VALUES ($1, $2, $3, $4)")
_FIRST = sql("""SELECT q.list_id, lists.scope, lists.name FROM look_back_queue q JOIN lists ON lists.id = q.list_id
WHERE lists.scope <> '-' ORDER BY q.id LIMIT 1""")
_WAITING_OF_LIST = sql("SELECT id, actor, keys FROM look_back_queue WHERE list_id = $1 ORDER BY id")
_DELETE = sql("DELETE FROM look_back_queue WHERE @one_of(id, $1)")
_WAITING = sql("SELECT count(*) FROM look_back_queue")


class WaitingLookBack(msgspec.Struct, frozen=True):
    """A list whose new entries are to be looked back for. `actor` is who added the last of them."""

    scope: str | None
    list_name: str
    keys: tuple[str, ...]
    actor: str
    rows: tuple[int, ...]


_keys = msgspec.json.Decoder(tuple[str, ...])


class LookBacks(Operations):
    """Looks back of each list, and those that wait."""

    @change
    def record(self, scope: str | None, list_name: str, made: LookBack) -> Work[int | None]:
        """Keep a look back of a list, and of the older ones the last 50; returns its number, None without the list."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name), lock=True)
        if row is None:
            return None
        hits = msgspec.json.encode(made.hits[:MAX_HITS]).decode()
        numbers = (made.entries, made.days, made.considered, made.reached, made.found)
        rows = yield Read(_INSERT, (row.id, made.time, storable(made.actor), *numbers, storable(hits)))
        yield Write(_PRUNE, (row.id, MAX_KEPT))
        kind, _, name = made.actor.partition(":")
        by = Actor(kind if kind in get_args(ActorKind) else "system", name)  # type: ignore[arg-type]
        yield from _announce(by, scope, list_name, made.found, [ggrid for ggrid, _ in made.hits])
        return int(rows[0][0])

    @change
    def record_of_model(self, version: int, found: ModelLookBack, by: Actor = SYSTEM) -> Work[None]:
        """Keep what a learnt model would have held, and say it."""
        kept = msgspec.structs.replace(found, hits=found.hits[:MAX_HITS])
        yield Write(_SET_OF_MODEL, (version, msgspec.json.encode(kept).decode()))
        rows = yield Read(_SCOPE_OF_MODEL, (version,))
        if rows:
            yield from _announce(by, rows[0][0] or None, "", found.found, found.hits, str(version))

    @query
    def of_list(self, scope: str | None, list_name: str, limit: int = MAX_KEPT) -> Work[tuple[LookBack, ...]]:
        """The last looks back of a list, the newest first."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        return tuple(map(_look_back, (yield Read(_SELECT_LAST, (row.id, limit))))) if row else ()

    @query
    def find(self, scope: str | None, list_name: str, number: int) -> Work[LookBack | None]:
        """One look back of a list; None where it is not there (any more)."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        rows = (yield Read(_SELECT_ONE, (row.id, number))) if row else ()
        return _look_back(rows[0]) if rows else None

    @query
    def waiting(self) -> Work[int]:
        """How many calls wait for a look back, or have one under way."""
        return int((yield Read(_WAITING))[0][0])

    @query
    def first(self) -> Work[WaitingLookBack | None]:
        """All that waits for one list, the longest waiting first; None where nothing waits."""
        lists = yield Read(_FIRST)
        if not lists:
            return None
        list_id, scope, name = lists[0]
        rows = yield Read(_WAITING_OF_LIST, (list_id,))
        keys = tuple(dict.fromkeys(key for _, _, stored in rows for key in _keys.decode(stored)))
        actor = rows[-1][1] if rows else ""
        return WaitingLookBack(scope or None, name, keys, actor, tuple(int(row[0]) for row in rows))

    @change
    def finish(self, waiting: WaitingLookBack) -> Work[None]:
        """Forget what was looked back for."""
        yield Write(_DELETE, (Many(waiting.rows),))


def queue_look_back(scope: str | None, list_name: str, keys: Sequence[str], by: Actor) -> Work[None]:
    """Let new entries of a list wait for a look back, in the transaction that adds them."""
    owner = normalize_scope(scope) or ""
    row = yield from find_list(owner, storable(list_name))
    if row is None or int((yield Read(_COUNT, (row.id,)))[0][0]) >= MAX_WAITING:
        return
    if int((yield Read(_COUNT_IN_SCOPE, (owner,)))[0][0]) >= MAX_WAITING_IN_SCOPE:
        return
    stored = msgspec.json.encode(list(dict.fromkeys(keys))).decode()
    yield Write(_QUEUE, (row.id, now(), storable(by.label), storable(stored)))


def _announce(
    by: Actor, scope: str | None, list_name: str, found: int, ggrids: Sequence[str], model: str = ""
) -> Work[None]:
    """Say in the audit trail, and so in the event stream, what a look back has found: messages and recipients."""
    if not found:
        return
    lines = yield from find_lines(ggrids[:MAX_ANNOUNCED])
    said = [model, *("\n".join((line.ggrid, *line.recipients[:MAX_RECIPIENTS])) for line in lines)]
    owner = normalize_scope(scope)
    yield from write_audit(now(), by, "lookBack.found", owner, storable(list_name), found, said, len(said))


def _look_back(row: Row) -> LookBack:
    uid, time, actor, entries, days, considered, reached, found, hits = row
    return LookBack(time, actor, entries, days, considered, found, _hits.decode(hits), reached, uid)
