"""Looks back: which delivered messages new entries of a list would have held, remembered for the people of the list.

Only ids and entries are stored. Sender, recipients and subject are read from the messages when a look back is shown,
so they are gone when the messages are.
"""

from collections.abc import Sequence
from typing import get_args

import msgspec

from gatepost.store.audit import SYSTEM, Actor, ActorKind, write_audit
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Row,
    Work,
    Write,
    change,
    normalize_scope,
    now,
    query,
    search,
    storable,
)
from gatepost.store.learnt_models import ModelLookBack
from gatepost.store.lists import find_list

# Looks back of one list that are kept, and hits of one that are.
MAX_KEPT = 50
MAX_HITS = 500
# Messages and recipients of each that are told at once.
MAX_ANNOUNCED, MAX_RECIPIENTS = 20, 5

_INSERT = """INSERT INTO look_backs (list_id, time, actor, entries, days, considered, reached, found, hits)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id"""
_PRUNE = """DELETE FROM look_backs WHERE list_id = $1
AND id NOT IN (SELECT id FROM look_backs WHERE list_id = $1 ORDER BY id DESC LIMIT $2)"""
_SELECT = """SELECT id, time, actor, entries, days, considered, reached, found, hits
FROM look_backs WHERE list_id = $1"""
_SELECT_LAST = _SELECT + " ORDER BY id DESC LIMIT $2"
_SELECT_ONE = _SELECT + " AND id = $2"
_SET_OF_MODEL = "UPDATE learnt_models SET look_back = $2 WHERE id = $1"
_SCOPE_OF_MODEL = "SELECT scope FROM learnt_models WHERE id = $1"
_MESSAGES = """SELECT ggrid, completed, tenant, sender, recipients, subject FROM messages WHERE ggrid = ANY($1)
ORDER BY completed DESC, ggrid"""


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


class MessageLine(msgspec.Struct, frozen=True):
    """A message as a list of messages shows it."""

    ggrid: str
    completed: int
    tenant: str | None
    sender: str
    recipients: tuple[str, ...]
    subject: str


_hits = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_strings = msgspec.json.Decoder(tuple[str, ...])


class LookBackStore(Operations):
    """Looks back of each list."""

    @change
    def record_look_back(self, scope: str | None, list_name: str, made: LookBack) -> Work[int | None]:
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
    def set_model_look_back(self, version: int, found: ModelLookBack, by: Actor = SYSTEM) -> Work[None]:
        """Keep what a learnt model would have held, and say it."""
        kept = msgspec.structs.replace(found, hits=found.hits[:MAX_HITS])
        yield Write(_SET_OF_MODEL, (version, msgspec.json.encode(kept).decode()))
        rows = yield Read(_SCOPE_OF_MODEL, (version,))
        if rows:
            yield from _announce(by, rows[0][0] or None, "", found.found, found.hits, str(version))

    @query
    def look_backs(self, scope: str | None, list_name: str, limit: int = MAX_KEPT) -> Work[tuple[LookBack, ...]]:
        """The last looks back of a list, the newest first."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        return tuple(map(_look_back, (yield Read(_SELECT_LAST, (row.id, limit))))) if row else ()

    @query
    def look_back(self, scope: str | None, list_name: str, number: int) -> Work[LookBack | None]:
        """One look back of a list; None where it is not there (any more)."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        rows = (yield Read(_SELECT_ONE, (row.id, number))) if row else ()
        return _look_back(rows[0]) if rows else None

    @search
    def message_lines(self, ggrids: Sequence[str]) -> Work[tuple[MessageLine, ...]]:
        """Those of these messages that are still on record, the newest first."""
        wanted = tuple(dict.fromkeys(map(storable, ggrids)))
        return tuple(map(_message_line, (yield Read(_MESSAGES, (Many(wanted),))) if wanted else ()))


def _announce(
    by: Actor, scope: str | None, list_name: str, found: int, ggrids: Sequence[str], model: str = ""
) -> Work[None]:
    """Say in the audit trail, and so in the event stream, what a look back has found: messages and recipients."""
    if not found:
        return
    rows = yield Read(_MESSAGES, (Many(tuple(map(storable, ggrids[:MAX_ANNOUNCED]))),))
    lines = [_message_line(row) for row in rows]
    said = [model, *("\n".join((line.ggrid, *line.recipients[:MAX_RECIPIENTS])) for line in lines)]
    owner = normalize_scope(scope)
    yield from write_audit(now(), by, "lookBack.found", owner, storable(list_name), found, said, len(said))


def _look_back(row: Row) -> LookBack:
    uid, time, actor, entries, days, considered, reached, found, hits = row
    return LookBack(time, actor, entries, days, considered, found, _hits.decode(hits), reached, uid)


def _message_line(row: Row) -> MessageLine:
    ggrid, completed, tenant, sender, recipients, subject = row
    return MessageLine(ggrid, completed, tenant, sender, _strings.decode(recipients), subject)
