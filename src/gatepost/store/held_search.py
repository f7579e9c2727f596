"""Which index serves a search of held mail.

Without a sender or recipient, held mail is read in the order in which it came, in an index that has all columns that
filters ask for. A sender or recipient has an index of its own, in the order of ids, which is that of arrival.
"""

import msgspec

from gatepost.ids import canonical
from gatepost.store.engine import Read, Work, storable
from gatepost.store.message_index import Evidence, Term, fits_record, fold, has_evidence
from gatepost.store.message_records import MessageRecord
from gatepost.store.paging import END, MAX_WORDS, PageQuery, SqlCondition, contains_all, key_range

# What an index of PostgreSQL takes: 2,704 bytes for all of its columns together.
MAX_ADDRESS = 500

_AT_OR_BEFORE = "SELECT kept, ggrid FROM held WHERE ggrid <= $1 ORDER BY ggrid DESC LIMIT 1"
# Once for each message, however many of its recipients have the domain.
_FIRST_OF_DOMAIN = SqlCondition(
    """NOT EXISTS (SELECT 1 FROM held_recipients AS other
    WHERE other.ggrid = r.ggrid AND other.domain = r.domain AND other.address < r.address)""",
    (),
)
_RECIPIENTS_AND_HELD = "held_recipients AS r CROSS JOIN held AS h"
# Each row is read from three places.
_JOINED_REACH = 0.2
_JOINED = SqlCondition("h.ggrid = r.ggrid", ())


class HeldFilter(msgspec.Struct, frozen=True):
    """Which held mail to show. A field that is None does not matter. Sender and recipient are an address or a domain,
    `subject` is words that must all occur, `score` the lowest one; `released` shows released messages instead of held
    ones, `deleted` those whose deletion can be taken back. Times are `since` <= kept < `until`. `evidence` is compared
    with the records themselves, and so is `anywhere` (`message_index.Term`)."""

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

    @property
    def gone(self) -> int:
        """The value of the column of that name."""
        return 2 if self.deleted else int(self.released)


def plan_search(wanted: HeldFilter, before: str | None) -> Work[PageQuery]:
    """How to find a page of held mail; `before` is a cursor or the ggrid of the last message seen."""
    if not _is_by_time(wanted):
        return _plan(wanted, (), (storable(before.lower()),) if before else ())
    start = () if wanted.since is None else (wanted.since,)
    return _plan(wanted, start, (yield from _end_of_range(before, wanted.until)))


def plan_newer(wanted: HeldFilter, kept: int, ggrid: str) -> PageQuery:
    """How to find the held messages that came after one, oldest first; the key of the rows ends with the ggrid."""
    # Any suffix sorts behind the id of the message itself.
    behind = f"{storable(ggrid)}~"
    if _is_by_time(wanted):
        plan = _plan(wanted, (kept, behind), () if wanted.until is None else (wanted.until,))
    else:
        plan = _plan(wanted, (behind,), ())
    return msgspec.structs.replace(plan, descending=False)


def plan_by_id(wanted: HeldFilter, start: str, before: str | None) -> PageQuery:
    """How to find held mail whose ids begin so, or that has this id; a recipient is none of its conditions."""
    tests = _tests(wanted) | _state_tests(wanted)
    end = min(f"{start}~", storable(before.lower()) if before else "~")
    within = key_range({}, ("ggrid",), (start,), (end,))
    return PageQuery("held", ("ggrid",), within, tuple(tests.values()), tuple(tests))


def _is_by_time(wanted: HeldFilter) -> bool:
    """Whether held mail is read in the order in which it came, by time and ggrid, instead of by ggrid alone."""
    return wanted.sender is None and wanted.recipient is None


def _plan(wanted: HeldFilter, start: tuple[object, ...], end: tuple[object, ...]) -> PageQuery:
    """How to find held mail whose key is between two others."""
    tests = _tests(wanted)
    order: tuple[str, ...] = ("ggrid",)
    if wanted.recipient is not None:
        return _plan_by_recipient(wanted.recipient, start, end, tests | _state_tests(wanted))
    if wanted.sender is not None:
        column = "sender" if _is_address(wanted.sender) else "sender_domain"
        lead: dict[str, object] = {column: tests.pop(column).values[0]}
        tests |= _state_tests(wanted)
    else:
        lead, order = {"gone": wanted.gone}, ("kept", "ggrid")
        if "tenant" in tests:
            lead["tenant"] = tests.pop("tenant").values[0]
    within = key_range(lead, order, start, end)
    return PageQuery("held", order, within, tuple(tests.values()), tuple(tests), tuple(lead))


def _plan_by_recipient(
    recipient: str, start: tuple[object, ...], end: tuple[object, ...], tests: dict[str, SqlCondition]
) -> PageQuery:
    column = "r.address" if _is_address(recipient) else "r.domain"
    lead = {column: _normalize_pattern(recipient)}
    within = [*key_range(lead, ("r.ggrid",), start, end), _JOINED]
    if column == "r.domain":
        within.append(_FIRST_OF_DOMAIN)
    tested = [f"h.{name}" for name in tests]
    return PageQuery(
        _RECIPIENTS_AND_HELD, ("r.ggrid",), within, tuple(tests.values()), tested, tuple(lead), reach=_JOINED_REACH
    )


def normalize_address(address: str) -> str:
    """An address as it is compared and stored for searching."""
    return storable(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">").lower())


def _end_of_range(before: str | None, until: int | None) -> Work[tuple[int, str]]:
    """The key (time and ggrid) before which the page begins: the earlier of a cursor and `until`."""
    latest = (END[0] if until is None else until, "")
    kept, _, ggrid = (before or "").partition(".")
    if kept.isdecimal() and len(kept) < 19:
        return min((int(kept), storable(ggrid)), latest)
    uid = canonical(before or "")
    if uid is None:
        return latest
    rows = yield Read(_AT_OR_BEFORE, (uid,))
    if not rows:
        return (-1, "")
    # Where the message itself is gone, the page begins with the next older one: any suffix sorts behind its id.
    return min((rows[0][0], uid if rows[0][1] == uid else f"{rows[0][1]}~"), latest)


def _tests(wanted: HeldFilter) -> dict[str, SqlCondition]:
    """The condition on each column."""
    tests: dict[str, SqlCondition] = {}
    if wanted.tenant is not None:
        tests["tenant"] = SqlCondition("tenant = {}", (storable(wanted.tenant.lower()),))
    if wanted.verdict is not None:
        tests["verdict"] = SqlCondition("verdict = {}", (storable(wanted.verdict),))
    if wanted.score is not None:
        tests["score"] = SqlCondition("score >= {}", (wanted.score,))
    if words := fold(wanted.subject or "").split()[:MAX_WORDS]:
        tests["subject"] = contains_all("subject", words)
    if wanted.sender is not None:
        column = "sender" if _is_address(wanted.sender) else "sender_domain"
        tests[column] = SqlCondition(f"{column} = {{}}", (_normalize_pattern(wanted.sender),))
    return tests


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


def has_wanted(record: MessageRecord, evidence: Evidence, term: Term | None) -> bool:
    """Whether a message has the evidence, and fits the text in one of its meanings."""
    envelope = record.envelope
    if not has_evidence(record.detail, evidence):
        return False
    if term is None or term.ggrid:
        return term is None or term.ggrid == record.ggrid
    if term.id_prefix and record.ggrid.startswith(term.id_prefix):
        return True
    addresses = map(normalize_address, (envelope.sender, *envelope.recipients))
    if term.address and term.address in addresses:
        return True
    return fits_record(term, record.detail)
