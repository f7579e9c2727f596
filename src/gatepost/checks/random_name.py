"""Domains and mailboxes with names that a machine made up (see `randomness`).

Throw-away domains are registered by the thousand and mailboxes filled in by a template. Ticket systems and bounce
handlers write from made-up mailboxes as well, so only the shown sender counts, and a domain counts more than a mailbox.
"""

from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.randomness import randomness
from gatepost.checks.wellknown import is_genuine, is_hosted_page, is_tenant
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import is_ip, normal_domain, org_domain

HOST = Kind("url:random-host", "A link leads to a domain whose name a machine made up")
DOMAIN = Kind("sender:random-domain", "The sender's domain has a name that a machine made up")
MAILBOX = Kind("sender:random-mailbox", "The sender's mailbox has a name that a machine made up")
_LONG = 12
_SURE = 0.9
KINDS = (HOST, DOMAIN, MAILBOX)


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        if strength := _made_up(normal_domain(sender.domain)):
            yield DOMAIN.at("From", strength=strength, domain=sender.domain)
        if strength := _mailbox(sender.local[:64].partition("+")[0]):
            yield MAILBOX.at("From", strength=strength, mailbox=sender)
    for host, link in reading.sites.items():
        if strength := _made_up(host):
            yield HOST.at(link.where, strength=strength, about=link.url, host=host)
            return


def _mailbox(name: str) -> float:
    """Mailboxes with separators are tickets, bounces and aliases: machines of honest owners name those."""
    return randomness(name) if name.isalnum() else 0.0


@lru_cache(8192)
def _made_up(host: str) -> float:
    """How made-up the registered name is. What stands below it is the owner's business, unless it is long noise."""
    if "." not in host or is_ip(host) or is_genuine(host) or is_tenant(host) or is_hosted_page(host) or "xn--" in host:
        return 0.0
    name = org_domain(host)
    below = (label for label in host.removesuffix(name).split(".") if len(label) >= _LONG)
    return max(
        *(randomness(part) for part in name.partition(".")[0].split("-")),
        *(0.6 * (randomness(label) >= _SURE) for label in below),
        0.0,
    )
