"""Sender history: what guard remembers of delivered mail per tenant, and how an analysis asks for it.

A request for money from an unknown sender is another matter than one from a supplier of ten years, and a link to a site
that no mail ever led to is another matter than one to a shop that many order from. So a few facets of every delivered
message are remembered: its sender, the sender's organisation, the sites that its links lead to, whether its replies go
to another organisation, and the list that passed it on. Each is a number, a digest with its kind in the lowest bits:
addresses are not stored, and a backup does not show who wrote to whom.

A sender is remembered twice: as proven (an aligned SPF or DKIM pass) and as claimed. A forged address of a known sender
is therefore not known, and a sender that was always proven and now is not stands out.

Days count, not messages: what was first seen today is new, however often it came, so that an hour of sending makes no
sender known.
"""

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network

import msgspec

from gatepost.mail.message import Envelope, Link, Message
from gatepost.names import normal_address, org_domain
from gatepost.questions import AskSightings, FacetAge, Sightings

# On so many days before today a sender or list had mail delivered, to be known.
KNOWN_DAYS = 5
MAX_HOSTS = 20
MAX_LINKS = 500
MAX_REPLIES = 5
_UNKNOWN = FacetAge()
_KIND_BITS = 15


class Facet(IntEnum):
    """The kind of a key; `SCOPE` is counted for every message."""

    SCOPE = 0
    PROVEN_ADDRESS = 1
    CLAIMED_ADDRESS = 2
    PROVEN_DOMAIN = 3
    CLAIMED_DOMAIN = 4
    REDIRECTION = 5
    HOST = 6
    LIST = 7


class Facets(msgspec.Struct, frozen=True):
    """The facets of a message. `redirects` says that replies go to another organisation than the sender's;
    `mailing_list` is the list that the mail names, with the network of the host that handed it over."""

    address: str = ""
    domain: str = ""
    redirects: bool = False
    hosts: tuple[str, ...] = ()
    mailing_list: str = ""


class Standing(msgspec.Struct, frozen=True):
    """How well a sender is known: from mail that proved the name, and from mail that only claimed it."""

    proven: FacetAge = _UNKNOWN
    claimed: FacetAge = _UNKNOWN

    @property
    def known(self) -> bool:
        """Whether there was mail in this name before today."""
        return bool(self.proven.days or self.claimed.days)


class SenderHistory(msgspec.Struct, frozen=True):
    """What the tenant knew of the facets of a message before today. Not `ready` if the history is too short.

    `address` and `domain` are those of the first From address; `redirection` says how often that address had its
    replies sent elsewhere, None if this message does not; `hosts` are the organisations that links lead to;
    `mailing_list` says how often posts of the list came from the same network.
    """

    ready: bool = False
    address: Standing = Standing()
    domain: Standing = Standing()
    redirection: FacetAge | None = None
    hosts: dict[str, FacetAge] = {}
    mailing_list: FacetAge = _UNKNOWN


NO_HISTORY = SenderHistory()
# The key that is counted for every delivered message: it shows how long and how full a history is.
ALL_MAIL = int(Facet.SCOPE)
SENDER_FACETS = frozenset({Facet.PROVEN_ADDRESS, Facet.CLAIMED_ADDRESS, Facet.PROVEN_DOMAIN, Facet.CLAIMED_DOMAIN})


def collect_facets(message: Message, envelope: Envelope) -> Facets:
    """Return the facets of a message, from its own text and header."""
    hosts, mailing_list = list_organisations(message.links), _name_list(message, envelope)
    if not message.senders or not message.senders[0].domain:
        return Facets(hosts=hosts, mailing_list=mailing_list)
    sender = message.senders[0]
    return Facets(
        normal_address(str(sender)),
        org_domain(sender.domain),
        _redirects_replies(message, envelope),
        hosts,
        mailing_list,
    )


