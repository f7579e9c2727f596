"""Looks back that wait: entries which were added through the List API, one row for each call that added some.

A row is written in the transaction that adds the entries, so a kill loses none. All rows of a list are taken together:
however many calls a program makes, the list is looked back for once. Rows that were taken come back when the time of
whoever took them has run out. What may wait is limited for each list and each scope; calls beyond that add their
entries and wait for nothing.
"""

from collections.abc import Sequence

import msgspec

from gatepost.store.audit import Actor
from gatepost.store.engine import Many, Operations, Read, Work, Write, change, normalize_scope, now, query, storable
from gatepost.store.lists import find_list

# Calls that can wait for one list, and for all lists of a scope.
MAX_WAITING, MAX_WAITING_IN_SCOPE = 200, 1_000
LEASE = 15 * 60_000

_COUNT = "SELECT count(*) FROM look_back_queue WHERE list_id = $1"
_COUNT_IN_SCOPE = """SELECT count(*) FROM look_back_queue
WHERE list_id IN (SELECT id FROM lists WHERE scope = $1)"""
_INSERT = "INSERT INTO look_back_queue (list_id, time, actor, keys) VALUES ($1, $2, $3, $4)"
_FIRST = """SELECT q.list_id, lists.scope, lists.name FROM look_back_queue q JOIN lists ON lists.id = q.list_id
WHERE q.taken_until <= $1 AND lists.scope <> '-' ORDER BY q.id LIMIT 1"""
_TAKE = """UPDATE look_back_queue SET taken_until = $3 WHERE list_id = $1 AND taken_until <= $2
RETURNING id, actor, keys"""
_WAITING_OF_LIST = "SELECT id, actor, keys FROM look_back_queue WHERE list_id = $1 AND taken_until <= $2 FOR UPDATE"
_TAKE_ROWS = "UPDATE look_back_queue SET taken_until = $2 WHERE id = ANY($1)"
_DELETE = "DELETE FROM look_back_queue WHERE id = ANY($1)"
_WAITING = "SELECT count(*) FROM look_back_queue WHERE taken_until <= $1"


class WaitingLookBack(msgspec.Struct, frozen=True):
    """A list whose new entries are to be looked back for. `actor` is who added the last of them."""

    scope: str | None
    list_name: str
    keys: tuple[str, ...]
    actor: str
    rows: tuple[int, ...]


_keys = msgspec.json.Decoder(tuple[str, ...])


class LookBackQueue(Operations):
    """The queue of looks back."""

    @query
    def waiting_look_backs(self) -> Work[int]:
        """How many calls wait for a look back that nobody has begun with."""
        return int((yield Read(_WAITING, (now(),)))[0][0])

    @change
    def take_look_back(self) -> Work[WaitingLookBack | None]:
        """Take all that waits for one list, the longest waiting first; None where nothing waits."""
        moment = now()
        lists = yield Read(_FIRST, (moment,))
        if not lists:
            return None
        list_id, scope, name = lists[0]
        rows = sorted((yield Read(_TAKE, (list_id, moment, moment + LEASE))))
        keys = tuple(dict.fromkeys(key for _, _, stored in rows for key in _keys.decode(stored)))
        actor = rows[-1][1] if rows else ""
        return WaitingLookBack(scope or None, name, keys, actor, tuple(int(row[0]) for row in rows))

    @change
    def take_look_back_for(
        self, scope: str | None, list_name: str, keys: Sequence[str]
    ) -> Work[WaitingLookBack | None]:
        """Take what waits for these entries alone: whoever added them looks back right away. None where nothing
        does, or where somebody has begun with it."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        if row is None:
            return None
        moment, mine = now(), frozenset(keys)
        waiting = yield Read(_WAITING_OF_LIST, (row.id, moment))
        taken = tuple(int(each[0]) for each in waiting if mine.issuperset(_keys.decode(each[2])))
        if not taken:
            return None
        yield Write(_TAKE_ROWS, (Many(taken), moment + LEASE))
        return WaitingLookBack(scope, list_name, tuple(keys), "", taken)

    @change
    def finish_look_back(self, waiting: WaitingLookBack) -> Work[None]:
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
    yield Write(_INSERT, (row.id, now(), storable(by.label), storable(stored)))
