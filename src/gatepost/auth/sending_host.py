"""Which host sent the message to us, where the message comes from, and whether the host's name leads back to it.

Where the border MTA did not say, or was a relay of our own, the Received fields tell. Every MTA puts one on top (RFC
5321 section 4.4) with the address it saw in the comment after `from`: `Received: from what-it-said.example
(its.name.example [192.0.2.1]) by mx.example with ESMTPS`. Fields are read from the top, hop by hop, as long as the
address is that of a trusted relay; the first other address is the sending host. Below that one everything was written
by strangers. The name after `from` and the text after `helo=` are the sender's own words, so an address there counts
only where the MTA recorded none elsewhere.

iprev (RFC 8601 section 3) follows the name of the sending host back to its address. Anyone can publish any name for an
address of their own; only the owner of the name can make it point back.

Mail that a list sends on comes from the list's host, which says nothing of who wrote it. The server to which the list's
address leads took the post from the author's side and wrote that down before: `by mx.lists.example with ESMTPS for
<talk@lists.example>`. Whoever poses as a list can write such a field as well: it is asked about, and excuses nothing.

Names that DNS is asked for keep to RFC 1035 section 2.3.4. They come from hostile places (envelope, From, macros in SPF
records), so `is_queryable` and the functions beside it raise nothing.
"""

import re
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import islice
from typing import Any, Literal, TypeAlias

import msgspec

from gatepost.auth.origin import MAX_TEXT, IpAddress, is_login, is_private
from gatepost.auth.results import Iprev, Origin
from gatepost.mail.message import Envelope, Field
from gatepost.names import MAX_HOST, org_domain
from gatepost.questions import Asking, Dns, DnsAnswer

MAX_LABEL = 63
# Addresses that are looked at in one answer: a reply over TCP can carry thousands.
MAX_ADDRESSES = 500
_LONGEST = 45


def is_queryable(name: str) -> bool:
    """Return whether DNS can be asked for this name. SPF macros make odd but printable names."""
    if not 0 < len(name) <= MAX_HOST or not (name.isascii() and name.isprintable()):
        return False
    labels = name.split(".")
    return "" not in labels and max(map(len, labels)) <= MAX_LABEL


def is_domain(name: str) -> bool:
    """Return whether this is a name of several labels that a mail domain can have (RFC 7208 section 4.3)."""
    return "." in name and is_queryable(name) and name[0] != "[" and " " not in name


def parse_address(text: str) -> IpAddress | None:
    """Parse an IP address; IPv4 written as IPv6 becomes IPv4 (RFC 7208 section 5). Return None for any other text."""
    return _parse_cached(text) if len(text) <= _LONGEST else _parse_address(text)


def _parse_address(text: str) -> IpAddress | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


# The same hosts send again and again, and taking an address apart is slow.
_parse_cached = lru_cache(4096)(_parse_address)


def parse_addresses(answer: DnsAnswer) -> Iterator[IpAddress]:
    """Return the addresses in an answer, at most `MAX_ADDRESSES` of them."""
    return filter(None, map(parse_address, answer.records[:MAX_ADDRESSES]))


def reverse_name(host: IpAddress) -> str:
    """Return the name under which an address keeps its PTR records (RFC 1035 section 3.5, RFC 3596 section 2.5)."""
    parts = str(host).split(".") if host.version == 4 else format(int(host), "032x")
    return f"{'.'.join(reversed(parts))}.{'in-addr' if host.version == 4 else 'ip6'}.arpa"


AddressSet: TypeAlias = Container[Any]  # of addresses: one network of `ipaddress`, or a set of many

HOST_NOT_KNOWN = "not evaluated, the sending host is not known"
MAX_HOPS = 50

