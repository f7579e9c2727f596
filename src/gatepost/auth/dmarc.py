"""Who really sent a message: SPF, DKIM, ARC and iprev, asked for in few round trips, and DMARC (RFC 9989).

`authenticate` checks what the border MTA saw (address, HELO, MAIL FROM) and the message's own signatures. Fields in
which others state results (Authentication-Results, Received-SPF, X-Spam-*) are never read: anyone can write them. DMARC
asks whether the domain in From is proven by SPF or DKIM, and if not, what its owner wants.

Organisational domains are found by walking up the DNS tree (section 4.10), at most 8 names for one domain. The names of
a walk are known beforehand, so everything above the first name is asked in one round trip, and all walks of one message
share their answers. An identifier that is not below the author's organisational domain cannot align, so foreign signers
cost no question.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gatepost.auth import dkim
from gatepost.auth.dkim import verify as verify_dkim
from gatepost.auth.dmarc_record import DmarcRecord, Policy, is_dmarc, parse_record
from gatepost.auth.results import Authentication, Dkim, Dmarc, Spf
from gatepost.auth.sending_host import (
    HOST_NOT_KNOWN,
    SendingHost,
    find_sending_host,
    is_domain,
    is_queryable,
    verify_iprev,
)
from gatepost.auth.signature import SignedMessage
from gatepost.auth.spf import verify as verify_spf
from gatepost.mail.message import Envelope, Message
from gatepost.names import normal_domain, org_domain
from gatepost.questions import Asking, Dns, together

MAX_WALK = 8
# A From with more domains than this is an attack or an accident; RFC 9989 section 11.5 asks for a limit.
MAX_AUTHORS = 4
MAX_SIGNERS = 10

_SEVERITY = {"": 0, "none": 1, "quarantine": 2, "reject": 3}


class _DnsError(Exception):
    """DNS failed for a name that the evaluation cannot do without."""


class DmarcRecords:
    """The DMARC records that were asked for in one message's evaluation: one, none, or a failure at each name."""

    def __init__(self) -> None:
        self.known: dict[str, DmarcRecord | None] = {}
        self.failed: set[str] = set()

    def ask(self, names: Sequence[str]) -> Asking[None]:
        """Ask for the records of names that are not known yet, in one round trip."""
        known = self.known
        missing = [name for name in dict.fromkeys(names) if name not in known]
        if not missing:
            return
        answers = yield tuple([Dns(f"_dmarc.{name}", "TXT") for name in missing])
        for name, answer in zip(missing, answers, strict=False):
            # Several records at one name count as none (RFC 9989 section 4.10, step 2).
            found = [text for text in answer.records if is_dmarc(text)]
            self.known[name] = parse_record(found[0]) if len(found) == 1 else None
            if answer.status == "failed":
                self.failed.add(name)

    def at(self, name: str) -> DmarcRecord | None:
        """Return the record at a name that was asked for."""
        if name in self.failed:
            raise _DnsError(name)
        return self.known.get(name)


class _TreeWalk(msgspec.Struct, frozen=True):
    """Where a walk led: the organisational domain, and the public suffix that said so, if one did."""

    organisation: str
    suffix: str = ""


def list_author_domains(domains: Iterable[str]) -> tuple[str, ...]:
    """Return the domains in From, each once, as DNS is asked for them."""
    return tuple(filter(_is_askable, dict.fromkeys(map(normal_domain, domains))))


def discover(authors: tuple[str, ...]) -> Asking[DmarcRecords]:
    """Ask what can be asked before anything else is known: the authors' records, and the walk where there is none."""
    records = DmarcRecords()
    named = authors[:MAX_AUTHORS]
    yield from records.ask(named)
    lacking = (author for author in named if records.known[author] is None and author not in records.failed)
    yield from records.ask([name for author in lacking for name in list_walk(author)])
    return records


def evaluate(authors: tuple[str, ...], spf: Spf, dkim: tuple[Dkim, ...], records: DmarcRecords) -> Asking[Dmarc]:
    """Evaluate each author domain; the worst result is the message's (RFC 9989 section 11.5)."""
    if not authors:
        return Dmarc("permerror", reason="no domain in From")
    if len(authors) == 1:
        return (yield from _evaluate(authors[0], spf, dkim, records))
    evaluations = (_evaluate(author, spf, dkim, records) for author in authors[:MAX_AUTHORS])
    results = list((yield from together(*evaluations)))
    if len(authors) > MAX_AUTHORS:
        results.append(Dmarc("permerror", authors[MAX_AUTHORS], reason=f"over {MAX_AUTHORS} domains in From"))
    worst = min(results, key=_rank_result)
    return msgspec.structs.replace(
        worst,
        spf_aligned=all(result.spf_aligned for result in results),
        dkim_aligned=all(result.dkim_aligned for result in results),
        reason=worst.reason or "several domains in From",
    )


