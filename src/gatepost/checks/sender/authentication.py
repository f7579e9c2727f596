"""The results of SPF, DKIM and DMARC, and senders that use the recipient's own domain or address without proof."""

from collections.abc import Iterator
from ipaddress import ip_address

from gatepost.auth.results import Authentication, Dkim
from gatepost.checks.known_names import is_company_host, is_freemail, is_tenant, is_under
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import normal_domain, org_domain

BAD_SPF = {
    "fail": kinds.AUTH_SPF_FAIL,
    "softfail": kinds.AUTH_SPF_SOFTFAIL,
    "permerror": kinds.AUTH_PERMERROR,
    "temperror": kinds.AUTH_TEMPERROR,
}
_DKIM = {"fail": kinds.AUTH_DKIM_FAIL, "permerror": kinds.AUTH_PERMERROR, "temperror": kinds.AUTH_TEMPERROR}


@check(*kinds.list_kinds("auth:"), needs={"authentication"})
def authentication(reading: Reading) -> Iterator[Finding]:
    """What SPF, DKIM and DMARC say, where it is bad (RFC 7208, RFC 6376, RFC 9989), and that DMARC passed.

    None of SPF and DKIM is proof by itself: forwarding breaks SPF, mailing lists break DKIM. A failure of DNS is
    stated, so that the ledger is whole, and weighs nothing: an outage must not hold the world's mail. An owner who
    publishes `p=reject` asks for unauthenticated mail in its name to be refused; `quarantine` and `none` claim less. A
    domain without a DMARC record claims nothing.

    Some signatures prove less than they seem (RFC 6376 sections 3.5, 3.6.1 and 8.2): `l=` signs only the first bytes of
    the body, and anybody may add the rest; a key in test mode asks to be ignored; a short key can be computed. What
    counts is whether another signature does better.
    """
    seen = reading.authentication
    if seen.spf.result in BAD_SPF:
        yield BAD_SPF[seen.spf.result].at("SPF", domain=seen.spf.domain, host=seen.host, reason=seen.spf.reason)
    yield from _check_signatures(seen.dkim)
    yield from _check_dmarc(reading)


def _check_signatures(signatures: tuple[Dkim, ...]) -> Iterator[Finding]:
    passed = [each for each in signatures if each.result == "pass"]
    for signature in signatures:
        # One good signature is enough; lists often leave a broken one beside their own.
        if signature.result in _DKIM and not passed:
            yield _DKIM[signature.result].at(_name(signature), reason=signature.reason)
    if passed and all(each.unsigned_bytes > 0 for each in passed):
        # A list's footer is what l= was made for; it is short.
        yield kinds.AUTH_DKIM_PARTIAL.at(_name(passed[0]), unsigned_bytes=passed[0].unsigned_bytes)
    if passed and all(each.testing for each in passed):
        yield kinds.AUTH_DKIM_TESTING.at(_name(passed[0]))
    for each in signatures:
        if each.weak:
            yield kinds.AUTH_DKIM_WEAK_KEY.at(_name(each), result=each.result)
            return


def _check_dmarc(reading: Reading) -> Iterator[Finding]:
    dmarc = reading.authentication.dmarc
    if dmarc.result == "pass":
        yield kinds.AUTH_DMARC_PASS.at("From", domain=dmarc.domain)
    if dmarc.result != "fail":
        return
    yield kinds.AUTH_DMARC_FAIL.at("From", domain=dmarc.domain, policy=dmarc.policy or "none", reason=dmarc.reason)
    if dmarc.policy == "reject" and not is_vouched_for(reading):
        yield kinds.AUTH_DMARC_REJECT.at("From", domain=dmarc.domain, record=dmarc.policy_domain)


def is_vouched_for(reading: Reading) -> bool:
    """Return whether somebody whom we believe saw the author's mail pass DMARC before a list or a forwarder changed it
    (RFC 8617 section 5.2).

    A chain of seals that holds proves who sealed, and nothing else: anybody can seal a forgery, and state that it
    passed. So the first seal's results count where each of those who sealed is believed: the own domain of a company
    that we know, or that of a list that is known, from which its posts come.
    """
    arc = reading.authentication.arc
    if arc.result != "pass" or arc.origin != "pass" or not arc.sealers:
        return False
    lists = reading.list_domains
    return all(is_company_host(sealer) or org_domain(sealer) in lists for sealer in map(normal_domain, arc.sealers))


