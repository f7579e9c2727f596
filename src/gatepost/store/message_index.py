"""The index of messages: a narrow row beside each record and a row for each recipient; and what can be searched for.

A record is kilobytes long, and reading through a hundred thousand of them would read gigabytes. The narrow row has what
filters ask for, folded and cut: a subject of 250 characters, 20 recipients and the domains of the others. Whole
addresses of all recipients have an index of their own, because "where is my mail?" is asked most. Messages that were
stored by a version without a search are indexed afterwards, in small steps, from the newest on.

Evidence is what investigations ask for: the sender as its reader sees it, sending host, link hosts, names and hashes of
files, Message-ID, queue id at the border MTA. "Who else got a link to this host?" must not read every record of a
month, so the narrow row has a digest of 48 bits for each value, and a search compares digests. What they find is
compared once more with the record, so a digest that two values share finds nothing wrong. A message with more than
`MAX_VALUES` values has no digests and is always compared with its record; so are messages that were stored before there
were digests.

A term is a text in the one search field, and what it can mean: an id of a message here, or of a queue before or behind,
an address, a domain, a tag, a link, a file, or words. People paste whatever they have been told. So a text is taken for
everything that it can be, and a message fits if one of the meanings does: `report.example` is a domain of senders,
recipients and links, and may be the name of a file.
"""

import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from ipaddress import ip_address
from string import hexdigits
from typing import Literal, TypeAlias, get_args

import apsw
import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.lists.entries import refang
from gatepost.lists.links import split_url
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.report import Report
from gatepost.store import traffic
from gatepost.store.engine import Read, Row, Work, Write, delete_many, insert_many, insert_rows, storable
from gatepost.store.paging import MAX_WORDS, SqlCondition
from gatepost.store.record_packing import Detail

MAX_VALUES = 50
# Senders of one message, and words of a display name, that can be searched for.
MAX_SENDERS = 2
MAX_NAME_WORDS = 4
# How much of a name or an id is compared.
MAX_TEXT = 500
MAX_TERM = 500
MAX_ADDRESS = 254
_HOST = re.compile(r"(?:[\w-]{1,63}\.)+[\w-]{2,63}\.?")
_TAG = re.compile(r"[a-z][a-z0-9-]{1,30}:[a-z0-9][a-z0-9.-]{0,100}", re.ASCII)
_QUEUE_ID = re.compile(r"[A-Za-z0-9][\w.+/=-]{4,99}", re.ASCII)
_SCHEME = re.compile(r"(?:h(?:tt|xx)ps?|ftp)://", re.IGNORECASE)
_PLAIN_HOST = re.compile(r"https?://((?:[a-z0-9-]{1,63}\.){1,20}[a-z]{2,63})(?=[/?#]|$)", re.ASCII)
_WORD = re.compile(r"[^\W_]{2,40}")
MAX_SUBJECT = 250
MAX_TAGS = 40
MAX_TESTED_RECIPIENTS = 20
MAX_RECIPIENTS = 1_000
STEP = 500
COLUMNS = (
    *("completed", "id", "tenant", "verdict", "decision"),
    *("sender_domain", "sender", "subject", "recipients", "tags", "evidence"),
)
RECIPIENT_COLUMNS = ("address", "completed", "id")
_TYPES = ("bigint", "bigint", *("text",) * (len(COLUMNS) - 2))
_INSERT = insert_many("message_search", ", ".join(map(" ".join, zip(COLUMNS, _TYPES, strict=True))))
_INSERT_RECIPIENTS = insert_many("message_recipients", "address text, completed bigint, id bigint")
_DELETE = delete_many("message_search", "completed bigint, id bigint")
_DELETE_RECIPIENTS = delete_many("message_recipients", "address text, completed bigint, id bigint")
_UNINDEXED = "SELECT upto FROM unsearched FOR UPDATE"
_OLD_MESSAGES = """SELECT id, created, completed, tenant, verdict, decision, sender, recipients, subject, tags, size
FROM messages WHERE id <= $1 ORDER BY id DESC LIMIT $2 FOR UPDATE"""
_SET_UNINDEXED = "UPDATE unsearched SET upto = $1"
_ALL_INDEXED = "DELETE FROM unsearched"
_strings = msgspec.json.Decoder(tuple[str, ...])
EvidenceKind: TypeAlias = Literal["host", "link", "name", "hash", "id", "from", "word", "queue"]
_HASHING = {kind: blake2b(digest_size=6, person=kind.encode()) for kind in get_args(EvidenceKind)}