def _name_list(message: Message, envelope: Envelope) -> str:
    """Return the list that a message says it came through (RFC 2919), with the network of the host that handed it
    over; "" where there is none. Anybody can write the name of a list, but nobody else has an address in its
    network."""
    named = message.headers.first("list-id") or message.headers.first("list-post") or ""
    if not named or not envelope.remote_address:
        return ""
    name = named.rpartition("<")[2].strip("<> \t").lower()[:255]
    return f"{name} {_find_network(envelope.remote_address)}"


def _find_network(host: str) -> str:
    """Return the network of an address: the first 24 bits of an IPv4 address, the first 48 of an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return str(ip_network((address, 24 if address.version == 4 else 48), strict=False))


def list_organisations(links: Iterable[Link]) -> tuple[str, ...]:
    """Return the organisations that links which a reader can follow lead to, each once."""
    found: dict[str, None] = {}
    for count, link in enumerate(links):
        if len(found) >= MAX_HOSTS or count >= MAX_LINKS:
            break
        if link.host and link.can_be_followed and link.url.startswith("http"):
            found[org_domain(link.host)] = None
    return tuple(found)


def make_history_question(asked: Facets) -> AskSightings:
    """Return the question for these facets; guard also remembers them once the message is decided."""
    keys = [facet_key(Facet.HOST, host) for host in asked.hosts]
    if asked.redirects:
        keys.append(facet_key(Facet.REDIRECTION, asked.address))
    if asked.mailing_list:
        keys.append(facet_key(Facet.LIST, asked.mailing_list))
    if not asked.address:
        return AskSightings(tuple(keys))
    address, domain = facet_key(Facet.SCOPE, asked.address), facet_key(Facet.SCOPE, asked.domain)
    return AskSightings(
        tuple(keys),
        (address | Facet.PROVEN_ADDRESS, domain | Facet.PROVEN_DOMAIN),
        (address | Facet.CLAIMED_ADDRESS, domain | Facet.CLAIMED_DOMAIN),
    )


def read_history(asked: Facets, answer: Sightings) -> SenderHistory:
    """Return the history that the answer to a question states."""
    if not answer.ready or len(answer.keys) != len(asked.hosts) + asked.redirects + bool(asked.mailing_list):
        return NO_HISTORY
    hosts = dict(zip(asked.hosts, answer.keys, strict=False))
    mailing_list = answer.keys[-1] if asked.mailing_list else _UNKNOWN
    if len(answer.proven) != 2 or len(answer.claimed) != 2:
        return SenderHistory(ready=True, hosts=hosts, mailing_list=mailing_list)
    return SenderHistory(
        ready=True,
        address=Standing(answer.proven[0], answer.claimed[0]),
        domain=Standing(answer.proven[1], answer.claimed[1]),
        redirection=answer.keys[len(asked.hosts)] if asked.redirects else None,
        hosts=hosts,
        mailing_list=mailing_list,
    )


def add_hosts(met: SenderHistory, inside: SenderHistory) -> SenderHistory:
    """Return a history with the hosts that links in files lead to added."""
    return msgspec.structs.replace(met, hosts={**met.hosts, **inside.hosts}) if inside.hosts else met


def facet_key(facet: Facet, text: str) -> int:
    """Return the key of a facet: 60 bits of a digest (RFC 7693), and the kind of facet."""
    return (_digest(text) if len(text) < 256 else _digest.__wrapped__(text)) | facet


def facet_of(number: int) -> int:
    """Return the facet of a key."""
    return number & _KIND_BITS


def scope_key(tenant: str | None) -> int:
    """Return the key of a tenant; 0 for mail without a tenant."""
    return facet_key(Facet.SCOPE, tenant.lower()) if tenant else 0


@lru_cache(8192)
def _digest(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) & ~_KIND_BITS


def _redirects_replies(message: Message, envelope: Envelope) -> bool:
    if not message.reply_to:
        return False
    domains = [address.domain for address in (*message.senders[:20], *message.recipients[:20])]
    domains.append(envelope.sender.strip("<>").rpartition("@")[2])
    own = {org_domain(domain) for domain in domains if domain}
    return any(reply.domain and org_domain(reply.domain) not in own for reply in message.reply_to[:MAX_REPLIES])