def _name(signature: Dkim) -> str:
    """Return where the key of a signature stands in DNS."""
    return f"DKIM {signature.selector}._domainkey.{signature.domain}"


@check(kinds.SENDER_OWN_DOMAIN_SPOOF, needs={"protected"})
def own_domain(reading: Reading) -> Iterator[Finding]:
    """Mail that claims to come from one of the tenant's own domains, and does not.

    An own domain is the one that recipients trust most. Such mail is forged if nothing proves it (no aligned SPF or
    DKIM, no chain of those whom we believe) and it does not come from a host that the operator trusts. Where DNS failed
    or nobody knows the sending host nothing is claimed.
    """
    own = reading.protected.own_domains
    if not own or reading.protected.host_trusted or is_vouched_for(reading):
        return
    if not _fails_authentication(reading.authentication):
        return
    for sender in reading.message.senders:
        domain = normal_domain(sender.domain)
        if domain and is_under(domain, own):
            seen = reading.authentication
            yield kinds.SENDER_OWN_DOMAIN_SPOOF.at(
                "From", sender=sender, host=seen.host, spf=seen.spf.result, dmarc=seen.dmarc.result
            )
            return


def _fails_authentication(seen: Authentication) -> bool:
    if seen.aligned or seen.dmarc.result in ("pass", "temperror") or seen.origin == "unknown":
        return False
    if seen.dmarc.result == "fail" or seen.spf.result == "fail":
        return True
    open_question = seen.spf.result == "temperror" or any(each.result == "temperror" for each in seen.dkim)
    # A host inside the network writes as it likes where the domain publishes nothing to check it by.
    return bool(seen.host) and not open_question and ip_address(seen.host).is_global


@check(kinds.SENDER_SELF_SENT, needs={"envelope-differs"})
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
        or reading.is_known_list
    ):
        return
    sender = message.senders[0]
    envelope = reading.envelope.sender.strip("<>").rpartition("@")[2]
    if not sender.domain or org_domain(envelope) == org_domain(sender.domain):
        return
    recipients = (*map(str, message.recipients[:20]), *reading.envelope.recipients[:20])
    if str(sender).casefold() in {recipient.strip("<>").casefold() for recipient in recipients}:
        yield kinds.SENDER_SELF_SENT.at("From", address=sender, envelope=reading.envelope.sender)


MAX_NAME = 200
MAX_RECIPIENTS = 20
_PUNCTUATION = "\"'`<>()[]{},;:|!?."
(_DOMAIN_BY_SERVICE,) = coefficients(kinds.SENDER_RECIPIENT_DOMAIN, "service")


@check(kinds.SENDER_RECIPIENT_DOMAIN, needs={"name-dot"})
def recipient_domain(reading: Reading) -> Iterator[Finding]:
    """Sender names that show the recipient's own domain, written from elsewhere.

    In `"house.example Webmail" <x@evil.example>` to `ann@house.example` most mail programs show only the name (RFC 5322
    section 3.4: a display name is free text), so that the mail seems to come from the recipient's own mail system. Kits
    fill the domain in for every recipient. A whole address in the name is found as such by `display_name`.
    """
    for sender in reading.message.senders[:1]:
        name = sender.name[:MAX_NAME]
        if "." not in name or not sender.domain or reading.is_known_list or reading.is_known_sender:
            return
        own = _list_recipient_domains(reading)
        # The own domain in the address as well: a colleague, or a forgery that authentication finds.
        if not own or not own.isdisjoint(reading.sender_domains):
            return
        for word in name.casefold().split():
            shown = word.strip(_PUNCTUATION)
            if "." in shown and "@" not in shown and org_domain(shown) in own:
                is_service = reading.authentication.aligned and is_tenant(normal_domain(sender.domain))
                strength = _DOMAIN_BY_SERVICE if is_service else 1.0
                yield kinds.SENDER_RECIPIENT_DOMAIN.at("From", strength=strength, shown=sender.name, actual=sender)
                return


def _list_recipient_domains(reading: Reading) -> frozenset[str]:
    """Return the registered domains of the recipients, without those of free mail, which no recipient owns."""
    addresses = (*reading.envelope.recipients, *map(str, reading.message.recipients))[:MAX_RECIPIENTS]
    domains = (normal_domain(address.strip("<> ").rpartition("@")[2]) for address in addresses)
    return frozenset(org_domain(domain) for domain in domains if domain and not is_freemail(domain))
