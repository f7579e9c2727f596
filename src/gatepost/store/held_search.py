"""How held mail is found: the filter of a search, and the plans by which rows of held mail are read.

Held mail lies in an index in the order in which it came, which has the columns that most filters ask for. A sender or a
recipient has an index of its own, in the order of ids, which is that of arrival. What else is asked for is tested in
the rows of `held_search`, by the same rules as in those of messages on record (`search_conditions`). Such a search
reads four times as many rows as others do, so that it is exact for any quarantine that people work through.

SQLite joins by a look-up for each row, which takes ten times as long as reading it in order. So where the newest rows
do not fill a page, all texts are read once in their own order (`plan_whole`), and rows of held mail are tested for
being among those whose texts fit: with 100,000 messages, that reads each table once. `explore` does the same where few
of the newest rows fit, and counts fewer messages where many do. PostgreSQL joins by hashes, and goes on as it is.
"""

import msgspec

from gatepost.store.engine import storable
from gatepost.store.evidence import Evidence
from gatepost.store.found_values import COLUMNS
from gatepost.store.message_index import Term
from gatepost.store.message_records import MessageRecord, normalize_address
from gatepost.store.paging import END, ROW_BUDGET, PageQuery, SqlCondition, key_range
from gatepost.store.search_conditions import (
    HELD_ROWS,
    HELD_ROWS_ALONE,
    TESTED,
    MessageFilter,
    RecordFacts,
    fits,
    fits_filter,
    fits_word,
    join_tests,
    reach_of,
    row_condition,
    row_tests,
    word_condition,
)
from gatepost.store.search_language import Expression
from gatepost.store.sql import sql

# Once for each message, however many of its recipients have the domain.
_FIRST_OF_DOMAIN = SqlCondition(
    """NOT EXISTS (SELECT 1 FROM held_recipients AS other
    WHERE other.ggrid = r.ggrid AND other.domain = r.domain AND other.address < r.address)""",
    (),
)
_HELD = "held AS h"
_HELD_AND_TEXTS = "held AS h LEFT JOIN held_search AS s ON s.ggrid = h.ggrid"
_RECIPIENTS_AND_HELD = "held_recipients AS r CROSS JOIN held AS h"
_RECIPIENTS_AND_TEXTS = f"{_RECIPIENTS_AND_HELD} LEFT JOIN held_search AS s ON s.ggrid = h.ggrid"
# Rows of which the texts are looked up before all texts are read, and those of them by which a search is judged to find
# much or little.
QUICK_ROWS, PROBED_ROWS = 4_000, 1_000
# Messages that are counted for values where their texts are looked up. Where one of so many rows fits, that takes as
# long as reading all texts.
LOOKED_UP, FEW = 2_000, 24
# Texts that are read at once.
MOST_TEXTS = 150_000
# Each row is read from three places.
_JOINED_REACH = 0.2
# A quarantine of a hundred thousand messages is searched whole.
_TEXTS_REACH = 4.0
# A row is read from two tables; with more values than these, comparing them takes longer than that.
_CHEAP_VALUES = 6
_JOINED = SqlCondition("h.ggrid = r.ggrid", ())
# The columns of held mail itself; the others are in `held_search`.
_OWN_COLUMNS = frozenset({"tenant", "verdict", "score", "subject", "gone", "kept", "ggrid"})


class HeldFilter(msgspec.Struct, frozen=True):
    """Which held mail to show. A field that is None does not matter. Sender and recipient are an address or a domain,
    `subject` is words that must all occur, `score` the lowest one; `released` shows released messages instead of held
    ones, `deleted` those whose deletion can be taken back. Times are `since` <= kept < `until`. `evidence`, `anywhere`
    (`message_index.Term`) and `query` are those of a `MessageFilter`."""

    tenant: str | None = None
    verdict: str | None = None
    sender: str | None = None
    recipient: str | None = None
    since: int | None = None
    released: bool = False
    until: int | None = None
    subject: str | None = None
    score: int | None = None
    evidence: Evidence = Evidence()
    deleted: bool = False
    anywhere: str | None = None
    query: Expression | None = None

    @property
    def gone(self) -> int:
        """The value of the column of that name."""
        return 2 if self.deleted else int(self.released)


def is_examined(wanted: HeldFilter, term: Term | None) -> bool:
    """Does a search ask for what narrow rows know only nearly? Mail without such a row is compared as well."""
    return bool(wanted.evidence.wanted or term or wanted.query is not None)


# What is counted of held mail that was found: when it came, and the columns of `found_values`.
VALUE_COLUMNS = tuple(f"{'h' if column in _OWN_COLUMNS else 's'}.{column}" for column in ("kept", *COLUMNS))


