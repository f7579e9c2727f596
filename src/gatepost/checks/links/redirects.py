"""Links that do not show where they end: through a shortener, or through a well-known site that redirects.

`https://www.google.com/url?q=https://evil.example`: the eye, and many a filter, stops at the first host. Wrappers of
mail security products and click counters of mailing services redirect openly, and are left out; so is a site that
redirects in its own mail. Newsletters and people use shorteners, too, so those weigh little by themselves; mail that
claims to be a company and hides its own site behind one has a reason.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_genuine, is_guard, is_shortener, is_under
from gatepost.findings import Reading
from gatepost.kinds import URL_OPEN_REDIRECT, URL_SHORTENER, Finding
from gatepost.names import org_domain

KINDS = (URL_SHORTENER, URL_OPEN_REDIRECT)
NEEDS = frozenset({"link"})

# Click counters of the well-known themselves, for their customers.
_COUNTERS = frozenset({"l.facebook.com", "lm.facebook.com", "l.instagram.com", "awstrack.me"})


def check(reading: Reading) -> Iterator[Finding]:
    yield from _find_shortener(reading)
    yield from _find_redirect(reading)


def _find_shortener(reading: Reading) -> Iterator[Finding]:
    for host, link in reading.sites.items():
        # Twitter's own mail links through t.co.
        if is_shortener(host) and org_domain(host) not in reading.sender_domains:
            yield URL_SHORTENER.at(link.where, about=link.url, host=host)
            return


def _find_redirect(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        if not link.wrapped:
            continue
        start = next((host for host in link.wrapped if not is_guard(host) and not is_under(host, _COUNTERS)), "")
        if start and is_genuine(start) and not is_genuine(link.host):
            if org_domain(start) in reading.sender_domains or org_domain(start) == org_domain(link.host):
                continue
            yield URL_OPEN_REDIRECT.at(link.where, about=link.url, starts=start, leads_to=link.host)
            return
