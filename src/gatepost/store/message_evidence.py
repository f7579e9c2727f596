"""Evidence of a message that investigations ask for: the sender as its reader sees it, sending host, link hosts, names
and hashes of files, Message-ID, queue id at the border MTA.

"Who else got a link to this host?" must not read every record of a month. So the narrow row of a message has a digest
of 48 bits for each of its values, and a search compares digests in narrow rows. What they find is compared once more
with the record, so a digest that two values share finds nothing wrong. A message with more than `MAX_VALUES` values has
no digests and is always compared with its record; so are messages that were stored before there were digests.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from ipaddress import ip_address
from typing import Literal, TypeAlias

import msgspec

from gatepost.lists.links import split_url
from gatepost.mail.message import Envelope
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.report import Report
from gatepost.store.paging import Condition

MAX_VALUES = 50
# Senders of one message, and words of a display name, that can be searched for.
MAX_SENDERS = 2
MAX_WORDS = 4
# How much of a name or an id is compared.
MAX_TEXT = 500

_PLAIN_HOST = re.compile(r"https?://((?:[a-z0-9-]{1,63}\.){1,20}[a-z]{2,63})(?=[/?#]|$)", re.ASCII)

_WORD = re.compile(r"[^\W_]{2,40}")

EvidenceKind: TypeAlias = Literal["host", "link", "name", "hash", "id", "from", "word", "queue"]


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
        stated: tuple[tuple[EvidenceKind, str | None], ...] = (
            ("host", _normalise_address(self.remote_address)),
            ("link", None if self.link_host is None else normal_domain(self.link_host)),
            ("name", _fold(self.file_name)),
            ("hash", _fold(self.file_hash)),
            ("id", _normalise_id(self.message_id)),
            ("queue", None if self.queue_id is None else self.queue_id.strip()[:MAX_TEXT]),
        )
        found = [(kind, value) for kind, value in stated if value is not None]
        return (*found, *([] if self.header_from is None else from_values(self.header_from)))


def index_evidence(envelope: Envelope, report: Report, queue_id: str = "") -> str | None:
    """The digests of a message as its narrow row has them; None where it has too many."""
    digests: dict[str, None] = {}
    for kind, value in _list_values(envelope, report, queue_id):
        digests[_digest(kind, value)] = None
        if len(digests) > MAX_VALUES:
            return None
    return " ".join(digests)


def match_digests(evidence: Evidence) -> Condition | None:
    """The condition on the narrow rows of messages; None where no evidence matters."""
    digests = [_digest(kind, value) for kind, value in evidence.wanted]
    if not digests:
        return None
    found = " AND ".join(["strpos(evidence, {}) > 0"] * len(digests))
    return Condition(f"(evidence IS NULL OR ({found}))", tuple(digests))


def match_any_digest(values: Sequence[tuple[EvidenceKind, str]]) -> Condition:
    """The condition on narrow rows that have one of these values, or all words of the display name."""
    words = [_digest(*each) for each in values if each[0] == "word"]
    others = [_digest(*each) for each in values if each[0] != "word"]
    parts = ["strpos(evidence, {}) > 0"] * len(others)
    if words:
        parts.append("(" + " AND ".join(["strpos(evidence, {}) > 0"] * len(words)) + ")")
    return Condition(f"({' OR '.join(parts)})", (*others, *words))


def has_any_evidence(
    envelope: Envelope, report: Report, values: Sequence[tuple[EvidenceKind, str]], queue_id: str = ""
) -> bool:
    """Whether a message has one of these values, or all words of the display name."""
    there = set(_list_values(envelope, report, queue_id))
    words = {each for each in values if each[0] == "word"}
    return bool(words and words <= there) or any(each in there for each in values if each[0] != "word")


def has_evidence(envelope: Envelope, report: Report, evidence: Evidence, queue_id: str = "") -> bool:
    """Whether a message has everything that matters."""
    missing = set(evidence.wanted)
    if missing:
        for each in _list_values(envelope, report, queue_id):
            missing.discard(each)
            if not missing:
                break
    return not missing


def from_values(text: str) -> list[tuple[EvidenceKind, str]]:
    """What a text in a search means as a sender: an address, a domain, or words of a display name."""
    plain = text.strip()[:MAX_TEXT].casefold().removeprefix("@")
    if "@" in plain:
        return [("from", normal_address(plain))]
    if "." in plain and " " not in plain:
        return [("from", normal_domain(plain))]
    return [("word", word) for word in _WORD.findall(plain)[:MAX_WORDS]] or [("from", plain)]


def _list_senders(report: Report) -> Iterator[tuple[EvidenceKind, str]]:
    names: set[str] = set()
    for address in report.senders[:MAX_SENDERS]:
        yield "from", address.casefold()
        for name in _list_names(address.rpartition("@")[2].casefold(), names):
            yield "from", name
    for shown in report.sender_names[:MAX_SENDERS]:
        for word in _WORD.findall(shown.casefold())[:MAX_WORDS]:
            yield "word", word


def _list_values(envelope: Envelope, report: Report, queue_id: str) -> Iterator[tuple[EvidenceKind, str]]:
    yield from _list_senders(report)
    if queue_id:
        yield "queue", queue_id
    for address in (envelope.remote_address, report.authentication.host):
        if address:
            yield "host", _normalise_address(address) or ""
    if report.message_id:
        yield "id", _normalise_id(report.message_id) or ""
    for file in report.files:
        yield "hash", file.sha256
        for name in file.names:
            yield "name", _fold(name) or ""
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
    encoded = value.encode("utf-8", "surrogatepass")
    return b64encode(blake2b(encoded, digest_size=6, person=kind.encode()).digest()).decode()


def _fold(text: str | None) -> str | None:
    return None if text is None else text.strip()[:MAX_TEXT].casefold()


def _normalise_id(text: str | None) -> str | None:
    """A Message-ID without its angle brackets (RFC 5322 section 3.6.4)."""
    return None if text is None else text.strip().removeprefix("<").removesuffix(">")[:MAX_TEXT]


def _normalise_address(text: str | None) -> str | None:
    """An IP address in its usual form; an IPv4 address that is written as IPv6 is the IPv4 address."""
    if text is None or ":" not in text:
        return text
    try:
        address = ip_address(text.strip().strip("[]"))
    except ValueError:
        return text[:MAX_TEXT]
    return str(getattr(address, "ipv4_mapped", None) or address)
