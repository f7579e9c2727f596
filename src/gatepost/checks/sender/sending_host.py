"""The sending host: its names in HELO and in DNS, the hosts that a sender's provider would have used, and what servers
of the recipient wrote into Received fields about the host from which they took the mail.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

import msgspec

from gatepost.auth.sending_host import find_posting_field
from gatepost.checks.known_names import ending_exists, is_forwarder, is_under
from gatepost.checks.reading import Reading, check
from gatepost.checks.sender.envelope import measure_care
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import is_ip, normal_domain, org_domain
from gatepost.speedups import native

_INSIDE = re.compile(
    r"\[?(?:10\.|127\.|192\.168\.|169\.254\.|172\.(?:1[6-9]|2\d|3[01])\.|::1|f[cd]|fe80)", re.IGNORECASE
)
_LINE = re.compile(
    r"(?:^|[.-])(?:[ax]?dsl|dial(?:up|in)?|dyn(?:amic)?|pppoe?|cable|dhcp|pool|ppp\d+|cust\d*|client|user\d*|broadband|"
    r"customer|home|catv|wimax|fttx?|ip|host)(?=[.\d-])"
)
# Words that no mail server bears; the name has a number, too.
_HOME_LINE = re.compile(r"(?:^|[.\d-])(?:[ax]dsl|dial(?:up|in)|dyn(?:amic)?|pppoe?|dhcp|ipconnect|abo|catv)\d{0,6}[.-]")
# What a host that is there to send mail is called; a home line has none of these.
_SERVER = re.compile(r"(?:^|[.\d-])(?:smtp|mta|mx|mail|mailer|out|outbound|relay|send|sender|reverse)[\d-]*\.")
_DIGITS = re.compile(r"\d+")
_BIG = frozenset(
    "gmail.com google.com yahoo.com hotmail.com outlook.com msn.com live.com aol.com icloud.com mail.ru".split()
)
# Names that only exist inside a network: a server that says one is badly set up, not a home computer.
INTERNAL_ENDINGS = frozenset("local localdomain lan internal intranet corp home localhost test invalid".split())
# For documentation (RFC 2606 section 2): no host has such a name, so none can be suspected.
DOCUMENTED = "example"
(_HOME_LINE_NAME,) = coefficients(kinds.HELO_DYNAMIC_NAME, "home_line")


@check(
    *kinds.list_kinds("helo:"),
    kinds.HOST_NO_NAME,
    kinds.HOST_FALSE_NAME,
    kinds.HOST_DYNAMIC_NAME,
)
def host_names(reading: Reading) -> Iterator[Finding]:
    """The names of the sending host: the one that it gives itself (HELO, RFC 5321 section 4.1.1.1) and its name in DNS
    (iprev, RFC 8601 section 3).

    Mail servers give their full name. Programs on home computers give what comes first: a bare address, a word without
    a dot, a name under an ending that does not exist, the line's own name with the address in it
    (`125-24-153-65.adsl.example`), or the name of the domain that they send to. Large senders put the address into the
    names of their own hosts, too, but say what those are for (`o65113.smtp.sender.example`); a host that only reports
    that mail could not be delivered is believed more.

    Every provider gives its mail servers a name in DNS that leads back to their address; many receivers refuse mail
    otherwise. Home lines have names made from their address. So have some hosts of services that forward mail from
    addresses to be given away; those are left out where DNS or SPF proves them. A failure of DNS says nothing.
    """
    yield from _check_helo(reading)
    yield from _check_reverse_name(reading)


def _check_helo(reading: Reading) -> Iterator[Finding]:
    host = reading.envelope.remote_address
    helo = (reading.envelope.helo or "").strip().lower().rstrip(".")
    if not helo or not host or helo.startswith("[") or _INSIDE.match(host):
        return
    ending = helo.rpartition(".")[2]
    strength = measure_care(reading)
    if helo == ending:
        yield kinds.HELO_NO_DOT.at("HELO", strength=strength, helo=helo, host=host)
    elif is_ip(helo):
        yield kinds.HELO_BARE_IP.at("HELO", strength=strength, helo=helo, host=host)
    elif ending in INTERNAL_ENDINGS:
        yield kinds.HELO_LOCAL_NAME.at("HELO", strength=strength, helo=helo, host=host)
    elif ending == DOCUMENTED:
        return
    elif helo in _BIG:
        # Their servers have names of their own below the domain.
        yield kinds.HELO_FREEMAIL.at("HELO", helo=helo, host=host)
    elif not ending_exists(helo):
        yield kinds.HELO_UNKNOWN_ENDING.at("HELO", helo=helo, host=host)
    elif carries_address(helo, host):
        if not is_mail_server(helo) and not _is_proven_forwarder(helo, reading):
            yield kinds.HELO_DYNAMIC_NAME.at("HELO", strength=strength, helo=helo, host=host)
    elif is_home_line(helo):
        yield kinds.HELO_DYNAMIC_NAME.at("HELO", strength=_HOME_LINE_NAME, helo=helo, host=host)
    elif _is_recipients(helo, reading):
        yield kinds.HELO_OWN_DOMAIN.at("HELO", helo=helo, host=host)


def _is_proven_forwarder(helo: str, reading: Reading) -> bool:
    """Return whether a service that forwards mail from addresses to be given away named itself, and DNS or SPF proves
    it. Such services name their hosts as a provider names its lines; anybody can say such a name."""
    if not is_forwarder(helo):
        return False
    seen = reading.authentication
    if seen.iprev.result == "pass" and is_forwarder(normal_domain(seen.iprev.name)):
        return True
    return any(each.result == "pass" and is_forwarder(normal_domain(each.domain)) for each in (seen.spf, seen.helo))


def is_home_line(name: str) -> bool:
    """Return whether a host's name has a word for a home line, and a number."""
    return _HOME_LINE.search(name) is not None and _DIGITS.search(name) is not None


