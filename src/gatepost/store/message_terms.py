"""What a text in the one search field can mean: an id, an address, a domain, a tag, a link, a file, or words. Ids are
those of messages here, and of queues before and behind.

People paste whatever they have been told. So a text is taken for everything that it can be, and a message fits if one
of the meanings does: `report.example` is a domain of senders, recipients and links, and may be the name of a file.
"""

import re
from ipaddress import ip_address
from string import hexdigits

import msgspec

from gatepost.ids import canonical, id_prefix
from gatepost.lists.entries import refang
from gatepost.lists.links import split_url
from gatepost.mail.message import Envelope
from gatepost.names import normal_domain
from gatepost.report import Report
from gatepost.store.engine import storable
from gatepost.store.message_evidence import Evidence, EvidenceKind, from_values, has_any_evidence, match_any_digest
from gatepost.store.paging import MAX_WORDS, Condition

MAX_TERM = 500
MAX_ADDRESS = 254
_HOST = re.compile(r"(?:[\w-]{1,63}\.)+[\w-]{2,63}\.?")
_TAG = re.compile(r"[a-z][a-z0-9-]{1,30}:[a-z0-9][a-z0-9.-]{0,100}", re.ASCII)
_QUEUE_ID = re.compile(r"[A-Za-z0-9][\w.+/=-]{4,99}", re.ASCII)
_SCHEME = re.compile(r"(?:h(?:tt|xx)ps?|ftp)://", re.IGNORECASE)


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


def match_rows(term: Term, *, exact: bool = False) -> Condition:
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
    return Condition(f"({' OR '.join(parts)})" if parts else "1 = 0", tuple(values))


def fits_record(term: Term, envelope: Envelope, report: Report, queue_id: str = "") -> bool:
    """Whether a record fits, as far as narrow rows say so only nearly."""
    if term.values and has_any_evidence(envelope, report, term.values, queue_id):
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