_CLAUSES = frozenset({"from", "by", "via", "with", "id", "for"})
# Mail that a program of ours handed on or fetched from a mailbox of ours: no host sent it to us there.
_OWN = frozenset({"local", "pop3", "imap"})
_WORD = re.compile(r"[()]|[^\s()]+")
_BRACKETED = re.compile(r"\[(?:IPv6:)?([0-9A-Fa-f:.]{2,45})\]", re.IGNORECASE)
_BARE = re.compile(r"(?<![^\s@])[0-9A-Fa-f:.]{2,45}(?![^\s,;])")
_HELO = re.compile(r"\b(?:helo|ehlo)[= ](\S*)", re.IGNORECASE)


class SendingHost(msgspec.Struct, frozen=True):
    """The host's address, what it said in HELO, how both are known, and where the message comes from."""

    address: IpAddress | None = None
    helo: str = ""
    source: Literal["border", "received", "unknown"] = "unknown"
    origin: Origin = "unknown"

    @property
    def asked(self) -> IpAddress | None:
        """The address that DNS is asked about; None where it says nothing of the sender."""
        return self.address if self.origin == "outside" else None

    @property
    def is_own(self) -> bool:
        """Whether people of the house sent the message: nobody is asked whether they may use their own names."""
        return self.origin in ("own network", "logged in")


class _Hop(msgspec.Struct, frozen=True):
    """One Received field: `local` is a hop that crossed no network, `logged_in` one whose client had logged in."""

    address: IpAddress | None
    helo: str
    local: bool
    logged_in: bool = False


def find_sending_host(
    envelope: Envelope,
    fields: Iterable[Field],
    trusted: tuple[AddressSet, ...] = (),
    own_networks: tuple[AddressSet, ...] = (),
) -> SendingHost:
    """Return the first host past the trusted relays, the border MTA's peer first, and where the message comes from."""
    found = _follow_relays(envelope, fields, trusted, own_networks)
    if envelope.logged_in:
        return msgspec.structs.replace(found, origin="logged in")
    if envelope.local or envelope.outbound:
        return msgspec.structs.replace(found, origin="own network")
    return found


def _follow_relays(
    envelope: Envelope, fields: Iterable[Field], trusted: tuple[AddressSet, ...], own: tuple[AddressSet, ...]
) -> SendingHost:
    peer = parse_address(envelope.remote_address or "")
    if peer is not None and not _is_among(peer, trusted):
        return SendingHost(peer, envelope.helo or "", "border", _place(peer, own))
    received = (field for field in fields if field.name == "received")
    for field in islice(received, MAX_HOPS):
        hop = _read_hop(field.value[:MAX_TEXT])
        if hop.local or (hop.address and (hop.address.is_loopback or _is_among(hop.address, trusted))):
            continue
        if hop.address is None:
            break
        origin: Origin = "logged in" if hop.logged_in else _place(hop.address, own)
        if peer is None and origin != "outside":
            origin = "unknown"
        return SendingHost(hop.address, hop.helo, "received", origin)
    # Nothing past our own relays is known: then the nearest of them sent it.
    return SendingHost(peer, envelope.helo or "", "border") if peer else SendingHost(helo=envelope.helo or "")


def _place(host: IpAddress, own_networks: tuple[AddressSet, ...]) -> Origin:
    """Return what the address of a client says of where it is."""
    if _is_among(host, own_networks):
        return "own network"
    return "unknown" if is_private(host) else "outside"


MAX_LIST_HOPS = 15
_LIST_DOMAIN = re.compile(r"[@<.]([\w-]{1,63}(?:\.[\w-]{1,63}){1,8})>")
_BY = re.compile(r"\sby\s+([\w.-]{1,255})")
_FOR = re.compile(r"\sfor\s+<?[^<>\s;@]{1,100}@([\w.-]{1,255})")