def list_walk(domain: str) -> tuple[str, ...]:
    """Return the names that a walk up the DNS tree from a domain visits (RFC 9989 section 4.10)."""
    labels = domain.split(".")
    start = 1 if len(labels) < MAX_WALK else len(labels) - (MAX_WALK - 1)
    return (domain, *[".".join(labels[index:]) for index in range(start, len(labels))])


def _is_askable(domain: str) -> bool:
    return not domain.startswith("[") and is_queryable(f"_dmarc.{domain}") and " " not in domain


def _rank_result(result: Dmarc) -> tuple[int, int]:
    order = ("fail", "temperror", "permerror", "none", "pass")
    return order.index(result.result), -_SEVERITY[result.policy]


def _evaluate(author: str, spf: Spf, dkim: tuple[Dkim, ...], records: DmarcRecords) -> Asking[Dmarc]:
    try:
        walk = None if records.at(author) else (yield from _walk_tree(author, records))
    except _DnsError:
        return Dmarc("temperror", author, reason="DNS failed for the policy")
    domain = walk.organisation if walk else author
    record = records.known.get(domain)
    if walk and not record:
        domain, record = walk.suffix, records.known.get(walk.suffix)
    if not record or not record.applies:
        return _evaluate_without_record(author, spf, dkim, "the record's policy is faulty" if record else "no record")
    policy = yield from _find_policy(author, domain, record)
    return (yield from _check_alignment(Dmarc("fail", author, domain, policy), record, spf, dkim, records))


def _evaluate_without_record(author: str, spf: Spf, dkim: tuple[Dkim, ...], reason: str) -> Dmarc:
    """Return the result where DMARC does not apply.

    The public suffix list then decides whether the author is proven all the same: allow lists ask for that, and most
    domains that publish no policy still sign.
    """
    owner = org_domain(author)
    return Dmarc(
        "none",
        author,
        spf_aligned=spf.result == "pass" and org_domain(spf.domain) == owner,
        dkim_aligned=any(each.result == "pass" and org_domain(each.domain) == owner for each in dkim[:MAX_SIGNERS]),
        reason=reason,
    )


def _find_policy(author: str, domain: str, record: DmarcRecord) -> Asking[Policy]:
    """Return `p` at the author's own record, else `sp`, or `np` where the author domain does not exist."""
    if domain == author:
        return record.soften(record.policy)
    if record.nonexistent == record.subdomains:
        return record.soften(record.subdomains)
    (answer,) = yield (Dns(author, "A"),)
    if answer.status == "failed":  # an unknown answer must not make the policy stricter
        return record.soften(min(record.nonexistent, record.subdomains, key=_SEVERITY.__getitem__))
    return record.soften(record.nonexistent if answer.status == "no-name" else record.subdomains)


def _check_alignment(
    base: Dmarc, record: DmarcRecord, spf: Spf, dkim: tuple[Dkim, ...], records: DmarcRecords
) -> Asking[Dmarc]:
    """Does an identifier align? One whose own check failed for DNS leaves the question open, if it would align."""
    try:
        for state in ("pass", "temperror"):
            senders, signers = _list_sender_domains(spf, state), _list_signer_domains(dkim, state)
            by_spf = yield from _is_any_aligned(base.domain, senders, record.strict_spf, records)
            by_dkim = yield from _is_any_aligned(base.domain, signers, record.strict_dkim, records)
            if (by_spf or by_dkim) and state == "pass":
                return msgspec.structs.replace(base, result="pass", spf_aligned=by_spf, dkim_aligned=by_dkim)
            if by_spf or by_dkim:
                return msgspec.structs.replace(base, result="temperror", reason="DNS failed for SPF or DKIM")
    except _DnsError:
        return msgspec.structs.replace(base, result="temperror", reason="DNS failed for the alignment")
    has_pass = "pass" in (spf.result, *(each.result for each in dkim))
    return msgspec.structs.replace(base, reason="no aligned pass" if has_pass else "neither SPF nor DKIM passed")


