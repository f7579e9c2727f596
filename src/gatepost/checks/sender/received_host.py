"""What servers of the recipient wrote into Received fields about the host from which they took the mail."""

import re
from collections.abc import Iterator

import msgspec

from gatepost.checks.known_names import ending_exists
from gatepost.checks.sender.host_names import (
    DOCUMENTED,
    INTERNAL_ENDINGS,
    carries_address,
    is_home_line,
    is_mail_server,
)
from gatepost.findings import Reading, check
from gatepost.kinds import (
    HOST_RECORDED_FALSE_NAME,
    HOST_RECORDED_HELO,
    HOST_RECORDED_LINE,
    HOST_RECORDED_NO_NAME,
    Finding,
)
from gatepost.names import is_ip, org_domain
from gatepost.strengths import coefficients

MAX_HOPS = 8
MAX_HOP_TEXT = 600
(_AT_BORDER,) = coefficients(HOST_RECORDED_LINE, "border")
(_NAMED,) = coefficients(HOST_RECORDED_HELO, "named")

_FROM = re.compile(r"from ([^\s()]{1,255})(?: \(([^)]{0,300}))?")
_ADDRESS = re.compile(r"[\[(@ ](\d{1,3}(?:\.\d{1,3}){3})[\])]")
# The name that a server found for the address stands before it.
_NAME = re.compile(r"(?:^|[\s@])([A-Za-z0-9_][\w.-]{1,250}\.[A-Za-z][A-Za-z0-9-]{1,62})\.? \[")
_HELO = re.compile(r"(?:HELO|EHLO|helo)[= ]([^\s()\[\];]{1,255})")
_READABLE = re.compile(r"[\w.:\[\]-]+")
_BY = re.compile(r"([\w.-]{1,255})(?=[\s(;]|\Z)")
_FOR = re.compile(r" for <?[^<>\s;@]{1,100}@([\w.-]{1,255})")
# A customer who signed in, a web page, or a mailbox that was fetched.
_PROTOCOLS = r"(?:e?smtps?a|asmtp|utf8smtps?a|http|local|pop3|imap|lmtp|fetchmail)\b"
_ACCOUNT = re.compile(rf" (?:with|via) {_PROTOCOLS}|auth", re.IGNORECASE)
_ACCOUNT_WITH, _ACCOUNT_VIA = re.compile(rf" with {_PROTOCOLS}"), re.compile(rf" via {_PROTOCOLS}")
_HELO_MARKS = ("HELO", "EHLO", "helo")
_SENDMAIL = " (8."
_MAIL_SYSTEMS = frozenset({"mailer-daemon", "postmaster"})
_INSIDE = ("127.", "10.", "192.168.", "169.254.")
_PASSED_ON = ("list-id", "list-post", "mailing-list", "x-mailing-list", "resent-from")
_FORGED = "may be forged"


class Hop(msgspec.Struct, frozen=True):
    """One Received field (RFC 5321 section 4.4): what the host said in HELO, its `name` in DNS as the server found it,
    whether the server found none, its address, the server, and the domain of the recipient that the server names;
    `is_inside` for a hop within one network."""

    helo: str
    name: str
    has_no_name: bool
    address: str
    server: str
    recipient: str
    is_inside: bool
    text: str

    @property
    def owner(self) -> str:
        return org_domain(self.server) if "." in self.server else ""


def find_border_hop(reading: Reading) -> tuple[int, Hop] | None:
    """Return the hop by which the mail came to the recipient's side, and how many there were above it.

    The topmost field is that of the recipient's own server. The fields below are those of the recipient's side as long
    as the server is of the same organisation, or says that the recipient is its own (`by mx.club.example … for
    <ann@club.example>`): that is the server to which a forwarding address leads.
    """
    ours: set[str] = set()
    found: tuple[int, Hop] | None = None
    for place, value in enumerate(reading.message.headers.all("received")[:MAX_HOPS]):
        hop = _read_hop(" ".join(value[:MAX_HOP_TEXT].split()))
        recipient = org_domain(hop.recipient) if hop.recipient else ""
        if found and hop.owner not in ours and (not recipient or recipient != hop.owner):
            break
        if not hop.is_inside:
            found = place, hop
        ours.update(filter(None, (hop.owner, recipient)))
    return found