def find_posting_field(fields: Iterable[Field]) -> str:
    """Return the Received field by which a post came to the list that its List-Post names (RFC 2369 section 3.4); ""
    for other mail, and where a list took such fields away."""
    lists: set[str] = set()
    received: list[str] = []
    for field in fields:
        if field.name == "received" and len(received) < MAX_LIST_HOPS:
            received.append(field.value[:MAX_TEXT])
        elif field.name == "list-post":
            lists.update(org_domain(domain.lower()) for domain in _LIST_DOMAIN.findall(field.value[:MAX_TEXT]))
    return next((value for value in received[1:] if _is_posting(value, lists)), "") if lists else ""


def _is_posting(value: str, lists: set[str]) -> bool:
    """Return whether a list's server wrote a field, and took the mail from somebody else's host."""
    server, reader = _BY.search(value), _FOR.search(value)
    by = org_domain(server[1].lower()) if server else ""
    if by not in lists and not (reader and org_domain(reader[1].lower()) in lists):
        return False
    hop = _read_hop(value)
    if hop.local or hop.address is None or is_private(hop.address):
        return False
    return org_domain(hop.helo.lower()) not in {*lists, by}


def find_posting_host(fields: Iterable[Field]) -> IpAddress | None:
    """Return the address of the host that handed a post to its list."""
    value = find_posting_field(fields)
    return _read_hop(value).address if value else None


def _is_among(host: IpAddress, networks: tuple[AddressSet, ...]) -> bool:
    return any(host in network for network in networks)


def _read_hop(value: str) -> _Hop:
    words, comment, protocol = _split_clauses(value)
    if not words or protocol in _OWN:
        return _Hop(None, "", local=True)
    helo = _HELO.search(comment)
    found = _find_recorded_address(_HELO.sub(" ", comment)) or _find_recorded_address(" ".join(words))
    return _Hop(found, helo[1].strip("[],;") if helo else words[0], local=False, logged_in=is_login(value))


def _split_clauses(value: str) -> tuple[list[str], str, str]:
    """Return the words after `from`, the comments up to `by`, and the protocol; empty without a `from`."""
    words: list[str] = []
    comment: list[str] = []
    clause, depth = "", 0
    for word in _WORD.findall(value):
        if word in "()":
            depth = max(0, depth + (1 if word == "(" else -1))
        elif depth:
            if clause == "from":
                comment.append(word)
        elif clause == "with":
            return words, " ".join(comment), word.lower()
        elif word.lower() in _CLAUSES and (words or not clause):
            clause = word.lower()
        elif clause == "from":
            words.append(word)
        elif not clause:
            break
    return words, " ".join(comment), ""


def _find_recorded_address(text: str) -> IpAddress | None:
    """Return the address that an MTA recorded: the first in brackets, behind a user's ident, else a bare one."""
    texts = [*(found[1] for found in _BRACKETED.finditer(text)), *_BARE.findall(text)]
    return next((found for text in texts if (found := parse_address(text))), None)


# RFC 8601 section 3 asks for a limit on the names that are followed.
MAX_REVERSE_NAMES = 10


def verify_iprev(host: IpAddress | None) -> Asking[Iprev]:
    """Follow the host's names back to its address."""
    if host is None:
        return Iprev(reason=HOST_NOT_KNOWN)
    (answer,) = yield (Dns(reverse_name(host), "PTR"),)
    if answer.status == "failed":
        return Iprev("temperror", reason="DNS failed for the host's name")
    claimed = [name.lower().removesuffix(".") for name in answer.records[:MAX_REVERSE_NAMES]]
    names = [name for name in claimed if is_queryable(name)]
    if not names:
        return Iprev("permerror", reason="the host has no name")
    answers = yield tuple(Dns(name, "A" if host.version == 4 else "AAAA") for name in names)
    for name, forward in zip(names, answers, strict=False):
        if host in parse_addresses(forward):
            return Iprev("pass", name)
    if any(forward.status == "failed" for forward in answers):
        return Iprev("temperror", names[0], "DNS failed for the name's address")
    return Iprev("fail", names[0], "the name does not lead back to the host")