def _list_sender_domains(spf: Spf, result: str) -> tuple[str, ...]:
    return (normal_domain(spf.domain),) if spf.result == result else ()


def _list_signer_domains(dkim: tuple[Dkim, ...], result: str) -> tuple[str, ...]:
    domains = dict.fromkeys(normal_domain(each.domain) for each in dkim if each.result == result)
    return tuple(domains)[:MAX_SIGNERS]


def _is_any_aligned(author: str, identifiers: tuple[str, ...], strict: bool, records: DmarcRecords) -> Asking[bool]:
    """Return whether an identifier aligns with the author (RFC 9989 section 4.10.2). Equal names need no walk."""
    if author in identifiers:
        return True
    if strict or not identifiers:
        return False
    organisation = (yield from _walk_tree(author, records)).organisation
    below = tuple(name for name in identifiers if name == organisation or name.endswith(f".{organisation}"))
    for name in filter(_is_askable, below):
        if (yield from _walk_tree(name, records)).organisation == organisation:
            return True
    return False


def _walk_tree(domain: str, records: DmarcRecords) -> Asking[_TreeWalk]:
    """Walk up from a domain and select its organisational domain."""
    names = list_walk(domain)
    yield from records.ask(names)
    highest = domain
    for name in names:
        record = records.at(name)
        if record is None:
            continue
        if record.psd == "n":
            return _TreeWalk(name)
        if record.psd == "y" and name != domain:
            below = domain.removesuffix(f".{name}").rpartition(".")[2]
            return _TreeWalk(f"{below}.{name}", name)
        highest = name
        if record.psd == "y":
            break
    return _TreeWalk(highest)


# A walk of so many names ends at a top-level domain that other mail has asked for.
SHORT_WALK = 3


OWN_MAIL = {
    "own network": "not evaluated, the message comes from an own network",
    "logged in": "not evaluated, the sender had logged in",
}


def authenticate(
    message: Message, envelope: Envelope, now: float, sending: SendingHost | None = None
) -> Asking[Authentication]:
    """Check the border data and the message against what its domains publish; `sending` is the sending host where the
    operator's networks are known. Without a host that SPF can be asked about, DMARC stays open unless DKIM proves the
    author. Mail of own people is proven to nobody before it has left."""
    fields = message.headers.fields
    sending = sending or find_sending_host(envelope, fields)
    if sending.is_own:
        reason = OWN_MAIL[sending.origin]
        spf, dmarc, host = Spf(reason=reason), Dmarc(reason=reason), str(sending.address or "")
        return Authentication(host, sending.source, spf, dmarc=dmarc, origin=sending.origin)
    signed = SignedMessage(message.raw, message.header_end, fields)  # one for both, so that the body is hashed once
    authors = list_author_domains(sender.domain for sender in message.senders)
    askings: tuple[Asking[Any], ...] = (
        verify_spf(sending.asked, envelope.sender, sending.helo),
        verify_dkim(signed, now),
        dkim.validate(signed, now),
        verify_iprev(sending.asked),
        discover(authors),
        _ask_ahead(sending.helo, authors),
    )
    (spf_mail, spf_helo), signatures, chain, reverse, records, _ = yield from together(*askings)
    alignment = yield from evaluate(authors, spf_mail, signatures, records)
    if sending.asked is None and alignment.result == "fail":
        alignment = msgspec.structs.replace(alignment, result="none", reason=HOST_NOT_KNOWN)
    return Authentication(
        host=str(sending.address or ""),
        host_source=sending.source,
        spf=spf_mail,
        dkim=signatures,
        dmarc=alignment,
        arc=chain,
        iprev=reverse,
        helo=spf_helo,
        origin=sending.origin,
    )


def _ask_ahead(helo: str, authors: tuple[str, ...]) -> Asking[None]:
    """Ask in the first step for what many messages would ask for in a second one: each step is an exchange with guard.

    Mail without a result for MAIL FROM is checked by HELO, and a domain without a DMARC record by a walk up the tree,
    whose last name the resolver knows from other mail. Who asks the same later gets the answer without an exchange.
    """
    name = normal_domain(helo.strip())
    names = [name] if is_domain(name) else []
    if authors and len(walk := list_walk(authors[0])) <= SHORT_WALK:
        names += [f"_dmarc.{parent}" for parent in walk[1:]]
    if names:
        yield tuple([Dns(name, "TXT") for name in names])
