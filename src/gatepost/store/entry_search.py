"""The search for entries of a list, page by page: by their beginning, or by a part of entry or comment.

Pages of entries are read by an index. Entries of lists that may be large are shown as they are compared, so the primary
key has them in order. People and phrases are shown otherwise; such a list has at most 100,000 entries, and they are put
in order for each page.
"""

import msgspec

from gatepost.store.engine import storable
from gatepost.store.lists import ListRow
from gatepost.store.paging import Condition, Keys, PageQuery

_ENTRIES = "entries"
_SORTED_ENTRIES = "(SELECT list_id, COALESCE(shown, key) AS shown, key, comment FROM entries) AS people"

_cursors = msgspec.json.Decoder(tuple[str, str])


def plan_search(row: ListRow, prefix: str, part: str, cursor: str | None) -> PageQuery:
    """How to find a page of entries that begin with `prefix` and contain `part`, after a cursor."""
    after = _parse_cursor(cursor)
    sort_by_shown = not row.definition.keyed
    within = [Condition("list_id = {}", (row.id,))]
    order = ("shown", "key") if sort_by_shown else ("key",)
    if after is not None:
        within.append(
            Condition("(shown, key) > ({}, {})", after) if sort_by_shown else Condition("key > {}", after[1:])
        )
    if prefix:
        within += _starts_with(order[0], storable(prefix))
    tests = [_contains(storable(part))] if part else []
    if sort_by_shown:
        # All of the list is read for its order anyway.
        return PageQuery(_SORTED_ENTRIES, order, [*within, *tests], descending=False)
    return PageQuery(_ENTRIES, order, within, tests, ("shown", "comment") if part else (), descending=False)


def make_cursor(keys: Keys) -> str | None:
    """Where the next page begins, as text; None after the last page."""
    return msgspec.json.encode((keys.next[0], keys.next[-1])).decode() if keys.next else None


def _parse_cursor(text: str | None) -> tuple[str, str] | None:
    try:
        shown, key = _cursors.decode(text or "")
    except msgspec.DecodeError:
        return None
    return storable(shown), storable(key)


def _starts_with(column: str, prefix: str) -> list[Condition]:
    """A range, as an index has it: up to the next text of the same length."""
    conditions = [Condition(f"{column} >= {{}}", (prefix,))]
    end = _next_text(prefix)
    return [*conditions, Condition(f"{column} < {{}}", (end,))] if end else conditions


def _next_text(prefix: str) -> str:
    """The least text that is greater than all that begin with `prefix`; "" where there is none."""
    shortened = prefix.rstrip("\U0010ffff")
    if not shortened:
        return ""
    following = ord(shortened[-1]) + 1
    return shortened[:-1] + chr(0xE000 if following == 0xD800 else following)


def _contains(part: str) -> Condition:
    texts = ("key", "lower(COALESCE(shown, ''))", "lower(comment)")
    return Condition(f"({' OR '.join(f'strpos({text}, {{}}) > 0' for text in texts)})", (part.lower(),) * len(texts))
