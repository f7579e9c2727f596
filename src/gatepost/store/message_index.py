"""The index of messages: a narrow row beside each record and a row for each recipient; and what can be searched for.

A record is kilobytes long, and reading through a hundred thousand of them would read gigabytes. The narrow row has what
filters ask for, folded and cut: a subject of 250 characters, 20 recipients and the domains of the others. Whole
addresses of all recipients have an index of their own, because "where is my mail?" is asked most. Messages that were
stored by a version without a search are indexed afterwards, in small steps, from the newest on.

A term is a text in the one search field, and what it can mean: an id of a message here, or of a queue before or behind,
an address, a domain, a tag, a link, a file, or words. People paste whatever they have been told. So a text is taken for
everything that it can be, and a message fits if one of the meanings does: `report.example` is a domain of senders,
recipients and links, and may be the name of a file.
"""

import re
from collections.abc import Iterable, Sequence
from string import hexdigits
from typing import Any, TypeAlias

import apsw
import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.lists.entries import refang
from gatepost.lists.links import split_url
from gatepost.names import normal_domain
from gatepost.store import traffic
from gatepost.store.engine import Read, Work, Write, storable
from gatepost.store.evidence import Evidence, EvidenceKind, digest, from_values, has_any_evidence
from gatepost.store.paging import MAX_WORDS, SqlCondition, contains_all
from gatepost.store.record_packing import Detail
from gatepost.store.search_language import is_ip_address
from gatepost.store.sql import Row, delete_many, insert_many, sql

# How much of a name or an id is compared.
MAX_TEXT = 500
MAX_TERM = 500
MAX_ADDRESS = 254
_HOST = re.compile(r"(?:[\w-]{1,63}\.)+[\w-]{2,63}\.?")
# A label of a host that is long enough to mean one (RFC 1035 section 2.3.4).
_LABEL = re.compile(r"[\w-]{3,63}")
_TAG = re.compile(r"[a-z][a-z0-9-]{1,30}:[a-z0-9][a-z0-9.-]{0,100}", re.ASCII)
_QUEUE_ID = re.compile(r"[A-Za-z0-9][\w.+/=-]{4,99}", re.ASCII)
_SCHEME = re.compile(r"(?:h(?:tt|xx)ps?|ftp)://", re.IGNORECASE)
MAX_SUBJECT = 250
MAX_TAGS = 40
MAX_TESTED_RECIPIENTS = 20
MAX_RECIPIENTS = 1_000
STEP = 500
# The first of the columns that have texts of the message.
FIRST_TEXT = 6
COLUMNS = tuple(
    "completed id tenant verdict decision score sender_domain sender subject recipients tags evidence".split()
)
_INSERT = insert_many("message_search", ", ".join(COLUMNS))
_INSERT_RECIPIENTS = insert_many("message_recipients", "address, completed, id")
_DELETE = delete_many("message_search", "completed, id")
_DELETE_RECIPIENTS = delete_many("message_recipients", "address, completed, id")
_UNINDEXED = sql("SELECT upto FROM unsearched @lock(UPDATE)")
_OLD_MESSAGES = sql("""SELECT id, created, completed, score,
tenant, verdict, decision, sender, recipients, subject, tags, size
FROM messages WHERE id <= $1 ORDER BY id DESC LIMIT $2 @lock(UPDATE)""")
_SET_UNINDEXED = sql("UPDATE unsearched SET upto = $1")
_ALL_INDEXED = sql("DELETE FROM unsearched")
_strings = msgspec.json.Decoder(tuple[str, ...])


def fold(text: str) -> str:
    """Text as it is compared."""
    return storable(text if text.isascii() and text.islower() else text.casefold())


def fold_address(address: str) -> str:
    """An address as it is compared."""
    # Folding can make text longer.
    return fold(address[:MAX_ADDRESS].strip().removeprefix("<").removesuffix(">"))[:MAX_ADDRESS]


def domain_of(address: str) -> str:
    """The domain of an address that is folded already; "" where there is none."""
    return address.rpartition("@")[2].rstrip(".") if "@" in address else ""


def match_digests(evidence: Evidence) -> SqlCondition | None:
    """The condition on narrow rows that have digests; None where no evidence matters."""
    digests = [digest(kind, value) for kind, value in evidence.wanted]
    if not digests:
        return None
    return SqlCondition(" AND ".join(["@holds(evidence, {})"] * len(digests)), tuple(digests))


def match_any_digest(values: Sequence[tuple[EvidenceKind, str]]) -> SqlCondition:
    """The condition on narrow rows that have one of these values, or all words of the display name."""
    words = [digest(*each) for each in values if each[0] == "word"]
    others = [digest(*each) for each in values if each[0] != "word"]
    parts = ["@holds(evidence, {})"] * len(others)
    if words:
        parts.append("(" + " AND ".join(["@holds(evidence, {})"] * len(words)) + ")")
    return SqlCondition(f"({' OR '.join(parts)})", (*others, *words))


