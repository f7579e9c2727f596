"""What the sending host said of itself (HELO, RFC 5321 section 4.1.1.1): its full name, or its address in brackets.

Mail servers say their name. Programs on home computers say what comes first: a bare address, a word without a dot, a
name under an ending that does not exist, the line's own name with the address in it (`125-24-153-65.adsl.example`), or
the name of whom they send to. Large senders put the address into the names of their own hosts, too, but say what those
are for (`o65113.smtp.sender.example`); and who only reports that mail could not be delivered is believed more.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.null_sender import is_report
from gatepost.checks.wellknown import ending_exists, is_under
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import is_ip, normal_domain, org_domain

BARE = Kind("helo:bare-ip", "The sending host gave a bare IP address as its name")
NO_DOT = Kind("helo:no-dot", "The sending host gave a single word as its name")
LOCAL = Kind("helo:local-name", "The sending host gave a name that means nothing outside its own network")
FREEMAIL = Kind("helo:freemail", "The sending host gave a free mail service's bare domain as its name")
UNKNOWN = Kind("helo:unknown-ending", "The sending host gave a name under an ending that does not exist")
DYNAMIC = Kind("helo:dynamic-name", "The sending host's name is that of a dial-up or home line")
OWN = Kind("helo:own-domain", "The sending host claims to be the recipient's own")
KINDS = (BARE, NO_DOT, FREEMAIL, UNKNOWN, DYNAMIC, OWN, LOCAL)

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
_LOCAL = frozenset("local localdomain lan internal intranet corp home localhost test invalid".split())
# For documentation (RFC 2606 section 2): nobody has such a name, so there is nobody to suspect.
_DOCUMENTED = "example"


def check(reading: Reading) -> Iterator[Finding]:
    host = reading.envelope.remote_address
    helo = (reading.envelope.helo or "").strip().lower().rstrip(".")
    if not helo or not host or helo.startswith("[") or _INSIDE.match(host):
        return
    ending = helo.rpartition(".")[2]
    believed = 0.5 if is_report(reading) else 1.0
    if helo == ending:
        yield NO_DOT.at("HELO", strength=believed, helo=helo, host=host)
    elif is_ip(helo):
        yield BARE.at("HELO", strength=believed, helo=helo, host=host)
    elif ending in _LOCAL:
        yield LOCAL.at("HELO", strength=believed, helo=helo, host=host)
    elif ending == _DOCUMENTED:
        return
    elif helo in _BIG:
        # Their servers have names of their own below the domain.
        yield FREEMAIL.at("HELO", helo=helo, host=host)
    elif not ending_exists(helo):
        yield UNKNOWN.at("HELO", helo=helo, host=host)
    elif carries_address(helo, host):
        if not _SERVER.search(helo):
            yield DYNAMIC.at("HELO", strength=believed, helo=helo, host=host)
    elif _HOME_LINE.search(helo) and _DIGITS.search(helo):
        yield DYNAMIC.at("HELO", strength=0.6, helo=helo, host=host)
    elif _is_recipients(helo, reading):
        yield OWN.at("HELO", helo=helo, host=host)


def carries_address(name: str, host: str) -> bool:
    """Whether a host's name is made from its IPv4 address: all four numbers in any order or writing, or two of them
    with the last one and a word for a line. Providers name the lines of their customers so."""
    octets = host.split(".")
    if len(octets) != 4 or not all(octet.isdigit() and len(octet) < 4 for octet in octets):
        return False
    runs = _DIGITS.findall(name)
    if not runs:
        return False
    numbers = {number.lstrip("0") or "0" for number in runs}
    held = len(numbers.intersection(octets))
    if held == len(set(octets)) or any(form in name for form in _joined(host)):
        return True
    return held > 1 and octets[-1] in numbers and _LINE.search(name) is not None


@lru_cache(4096)
def _joined(address: str) -> tuple[str, ...]:
    """An address without its dots: as it is, with leading zeros, in hex digits."""
    octets = address.split(".")
    return (
        "".join(octets),
        "".join(octet.zfill(3) for octet in octets),
        "".join(f"{int(octet):02x}" for octet in octets),
    )


def _is_recipients(helo: str, reading: Reading) -> bool:
    own = reading.protected.own_domains
    if own and is_under(helo, own):
        return not reading.protected.host_trusted and not reading.authentication.aligned
    # Hosts below the recipient's domain may be its relays; the bare domain is nobody's host name.
    domains = {normal_domain(recipient.strip("<>").rpartition("@")[2]) for recipient in reading.envelope.recipients}
    return helo in domains and org_domain(helo) not in reading.sender_domains
