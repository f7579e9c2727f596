"""Mail that claims to come from one of the tenant's own domains, and does not.

An own domain is the one that recipients trust most. Such mail is forged if nothing proves it (no aligned SPF or DKIM,
no chain of custody) and it does not come from a host that the operator trusts. Where DNS failed nothing is claimed.
"""

from collections.abc import Iterator
from ipaddress import ip_address

from gatepost.auth.results import Authentication
from gatepost.checks.known_names import is_under
from gatepost.findings import Reading
from gatepost.kinds import SENDER_OWN_DOMAIN_SPOOF, Finding
from gatepost.names import normal_domain

KINDS = (SENDER_OWN_DOMAIN_SPOOF,)
NEEDS = frozenset({"protected"})


def check(reading: Reading) -> Iterator[Finding]:
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