class Evidence(msgspec.Struct, frozen=True):
    """What a message must have; a field that is None does not matter.

    `link_host` is the host of a link or a name above it, up to the domain that was registered. `file_name` is a whole
    name, and `file_hash` a SHA-256 in hex; both hold for files inside of files too. `message_id` comes with or without
    angle brackets. `header_from` is an address of the From field, its domain or a name above that, or a word of a
    display name. `queue_id` is that of the border MTA.
    """

    remote_address: str | None = None
    link_host: str | None = None
    file_name: str | None = None
    file_hash: str | None = None
    message_id: str | None = None
    header_from: str | None = None
    queue_id: str | None = None

    @property
    def wanted(self) -> tuple[tuple[EvidenceKind, str], ...]:
        """The kinds that matter, each with its value in normal form."""
        stated: tuple[tuple[EvidenceKind, str | None, Callable[[str], str]], ...] = (
            ("host", self.remote_address, _normalise_address),
            ("link", self.link_host, normal_domain),
            ("name", self.file_name, _fold),
            ("hash", self.file_hash, _fold),
            ("id", self.message_id, _normalise_id),
            ("queue", self.queue_id, lambda text: text.strip()[:MAX_TEXT]),
        )
        found = [(kind, normalise(value)) for kind, value, normalise in stated if value is not None]
        return (*found, *([] if self.header_from is None else from_values(self.header_from)))


def index_evidence(detail: Detail) -> str | None:
    """The digests of a message as its narrow row has them; None where it has too many."""
    digests: dict[str, None] = {}
    for kind, value in _list_values(detail):
        digests[_digest(kind, value)] = None
        if len(digests) > MAX_VALUES:
            return None
    return " ".join(digests)


def match_digests(evidence: Evidence) -> SqlCondition | None:
    """The condition on the narrow rows of messages; None where no evidence matters."""
    digests = [_digest(kind, value) for kind, value in evidence.wanted]
    if not digests:
        return None
    found = " AND ".join(["strpos(evidence, {}) > 0"] * len(digests))
    return SqlCondition(f"(evidence IS NULL OR ({found}))", tuple(digests))


def match_any_digest(values: Sequence[tuple[EvidenceKind, str]]) -> SqlCondition:
    """The condition on narrow rows that have one of these values, or all words of the display name."""
    words = [_digest(*each) for each in values if each[0] == "word"]
    others = [_digest(*each) for each in values if each[0] != "word"]
    parts = ["strpos(evidence, {}) > 0"] * len(others)
    if words:
        parts.append("(" + " AND ".join(["strpos(evidence, {}) > 0"] * len(words)) + ")")
    return SqlCondition(f"({' OR '.join(parts)})", (*others, *words))


def has_any_evidence(detail: Detail, values: Sequence[tuple[EvidenceKind, str]]) -> bool:
    """Whether a message has one of these values, or all words of the display name."""
    there = set(_list_values(detail))
    words = {each for each in values if each[0] == "word"}
    return bool(words and words <= there) or any(each in there for each in values if each[0] != "word")


def has_evidence(detail: Detail, evidence: Evidence) -> bool:
    """Whether a message has everything that matters."""
    wanted = evidence.wanted
    return not wanted or set(wanted) <= set(_list_values(detail))


def from_values(text: str) -> list[tuple[EvidenceKind, str]]:
    """What a text in a search means as a sender: an address, a domain, or words of a display name."""
    plain = text.strip()[:MAX_TEXT].casefold().removeprefix("@")
    if "@" in plain:
        return [("from", normal_address(plain))]
    if "." in plain and " " not in plain:
        return [("from", normal_domain(plain))]
    return [("word", word) for word in _WORD.findall(plain)[:MAX_NAME_WORDS]] or [("from", plain)]


def _list_senders(report: Report) -> Iterator[tuple[EvidenceKind, str]]:
    names: set[str] = set()
    for address in report.senders[:MAX_SENDERS]:
        yield "from", address.casefold()
        for name in _list_names(address.rpartition("@")[2].casefold(), names):
            yield "from", name
    for shown in report.sender_names[:MAX_SENDERS]:
        for word in _WORD.findall(shown.casefold())[:MAX_NAME_WORDS]:
            yield "word", word


def _list_values(detail: Detail) -> Iterator[tuple[EvidenceKind, str]]:
    report = detail.report
    yield from _list_senders(report)
    if detail.queue_id:
        yield "queue", detail.queue_id
    for address in (detail.envelope.remote_address, report.authentication.host):
        if address:
            yield "host", _normalise_address(address)
    if report.message_id:
        yield "id", _normalise_id(report.message_id)
    for file in report.files:
        yield "hash", file.sha256
        for name in file.names:
            yield "name", _fold(name)
    names = {""}
    for subject in report.subjects:
        if subject.role == "link" and (host := _find_host(subject.value)) not in names:
            for name in _list_names(host, names):
                yield "link", name