def is_mail_server(name: str) -> bool:
    """Return whether a host's name says that the host is there to send mail."""
    return _SERVER.search(name) is not None


def carries_address(name: str, host: str) -> bool:
    """Return whether a host's name is made from its IPv4 address: all four numbers in any order or writing, or two of
    them with the last one and a word for a line. Providers name the lines of their customers so."""
    octets = host.split(".")
    if len(octets) != 4 or not all(octet.isdigit() and len(octet) < 4 for octet in octets):
        return False
    runs = _DIGITS.findall(name)
    if not runs:
        return False
    numbers = {number.lstrip("0") or "0" for number in runs}
    held = len(numbers.intersection(octets))
    if held == len(set(octets)) or any(form in name for form in _join_octets(host)):
        return True
    return held > 1 and octets[-1] in numbers and _LINE.search(name) is not None


@lru_cache(4096)
def _join_octets(address: str) -> tuple[str, ...]:
    """Return an address without its dots: as it is, with leading zeros, in hex digits."""
    octets = address.split(".")
    return (
        "".join(octets),
        "".join(octet.zfill(3) for octet in octets),
        "".join(f"{int(octet):02x}" for octet in octets),
    )


def _check_reverse_name(reading: Reading) -> Iterator[Finding]:
    seen = reading.authentication
    # A host that the sender's domain names by SPF needs no name of its own: services share one among many senders.
    if not seen.host or seen.host_source != "border" or seen.dmarc.spf_aligned:
        return
    if seen.iprev.result == "permerror":
        yield kinds.HOST_NO_NAME.at("DNS", host=seen.host)
    elif seen.iprev.result == "fail":
        yield kinds.HOST_FALSE_NAME.at("DNS", host=seen.host, name=seen.iprev.name)
    elif (
        seen.iprev.result == "pass"
        and carries_address(seen.iprev.name, seen.host)
        and not is_forwarder(normal_domain(seen.iprev.name))
    ):
        yield kinds.HOST_DYNAMIC_NAME.at("DNS", host=seen.host, name=seen.iprev.name)


def _is_recipients(helo: str, reading: Reading) -> bool:
    """Return whether the name is the recipient's own domain, or under one of the own domains without proof."""
    own = reading.protected.own_domains
    if own and is_under(helo, own):
        return not reading.protected.host_trusted and not reading.authentication.aligned
    # Hosts below the recipient's domain may be its relays; the bare domain is the name of no host.
    domains = {normal_domain(recipient.strip("<>").rpartition("@")[2]) for recipient in reading.envelope.recipients}
    return helo in domains and org_domain(helo) not in reading.sender_domains


MAX_NAMED_HOPS = 15
MAX_HOP_TEXT = 600