# The same of mail that was found already, by its ids.
SELECT_VALUES = sql(f"SELECT h.ggrid, {', '.join(VALUE_COLUMNS)} FROM {_HELD_AND_TEXTS} WHERE @one_of(h.ggrid, $1)")  # noqa: S608


# The columns of values that held mail has itself, and the others, by ids.
OWN_VALUES = ("h.kept", "h.tenant", "h.verdict")
SELECT_TEXTS = sql(f"""SELECT ggrid, {", ".join(COLUMNS[2:])} FROM held_search WHERE @one_of(ggrid, $1)""")  # noqa: S608


def needs_texts(plan: PageQuery) -> bool:
    """Does a plan look up the texts of every row in the order in which mail came?"""
    return plan.source == _HELD_AND_TEXTS and len(plan.order) > 1


def with_rows(plan: PageQuery, rows: int) -> PageQuery:
    """The plan with another number of rows that are read."""
    return msgspec.structs.replace(plan, reach=(rows + 0.5) / ROW_BUDGET)


def plan_whole(
    wanted: HeldFilter, start: tuple[object, ...], end: tuple[object, ...], *, exact: bool = False
) -> PageQuery:
    """How to find held mail between two keys where all rows are read, and all texts once. Each row must have texts."""
    source = HELD_ROWS_ALONE
    tests = row_tests(_row_filter(wanted), source, exact=exact)
    lead, order = _lead(wanted, tests), ("h.kept", "h.ggrid")
    conditions = [*tests.values()]
    if wanted.anywhere:
        conditions.append(word_condition(wanted.anywhere, source, exact=exact))
    if wanted.query is not None:
        conditions.append(row_condition(wanted.query, source, exact=exact))
    tested = tuple(f"h.{column}" for column in sorted(_OWN_COLUMNS - {"gone"}))
    within = key_range(lead, order, start, end)
    return PageQuery(_HELD, order, within, (join_tests(conditions, source),), tested, tuple(lead), is_whole=True)


def _lead(wanted: HeldFilter, tests: dict[str, SqlCondition]) -> dict[str, object]:
    """What the index of held mail in its order begins with; the test of a tenant is taken out of `tests`."""
    lead: dict[str, object] = {"h.gone": wanted.gone}
    if "tenant" in tests:
        lead["h.tenant"] = tests.pop("tenant").values[0]
    return lead


def with_texts(plan: PageQuery) -> PageQuery:
    """The plan with all narrow rows, also where its conditions need none."""
    joined = {_HELD: _HELD_AND_TEXTS, _RECIPIENTS_AND_HELD: _RECIPIENTS_AND_TEXTS}
    return msgspec.structs.replace(plan, source=joined.get(plan.source, plan.source))


def plan_newer(wanted: HeldFilter, kept: int, ggrid: str) -> PageQuery:
    """How to find the held messages that came after one, oldest first; the key of the rows ends with the ggrid."""
    # Any suffix sorts behind the id of the message itself.
    behind = f"{storable(ggrid)}~"
    if is_by_time(wanted):
        plan = plan_held(wanted, (kept, behind), () if wanted.until is None else (wanted.until,))
    else:
        plan = plan_held(wanted, (behind,), ())
    return msgspec.structs.replace(plan, descending=False)


def plan_by_id(wanted: HeldFilter, start: str, before: str | None) -> PageQuery:
    """How to find held mail whose ids begin so, or that has this id; a recipient is none of its conditions."""
    end = min(f"{start}~", storable(before.lower()) if before else "~")
    within = key_range({}, ("h.ggrid",), (start,), (end,))
    plan = PageQuery(_HELD, ("h.ggrid",), within)
    text = msgspec.structs.replace(wanted, anywhere=None)
    tests = row_tests(_row_filter(text), HELD_ROWS) | _state_tests(wanted)
    return _add_tests(plan, text, tests, exact=False)


def is_by_time(wanted: HeldFilter) -> bool:
    """Whether held mail is read in the order in which it came, by time and ggrid, instead of by ggrid alone."""
    return wanted.sender is None and wanted.recipient is None


def _row_filter(wanted: HeldFilter) -> MessageFilter:
    """The conditions on narrow rows, besides those that an index leads to."""
    return MessageFilter(
        tenant=wanted.tenant,
        verdict=wanted.verdict,
        sender=None if wanted.sender is None else _normalize_pattern(wanted.sender),
        subject=wanted.subject,
        score=wanted.score,
        evidence=wanted.evidence,
    )