def _find_host(url: str) -> str:
    """The host of a link, "" where it has none. Most links need no parser: a name in lower case is in normal form."""
    if plain := _PLAIN_HOST.match(url):
        return plain[1]
    parts = split_url(url)
    return parts[0] if parts else ""


def _list_names(host: str, known: set[str]) -> Iterator[str]:
    """A host and the names above it, up to the domain that was registered; those that are known already are left out,
    and so is all above them."""
    registered = f".{org_domain(host)}"
    while host not in known:
        known.add(host)
        yield host
        if host.endswith(registered):
            host = host.partition(".")[2]


def _digest(kind: EvidenceKind, value: str) -> str:
    """Eight characters for a value of one kind."""
    hashing = _HASHING[kind].copy()  # faster than a new one
    hashing.update(value.encode("utf-8", "surrogatepass"))
    return b2a_base64(hashing.digest(), newline=False).decode()


def _fold(text: str) -> str:
    return text.strip()[:MAX_TEXT].casefold()


def _normalise_id(text: str) -> str:
    """A Message-ID without its angle brackets (RFC 5322 section 3.6.4)."""
    return text.strip().removeprefix("<").removesuffix(">")[:MAX_TEXT]


def _normalise_address(text: str) -> str:
    """An IP address in its usual form; an IPv4 address that is written as IPv6 is the IPv4 address."""
    if ":" not in text:
        return text
    try:
        address = ip_address(text.strip().strip("[]"))
    except ValueError:
        return text[:MAX_TEXT]
    return str(getattr(address, "ipv4_mapped", None) or address)


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
    if is_ip_address(plain):
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
    return Term(words=words, part=part, values=values, next_id=queue_id, id_prefix=id_prefix(plain))


def is_ip_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address."""
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True


# The columns of narrow rows that `match_rows` compares.
TESTED = ("sender", "subject", "recipients", "tags", "evidence")


def match_rows(term: Term, *, exact: bool = False) -> SqlCondition:
    """The condition on narrow rows; with `exact`, rows whose evidence is only in the record do not count."""
    parts: list[str] = []
    values: list[str] = []
    if term.values:
        digests = match_any_digest(term.values)
        parts.append(digests.sql if exact else f"(evidence IS NULL OR {digests.sql})")
        values += digests.values
    if term.domain:
        parts.append("strpos(recipients, {}) > 0")
        values.append(f"@{term.domain}\n")
    if term.tag:
        parts.append("strpos(tags, {}) > 0")
        values.append(f"\n{term.tag}\n")
    if term.part:
        parts += ["strpos(sender, {}) > 0", "strpos(recipients, {}) > 0"]
        values += [term.part, term.part]
    if term.words:
        parts.append("(" + " AND ".join(["strpos(subject, {}) > 0"] * len(term.words)) + ")")
        values += term.words
    return SqlCondition(f"({' OR '.join(parts)})" if parts else "1 = 0", tuple(values))


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


# Completed, id, tenant, verdict, decision and texts of a message.
IndexedMessage: TypeAlias = tuple[int, int, str | None, str, str, IndexedTexts]


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
    insert_rows(connection, "message_search", COLUMNS, [_row(*message) for message in messages])
    insert_rows(connection, "message_recipients", RECIPIENT_COLUMNS, _recipient_rows(messages))


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
    if keys:
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
    for uid, created, completed, *judged, sender, recipients, subject, tags, size in rows:
        texts = index_texts(sender, _strings.decode(recipients), subject, _strings.decode(tags))
        messages.append((completed, uid, *judged, texts))
        counted.append((*judged, created, completed, size))
    yield from insert(messages)
    yield from traffic.count(counted)
    yield Write(_SET_UNINDEXED, (rows[-1][0] - 1,))
    return len(rows)


def _row(completed: int, uid: int, tenant: str | None, verdict: str, decision: str, texts: IndexedTexts) -> Row:
    return (completed, uid, tenant, verdict, decision, *searched_texts(texts))


def searched_texts(texts: IndexedTexts) -> Row:
    """The texts in the order of the columns."""
    return (texts.sender_domain, texts.sender, texts.subject, texts.recipients, texts.tags, texts.evidence)


def _recipient_rows(messages: Sequence[IndexedMessage]) -> list[Row]:
    return [(address, message[0], message[1]) for message in messages for address in message[5].addresses]


def _join_lines(texts: Iterable[str]) -> str:
    joined = storable("\n".join(texts))
    return f"\n{joined}\n" if joined else ""
