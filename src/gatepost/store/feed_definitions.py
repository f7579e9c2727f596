"""Feeds that were defined in the web interface: their settings, whether they are paused, and who changed them.

What is remembered of their runs is where that of all feeds is (see `feeds`). No secret is stored: a definition names a
file of the data folder. Each change is in the audit trail with the definition before and after it.
"""

from typing import Literal, TypeAlias

import msgspec

from gatepost.settings.feeds import MAX_FEEDS, WebFeed
from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Row, Work, Write, change, now, query, storable

_COLUMNS = "name, settings, paused, modified, modified_by"
_SELECT = f"SELECT {_COLUMNS} FROM feed_definitions ORDER BY name"  # noqa: S608
_LOCK = f"SELECT {_COLUMNS} FROM feed_definitions ORDER BY name FOR UPDATE"  # noqa: S608
_PUT = """INSERT INTO feed_definitions (name, settings, paused, modified, modified_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, paused = excluded.paused,
modified = excluded.modified, modified_by = excluded.modified_by"""
_DELETE = "DELETE FROM feed_definitions WHERE name = $1"
_REQUEST = """INSERT INTO feeds (name, holder, locked_until, next_run, detail) VALUES ($1, '', 0, 0, '{}')
ON CONFLICT (name) DO UPDATE SET next_run = 0"""

DefinitionRefusal: TypeAlias = Literal["changed", "full", "unknown"]


class FeedDefinition(msgspec.Struct, frozen=True):
    """A feed of the web interface. `modified` is also the version by which a change is recognised."""

    name: str
    feed: WebFeed
    paused: bool = False
    modified: int = 0
    modified_by: str = ""


class FeedDefinitionStore(Operations):
    """Feeds of the web interface."""

    @query
    def feed_definitions(self) -> Work[tuple[FeedDefinition, ...]]:
        """All of them by name."""
        return tuple(map(_definition, (yield Read(_SELECT))))

    @change
    def put_feed_definition(
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
    def delete_feed_definition(self, name: str, by: Actor) -> Work[FeedDefinition | DefinitionRefusal]:
        """Delete a definition. The entries that the feed has made stay."""
        old = next((each for each in map(_definition, (yield Read(_LOCK))) if each.name == name), None)
        if old is None:
            return "unknown"
        yield Write(_DELETE, (old.name,))
        said = (old.name, f"before: {_describe(old)}", "now: nothing")
        yield from write_audit(now(), by, "feed.delete", old.feed.tenant, storable(old.feed.list_name), 1, said)
        return old

    @change
    def request_feed_run(self, name: str, scope: str | None, list_name: str, by: Actor) -> Work[None]:
        """Make a feed due, so that the next node that looks runs it."""
        yield Write(_REQUEST, (storable(name),))
        yield from write_audit(now(), by, "feed.requested", scope, storable(list_name), 1, (storable(name),))


def _definition(row: Row) -> FeedDefinition:
    name, settings, paused, modified, modified_by = row
    return FeedDefinition(name, msgspec.json.decode(settings, type=WebFeed), bool(paused), int(modified), modified_by)


def _describe(definition: FeedDefinition | None) -> str:
    if definition is None:
        return "nothing"
    return msgspec.json.encode(definition.feed).decode() + (", paused" if definition.paused else "")
