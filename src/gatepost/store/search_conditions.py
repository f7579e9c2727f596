"""What a search asks of messages: filters, as conditions on narrow rows, and compared with whole records.

A filter is a set of conditions that must all hold, one for each field; an index leads to the rows of some of them. The
rest of an expression of the language (`search_language`) is a condition of its own, tested in each row that is read.
Every term is one or several filters with few fields, so that a term means the same wherever it stands.

Narrow rows know evidence by digests, and of some messages not at all. So a condition has two forms: what *may* be true
by the row, and what *must* be. `NOT` turns one into the other. A search reads rows that may fit, and then compares
their records; a count counts those that must.

Rows of messages on record and of held mail have the same names of columns, but for the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from gatepost.lists.links import split_url
from gatepost.near_duplicates import Signature, is_near_duplicate
from gatepost.store.engine import storable
from gatepost.store.evidence import Evidence, digest, has_evidence, without_digits
from gatepost.store.message_index import (
    Term,
    domain_of,
    fits_record,
    fold,
    fold_address,
    match_digests,
    match_subject,
    match_texts,
    parse_term,
)
from gatepost.store.paging import MAX_WORDS, SqlCondition, contains_all
from gatepost.store.record_packing import Detail
from gatepost.store.search_language import Both, Either, Expression, Leaf, Negated, conjuncts, leaves

# Terms of an expression that only the store writes: the text of a message, the form of its subject, and some ids.
TEXT, SHAPE = "~text", "~shape"
# A row that is compared with more values than this counts for more than one.
CHEAP_VALUES = 12
# The columns that conditions are on, besides the time.
TESTED = tuple("tenant verdict decision score sender_domain sender subject recipients tags evidence".split())


class MessageFilter(msgspec.Struct, frozen=True):
    """Which results to show. A field that is None does not matter; `tenant` None is all tenants.

    Sender and recipient are an address, a domain (`example.org` or `@example.org`), or a part of an address (no dot in
    it, or a `*` around it: `*example*`). `tag` is one tag, or all of an area (`rule:`). `subject` is words that must
    all occur, `phrase` a text that must. Times are `since` <= completed < `until`, points `score` <= score < `below`.
    `anywhere` is a text for which a message fits in whatever way it can mean it (`message_index.Term`). `next_hop_id`
    is the id that a next hop gave the message. `ggrid` is a whole id or at least eight digits of its beginning. `link`
    is the beginning of a link, `signature` that of a text whose near-copies are wanted, `shape` a subject without its
    digits; these three are compared with records. `query` is all else that must hold.
    """

    tenant: str | None = None
    since: int | None = None
    until: int | None = None
    sender: str | None = None
    recipient: str | None = None
    subject: str | None = None
    verdict: str | None = None
    decision: str | None = None
    tag: str | None = None
    ggrid: str | None = None
    evidence: Evidence = Evidence()
    anywhere: str | None = None
    next_hop_id: str | None = None
    phrase: str | None = None
    score: int | None = None
    below: int | None = None
    link: str | None = None
    signature: Signature | None = None
    shape: str | None = None
    query: Expression | None = None


class AddressPattern(msgspec.Struct, frozen=True):
    """An address to search for: whole, by domain, or by a part."""

    kind: Literal["address", "domain", "part"]
    text: str


class TextCondition(SqlCondition, frozen=True):
    """A condition on those texts of a narrow row that lie in a table of their own for held mail."""


class RowSource(msgspec.Struct, frozen=True):
    """Narrow rows: the column of their time, the points as a value, and the tests that a row, which is called `looked`,
    has a whole recipient, however many there are, and that its id begins so. How an id of a message on record begins is
    never tested in a row: an index leads to it, and a second one contradicts it.
    `has_texts` is the test that texts in a table of their own fit, which is read once; "" where a row comes with its
    texts."""

    time: str
    score: str
    has_recipient: str
    has_id: str
    has_texts: str = ""


MESSAGE_ROWS = RowSource(
    "completed",
    # Rows that are older than the column have none.
    """coalesce(score, (SELECT m.score FROM messages AS m
    WHERE m.id = looked.id AND @day(m.completed) = looked.completed))""",
    """EXISTS (SELECT 1 FROM message_recipients AS r WHERE r.address = {}
    AND r.completed = looked.completed AND r.id = looked.id)""",
    "{} = ''",
)
HELD_ROWS = RowSource(
    "kept",
    "score",
    "looked.ggrid IN (SELECT r.ggrid FROM held_recipients AS r WHERE r.address = {})",
    # An id begins so: there is no "|" in it.
    "@holds('|' || looked.ggrid, '|' || {})",
)

# The same rows without their texts.
HELD_ROWS_ALONE = msgspec.structs.replace(
    HELD_ROWS, has_texts="looked.ggrid IN (SELECT t.ggrid FROM held_search AS t WHERE {})"
)

F = TypeVar("F", bound=msgspec.Struct)
_NOTHING = MessageFilter()


class RecordFacts(msgspec.Struct, frozen=True):
    """A record, and when it came."""

    ggrid: str
    time: int
    detail: Detail


def parse_address(text: str | None) -> AddressPattern | None:
    """Whether a text in a search is an address, a domain or a part of an address."""
    if text is None:
        return None
    plain = fold_address(text)
    if "*" in plain:
        return AddressPattern("part", plain.strip("*"))
    if not plain or "@" in plain.strip("@"):
        return AddressPattern("address", plain)
    if plain.startswith("@") or ("." in plain and not plain.endswith("@")):
        return AddressPattern("domain", plain.strip("@."))
    return AddressPattern("part", plain)


def shape_of(subject: str) -> str:
    """A subject as copies of a campaign share it: folded, without digits and without blanks at its ends."""
    return without_digits(fold(subject[:200]))


def row_tests(wanted: MessageFilter, source: RowSource, *, exact: bool = False) -> dict[str, SqlCondition]:
    """The condition on each column for the fields of a filter that have one; with `exact`, rows whose evidence is only
    in the record do not count."""
    tests: dict[str, SqlCondition] = {}
    for column in ("tenant", "verdict"):
        if (value := getattr(wanted, column)) is not None:
            tests[column] = SqlCondition(f"{column} = {{}}", (storable(value.lower()),))
    if wanted.decision is not None:
        tests["decision"] = TextCondition("decision = {}", (storable(wanted.decision.lower()),))
    if wanted.tag is not None:
        end = "" if wanted.tag.endswith(":") else "\n"
        tests["tags"] = _of_texts(contains_all("tags", [f"\n{storable(wanted.tag)}{end}"]))
    if sender := parse_address(wanted.sender):
        tests |= _sender_tests(sender)
    if recipient := parse_address(wanted.recipient):
        tests["recipients"] = _recipient_test(recipient, source)
    if texts := [*fold(wanted.subject or "").split()[:MAX_WORDS], *([fold(wanted.phrase)] if wanted.phrase else ())]:
        tests["subject"] = contains_all("subject", texts)
    if wanted.score is not None or wanted.below is not None:
        tests["score"] = _score_test(wanted, source)
    if evidence := _evidence_test(wanted, exact=exact):
        tests["evidence"] = evidence
    return tests


def _of_texts(condition: SqlCondition) -> TextCondition:
    return TextCondition(condition.sql, condition.values)


def _sender_tests(sender: AddressPattern) -> dict[str, SqlCondition]:
    if sender.kind == "part":
        return {"sender": _of_texts(contains_all("sender", [sender.text]))}
    if sender.kind == "domain":
        return {"sender_domain": TextCondition("sender_domain = {}", (sender.text,))}
    return {"sender": TextCondition("sender = {}", (sender.text,))}


def _recipient_test(recipient: AddressPattern, source: RowSource) -> SqlCondition:
    if recipient.kind == "address":
        return SqlCondition(source.has_recipient, (recipient.text,))
    text = f"@{recipient.text}\n" if recipient.kind == "domain" else recipient.text
    return _of_texts(contains_all("recipients", [text]))


def _score_test(wanted: MessageFilter, source: RowSource) -> SqlCondition:
    bounds = ((">=", wanted.score), ("<", wanted.below))
    stated = [(sign, value) for sign, value in bounds if value is not None]
    tests = " AND ".join(f"{source.score} {sign} {{}}" for sign, _ in stated)
    return SqlCondition(tests, tuple(value for _, value in stated))


def _evidence_test(wanted: MessageFilter, *, exact: bool) -> SqlCondition | None:
    tests = [found] if (found := match_digests(wanted.evidence)) else []
    if wanted.signature:
        marks = [digest("text", str(each)) for each in wanted.signature]
        tests.append(SqlCondition(f"({' OR '.join(['@holds(evidence, {})'] * len(marks))})", tuple(marks)))
    if not tests:
        return None
    sql = " AND ".join(f"({each.sql})" for each in tests)
    known = f"evidence IS NOT NULL AND {sql}" if exact else f"(evidence IS NULL OR ({sql}))"
    return TextCondition(known, tuple(value for each in tests for value in each.values))


def _join(conditions: Sequence[SqlCondition], word: str, source: RowSource) -> SqlCondition:
    texts = [each for each in conditions if isinstance(each, TextCondition)]
    if source.has_texts and 0 < len(texts) < len(conditions):
        # All conditions on texts are one, so that their table is read once.
        others = [each for each in conditions if not isinstance(each, TextCondition)]
        conditions, texts = [*others, _test_texts(_join(texts, word, source), source)], []
    if len(conditions) == 1:
        return conditions[0]
    # In parentheses: others are joined to it with AND.
    joined = word.join(f"({each.sql})" for each in conditions)
    values = tuple(value for each in conditions for value in each.values)
    return (TextCondition if texts and len(texts) == len(conditions) else SqlCondition)(f"({joined})", values)


def _test_texts(condition: SqlCondition, source: RowSource) -> SqlCondition:
    """The condition as a test of rows that come without their texts."""
    if not source.has_texts or not isinstance(condition, TextCondition):
        return condition
    return SqlCondition(source.has_texts.replace("{}", condition.sql, 1), condition.values)


def join_tests(conditions: Sequence[SqlCondition], source: RowSource) -> SqlCondition:
    """The condition that all of these hold, as a test of the rows of a source."""
    return _test_texts(_join(conditions, " AND ", source), source)


def row_condition(expression: Expression, source: RowSource, *, exact: bool = False) -> SqlCondition:
    """The condition on a narrow row for an expression: what may fit, or with `exact` what must."""
    if isinstance(expression, Leaf):
        return _join([_meaning_condition(each, source, exact=exact) for each in meanings(expression)], " OR ", source)
    if isinstance(expression, Negated):
        inner = row_condition(expression.part, source, exact=not exact)
        # A column without a value is not what was asked for.
        return type(inner)(f"NOT coalesce(({inner.sql}), false)", inner.values)
    if not expression.parts:
        return SqlCondition("1 = 1", ())
    word = " AND " if isinstance(expression, Both) else " OR "
    return _join([row_condition(part, source, exact=exact) for part in expression.parts], word, source)


def _meaning_condition(wanted: MessageFilter, source: RowSource, *, exact: bool) -> SqlCondition:
    if exact and (wanted.link or wanted.signature or wanted.shape):
        return SqlCondition("1 = 0", ())
    tests = list(row_tests(wanted, source, exact=exact).values())
    if wanted.since is not None or wanted.until is not None:
        bounds = ((">=", wanted.since), ("<", wanted.until))
        tests += [SqlCondition(f"{source.time} {sign} {{}}", (value,)) for sign, value in bounds if value is not None]
    if other_id := wanted.ggrid or wanted.next_hop_id:
        tests.append(SqlCondition(source.has_id, (other_id,)))
    if wanted.shape:
        tests.append(contains_all("subject", sorted(wanted.shape.split(), key=len)[-MAX_WORDS:]))
    if wanted.anywhere:
        tests.append(word_condition(storable(wanted.anywhere), source, exact=exact))
    return _join(tests, " AND ", source) if tests else SqlCondition("1 = 1", ())


def word_condition(text: str, source: RowSource, *, exact: bool = False) -> SqlCondition:
    """The condition on a narrow row for a text that fits in whatever way it can be meant."""
    term = parse_term(text)
    texts, subject = match_texts(term, exact=exact), match_subject(term)
    conditions = [*([_of_texts(texts)] if texts else ()), *([subject] if subject else ())]
    if term.address or term.domain:
        conditions += _sender_tests(parse_address(term.address or term.domain) or AddressPattern("part", "")).values()
    if term.address:
        conditions.append(SqlCondition(source.has_recipient, (term.address,)))
    if begun := term.ggrid or term.id_prefix:
        conditions.append(SqlCondition(source.has_id, (begun,)))
    return _join(conditions, " OR ", source) if conditions else SqlCondition("1 = 0", ())


def meanings(leaf: Leaf) -> tuple[MessageFilter, ...]:
    """What a term asks for; a message fits if it has one of these."""
    value, field = leaf.value, leaf.field
    if field in _PLAIN:
        return (msgspec.structs.replace(_NOTHING, **{_PLAIN[field]: value}),)
    if field in _EVIDENCE:
        return (MessageFilter(evidence=msgspec.structs.replace(Evidence(), **{_EVIDENCE[field]: value})),)
    return _MEANINGS[field](leaf)


def _mean_domain(leaf: Leaf) -> tuple[MessageFilter, ...]:
    name = leaf.value.removeprefix("@").removeprefix("*.")
    dotted = name if "." in name else f"{name}."
    return (MessageFilter(evidence=Evidence(header_from=dotted)), MessageFilter(sender=f"@{name}"))


def _mean_host(leaf: Leaf) -> tuple[MessageFilter, ...]:
    host = leaf.value.removeprefix("*.")
    parts = split_url(host) if "." in host else None
    linked = MessageFilter(evidence=Evidence(link_host=parts[0] if parts else host))
    is_address = host.replace(".", "").isdigit() or ":" in host
    return (linked, MessageFilter(evidence=Evidence(remote_address=host))) if is_address else (linked,)


def _mean_link(leaf: Leaf) -> tuple[MessageFilter, ...]:
    parts = split_url(leaf.value)
    host = parts[0] if parts else leaf.value
    return (MessageFilter(evidence=Evidence(link_host=host), link=leaf.value if parts and parts[2] else None),)


def _mean_score(leaf: Leaf) -> tuple[MessageFilter, ...]:
    points = int(leaf.value)
    if leaf.operator in (">", ">="):
        return (MessageFilter(score=points + (leaf.operator == ">")),)
    return (MessageFilter(below=points + (leaf.operator == "<=")),)


_PLAIN = {
    "to": "recipient",
    "sender": "sender",
    "tag": "tag",
    "verdict": "verdict",
    "decision": "decision",
    "tenant": "tenant",
    "id": "ggrid",
    "next-hop": "next_hop_id",
    "": "anywhere",
    SHAPE: "shape",
}
_EVIDENCE = {
    "file": "file_name",
    "sha256": "file_hash",
    "ip": "remote_address",
    "message-id": "message_id",
    "queue": "queue_id",
}
_MEANINGS: dict[str, Callable[[Leaf], tuple[MessageFilter, ...]]] = {
    "from": lambda leaf: (MessageFilter(evidence=Evidence(header_from=leaf.value)), MessageFilter(sender=leaf.value)),
    "domain": _mean_domain,
    "host": _mean_host,
    "url": _mean_link,
    "score": _mean_score,
    "subject": lambda leaf: (MessageFilter(phrase=leaf.value),),
    "after": lambda leaf: (MessageFilter(since=int(leaf.value)),),
    "before": lambda leaf: (MessageFilter(until=int(leaf.value)),),
    "state": lambda _leaf: (_NOTHING,),
    # A campaign that was not looked up, or whose message nothing is joined to, has no messages.
    "campaign": lambda _leaf: (MessageFilter(score=1, below=0),),
    TEXT: lambda leaf: (MessageFilter(signature=tuple(map(int, leaf.value.split()))),),
}


def needs_record(expression: Expression | None) -> bool:
    """Does an expression ask for something that rows know only nearly?"""
    found = (each for leaf in leaves(expression or Both()) for each in meanings(leaf))
    return any(
        each.evidence.wanted or each.link or each.signature or each.shape or parse_term(each.anywhere or "").values
        for each in found
    )


def has_content(wanted: msgspec.Struct) -> bool:
    """Does a filter ask for something that only records can tell, such as the path of a link?"""
    query: Expression | None = getattr(wanted, "query", None)
    stated = (*(each for leaf in leaves(query or Both()) for each in meanings(leaf)), wanted)
    return any(getattr(each, name, None) for each in stated for name in ("link", "signature", "shape"))


def reach_of(condition: SqlCondition, cheap: int = CHEAP_VALUES) -> float:
    """How far a search goes whose rows are compared with so many values: the work stays the same."""
    return min(1.0, cheap / max(1, len(condition.values)))


def hoist(wanted: F) -> F:
    """Return a filter with those terms of its query in its own fields, which an index can lead to, that hold for the
    whole search. A word is among them where it is the only one; `query` has what is left."""
    query: Expression | None = getattr(wanted, "query", None)
    if query is None:
        return wanted
    parts = conjuncts(query)
    words = sum(isinstance(part, Leaf) and not part.field for part in parts)
    rest: list[Expression] = []
    for part in parts:
        merged = _merge(wanted, part) if isinstance(part, Leaf) and (part.field or words == 1) else None
        if merged is None:
            rest.append(part)
        else:
            wanted = merged
    return msgspec.structs.replace(wanted, query=Both(tuple(rest)) if rest else None)


def _merge(wanted: F, leaf: Leaf) -> F | None:
    """The filter with the term in its fields; None where they have something else, or there is no such field."""
    meant = meanings(leaf)
    if len(meant) != 1:
        return None
    changes: dict[str, object] = {}
    for name in MessageFilter.__struct_fields__:
        value = getattr(meant[0], name)
        if value == getattr(_NOTHING, name):
            continue
        if name not in wanted.__struct_fields__ or not _fits_index(wanted, name, value):
            return None
        before = getattr(wanted, name)
        if name == "evidence":
            merged = _merge_evidence(before, value)
            if merged is None:
                return None
            changes[name] = merged
        elif before is None or before == value:
            changes[name] = value
        elif name in ("since", "score", "until", "below"):
            changes[name] = (max if name in ("since", "score") else min)(before, value)
        else:
            return None
    return msgspec.structs.replace(wanted, **changes)


def _fits_index(wanted: msgspec.Struct, name: str, value: object) -> bool:
    """Held mail is led to by whole addresses and domains alone, never by parts."""
    is_held = "next_hop_id" not in wanted.__struct_fields__
    if not is_held or name not in ("sender", "recipient"):
        return True
    pattern = parse_address(str(value))
    return pattern is not None and pattern.kind != "part"


def _merge_evidence(before: Evidence, added: Evidence) -> Evidence | None:
    stated = {name: value for name in Evidence.__struct_fields__ if (value := getattr(added, name)) is not None}
    if any(getattr(before, name) not in (None, value) for name, value in stated.items()):
        return None
    return msgspec.structs.replace(before, **stated)


def expand_campaigns(expression: Expression, records: Mapping[str, Detail]) -> Expression:
    """Return an expression with what joins the messages of a campaign in place of its message: a text that is nearly
    the same, a file, or the same subject (but for digits) from the same sender or with links to the same host."""
    if isinstance(expression, Leaf):
        known = records.get(expression.value) if expression.field == "campaign" else None
        joints = tuple(_list_joints(known)) if known else ()
        return Either(joints) if joints else expression
    if isinstance(expression, Negated):
        return Negated(expand_campaigns(expression.part, records))
    parts = tuple(expand_campaigns(part, records) for part in expression.parts)
    return Both(parts) if isinstance(expression, Both) else Either(parts)


# What may join the messages of a campaign: files of these kinds are in all mail of a company, and so join nothing.
_COMMON_FILES = frozenset({"text", "html", "png", "jpeg", "gif", "webp", "bmp", "svg", "calendar", "vcard", "css"})
MAX_JOINING = 5


def _list_joints(detail: Detail) -> Iterator[Expression]:
    """Yield what joins other messages to this one."""
    report = detail.report
    if report.signature:
        yield Leaf(TEXT, " ".join(map(str, report.signature)))
    files = [file.sha256 for file in report.files if file.type not in _COMMON_FILES and file.sha256]
    if files:
        yield Either(tuple(Leaf("sha256", each) for each in dict.fromkeys(files[:MAX_JOINING])))
    shape = shape_of(report.subject)
    hosts = dict.fromkeys(
        parts[0] for each in report.subjects if each.role == "link" and (parts := split_url(each.value))
    )
    senders = report.senders[:1] or ((detail.envelope.sender,) if detail.envelope.sender else ())
    beside = [*(Leaf("host", host) for host in list(hosts)[:MAX_JOINING]), *(Leaf("from", each) for each in senders)]
    if shape and beside:
        yield Both((Leaf(SHAPE, shape), Either(tuple(beside))))


def fits(expression: Expression, facts: RecordFacts) -> bool:
    """Whether a record is what an expression asks for."""
    if isinstance(expression, Leaf):
        return any(fits_filter(each, facts) for each in meanings(expression))
    if isinstance(expression, Negated):
        return not fits(expression.part, facts)
    if isinstance(expression, Either):
        return any(fits(part, facts) for part in expression.parts)
    return all(fits(part, facts) for part in expression.parts)


def fits_filter(wanted: MessageFilter, facts: RecordFacts) -> bool:
    """Whether a record has what the fields of a filter ask for."""
    return all(_compare(wanted, facts))


def _compare(wanted: MessageFilter, facts: RecordFacts) -> Iterator[bool]:
    detail = facts.detail
    envelope = detail.envelope
    if wanted.tenant is not None:
        yield (envelope.tenant or "") == wanted.tenant.lower()
    if wanted.sender is not None:
        yield _has_address(wanted.sender, (envelope.sender,))
    if wanted.recipient is not None:
        yield _has_address(wanted.recipient, envelope.recipients)
    if wanted.since is not None:
        yield facts.time >= wanted.since
    if wanted.until is not None:
        yield facts.time < wanted.until
    if wanted.ggrid is not None:
        yield facts.ggrid.startswith(wanted.ggrid)
    yield has_evidence(detail, wanted.evidence)
    yield from _compare_result(wanted, detail)
    yield from _compare_content(wanted, detail)


def _compare_result(wanted: MessageFilter, detail: Detail) -> Iterator[bool]:
    report = detail.report
    if wanted.verdict is not None:
        yield report.verdict == wanted.verdict
    if wanted.decision is not None:
        yield report.decision == wanted.decision
    if wanted.tag is not None:
        tags = (*report.tags, "trial") if detail.source == "page" else report.tags
        yield any(tag.startswith(wanted.tag) for tag in tags) if wanted.tag.endswith(":") else wanted.tag in tags
    if wanted.subject is not None or wanted.phrase is not None:
        subject = fold(report.subject)
        yield all(word in subject for word in (*fold(wanted.subject or "").split(), fold(wanted.phrase or "")))
    if wanted.score is not None:
        yield report.score >= wanted.score
    if wanted.below is not None:
        yield report.score < wanted.below


def _compare_content(wanted: MessageFilter, detail: Detail) -> Iterator[bool]:
    report = detail.report
    if wanted.link is not None:
        yield _has_link(wanted.link, [each.value for each in report.subjects if each.role == "link"])
    if wanted.signature is not None:
        yield is_near_duplicate(wanted.signature, report.signature)
    if wanted.shape is not None:
        yield shape_of(report.subject) == wanted.shape
    if wanted.anywhere is not None:
        yield fits_word(parse_term(wanted.anywhere), detail)


def fits_word(term: Term, detail: Detail) -> bool:
    """Whether a record fits a text in one of its meanings."""
    envelope = detail.envelope
    sender = fold_address(envelope.sender)
    if term.address and (term.address == sender or term.address in map(fold_address, envelope.recipients)):
        return True
    return bool(term.domain and term.domain == domain_of(sender)) or fits_record(term, detail)


def _has_address(text: str, addresses: Sequence[str]) -> bool:
    pattern = parse_address(text)
    found = map(fold_address, addresses)
    if pattern is None:
        return True
    if pattern.kind == "domain":
        return any(domain_of(each) == pattern.text for each in found)
    return any(pattern.text == each if pattern.kind == "address" else pattern.text in each for each in found)


def _has_link(beginning: str, links: Sequence[str]) -> bool:
    wanted = split_url(beginning)
    if wanted is None:
        return False
    for link in links:
        parts = split_url(link)
        if parts and (parts[0] == wanted[0] or parts[0].endswith(f".{wanted[0]}")) and parts[2].startswith(wanted[2]):
            return True
    return False


def prepare_filter(wanted: F) -> F:
    """Return a filter as it is planned, with terms of its query in its fields; an id is a text with one meaning."""
    return hoist(make_storable(wanted))


def make_storable(wanted: F) -> F:
    """Return a filter with texts that both engines can take; no message has others."""
    texts = {name: text for name in wanted.__struct_fields__ if isinstance(text := getattr(wanted, name), str)}
    evidence: Evidence = getattr(wanted, "evidence", Evidence())
    inner = {name: text for name in evidence.__struct_fields__ if isinstance(text := getattr(evidence, name), str)}
    evidence = msgspec.structs.replace(evidence, **{name: storable(text) for name, text in inner.items()})
    return msgspec.structs.replace(wanted, evidence=evidence, **{name: storable(text) for name, text in texts.items()})
