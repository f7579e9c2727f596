"""The names of the sending host, in HELO and in DNS, and the hosts that a sender's provider would have used."""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from gatepost.checks.known_names import ending_exists, is_under
from gatepost.checks.sender.envelope import is_report
from gatepost.findings import Reading, check
from gatepost.kinds import (
    HELO_BARE_IP,
    HELO_DYNAMIC_NAME,
    HELO_FREEMAIL,
    HELO_LOCAL_NAME,
    HELO_NO_DOT,
    HELO_OWN_DOMAIN,
    HELO_UNKNOWN_ENDING,
    HOST_DYNAMIC_NAME,
    HOST_FALSE_NAME,
    HOST_NO_NAME,
    SENDER_PROVIDER_ABSENT,
    Finding,
)
from gatepost.names import is_ip, normal_domain, org_domain
from gatepost.strengths import coefficients

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
(_REPORT,) = coefficients("helo", "report")
(_HOME_LINE_NAME,) = coefficients(HELO_DYNAMIC_NAME, "home_line")


@check(
    HELO_BARE_IP,
    HELO_NO_DOT,
    HELO_FREEMAIL,
    HELO_UNKNOWN_ENDING,
    HELO_DYNAMIC_NAME,
    HELO_OWN_DOMAIN,
    HELO_LOCAL_NAME,
    HOST_NO_NAME,
    HOST_FALSE_NAME,
    HOST_DYNAMIC_NAME,
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
    otherwise. Home lines have names made from their address. A failure of DNS says nothing.
    """
    yield from _check_helo(reading)
    yield from _check_reverse_name(reading)


def _check_helo(reading: Reading) -> Iterator[Finding]:
    host = reading.envelope.remote_address
    helo = (reading.envelope.helo or "").strip().lower().rstrip(".")
    if not helo or not host or helo.startswith("[") or _INSIDE.match(host):
        return
    ending = helo.rpartition(".")[2]
    strength = _REPORT if is_report(reading) else 1.0
    if helo == ending:
        yield HELO_NO_DOT.at("HELO", strength=strength, helo=helo, host=host)
    elif is_ip(helo):
        yield HELO_BARE_IP.at("HELO", strength=strength, helo=helo, host=host)
    elif ending in INTERNAL_ENDINGS:
        yield HELO_LOCAL_NAME.at("HELO", strength=strength, helo=helo, host=host)
    elif ending == DOCUMENTED:
        return
    elif helo in _BIG:
        # Their servers have names of their own below the domain.
        yield HELO_FREEMAIL.at("HELO", helo=helo, host=host)
    elif not ending_exists(helo):
        yield HELO_UNKNOWN_ENDING.at("HELO", helo=helo, host=host)
    elif carries_address(helo, host):
        if not is_mail_server(helo):
            yield HELO_DYNAMIC_NAME.at("HELO", strength=strength, helo=helo, host=host)
    elif is_home_line(helo):
        yield HELO_DYNAMIC_NAME.at("HELO", strength=_HOME_LINE_NAME, helo=helo, host=host)
    elif _is_recipients(helo, reading):
        yield HELO_OWN_DOMAIN.at("HELO", helo=helo, host=host)


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
    if not seen.host or seen.host_source != "border":
        return
    if seen.iprev.result == "permerror":
        yield HOST_NO_NAME.at("DNS", host=seen.host)
    elif seen.iprev.result == "fail":
        yield HOST_FALSE_NAME.at("DNS", host=seen.host, name=seen.iprev.name)
    elif seen.iprev.result == "pass" and carries_address(seen.iprev.name, seen.host):
        yield HOST_DYNAMIC_NAME.at("DNS", host=seen.host, name=seen.iprev.name)


def _is_recipients(helo: str, reading: Reading) -> bool:
    """Return whether the name is the recipient's own domain, or under one of the own domains without proof."""
    own = reading.protected.own_domains
    if own and is_under(helo, own):
        return not reading.protected.host_trusted and not reading.authentication.aligned
    # Hosts below the recipient's domain may be its relays; the bare domain is the name of no host.
    domains = {normal_domain(recipient.strip("<>").rpartition("@")[2]) for recipient in reading.envelope.recipients}
    return helo in domains and org_domain(helo) not in reading.sender_domains


MAX_HOPS = 15
MAX_HOP_TEXT = 600
_PASSED_ON = ("list-id", "list-post", "mailing-list", "resent-from", "arc-seal", "x-forwarded-for", "sender")


def _load_providers() -> dict[str, tuple[str, ...]]:
    """Return the hosts of its provider for each domain of free mail."""
    providers = tomllib.loads(files("gatepost.checks").joinpath("data", "providers.toml").read_text("utf-8"))
    return {domain: tuple(each["hosts"]) for each in providers.values() for domain in each["mail"]}


_PROVIDER_HOSTS = _load_providers()


@check(SENDER_PROVIDER_ABSENT)
def provider_absent(reading: Reading) -> Iterator[Finding]:
    """Mail of a large provider's customer that never was on a host of that provider.

    `From: Ann <ann@gmail.com>`, and neither a Received field (RFC 5321 section 4.4), nor HELO, nor the Message-ID, nor
    a signature names a host of Google's. These providers take mail only from customers who sign in, write an
    identifier of their own, and sign what they send. Lists, forwarders and services that write for others pass mail
    on, and say so. A few programs send with such an address through another server, so it does not decide alone.
    """
    fields, message = reading.fields, reading.message
    hosts = _PROVIDER_HOSTS.get(normal_domain(message.senders[0].domain)) if message.senders else None
    if hosts is None or "received" not in fields or any(name in fields for name in _PASSED_ON):
        return
    if reading.protected.host_trusted or not reading.envelope.sender.strip("<> "):
        return
    seen = [(reading.envelope.helo or "").lower(), fields.get("message-id", "")[:400].lower()]
    seen += [hop[:MAX_HOP_TEXT].lower() for hop in message.headers.all("received")[:MAX_HOPS]]
    if any(host in text for text in seen for host in hosts):
        return
    if any(org_domain(each.domain) in hosts and each.result != "fail" for each in reading.authentication.dkim):
        return
    yield SENDER_PROVIDER_ABSENT.at("Received", sender=message.senders[0], hosts=", ".join(hosts[:3]))