_PROVIDERS = tomllib.loads(files("gatepost.checks").joinpath("data", "providers.toml").read_text("utf-8"))
# The hosts of its provider for each domain of free mail.
PROVIDER_HOSTS = {domain: tuple(each["hosts"]) for each in _PROVIDERS.values() for domain in each["mail"]}


@check(kinds.SENDER_PROVIDER_ABSENT, needs={"provider-sender"})
def provider_absent(reading: Reading) -> Iterator[Finding]:
    """Mail of a large provider's customer that never was on a host of that provider.

    `From: Ann <ann@gmail.com>`, and neither a Received field (RFC 5321 section 4.4), nor HELO, nor the Message-ID, nor
    a signature names a host of Google's. These providers take mail only from customers who sign in, write an
    identifier of their own, and sign what they send. Lists, forwarders and services that write for others pass mail
    on, and say so. A few programs send with such an address through another server, so it does not decide alone.
    """
    fields, message = reading.fields, reading.message
    hosts = PROVIDER_HOSTS.get(normal_domain(message.senders[0].domain)) if message.senders else None
    if hosts is None or "received" not in fields:
        return
    # A list that keeps the fields of its members says where a post came from.
    if reading.is_known_list and reading.once(find_posting_hop) is None:
        return
    if reading.protected.host_trusted or not reading.envelope.sender.strip("<> "):
        return
    seen = [(reading.envelope.helo or "").lower(), fields.get("message-id", "")[:400].lower()]
    seen += [hop[:MAX_HOP_TEXT].lower() for hop in reading.hops[:MAX_NAMED_HOPS]]
    if any(host in text for text in seen for host in hosts):
        return
    if any(org_domain(each.domain) in hosts and each.result != "fail" for each in reading.authentication.dkim):
        return
    yield kinds.SENDER_PROVIDER_ABSENT.at("Received", sender=message.senders[0], hosts=", ".join(hosts[:3]))


MAX_HOPS = 8
_AT_BORDER, _POSTED = coefficients(kinds.HOST_RECORDED_LINE, "border", "posted")
(_NAMED,) = coefficients(kinds.HOST_RECORDED_HELO, "named")

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
_INSIDE_PREFIXES = ("127.", "10.", "192.168.", "169.254.")
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
    for place, value in enumerate(reading.hops[:MAX_HOPS]):
        hop = read_hop(value)
        recipient = org_domain(hop.recipient) if hop.recipient else ""
        if found and hop.owner not in ours and (not recipient or recipient != hop.owner):
            break
        if not hop.is_inside:
            found = place, hop
        ours.update(filter(None, (hop.owner, recipient)))
    return found


def find_posting_hop(reading: Reading) -> Hop | None:
    """Return the hop by which a post came to its list; None for mail that names no list, or where the fields are gone.
    Whoever poses as a list can write such a field: it can only accuse."""
    value = find_posting_field(reading.message.headers.fields) if reading.claims_discussion else ""
    return read_hop(value) if value else None


def read_hop(value: str) -> Hop:
    """Return what a Received field says."""
    plain: Hop | None = native.read_hop(value, MAX_HOP_TEXT, Hop) if native else None
    return plain or read_any_hop(value)


def read_any_hop(value: str) -> Hop:
    """The same for every value; `read_hop` in `_speedups.c` is the native form for those in ASCII."""
    text = " ".join(value[:MAX_HOP_TEXT].split())
    head, _, tail = text.partition(" by ")
    server, recipient = _BY.match(tail), _FOR.search(tail)
    by, owner = server[1].lower() if server else "", recipient[1].lower() if recipient else ""
    host = _read_head(head)
    if host is None:
        return Hop("", "", False, "", by, owner, True, text)
    if not host.is_readable or not by:
        return Hop("", "", False, "", by, owner, False, text)
    # Not every server looks for a name. Those that do say "unknown", or leave its place empty.
    is_unnamed = not host.name and (host.is_unknown or (host.is_bracketed and tail.startswith(_SENDMAIL, len(by))))
    return Hop(host.helo, host.name, is_unnamed, host.address, by, owner, host.is_inside, text)


class _NamedHost(msgspec.Struct, frozen=True):
    """What stands before `by`: the host, as a server saw it. It is the same text for every mail of that host."""

    helo: str
    name: str
    address: str
    is_inside: bool
    is_readable: bool
    is_unknown: bool
    is_bracketed: bool


