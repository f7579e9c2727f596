"""Pages of a list's entries, ordered as they are shown, for people who leaf through them or look for a part.

Entries of lists that may be large are shown as they are compared, so the primary key has them in order. People and
phrases are shown otherwise; such a list has at most 100,000 entries, and they are put in order for each page.
"""

import msgspec

from gatepost.lists.catalogue import KINDS
from gatepost.store import scanning, shelves
from gatepost.store.interface import ListEntry
from gatepost.store.scanning import Scan, Test
from gatepost.store.searchstore import EntryPage
from gatepost.store.work import Many, Read, Work, storable

_SOME = """SELECT key, COALESCE(shown, key), comment, created, modified, modified_by, expires, hits, last_hit
FROM entries WHERE list_id = $1 AND key = ANY($2)"""
_PLAIN = "entries"
_PEOPLE = "(SELECT list_id, COALESCE(shown, key) AS shown, key, comment FROM entries) AS people"

_cursors = msgspec.json.Decoder(tuple[str, str])


def page(scope: str | None, list_name: str, prefix: str, part: str, after: str | None, limit: int) -> Work[EntryPage]:
    """A page of entries."""
    place = yield from shelves.find(scope or "", storable(list_name))
    if place is None:
        return EntryPage(())
    people = not KINDS[place.kind].keyed
    scan = _scan(place.id, people, storable(prefix), storable(part), _cursor(after))
    looked = yield from scanning.look(scan, limit)
    keys = tuple(row[-1] for row in looked.rows)
    rows = (yield Read(_SOME, (place.id, Many(keys)))) if keys else ()
    found = {row[0]: ListEntry(*row) for row in rows}
    entries = tuple(found[key] for key in keys)
    if looked.next is None:
        return EntryPage(entries)
    shown, key = looked.next[0], looked.next[-1]
    following = msgspec.json.encode((shown, key)).decode()
    return EntryPage(entries, following, shown if looked.spent else None)


def _scan(list_id: int, people: bool, prefix: str, part: str, after: tuple[str, str] | None) -> Scan:
    within = [Test("list_id = {}", (list_id,))]
    order = ("shown", "key") if people else ("key",)
    if after is not None:
        within.append(Test("(shown, key) > ({}, {})", after) if people else Test("key > {}", after[1:]))
    if prefix:
        within += _beginning(order[0], prefix)
    tests = [_having(part)] if part else []
    if people:
        # All of it is read for its order anyway.
        return Scan(_PEOPLE, order, [*within, *tests], descending=False)
    return Scan(_PLAIN, order, within, tests, ("shown", "comment") if part else (), descending=False)


def _beginning(column: str, prefix: str) -> list[Test]:
    """A range, as an index has it: up to the next text of the same length."""
    tests = [Test(f"{column} >= {{}}", (prefix,))]
    following = _following(prefix)
    return [*tests, Test(f"{column} < {{}}", (following,))] if following else tests


def _following(prefix: str) -> str:
    """The least text that is greater than all that begin so; "" where there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return ""
    after = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if after == 0xD800 else after)


def _having(part: str) -> Test:
    texts = ("key", "lower(COALESCE(shown, ''))", "lower(comment)")
    return Test(f"({' OR '.join(f'strpos({text}, {{}}) > 0' for text in texts)})", (part.lower(),) * len(texts))


def _cursor(text: str | None) -> tuple[str, str] | None:
    try:
        shown, key = _cursors.decode(text or "")
    except msgspec.DecodeError:
        return None
    return storable(shown), storable(key)
