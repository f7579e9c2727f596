"""Lists of held mail: a page of what fits a search, its neighbours, and how many there are.

Which index serves a search is the subject of `held_search`; what only records can tell is compared with these.
"""

from collections.abc import Sequence

import msgspec

from gatepost.store.engine import Many, Operations, Read, Work, normalize_scope, query, search, storable
from gatepost.store.held_mail import SELECT, HeldMessage, find_held, parse_held
from gatepost.store.held_search import HeldFilter, has_wanted, plan_by_id, plan_newer, plan_search
from gatepost.store.message_evidence import Evidence
from gatepost.store.message_search import MAX_COUNTED, MessageCount
from gatepost.store.message_terms import Term, parse_term
from gatepost.store.paging import ROW_BUDGET, Keys, PageQuery, count_any, find_page

# How many records are read for a page where their evidence matters: hostile ones can be long.
EXAMINED = 200

_SELECT_GGRIDS = SELECT + " WHERE ggrid = ANY($1)"
_SELECT_KEPT = "SELECT kept FROM held WHERE ggrid = $1"
_COUNT = """SELECT verdict, count(*) FROM (SELECT verdict FROM held
WHERE {} ORDER BY {} LIMIT $1) AS open GROUP BY verdict ORDER BY verdict"""
_HELD = ("(gone) <= (0)", "gone DESC, kept DESC")
_HELD_OF_TENANT = ("(gone, tenant) >= (0, $2) AND (gone, tenant) <= (0, $2)", "gone DESC, tenant DESC, kept DESC")
_COUNT_AMONG = """SELECT verdict, count(*) FROM held WHERE ggrid = ANY($1) AND ($2 = '' OR tenant = $2)
GROUP BY verdict ORDER BY count(*) DESC, verdict"""


class HeldPage(msgspec.Struct, frozen=True):
    """Held mail, newest first. `next` is the cursor of the next page; `reached` is the time back to which held mail was
    read where the budget ended before the page was full."""

    rows: tuple[HeldMessage, ...]
    next: str | None = None
    reached: int | None = None


class HeldCounts(msgspec.Struct, frozen=True):
    """How many messages are held, by verdict. Counting stops at the row budget: then `more` is true."""

    messages: int
    verdicts: dict[str, int]
    more: bool = False


class HeldListing(Operations):
    """Searching and counting held mail."""

    @search
    def search_held(self, wanted: HeldFilter, before: str | None = None, limit: int = 100) -> Work[HeldPage]:
        """A page of held mail, newest first; `limit` is at most 1,000.

        `before` is the `next` of the page before, or the ggrid of the last message on it.
        """
        return (yield from _find_page(wanted, before, limit))

    @search
    def count_held(self, wanted: HeldFilter) -> Work[MessageCount]:
        """How many messages fit, up to 10,000. Where only their records tell, those of a first page are counted."""
        if wanted.evidence.wanted or wanted.anywhere:
            page = yield from _find_page(wanted, None, EXAMINED)
            return MessageCount(len(page.rows), page.next is not None)
        plan = yield from plan_search(wanted, None)
        return MessageCount(*(yield from count_any((plan,), MAX_COUNTED)))

    @search
    def newer_held(self, wanted: HeldFilter, mail: HeldMessage) -> Work[str | None]:
        """The ggrid of the message that stands before this one in a list of held mail; None where it is the first."""
        plan = plan_newer(wanted, mail.kept, mail.record.ggrid)
        term = parse_term(wanted.anywhere) if wanted.anywhere else None
        keys = yield from find_page(plan, EXAMINED if wanted.evidence.wanted or term else 1)
        for row in keys.rows:
            found = yield from find_held(row[len(plan.order) - 1], None)
            if found and has_wanted(found.record, wanted.evidence, term):
                return found.record.ggrid
        return None

    @search
    def held_counts(self, tenant: str | None = None) -> Work[HeldCounts]:
        """How many messages are held, by verdict, for a tenant or for all."""
        scope = normalize_scope(tenant)
        statement = _COUNT.format(*(_HELD_OF_TENANT if scope else _HELD))
        rows = yield Read(statement, (ROW_BUDGET + 1, scope) if scope else (ROW_BUDGET + 1,))
        verdicts = {verdict: int(count) for verdict, count in rows}
        return HeldCounts(sum(verdicts.values()), verdicts, sum(verdicts.values()) > ROW_BUDGET)

    @query
    def held_verdicts(self, ggrids: Sequence[str], tenant: str | None = None) -> Work[dict[str, int]]:
        """How many of these messages, of one tenant or of all, have which verdict, the most frequent first."""
        rows = yield Read(_COUNT_AMONG, (Many(tuple(map(storable, ggrids))), normalize_scope(tenant) or ""))
        return {verdict: int(count) for verdict, count in rows}


def _find_page(wanted: HeldFilter, before: str | None, limit: int) -> Work[HeldPage]:
    term = parse_term(wanted.anywhere) if wanted.anywhere else None
    if term and (term.ggrid or term.id_prefix) and wanted.recipient is None:
        start = term.ggrid or term.id_prefix or ""
        page = yield from _read_page(plan_by_id(wanted, start, before), wanted, term, limit)
        if page.rows or page.next or term.ggrid or (before or "").startswith(start):
            return page
    plan = yield from plan_search(wanted, before)
    return (yield from _read_page(plan, wanted, term, limit))


def _read_page(plan: PageQuery, wanted: HeldFilter, term: Term | None, limit: int) -> Work[HeldPage]:
    is_examined = bool(wanted.evidence.wanted or term)
    keys = yield from find_page(plan, EXAMINED if is_examined else limit)
    ids = tuple(row[len(plan.order) - 1] for row in keys.rows)
    found = {row[0]: row for row in ((yield Read(_SELECT_GGRIDS, (Many(ids),))) if ids else ())}
    rows = [parse_held(found[uid]) for uid in ids]
    if is_examined:
        rows, keys = _select_by_record(rows, keys, wanted.evidence, term, limit)
    reached = keys.reached
    if isinstance(reached, str):
        reached = (yield Read(_SELECT_KEPT, (reached,)))[0][0]
    return HeldPage(tuple(rows), keys.cursor, reached)


def _select_by_record(
    rows: Sequence[HeldMessage], keys: Keys, evidence: Evidence, term: Term | None, limit: int
) -> tuple[list[HeldMessage], Keys]:
    """Those of the messages whose record fits, at most `limit`, and where the next page begins. A page on which
    some were passed over says how far it reached."""
    chosen: list[HeldMessage] = []
    for row, key in zip(rows, keys.rows, strict=True):
        if has_wanted(row.record, evidence, term):
            chosen.append(row)
            if len(chosen) == limit:
                return chosen, Keys(keys.rows, tuple(key)) if row is not rows[-1] or keys.next else Keys(keys.rows)
    return chosen, msgspec.structs.replace(keys, is_spent=keys.next is not None)
