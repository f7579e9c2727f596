"""The results of SPF, DKIM and DMARC."""

from collections.abc import Iterator

from gatepost.auth.results import Authentication, Dkim
from gatepost.findings import Reading, check
from gatepost.kinds import (
    AUTH_DKIM_FAIL,
    AUTH_DKIM_PARTIAL,
    AUTH_DKIM_TESTING,
    AUTH_DKIM_WEAK_KEY,
    AUTH_DMARC_FAIL,
    AUTH_DMARC_PASS,
    AUTH_DMARC_REJECT,
    AUTH_PERMERROR,
    AUTH_SPF_FAIL,
    AUTH_SPF_SOFTFAIL,
    AUTH_TEMPERROR,
    Finding,
)

_SPF = {"fail": AUTH_SPF_FAIL, "softfail": AUTH_SPF_SOFTFAIL, "permerror": AUTH_PERMERROR, "temperror": AUTH_TEMPERROR}
_DKIM = {"fail": AUTH_DKIM_FAIL, "permerror": AUTH_PERMERROR, "temperror": AUTH_TEMPERROR}


@check(
    AUTH_SPF_FAIL,
    AUTH_SPF_SOFTFAIL,
    AUTH_DKIM_FAIL,
    AUTH_PERMERROR,
    AUTH_TEMPERROR,
    AUTH_DMARC_REJECT,
    AUTH_DMARC_FAIL,
    AUTH_DMARC_PASS,
    AUTH_DKIM_PARTIAL,
    AUTH_DKIM_TESTING,
    AUTH_DKIM_WEAK_KEY,
)
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
    if seen.spf.result in _SPF:
        yield _SPF[seen.spf.result].at("SPF", domain=seen.spf.domain, host=seen.host, reason=seen.spf.reason)
    yield from _check_signatures(seen.dkim)
    yield from _check_dmarc(seen)


def _check_signatures(signatures: tuple[Dkim, ...]) -> Iterator[Finding]:
    passed = [each for each in signatures if each.result == "pass"]
    for signature in signatures:
        # One good signature is enough; lists often leave a broken one beside their own.
        if signature.result in _DKIM and not passed:
            yield _DKIM[signature.result].at(_name(signature), reason=signature.reason)
    if passed and all(each.unsigned_bytes > 0 for each in passed):
        # A list's footer is what l= was made for; it is short.
        yield AUTH_DKIM_PARTIAL.at(_name(passed[0]), unsigned_bytes=passed[0].unsigned_bytes)
    if passed and all(each.testing for each in passed):
        yield AUTH_DKIM_TESTING.at(_name(passed[0]))
    for each in signatures:
        if each.weak:
            yield AUTH_DKIM_WEAK_KEY.at(_name(each), result=each.result)
            return


def _check_dmarc(seen: Authentication) -> Iterator[Finding]:
    dmarc = seen.dmarc
    if dmarc.result == "pass":
        yield AUTH_DMARC_PASS.at("From", domain=dmarc.domain)
    if dmarc.result != "fail":
        return
    yield AUTH_DMARC_FAIL.at("From", domain=dmarc.domain, policy=dmarc.policy or "none", reason=dmarc.reason)
    # A trusted chain of custody explains a broken signature: mailing lists do that. It is judged apart.
    if dmarc.policy == "reject" and seen.arc.result != "pass":
        yield AUTH_DMARC_REJECT.at("From", domain=dmarc.domain, record=dmarc.policy_domain)


def _name(signature: Dkim) -> str:
    """Return where the key of a signature stands in DNS."""
    return f"DKIM {signature.selector}._domainkey.{signature.domain}"