class Term(msgspec.Struct, frozen=True):
    """The meanings of a text, folded; those that it cannot have are None or empty. `values` are evidence, `words` must
    all occur in a subject, `part` is a part of an address, `next_id` an id as a next hop gave it to a message. Messages
    whose ids begin with `id_prefix` come alone where there are any: whoever types so much of an id means it."""

    ggrid: str | None = None
    address: str | None = None
    domain: str | None = None
    tag: str | None = None
    part: str | None = None
    words: tuple[str, ...] = ()
    values: tuple[tuple[EvidenceKind, str], ...] = ()
    next_id: str | None = None
    id_prefix: str | None = None


def parse_term(text: str) -> Term:
    """Return what a text can mean."""
    plain = text[:MAX_TERM].strip().strip("\u2068\u2069")
    if ggrid := canonical(plain):
        return Term(ggrid=ggrid)
    folded = plain.casefold()
    if len(plain) == 64 and all(character in hexdigits for character in plain):
        return Term(values=Evidence(file_hash=plain).wanted)
    if is_ip_address(plain.strip("[]")):
        return Term(values=Evidence(remote_address=plain).wanted)
    if _SCHEME.match(plain) and (parts := split_url(refang(plain))):
        return Term(values=Evidence(link_host=parts[0]).wanted)
    if _TAG.fullmatch(plain):
        return Term(tag=plain, words=(folded,))
    words = tuple(folded.split()[:MAX_WORDS])
    known = refang(folded)
    if "@" in known.strip("@<>") and " " not in known:
        address = known.removeprefix("<").removesuffix(">")
        values = (*from_values(address), *Evidence(message_id=plain, file_name=plain).wanted)
        return Term(address=address, words=words, values=values)
    host = known.removeprefix("@").removeprefix("*.")
    queue_id = plain if _QUEUE_ID.fullmatch(plain) else None
    others = Evidence(file_name=plain, message_id=plain, queue_id=queue_id).wanted if plain else ()
    if _HOST.fullmatch(host):
        values = (*from_values(host), *Evidence(link_host=host).wanted, *others)
        return Term(domain=normal_domain(host), words=words, values=values, next_id=queue_id)
    part = folded.strip("*") if words and len(words) == 1 else None
    values = (*from_values(folded), *others) if plain else ()
    if _LABEL.fullmatch(known):
        values = (*values, *Evidence(link_host=known).wanted)
    return Term(words=words, part=part, values=values, next_id=queue_id, id_prefix=id_prefix(plain))


# The columns of narrow rows that `match_rows` compares.
TESTED = ("sender", "subject", "recipients", "tags", "evidence")


def match_rows(term: Term, *, exact: bool = False) -> SqlCondition:
    """The condition on narrow rows; with `exact`, rows whose evidence is only in the record do not count."""
    found = [each for each in (match_texts(term, exact=exact), match_subject(term)) if each]
    values = tuple(value for each in found for value in each.values)
    return SqlCondition(f"({' OR '.join(each.sql for each in found)})" if found else "1 = 0", values)


def match_subject(term: Term) -> SqlCondition | None:
    """The condition on the subject of narrow rows; None where the text means no words."""
    return SqlCondition(f"({contains_all('subject', term.words).sql})", term.words) if term.words else None


def match_texts(term: Term, *, exact: bool = False) -> SqlCondition | None:
    """The condition on the other texts of narrow rows; None where the text means nothing that those have."""
    parts: list[str] = []
    values: list[str] = []
    if term.values:
        digests = match_any_digest(term.values)
        parts.append(digests.sql if exact else f"(evidence IS NULL OR {digests.sql})")
        values += digests.values
    if term.domain:
        parts.append("@holds(recipients, {})")
        values.append(f"@{term.domain}\n")
    if term.tag:
        parts.append("@holds(tags, {})")
        values.append(f"\n{term.tag}\n")
    if term.part:
        parts += ["@holds(sender, {})", "@holds(recipients, {})"]
        values += [term.part, term.part]
    return SqlCondition(f"({' OR '.join(parts)})", tuple(values)) if parts else None


def fits_record(term: Term, detail: Detail) -> bool:
    """Whether a record fits, as far as narrow rows say so only nearly."""
    envelope, report = detail.envelope, detail.report
    if term.values and has_any_evidence(detail, term.values):
        return True
    subject = report.subject.casefold()
    if term.words and all(word in subject for word in term.words):
        return True
    addresses = [each.casefold() for each in (envelope.sender, *envelope.recipients)]
    return bool(
        (term.tag and term.tag in report.tags)
        or (term.domain and any(each.rstrip(">").endswith(f"@{term.domain}") for each in addresses))
        or (term.part and any(term.part in each for each in addresses))
    )


