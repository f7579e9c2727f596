"""Links that start at a well-known site and end somewhere else.

`https://www.google.com/url?q=https://evil.example`: the eye, and many a filter, stops at the first host. Wrappers of
mail security products and click counters of mailing services do the same openly, and are left out; so is a site that
redirects in its own mail.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_genuine, is_guard, is_under
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import org_domain

REDIRECT = Kind("url:open-redirect", "A link starts at a well-known site and leads on to another")
KINDS = (REDIRECT,)
NEEDS = frozenset({"link"})

# Click counters of the well-known themselves, for their customers.
_COUNTERS = frozenset({"l.facebook.com", "lm.facebook.com", "l.instagram.com", "awstrack.me"})


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        if not link.wrapped:
            continue
        start = next((host for host in link.wrapped if not is_guard(host) and not is_under(host, _COUNTERS)), "")
        if start and is_genuine(start) and not is_genuine(link.host):
            if org_domain(start) in reading.sender_domains or org_domain(start) == org_domain(link.host):
                continue
            yield REDIRECT.at(link.where, about=link.url, starts=start, leads_to=link.host)
            return