def _read_hop(text: str) -> Hop:
    head, _, tail = text.partition(" by ")
    start, server, recipient = _FROM.match(head), _BY.match(tail), _FOR.search(tail)
    by, owner = server[1].lower() if server else "", recipient[1].lower() if recipient else ""
    if not start:
        return Hop("", "", False, "", by, owner, True, text)
    first, comment = start[1].lower().rstrip("."), start[2] or ""
    if not _READABLE.fullmatch(first) or not by:
        return Hop("", "", False, "", by, owner, False, text)
    said = _HELO.search(head) if any(mark in head for mark in _HELO_MARKS) else None
    name, seen = _NAME.search(comment) if " [" in comment else None, _ADDRESS.search(head)
    address = seen[1] if seen else ""
    helo = said[1].lower() if said else first
    # Some servers write the name in front and what the host said behind it.
    named = name[1].lower() if name else first if said and "." in first and not is_ip(first.strip("[]")) else ""
    # Not every server looks for a name. Those that do say "unknown", or leave its place empty.
    unnamed = not named and (
        comment.startswith("unknown [")
        or (comment.startswith("[") and tail.startswith(_SENDMAIL, len(by)))
        or (said is not None and (first == "unknown" or first.startswith("[")))
    )
    inside = address.startswith(_INSIDE) if address else first == "localhost"
    return Hop(helo, named, unnamed, address, by, owner, inside, text)


@check(HOST_RECORDED_LINE, HOST_RECORDED_HELO, HOST_RECORDED_NO_NAME, HOST_RECORDED_FALSE_NAME)
def received_host(reading: Reading) -> Iterator[Finding]:
    """Mail that the recipient's own side took from a home line, as its Received fields say (RFC 5321 section 4.4).

    Mail often reaches its mailbox through a forwarding address or a relay inside the organisation. The host that
    delivers it is a good one then, and what is known of the host before it stands in the field that the first server
    wrote: `from friend (203-0-113-65.adsl.example.com [203.0.113.65]) by mx.club.example for <ann@club.example>`. That
    server is the one that the recipient's address leads to, so it is handed mail by mail servers. People on home
    lines hand their mail to their provider and sign in there (RFC 6409), which the field says, too. Lists take mail
    from their members, so posts are left out, and so is mail of the server's own users.
    """
    found = reading.once(find_border_hop)
    if found is None or not is_from_stranger(hop := found[1], reading):
        return
    at_border = hop.address == reading.envelope.remote_address
    # What the border says is looked at elsewhere; here only DNS as it was when the mail came.
    is_line = _is_line(hop)
    if not at_border and _is_odd_helo(hop.helo):
        strength = 1.0 if is_line or not hop.name else _NAMED
        yield HOST_RECORDED_HELO.at("Received", strength=strength, helo=hop.helo, host=hop.address, server=hop.server)
    if at_border and reading.authentication.iprev.result in ("pass", "fail"):
        return
    if is_line:
        strength = _AT_BORDER if at_border else 1.0
        name = hop.name or hop.helo
        yield HOST_RECORDED_LINE.at("Received", strength=strength, name=name, host=hop.address, server=hop.server)
    elif hop.has_no_name and not reading.is_signed_by_sender:
        yield HOST_RECORDED_NO_NAME.at("Received", host=hop.address, server=hop.server)
    if _FORGED in hop.text:
        yield HOST_RECORDED_FALSE_NAME.at("Received", name=hop.name, host=hop.address, server=hop.server)


def is_from_stranger(hop: Hop, reading: Reading) -> bool:
    """Return whether a stranger's host handed the mail over: no member of a list, no user of the server, no relay of
    the same organisation."""
    if not hop.address or any(name in reading.fields for name in _PASSED_ON) or _is_by_account(hop.text):
        return False
    # Reports on delivery come from whatever server there is.
    if not reading.envelope.sender.strip("<> ") or any(
        each.local.casefold() in _MAIL_SYSTEMS for each in reading.message.senders[:1]
    ):
        return False
    return hop.owner not in (org_domain(hop.helo), *reading.sender_domains)


def _is_by_account(text: str) -> bool:
    """Return whether the sender was a known user. Two expressions that begin with a fixed text are quicker than one
    that ignores case, which is left for text that has other cases than ASCII."""
    if not text.isascii():
        return _ACCOUNT.search(text) is not None
    low = text.lower()
    return "auth" in low or _ACCOUNT_WITH.search(low) is not None or _ACCOUNT_VIA.search(low) is not None


def _is_line(hop: Hop) -> bool:
    """Return whether the host is a home line by its name in DNS, or by what it said where it has none. A server under
    the same domain as that name gave a name of its own."""
    name = hop.name or hop.helo
    if not name or (hop.helo != name and org_domain(hop.helo) == org_domain(name) and not is_home_line(hop.helo)):
        return False
    return is_home_line(name) or (carries_address(name, hop.address) and not is_mail_server(name))


def _is_odd_helo(helo: str) -> bool:
    """Return whether the host named itself as no mail server does: a word, an address, an ending that does not
    exist."""
    if "." not in helo or is_ip(helo):
        return helo[:1] != "["
    ending = helo.rpartition(".")[2]
    return ending != DOCUMENTED and ending not in INTERNAL_ENDINGS and not ending_exists(helo)
