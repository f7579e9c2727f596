"""Evidence: what investigations ask for of a message, and its digests.

Evidence is the sender as its reader sees it, sending host, link hosts, names and hashes of files, Message-ID, queue id
at the border MTA. "Who else got a link to this host?" must not read every record of a month, so the narrow row of a
message (`message_index`) has a digest of 48 bits for each value, and a search compares digests. What they find is
compared once more with the record, so a digest that two values share finds nothing wrong. A message with more than
`MAX_VALUES` values has no digests and is always compared with its record; so are messages that were stored before there
were digests.

Workers make the digests of new records, so this module loads no database.
"""

import re
import threading
from binascii import b2a_base64
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from ipaddress import ip_address
from typing import Literal, TypeAlias, get_args

import msgspec

from gatepost.analysis.report import Report
from gatepost.lists.links import split_url
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.store.record_packing import Detail

MAX_VALUES = 54
# Senders of one message, and words of a display name, that can be searched for.
MAX_SENDERS = 2
MAX_NAME_WORDS = 4
# Hashes of a text by which its near-copies are found.
MAX_TEXT_HASHES = 4
# How much of a name or an id is compared.
MAX_TEXT = 500
_PLAIN_HOST = re.compile(r"https?://((?:[a-z0-9-]{1,63}\.){1,20}[a-z]{2,63})(?=[/?#]|$)", re.ASCII)
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W_]{2,40}")
_DIGESTS = re.compile(r"(?:[A-Za-z0-9+/]{8}(?: (?!\Z)|\Z))*\Z")
EvidenceKind: TypeAlias = Literal["host", "link", "label", "name", "hash", "id", "from", "word", "queue", "text"]
_HASHING = {kind: blake2b(digest_size=6, person=kind.encode()) for kind in get_args(EvidenceKind)}


class Evidence(msgspec.Struct, frozen=True):
    """What a message must have; a field that is None does not matter.

    `link_host` is the host of a link or a name above it, up to the domain that was registered, or the first label of
    that domain (`imgur` of `i.imgur.com`). `file_name` is a whole
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
            ("link" if "." in (self.link_host or "") else "label", self.link_host, normal_domain),
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
        digests[digest(kind, value)] = None
        if len(digests) > MAX_VALUES:
            return None
    return " ".join(digests)


def add_queue_id(evidence: str | None, queue_id: str) -> str | None:
    """The digests of a message with that of its queue id, which guard knows and a worker does not."""
    if evidence is None or not queue_id:
        return evidence
    digests = dict.fromkeys((*evidence.split(), digest("queue", queue_id)))
    return " ".join(digests) if len(digests) <= MAX_VALUES else None


def are_digests(text: str) -> bool:
    """Whether a text is what `index_evidence` makes: no other can go into a row."""
    return len(text) <= MAX_VALUES * 9 and _DIGESTS.match(text) is not None


def has_any_evidence(detail: Detail, values: Sequence[tuple[EvidenceKind, str]]) -> bool:
    """Whether a message has one of these values, or all words of the display name."""
    there = _collect_values(detail)
    words = {each for each in values if each[0] == "word"}
    return bool(words and words <= there) or any(each in there for each in values if each[0] != "word")


def has_evidence(detail: Detail, evidence: Evidence) -> bool:
    """Whether a message has everything that matters."""
    wanted = evidence.wanted
    return not wanted or set(wanted) <= _collect_values(detail)


_last = threading.local()


def _collect_values(detail: Detail) -> frozenset[tuple[EvidenceKind, str]]:
    """All values of a message. Those of the last one are kept for the thread that asks: a search of forty terms asks
    forty times, and a message with thousands of links has thousands of values."""
    if getattr(_last, "detail", None) is not detail:
        _last.values = frozenset(_list_values(detail))
        _last.detail = detail
    values: frozenset[tuple[EvidenceKind, str]] = _last.values
    return values


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
    # Of two near-copies, each has one of the eight hashes of the other among its four smallest: five or more of the
    # eight smallest of both are shared (`near_duplicates`), and so at most three that are smaller are not.
    for each in report.signature[:MAX_TEXT_HASHES]:
        yield "text", str(each)
    if report.message_id:
        yield "id", _normalise_id(report.message_id)
    for file in report.files:
        yield "hash", file.sha256
        for name in file.names:
            yield "name", _fold(name)
    names, labels = {""}, {""}
    for subject in report.subjects:
        if subject.role == "link" and (host := _find_host(subject.value)) not in names:
            for name in _list_names(host, names):
                yield "link", name
            label = org_domain(host).partition(".")[0]
            if label not in labels:
                labels.add(label)
                yield "label", label


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


def digest(kind: EvidenceKind, value: str) -> str:
    """Eight characters for a value of one kind."""
    hashing = _HASHING[kind].copy()  # faster than a new one
    hashing.update(value.encode("utf-8", "surrogatepass"))
    return b2a_base64(hashing.digest(), newline=False).decode()


def without_digits(folded: str) -> str:
    """A folded subject as copies of a campaign share it: without digits, and with one blank between its words."""
    return " ".join(_DIGITS.sub(" ", folded).split())


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
