"""What SPF and DKIM said, where they said something bad (RFC 7208, RFC 6376).

Neither is proof by itself: forwarding breaks SPF, mailing lists break DKIM. A failure of DNS is stated, so that the
ledger is whole, and weighs nothing: an outage must not hold the world's mail.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

SPF_FAIL = Kind("auth:spf-fail", "The sending host is not allowed to send for the envelope sender's domain")
SPF_SOFTFAIL = Kind(
    "auth:spf-softfail", "The sending host is probably not allowed to send for the envelope sender's domain"
)
DKIM_FAIL = Kind("auth:dkim-fail", "A signature of the message does not verify")
PERMERROR = Kind("auth:permerror", "A domain's authentication records are broken")
TEMPERROR = Kind("auth:temperror", "DNS did not answer, so authentication could not be checked")
KINDS = (SPF_FAIL, SPF_SOFTFAIL, DKIM_FAIL, PERMERROR, TEMPERROR)

_SPF = {"fail": SPF_FAIL, "softfail": SPF_SOFTFAIL, "permerror": PERMERROR, "temperror": TEMPERROR}
_DKIM = {"fail": DKIM_FAIL, "permerror": PERMERROR, "temperror": TEMPERROR}


def check(reading: Reading) -> Iterator[Finding]:
    seen = reading.authentication
    if seen.spf.result in _SPF:
        yield _SPF[seen.spf.result].at("SPF", domain=seen.spf.domain, host=seen.host, reason=seen.spf.reason)
    passed = any(signature.result == "pass" for signature in seen.dkim)
    for signature in seen.dkim:
        # One good signature is enough; lists often leave a broken one beside their own.
        if signature.result in _DKIM and not passed:
            where = f"DKIM {signature.selector}._domainkey.{signature.domain}"
            yield _DKIM[signature.result].at(where, reason=signature.reason)
