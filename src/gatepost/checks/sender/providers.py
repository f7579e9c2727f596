"""Senders who claim a mailbox at a large provider, compared with the hosts through which their mail came."""

import tomllib
from collections.abc import Iterator
from importlib.resources import files

from gatepost.findings import Reading, check
from gatepost.kinds import SENDER_PROVIDER_ABSENT, Finding
from gatepost.names import normal_domain, org_domain

MAX_HOPS = 15
MAX_HOP_TEXT = 600
_PASSED_ON = ("list-id", "list-post", "mailing-list", "resent-from", "arc-seal", "x-forwarded-for", "sender")


def _load() -> dict[str, tuple[str, ...]]:
    """Return the hosts of its provider for each domain of free mail."""
    providers = tomllib.loads(files("gatepost.checks").joinpath("data", "providers.toml").read_text("utf-8"))
    return {domain: tuple(each["hosts"]) for each in providers.values() for domain in each["mail"]}


_HOSTS = _load()


@check(SENDER_PROVIDER_ABSENT)
def provider_absent(reading: Reading) -> Iterator[Finding]:
    """Mail of a large provider's customer that never was on a host of that provider.

    `From: Ann <ann@gmail.com>`, and neither a Received field (RFC 5321 section 4.4), nor HELO, nor the Message-ID, nor
    a signature names a host of Google's. These providers take mail only from customers who sign in, write an
    identifier of their own, and sign what they send. Lists, forwarders and services that write for others pass mail
    on, and say so. A few programs send with such an address through another server, so it does not decide alone.
    """
    fields, message = reading.fields, reading.message
    hosts = _HOSTS.get(normal_domain(message.senders[0].domain)) if message.senders else None
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
