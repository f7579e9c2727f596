"""Feeds: what is remembered of each, which is a job (`jobs`), and changes of its own entries.

An entry belongs to a feed if that feed changed it last (`modified_by` is `feed:NAME`). A feed never touches another's
entries, so what people or other programs wrote stays; an entry that a person changes is that person's from then on.

A definition is a feed of the web interface: its settings, whether it is paused, and who changed it. No secret is
stored: a definition names a file of the data folder. Each change is in the audit trail with the definition before and
after it.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from gatepost.lists.catalogue import ListDefinition
from gatepost.process.hiding import hide
from gatepost.settings.feeds import MAX_FEEDS, WebFeed
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import (
    Many,
    Operations,
    Read,
    Work,
    Write,
    change,
    large_query,
    normalize_scope,
    now,
    query,
    storable,
)
from gatepost.store.errors import ListFull, NotFound
from gatepost.store.jobs import Job, finish_job, forget_job, plan_job, read_job, read_jobs
from gatepost.store.list_rows import find_list, raise_unkeyed_version
from gatepost.store.lists import NewEntry, add_to_list, delete_from_list
from gatepost.store.sql import Row, sql

PAGE = 2_000
FEED = "feed"

# A range of pairs: with an equality of `modified_by`, SQLite would read the whole list by its keys.
# What follows the entries of the feed are those of the next one, and is cut off.
_OWN = sql("""SELECT key, expires, modified_by FROM entries WHERE list_id = $1 AND substr(modified_by, 1, 5) = 'feed:'
AND (modified_by, key) > ($2, $3) ORDER BY modified_by, key LIMIT $4""")
_OWN_AMONG = sql("SELECT key FROM entries WHERE list_id = $1 AND @one_of(key, $2) AND modified_by = $3")
_EXPIRE = sql("""UPDATE entries SET expires = $4, modified = $5
WHERE list_id = $1 AND @one_of(key, $2) AND modified_by = $3 AND (expires IS NULL OR expires > $4)""")
FeedResult = Literal["", "changed", "unchanged", "refused", "failed"]


class FeedCounts(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The numbers of one run: what the source said, what of it the list refused, and what changed.

    `kept` are entries of the feed that belong to a person or another program.
    """

    read: int = 0
    entries: int = 0
    invalid: int = 0
    repeated: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0
    expiring: int = 0
    kept: int = 0


class FeedRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is remembered of a feed. `present` is how many entries it had when it was last read."""

    scope: str | None = None
    list_name: str = ""
    fingerprint: str = ""
    etag: str = ""
    last_modified: str = ""
    present: int = 0
    started: int = 0
    finished: int = 0
    succeeded: int = 0
    failures: int = 0
    result: FeedResult = ""
    message: str = ""
    counts: FeedCounts = FeedCounts()


class FeedState(msgspec.Struct, frozen=True):
    """A feed as storage knows it: what is remembered, and when it is due."""

    name: str
    next_run: int = 0
    record: FeedRecord = FeedRecord()


_records = msgspec.json.Decoder(FeedRecord)


def feed_state(job: Job) -> FeedState:
    """Return what is remembered of a feed."""
    try:
        record = _records.decode(job.detail)
    except (msgspec.DecodeError, UnicodeDecodeError):
        record = FeedRecord()
    return FeedState(job.scope, job.next_run, record)


_DEFINITION_COLUMNS = "name, settings, paused, modified, modified_by"
_SELECT_DEFINITIONS = sql(f"SELECT {_DEFINITION_COLUMNS} FROM feed_definitions ORDER BY name")  # noqa: S608
_LOCK = sql(f"SELECT {_DEFINITION_COLUMNS} FROM feed_definitions ORDER BY name @lock(UPDATE)")  # noqa: S608
_PUT = sql("""INSERT INTO feed_definitions (name, settings, paused, modified, modified_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, paused = excluded.paused,
modified = excluded.modified, modified_by = excluded.modified_by""")
_DELETE = sql("DELETE FROM feed_definitions WHERE name = $1")

DefinitionRefusal: TypeAlias = Literal["changed", "full", "unknown"]


class FeedDefinition(msgspec.Struct, frozen=True):
    """A feed of the web interface. `modified` is also the version by which a change is recognised."""

    name: str
    feed: WebFeed
    paused: bool = False
    modified: int = 0
    modified_by: str = ""


class Feeds(Operations):
    """What feeds need of storage, and the feeds of the web interface."""

    @query
    def states(self) -> Work[tuple[FeedState, ...]]:
        """Every feed that ever ran, by name."""
        return tuple(map(feed_state, (yield from read_jobs(FEED))))

    @query
    def state(self, name: str) -> Work[FeedState]:
        """What is remembered of one feed; nothing where it never ran."""
        return feed_state((yield from read_job(FEED, name)))

    @change
    def finish(self, job: Job, record: FeedRecord, next_run: int, *, audited: bool) -> Work[bool]:
        """Remember a run and give the job back; False where it was lost, and nothing is remembered."""
        finished = yield from finish_job(job, next_run, detail=msgspec.json.encode(record).decode())
        if finished and audited:
            counts = record.counts
            changes = counts.added + counts.updated + counts.removed + counts.expiring
            sample = [record.message[:200]] if record.message else ()
            action = "feed.run" if record.result == "changed" else f"feed.{record.result}"
            by = Actor("feed", job.scope)
            yield from write_audit(now(), by, action, record.scope, record.list_name, changes, sample)
        return finished

    @change
    def forget(self, name: str) -> Work[bool]:
        """Forget a feed, so that its next run reads everything."""
        return (yield from forget_job(FEED, name))

    @large_query
    def entries(
        self, scope: str | None, list_name: str, by: Actor, after: str = ""
    ) -> Work[tuple[tuple[str, int | None], ...]]:
        """Key and expiry of a feed's own entries, by key, the next 2,000 after a key; expired ones are among them."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name))
        if row is None:
            return ()
        rows = yield Read(_OWN, (row.id, by.label, after, PAGE))
        return tuple((key, expires) for key, expires, label in rows if label == by.label)

    @change
    def put_entries(
        self, scope: str | None, definition: ListDefinition, entries: Sequence[NewEntry], by: Actor
    ) -> Work[int | ListFull | NotFound]:
        """Add or update entries of a feed; returns how many. Entries that somebody else wrote stay as they are."""
        return (yield from add_to_list(scope, definition, entries, by, spare_others=True))

    @change
    def delete_entries(self, scope: str | None, list_name: str, keys: Sequence[str], by: Actor) -> Work[int]:
        """Delete those of these entries that are the feed's own; returns how many."""
        row = yield from find_list(normalize_scope(scope) or "", storable(list_name), lock=True)
        if row is None or not keys:
            return 0
        own = yield Read(_OWN_AMONG, (row.id, Many(tuple(map(storable, keys))), by.label))
        return (yield from delete_from_list(row, tuple(found[0] for found in own), by)) if own else 0

    @change
    def expire_entries(
        self, scope: str | None, list_name: str, keys: Sequence[str], by: Actor, expires: int
    ) -> Work[int]:
        """Let the feed's own among these entries expire, unless they do so earlier; returns how many were changed."""
        owner, moment = normalize_scope(scope), now()
        row = yield from find_list(owner or "", storable(list_name), lock=True)
        if row is None or not keys:
            return 0
        several = Many(tuple(map(storable, keys)))
        changed = int((yield Write(_EXPIRE, (row.id, several, by.label, expires, moment))))
        if changed:
            yield from raise_unkeyed_version(row, moment)
            yield from write_audit(moment, by, "entries.vanish", owner, row.name, changed, sorted(keys))
        return changed

    @query
    def definitions(self) -> Work[tuple[FeedDefinition, ...]]:
        """All of them by name."""
        return tuple(map(_definition, (yield Read(_SELECT_DEFINITIONS))))

    @change
    def put_definition(
        self, name: str, feed: WebFeed, seen: int, by: Actor, *, paused: bool
    ) -> Work[FeedDefinition | DefinitionRefusal]:
        """Define a feed, or change it; `seen` is when the one that the author has seen was changed, 0 for a new one."""
        known = {each.name: each for each in map(_definition, (yield Read(_LOCK)))}
        old = known.get(name)
        if (old.modified if old else 0) != seen:
            return "changed"
        if old is None and len(known) >= MAX_FEEDS:
            return "full"
        moment = max(now(), seen + 1)
        made = FeedDefinition(storable(name), feed, paused, moment, storable(by.label))
        settings = storable(msgspec.json.encode(feed).decode())
        yield Write(_PUT, (made.name, settings, int(paused), made.modified, made.modified_by))
        action = "feed.change" if old else "feed.create"
        said = (made.name, f"before: {_describe(old)}", f"now: {_describe(made)}")
        yield from write_audit(moment, by, action, feed.tenant, storable(feed.list_name), 1, said)
        return made

    @change
    def delete_definition(self, name: str, by: Actor) -> Work[FeedDefinition | DefinitionRefusal]:
        """Delete a definition. The entries that the feed has made stay."""
        old = next((each for each in map(_definition, (yield Read(_LOCK))) if each.name == name), None)
        if old is None:
            return "unknown"
        yield Write(_DELETE, (old.name,))
        said = (old.name, f"before: {_describe(old)}", "now: nothing")
        yield from write_audit(now(), by, "feed.delete", old.feed.tenant, storable(old.feed.list_name), 1, said)
        return old

    @change
    def request_run(self, name: str, scope: str | None, list_name: str, by: Actor) -> Work[None]:
        """Make a feed due, so that the next node that looks runs it."""
        yield from plan_job(FEED, storable(name), 0)
        yield from write_audit(now(), by, "feed.requested", scope, storable(list_name), 1, (storable(name),))


def _definition(row: Row) -> FeedDefinition:
    name, settings, paused, modified, modified_by = row
    return FeedDefinition(name, msgspec.json.decode(settings, type=WebFeed), bool(paused), int(modified), modified_by)


def _describe(definition: FeedDefinition | None) -> str:
    if definition is None:
        return "nothing"
    shown = hide(msgspec.to_builtins(definition.feed), ("feeds",))
    return msgspec.json.encode(shown).decode() + (", paused" if definition.paused else "")