def plan_held(
    wanted: HeldFilter, start: tuple[object, ...], end: tuple[object, ...], *, exact: bool = False
) -> PageQuery:
    """How to find held mail whose key is between two others."""
    tests = row_tests(_row_filter(wanted), HELD_ROWS, exact=exact)
    if wanted.recipient is not None:
        plan = _plan_by_recipient(wanted.recipient, start, end)
        return _add_tests(plan, wanted, tests | _state_tests(wanted), exact=exact)
    if wanted.sender is not None:
        column = "sender" if _is_address(wanted.sender) else "sender_domain"
        tests.pop("sender", None)
        tests.pop("sender_domain", None)
        lead: dict[str, object] = {f"h.{column}": _normalize_pattern(wanted.sender)}
        plan = PageQuery(_HELD, ("h.ggrid",), key_range(lead, ("h.ggrid",), start, end), lead=tuple(lead))
        return _add_tests(plan, wanted, tests | _state_tests(wanted), exact=exact)
    lead, order = _lead(wanted, tests), ("h.kept", "h.ggrid")
    plan = PageQuery(_HELD, order, key_range(lead, order, start, end), lead=tuple(lead))
    return _add_tests(plan, wanted, tests, exact=exact)


def _plan_by_recipient(recipient: str, start: tuple[object, ...], end: tuple[object, ...]) -> PageQuery:
    column = "r.address" if _is_address(recipient) else "r.domain"
    lead = {column: _normalize_pattern(recipient)}
    within = [*key_range(lead, ("r.ggrid",), start, end), _JOINED]
    if column == "r.domain":
        within.append(_FIRST_OF_DOMAIN)
    return PageQuery(_RECIPIENTS_AND_HELD, ("r.ggrid",), within, lead=tuple(lead), reach=_JOINED_REACH)


def _add_tests(plan: PageQuery, wanted: HeldFilter, tests: dict[str, SqlCondition], *, exact: bool) -> PageQuery:
    """The plan with conditions on narrow rows, which are read where the index has not all columns. Mail that has no
    narrow row yet may fit whatever is asked for; its record decides."""
    conditions, columns = [*tests.values()], [*tests]
    if wanted.anywhere:
        conditions.append(word_condition(wanted.anywhere, HELD_ROWS, exact=exact))
        columns += TESTED
    if wanted.query is not None:
        conditions.append(row_condition(wanted.query, HELD_ROWS, exact=exact))
        columns += (*TESTED, "kept")
    if not conditions:
        return plan
    tested = dict.fromkeys(f"{'h' if column in _OWN_COLUMNS else 's'}.{column}" for column in columns)
    if _OWN_COLUMNS.issuperset(columns):
        return msgspec.structs.replace(plan, tests=conditions, tested=tuple(tested))
    joined = " AND ".join(f"({each.sql})" for each in conditions)
    known = f"decision IS NOT NULL AND {joined}" if exact else f"(decision IS NULL OR ({joined}))"
    condition = SqlCondition(known, tuple(value for each in conditions for value in each.values))
    source = _RECIPIENTS_AND_TEXTS if plan.source == _RECIPIENTS_AND_HELD else _HELD_AND_TEXTS
    reach = _JOINED_REACH if plan.source == _RECIPIENTS_AND_HELD else _TEXTS_REACH * reach_of(condition, _CHEAP_VALUES)
    tested = dict.fromkeys((*tested, "s.decision"))
    return msgspec.structs.replace(plan, source=source, tests=(condition,), tested=tuple(tested), reach=reach)


def _state_tests(wanted: HeldFilter) -> dict[str, SqlCondition]:
    """The conditions on state and time, where no index is in their order."""
    since = 0 if wanted.since is None else wanted.since
    times = (since, END[0] if wanted.until is None else wanted.until)
    return {"gone": SqlCondition("gone = {}", (wanted.gone,)), "kept": SqlCondition("kept >= {} AND kept < {}", times)}


def _is_address(text: str) -> bool:
    """`ann@example.org` is an address, `example.org` and `@example.org` are domains; "" is the empty sender."""
    return "@" in text.strip()[1:] or not normalize_address(text)


def _normalize_pattern(text: str) -> str:
    """An address or a domain as it is stored for searching."""
    address = normalize_address(text)
    return address if _is_address(text) else address.removeprefix("@").rstrip(".")


def has_wanted(record: MessageRecord, kept: int, wanted: HeldFilter, term: Term | None) -> bool:
    """Whether a message has the evidence, fits the text in one of its meanings, and the rest of the query."""
    facts = RecordFacts(record.ggrid, kept, record.detail)
    if not fits_filter(_row_filter(wanted), facts) or not (wanted.query is None or fits(wanted.query, facts)):
        return False
    if term is None or term.ggrid:
        return term is None or term.ggrid == record.ggrid
    if term.id_prefix and record.ggrid.startswith(term.id_prefix):
        return True
    return fits_word(term, facts.detail)