class IndexedTexts(msgspec.Struct, frozen=True):
    """The texts of a message that filters are compared with. `addresses` are whole, each once; `evidence` has digests,
    None where it has to be looked for in the record."""

    sender_domain: str
    sender: str
    subject: str
    recipients: str
    tags: str
    evidence: str | None
    addresses: tuple[str, ...]


# Completed, id, tenant, verdict, decision, score and texts of a message.
IndexedMessage: TypeAlias = tuple[int, int, str | None, str, str, int, IndexedTexts]


def index_texts(
    sender: str, recipients: Sequence[str], subject: str, tags: Sequence[str], evidence: str | None = None
) -> IndexedTexts:
    """Fold and cut the texts of a message."""
    address = fold_address(sender)
    addresses = tuple(dict.fromkeys(map(fold_address, recipients[:MAX_RECIPIENTS])))
    return IndexedTexts(
        domain_of(address),
        address,
        fold(subject[:MAX_SUBJECT]),
        _join_lines((*addresses[:MAX_TESTED_RECIPIENTS], *_other_domains(addresses))),
        _join_lines(tags[:MAX_TAGS]),
        evidence,
        addresses,
    )


def _other_domains(addresses: Sequence[str]) -> list[str]:
    """The domains of recipients that the narrow row does not have, each once, as ends of addresses."""
    if len(addresses) <= MAX_TESTED_RECIPIENTS:
        return []
    known = {domain_of(each) for each in addresses[:MAX_TESTED_RECIPIENTS]}
    others = dict.fromkeys(domain_of(each) for each in addresses[MAX_TESTED_RECIPIENTS:])
    return [f"@{domain}" for domain in others if domain and domain not in known][:MAX_TESTED_RECIPIENTS]


def insert_in_sqlite(connection: apsw.Connection, messages: Sequence[IndexedMessage]) -> None:
    """Index messages that SQLite is just writing."""
    connection.executemany(_INSERT.sqlite, [_row(*message) for message in messages])
    connection.executemany(_INSERT_RECIPIENTS.sqlite, _recipient_rows(messages))


def insert(messages: Sequence[IndexedMessage]) -> Work[None]:
    """Index messages that are stored already; those that are indexed stay as they are."""
    yield _INSERT.of([_row(*message) for message in messages])
    if recipients := _recipient_rows(messages):
        yield _INSERT_RECIPIENTS.of(recipients)


def remove_from_index(messages: Iterable[Row]) -> Work[None]:
    """Take messages out of the index, whose records stay: id, completed and recipients (as JSON) of each."""
    keys, addresses = [], []
    for uid, completed, recipients in messages:
        keys.append((completed, uid))
        distinct = dict.fromkeys(map(fold_address, _strings.decode(recipients)[:MAX_RECIPIENTS]))
        addresses += [(address, completed, uid) for address in distinct]
    yield _DELETE.of(keys)
    if addresses:
        yield _DELETE_RECIPIENTS.of(addresses)


def index_old_messages() -> Work[int]:
    """Index and count some messages that were stored by a version without a search; 0 when none are left."""
    unindexed = yield Read(_UNINDEXED)
    if not unindexed:
        return 0
    rows = yield Read(_OLD_MESSAGES, (unindexed[0][0], STEP))
    if not rows:
        yield Write(_ALL_INDEXED)
        return 0
    messages, counted = [], []
    for uid, created, completed, score, *judged, sender, recipients, subject, tags, size in rows:
        texts = index_texts(sender, _strings.decode(recipients), subject, _strings.decode(tags))
        messages.append((completed, uid, *judged, score, texts))
        counted.append((*judged, created, completed, size))
    yield from insert(messages)
    yield from traffic.count(counted)
    yield Write(_SET_UNINDEXED, (rows[-1][0] - 1,))
    return len(rows)


def _row(*message: Any) -> Row:
    *judged, texts = message
    return (*judged, *searched_texts(texts))


def searched_texts(texts: IndexedTexts) -> Row:
    """The texts in the order of the columns."""
    return (texts.sender_domain, texts.sender, texts.subject, texts.recipients, texts.tags, texts.evidence)


def _recipient_rows(messages: Sequence[IndexedMessage]) -> list[Row]:
    return [(address, message[0], message[1]) for message in messages for address in message[-1].addresses]


def _join_lines(texts: Iterable[str]) -> str:
    joined = storable("\n".join(texts))
    return f"\n{joined}\n" if joined else ""
