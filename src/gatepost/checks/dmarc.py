"""Mail that the owner of its From domain disowns (DMARC, RFC 9989).

An owner who publishes `p=reject` asks for unauthenticated mail in its name to be refused; `quarantine` and `none`
claim less. A domain without a record claims nothing, and a failure of DNS proves nothing.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

REJECT = Kind(
    "auth:dmarc-reject", "The sender's domain asks for mail like this to be rejected: it is not authenticated"
)
FAIL = Kind("auth:dmarc-fail", "The mail is not authenticated by the domain in its From address")
PASS = Kind("auth:dmarc-pass", "The mail is authenticated by the domain in its From address")
KINDS = (REJECT, FAIL, PASS)


def check(reading: Reading) -> Iterator[Finding]:
    dmarc = reading.authentication.dmarc
    if dmarc.result == "pass":
        yield PASS.at("From", domain=dmarc.domain)
    if dmarc.result != "fail":
        return
    yield FAIL.at("From", domain=dmarc.domain, policy=dmarc.policy or "none", reason=dmarc.reason)
    # A trusted chain of custody explains a broken signature: mailing lists do that. It is judged apart.
    if dmarc.policy == "reject" and reading.authentication.arc.result != "pass":
        yield REJECT.at("From", domain=dmarc.domain, record=dmarc.policy_domain)
