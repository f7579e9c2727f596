"""Who really sent a message: SPF, DKIM, DMARC, ARC and iprev, asked for in as few round trips as possible.

What is checked is what the border MTA saw (address, HELO, MAIL FROM) and the message's own signatures. Fields in which
others state results (Authentication-Results, Received-SPF, X-Spam-*) are never read: anyone can write them.
"""

from typing import TypeVar, cast

from gatepost.auth import arc, dkim, dmarc, sending_host, spf
from gatepost.auth.dns_names import is_domain
from gatepost.auth.results import Authentication
from gatepost.auth.sending_host import AddressSet
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Envelope, Message
from gatepost.names import normal_domain
from gatepost.questions import Asking, Dns, together

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")

# A walk of so many names ends at a top-level domain that other mail has asked for.
SHORT_WALK = 3


def authenticate(
    message: Message, envelope: Envelope, now: float, trusted_relays: tuple[AddressSet, ...] = ()
) -> Asking[Authentication]:
    """Check the border data and the message against what its domains publish."""
    fields = message.headers.fields
    signed_message = SignedMessage(
        message.raw, message.header_end, fields
    )  # one for both, so that the body is hashed once
    sending = sending_host.find_sending_host(envelope, fields, trusted_relays)
    authors = dmarc.list_author_domains(sender.domain for sender in message.senders)
    (spf_mail, spf_helo), signatures, chain, reverse, records, _ = yield from _ask_together(
        spf.verify(sending.address, envelope.sender, sending.helo),
        dkim.verify(message.raw, message.header_end, fields, now, signed_message=signed_message),
        arc.validate(message.raw, message.header_end, fields, now, signed_message=signed_message),
        sending_host.verify_iprev(sending.address),
        dmarc.discover(authors),
        _ask_ahead(sending.helo, authors),
    )
    alignment = yield from dmarc.evaluate(authors, spf_mail, signatures, records)
    return Authentication(
        host=str(sending.address or ""),
        host_source=sending.source,
        spf=spf_mail,
        dkim=signatures,
        dmarc=alignment,
        arc=chain,
        iprev=reverse,
        helo=spf_helo,
    )


def _ask_ahead(helo: str, authors: tuple[str, ...]) -> Asking[None]:
    """Ask in the first step for what many messages would ask for in a second one: each step is an exchange with guard.

    Mail without a result for MAIL FROM is checked by HELO, and a domain without a DMARC record by a walk up the tree,
    whose last name the resolver knows from other mail. Who asks the same later gets the answer without an exchange.
    """
    name = normal_domain(helo.strip())
    names = [name] if is_domain(name) else []
    if authors and len(walk := dmarc.list_walk(authors[0])) <= SHORT_WALK:
        names += [f"_dmarc.{parent}" for parent in walk[1:]]
    if names:
        yield tuple([Dns(name, "TXT") for name in names])


def _ask_together(
    a: Asking[A], b: Asking[B], c: Asking[C], d: Asking[D], e: Asking[E], f: Asking[F]
) -> Asking[tuple[A, B, C, D, E, F]]:
    """Run `together` on askings with results of different types."""
    results = yield from together(a, b, c, d, e, f)
    return cast(tuple[A, B, C, D, E, F], results)