@lru_cache(4096)
def _read_head(head: str) -> _NamedHost | None:
    start = _FROM.match(head)
    if not start:
        return None
    first, comment = start[1].lower().rstrip("."), start[2] or ""
    if not _READABLE.fullmatch(first):
        return _NamedHost("", "", "", False, False, False, False)
    said = _HELO.search(head) if any(mark in head for mark in _HELO_MARKS) else None
    name, seen = _NAME.search(comment) if " [" in comment else None, _ADDRESS.search(head)
    address = seen[1] if seen else ""
    helo = said[1].lower() if said else first
    # Some servers write the name in front and what the host said behind it.
    named = name[1].lower() if name else first if said and "." in first and not is_ip(first.strip("[]")) else ""
    is_unknown = comment.startswith("unknown [") or (said is not None and (first == "unknown" or first.startswith("[")))
    is_inside = address.startswith(_INSIDE_PREFIXES) if address else first == "localhost"
    return _NamedHost(helo, named, address, is_inside, True, is_unknown, comment.startswith("["))


@check(*kinds.list_kinds("host:recorded-"), needs={"hop"})
def received_host(reading: Reading) -> Iterator[Finding]:
    """Mail that the recipient's own side took from a home line, as its Received fields say (RFC 5321 section 4.4).

    Mail often reaches its mailbox through a forwarding address or a relay inside the organisation. The host that
    delivers it is a good one then, and what is known of the host before it stands in the field that the first server
    wrote: `from friend (203-0-113-65.adsl.example.com [203.0.113.65]) by mx.club.example for <ann@club.example>`. That
    server is the one that the recipient's address leads to, so it is handed mail by mail servers. People on home
    lines hand their mail to their provider and sign in there (RFC 6409), which the field says, too. Mail of the
    server's own users is left out. What a list sends on came to the list before, and the hop by which it did is looked
    at in the same way.
    """
    if _is_of_system(reading):
        return
    found, posted = reading.once(find_border_hop), reading.once(find_posting_hop)
    hops = [found[1]] if found and not reading.is_known_list else []
    if posted and all(posted.address != hop.address for hop in hops):
        hops.append(posted)
    for hop in hops:
        if is_from_stranger(hop, reading):
            yield from _judge_hop(hop, reading)


def _judge_hop(hop: Hop, reading: Reading) -> Iterator[Finding]:
    at_border = hop.address == reading.envelope.remote_address
    # What the border says is looked at elsewhere; here only DNS as it was when the mail came.
    is_line = _is_line(hop)
    if not at_border and _is_odd_helo(hop.helo):
        strength = 1.0 if is_line or not hop.name else _NAMED
        yield kinds.HOST_RECORDED_HELO.at(
            "Received", strength=strength, helo=hop.helo, host=hop.address, server=hop.server
        )
    if at_border and reading.authentication.iprev.result in ("pass", "fail"):
        return
    if is_line:
        strength = _AT_BORDER if at_border else _POSTED if hop == reading.once(find_posting_hop) else 1.0
        name = hop.name or hop.helo
        yield kinds.HOST_RECORDED_LINE.at("Received", strength=strength, name=name, host=hop.address, server=hop.server)
    elif hop.has_no_name and not reading.is_known_sender:
        yield kinds.HOST_RECORDED_NO_NAME.at("Received", host=hop.address, server=hop.server)
    if _FORGED in hop.text:
        yield kinds.HOST_RECORDED_FALSE_NAME.at("Received", name=hop.name, host=hop.address, server=hop.server)


def is_from_stranger(hop: Hop, reading: Reading) -> bool:
    """Return whether a stranger's host handed the mail over: no user of the server, no relay of its organisation."""
    if not hop.address or _is_of_system(reading) or _is_by_account(hop.text):
        return False
    return hop.owner not in (org_domain(hop.helo), *reading.sender_domains)


def _is_of_system(reading: Reading) -> bool:
    """Return whether the mail is a report on delivery, which comes from whatever server there is."""
    if not reading.envelope.sender.strip("<> "):
        return True
    senders = reading.message.senders
    return bool(senders) and senders[0].local.casefold() in _MAIL_SYSTEMS


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
    """Return whether the host named itself as no mail server does: a word, an address, an unknown ending."""
    if "." not in helo or is_ip(helo):
        return helo[:1] != "["
    ending = helo.rpartition(".")[2]
    return ending != DOCUMENTED and ending not in INTERNAL_ENDINGS and not ending_exists(helo)
