"""Looking through held mail, and counting it.

Without a sender or recipient, mail is looked through in the order in which it came, in an index that has all that is
asked for. A sender or recipient has an index of its own, in the order of ids, which is that of arrival.
"""

from gatepost.store import heldmail, scanning
from gatepost.store.findable import fold
from gatepost.store.heldmail import is_address, sought
from gatepost.store.interface import HeldFilter
from gatepost.store.scanning import Scan, Test, between, having
from gatepost.store.searchstore import BUDGET, HeldCounts, HeldPage
from gatepost.store.work import Many, Read, Row, Work, storable

MAX_WORDS = 8

_SOME = heldmail.READ + " WHERE ggrid = ANY($1)"
_KEPT = "SELECT kept FROM held WHERE ggrid = $1"
_COUNT = """SELECT verdict, count(*) FROM (SELECT verdict FROM held
WHERE {} ORDER BY {} LIMIT $1) AS open GROUP BY verdict ORDER BY verdict"""
_OPEN = ("(gone) <= (0)", "gone DESC, kept DESC")
_OPEN_OF = ("(gone, tenant) >= (0, $2) AND (gone, tenant) <= (0, $2)", "gone DESC, tenant DESC, kept DESC")
# Once for each message, however many of its recipients have the domain.
_FIRST = Test(
    """NOT EXISTS (SELECT 1 FROM held_recipients AS other
    WHERE other.ggrid = r.ggrid AND other.domain = r.domain AND other.address < r.address)""",
    (),
)
_TO_ROWS = "held_recipients AS r CROSS JOIN held AS h"
# Each row is looked up in three places.
_JOINED_REACH = 0.2
_JOINED = Test("h.ggrid = r.ggrid", ())


def search(wanted: HeldFilter, before: str | None, limit: int) -> Work[HeldPage]:
    """A page of held mail, newest first."""
    scan = _scan(wanted, before)
    looked = yield from scanning.look(scan, limit)
    ids = tuple(row[len(scan.place) - 1] for row in looked.rows)
    found = {row[0]: row for row in ((yield Read(_SOME, (Many(ids),))) if ids else ())}
    rows = tuple(heldmail.mail_of(found[uid]) for uid in ids)
    reached = looked.reached
    if isinstance(reached, str):
        reached = (yield Read(_KEPT, (reached,)))[0][0]
    return HeldPage(rows, looked.cursor, reached)


def counts(tenant: str | None) -> Work[HeldCounts]:
    """How much is held, by verdict; counting ends at the budget."""
    whose: Row = (tenant,) if tenant else ()
    rows = yield Read(_COUNT.format(*(_OPEN_OF if tenant else _OPEN)), (BUDGET + 1, *whose))
    verdicts = {verdict: int(count) for verdict, count in rows}
    return HeldCounts(sum(verdicts.values()), verdicts, sum(verdicts.values()) > BUDGET)


def _scan(wanted: HeldFilter, before: str | None) -> Scan:
    tests = _tests(wanted)
    if wanted.sender is None and wanted.recipient is None:
        return _by_time(wanted, before, tests)
    tests |= {"gone": Test("gone = {}", (int(wanted.released),)), "kept": _since(wanted)}
    end = (storable(before.lower()),) if before else ()
    if wanted.recipient is None:
        column = "sender" if is_address(wanted.sender or "") else "sender_domain"
        lead = {column: tests.pop(column).values[0]}
        within = between(lead, ("ggrid",), (), end)
        return Scan("held", ("ggrid",), within, tuple(tests.values()), tuple(tests), tuple(lead))
    column = "r.address" if is_address(wanted.recipient) else "r.domain"
    lead = {column: sought(wanted.recipient)}
    within = [*between(lead, ("r.ggrid",), (), end), _JOINED, *([_FIRST] if column == "r.domain" else [])]
    looked = [f"h.{name}" for name in tests]
    return Scan(_TO_ROWS, ("r.ggrid",), within, tuple(tests.values()), looked, tuple(lead), reach=_JOINED_REACH)


def _by_time(wanted: HeldFilter, before: str | None, tests: dict[str, Test]) -> Scan:
    lead: dict[str, object] = {"gone": int(wanted.released)}
    if "tenant" in tests:
        lead["tenant"] = tests.pop("tenant").values[0]
    place = ("kept", "ggrid")
    start = () if wanted.since is None else (wanted.since,)
    within = between(lead, place, start, _end(before, wanted.until))
    return Scan("held", place, within, tuple(tests.values()), tuple(tests), tuple(lead))


def _end(before: str | None, until: int | None) -> tuple[int, str]:
    """The earlier of a cursor and `until`."""
    kept, _, uid = (before or "").partition(".")
    cursor = (int(kept), storable(uid)) if kept.isdecimal() and len(kept) < 19 else (scanning.END[0], "")
    return min(cursor, (scanning.END[0] if until is None else until, ""))


def _tests(wanted: HeldFilter) -> dict[str, Test]:
    tests: dict[str, Test] = {}
    if wanted.tenant is not None:
        tests["tenant"] = Test("tenant = {}", (storable(wanted.tenant.lower()),))
    if wanted.verdict is not None:
        tests["verdict"] = Test("verdict = {}", (storable(wanted.verdict),))
    if wanted.score is not None:
        tests["score"] = Test("score >= {}", (wanted.score,))
    if words := fold(wanted.subject or "").split()[:MAX_WORDS]:
        tests["subject"] = having("subject", words)
    if wanted.sender is not None:
        column = "sender" if is_address(wanted.sender) else "sender_domain"
        tests[column] = Test(f"{column} = {{}}", (sought(wanted.sender),))
    return tests


def _since(wanted: HeldFilter) -> Test:
    since = 0 if wanted.since is None else wanted.since
    return Test("kept >= {} AND kept < {}", (since, scanning.END[0] if wanted.until is None else wanted.until))
