"""Which host sent the message to us, where the border MTA did not say or was a relay of our own.

Every MTA puts a Received field on top (RFC 5321 section 4.4) with the address it saw in the comment after `from`:

    Received: from what-it-said.example (its.name.example [192.0.2.1]) by mx.example with ESMTPS

Fields are read from the top, hop by hop, as long as the address is that of a trusted relay; the first other address
is the sending host. Below that one everything was written by strangers. The name after `from` and what follows
`helo=` are the sender's own words, so an address there counts only where the MTA recorded none elsewhere.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

import msgspec

from gatepost.auth.dnsname import IpAddress, address
from gatepost.mail.message import Envelope, Field

Network = IPv4Network | IPv6Network

MAX_HOPS = 50
MAX_TEXT = 2_000

_TOKEN = re.compile(r"[()]|[^\s()]+")
_ADDRESS = re.compile(r"\[(?:IPv6:)?([0-9A-Fa-f:.]{2,45})\]|(?<![^\s(@])([0-9A-Fa-f:.]{2,45})(?![^\s,;)])", re.IGNORECASE)
_HELO = re.compile(r"\b[he]h?lo[= ]\S*", re.IGNORECASE)


class SendingHost(msgspec.Struct, frozen=True):
    """The host's address, what it said in HELO, and how both are known."""

    address: IpAddress | None = None
    helo: str = ""
    source: Literal["border", "received", "unknown"] = "unknown"


class _Hop(msgspec.Struct, frozen=True):
    """One Received field: `local` is a hop that crossed no network."""

    address: IpAddress | None
    helo: str
    local: bool


def find(envelope: Envelope, fields: Iterable[Field], trusted: tuple[Network, ...] = ()) -> SendingHost:
    """The first host past the trusted relays, the border MTA's peer first."""
    peer = address(envelope.remote_address or "")
    if peer is not None and not _is_trusted(peer, trusted):
        return SendingHost(peer, envelope.helo or "", "border")
    seen = 0
    for field in fields:
        if field.name != "received":
            continue
        seen += 1
        hop = _hop(field.value[:MAX_TEXT])
        if hop.local or (hop.address and (hop.address.is_loopback or _is_trusted(hop.address, trusted))):
            if seen < MAX_HOPS:
                continue
            break
        if hop.address is None:
            break
        return SendingHost(hop.address, hop.helo, "received")
    # Nothing but trusted hops: then the nearest of them sent it.
    return SendingHost(peer, envelope.helo or "", "border") if peer else SendingHost(helo=envelope.helo or "")


def _is_trusted(host: IpAddress, trusted: tuple[Network, ...]) -> bool:
    return any(host in network for network in trusted)


def _hop(value: str) -> _Hop:
    words, comments, protocol = _clauses(value)
    if not words:
        return _Hop(None, "", local=True)
    said = _HELO.search(comments)
    helo = re.split("[= ]", said[0], maxsplit=1)[1].strip("()[],") if said else words[0]
    found = _addresses(_HELO.sub(" ", comments)) or _addresses(words[0])
    return _Hop(found[-1] if found else None, helo, local=not found and protocol.lower() == "local")


def _clauses(value: str) -> tuple[list[str], str, str]:
    """The words after `from`, the comments up to `by`, and the word after `with`; all empty without a `from`."""
    words: list[str] = []
    comments: list[str] = []
    depth = 0
    before = ""
    for token in _TOKEN.findall(value):
        if token in "()":
            depth = max(0, depth + (1 if token == "(" else -1))
            comments.append(token)
        elif depth:
            comments.append(token)
        else:
            before, last = token.lower(), before
            words.append(token)
            if last == "with":
                break
    lower = [word.lower() for word in words]
    return lower, "", before
