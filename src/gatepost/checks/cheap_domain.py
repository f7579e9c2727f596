"""Domains under endings where names are given away or cost next to nothing.

Whoever needs a thousand domains for a week buys them there. Honest people do as well, so the endings are few, and weigh
little by themselves.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import repute
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain

LINK = Kind("url:cheap-ending", "A link leads to a domain under an ending where names cost next to nothing")
SENDER = Kind("sender:cheap-ending", "The sender's domain is under an ending where names cost next to nothing")
KINDS = (LINK, SENDER)


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        if strength := repute(normal_domain(sender.domain)):
            yield SENDER.at("From", strength=strength, domain=sender.domain)
    worst = max(((repute(host), host) for host in reading.sites), default=(0.0, ""))
    if worst[0]:
        link = reading.sites[worst[1]]
        yield LINK.at(link.where, strength=worst[0], about=link.url, host=worst[1])
