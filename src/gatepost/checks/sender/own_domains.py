"""Senders that use the recipient's own domain or address: in From, or in the name that is shown."""

from collections.abc import Iterator
from ipaddress import ip_address

from gatepost.auth.results import Authentication
from gatepost.checks.known_names import is_freemail, is_tenant, is_under
from gatepost.findings import Reading, check
from gatepost.kinds import SENDER_OWN_DOMAIN_SPOOF, SENDER_RECIPIENT_DOMAIN, SENDER_SELF_SENT, Finding
from gatepost.names import normal_domain, org_domain
from gatepost.strengths import coefficients


@check(SENDER_OWN_DOMAIN_SPOOF, needs={"protected"})
def own_domain(reading: Reading) -> Iterator[Finding]:
    """Mail that claims to come from one of the tenant's own domains, and does not.

    An own domain is the one that recipients trust most. Such mail is forged if nothing proves it (no aligned SPF or
    DKIM, no chain of custody) and it does not come from a host that the operator trusts. Where DNS failed nothing is
    claimed.
    """
    own = reading.protected.own_domains
    if not own or reading.protected.host_trusted or not _fails_authentication(reading.authentication):
        return
    for sender in reading.message.senders:
        domain = normal_domain(sender.domain)
        if domain and is_under(domain, own):
            seen = reading.authentication
            yield SENDER_OWN_DOMAIN_SPOOF.at(
                "From", sender=sender, host=seen.host, spf=seen.spf.result, dmarc=seen.dmarc.result
            )
            return


def _fails_authentication(seen: Authentication) -> bool:
    if seen.aligned or seen.arc.result == "pass" or seen.dmarc.result in ("pass", "temperror"):
        return False
    if seen.dmarc.result == "fail" or seen.spf.result == "fail":
        return True
    open_question = seen.spf.result == "temperror" or any(each.result == "temperror" for each in seen.dkim)
    # A host inside the network writes as it likes where the domain publishes nothing to check it by.
    return bool(seen.host) and not open_question and ip_address(seen.host).is_global


@check(SENDER_SELF_SENT)
def self_sent(reading: Reading) -> Iterator[Finding]:
    """Mail that claims to be from its own recipient's address.

    People do send notes to themselves, through their own provider, and that authenticates. A stranger who does it hopes
    that the recipient's own address is on every allow list.
    """
    message = reading.message
    # Without an envelope nothing is known of who really sent it.
    if (
        not reading.envelope.sender
        or len(message.senders) != 1
        or reading.authentication.aligned
        or reading.is_discussion
    ):
        return
    sender = message.senders[0]
    envelope = reading.envelope.sender.strip("<>").rpartition("@")[2]
    if not sender.domain or org_domain(envelope) == org_domain(sender.domain):
        return
    recipients = (*map(str, message.recipients[:20]), *reading.envelope.recipients[:20])
    if str(sender).casefold() in {recipient.strip("<>").casefold() for recipient in recipients}:
        yield SENDER_SELF_SENT.at("From", address=sender, envelope=reading.envelope.sender)


MAX_NAME = 200
MAX_RECIPIENTS = 20
_PUNCTUATION = "\"'`<>()[]{},;:|!?."
(_DOMAIN_BY_SERVICE,) = coefficients(SENDER_RECIPIENT_DOMAIN, "service")


@check(SENDER_RECIPIENT_DOMAIN)
def recipient_domain(reading: Reading) -> Iterator[Finding]:
    """Sender names that show the recipient's own domain, written from elsewhere.

    In `"house.example Webmail" <x@evil.example>` to `ann@house.example` most mail programs show only the name (RFC 5322
    section 3.4: a display name is free text), so that the mail seems to come from the recipient's own mail system. Kits
    fill the domain in for every recipient. A whole address in the name is found as such by `display_name`.
    """
    for sender in reading.message.senders[:1]:
        name = sender.name[:MAX_NAME]
        # A service that says for whom it writes ("house.example via Docs") hides nothing.
        if "." not in name or not sender.domain or " via " in name or reading.is_discussion:
            return
        own = _recipient_domains(reading)
        # The own domain in the address as well: a colleague, or a forgery that authentication finds.
        if not own or not own.isdisjoint(reading.sender_domains):
            return
        for word in name.casefold().split():
            shown = word.strip(_PUNCTUATION)
            if "." in shown and "@" not in shown and org_domain(shown) in own:
                strength = _DOMAIN_BY_SERVICE if is_tenant(normal_domain(sender.domain)) else 1.0
                yield SENDER_RECIPIENT_DOMAIN.at("From", strength=strength, shown=sender.name, actual=sender)
                return


def _recipient_domains(reading: Reading) -> frozenset[str]:
    """Return the registered domains of the recipients, without those of free mail, which no recipient owns."""
    addresses = (*reading.envelope.recipients, *map(str, reading.message.recipients))[:MAX_RECIPIENTS]
    domains = (normal_domain(address.strip("<> ").rpartition("@")[2]) for address in addresses)
    return frozenset(org_domain(domain) for domain in domains if domain and not is_freemail(domain))
