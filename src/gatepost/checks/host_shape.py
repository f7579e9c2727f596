"""Host names in shapes that people do not choose: many levels deep, or words strung together by hyphens.

`secure.login.account.update.example.com` fills the address bar, so that its end is not seen. Content networks and click
counters are deep as well, so depth counts from the registered name, and services with customers below are left out.
"""

from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.wellknown import is_genuine, is_hosted_page, is_tenant
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import is_ip, org_domain

DEEP = Kind("url:deep-subdomain", "A link leads to a host many levels below its owner's name")
HYPHENS = Kind("url:many-hyphens", "A link leads to a host whose name is words strung together by hyphens")
KINDS = (DEEP, HYPHENS)
NEEDS = frozenset({"link"})

_DEEP = 4
_HYPHENS = 4


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in reading.sites.items():
        depth, hyphens = _shape(host)
        if depth >= _DEEP:
            yield DEEP.at(link.where, about=link.url, host=host, levels=depth)
        if hyphens >= _HYPHENS:
            yield HYPHENS.at(link.where, about=link.url, host=host)


@lru_cache(8192)
def _shape(host: str) -> tuple[int, int]:
    """How many levels stand below the registered name, and how many hyphens are in one label."""
    if is_ip(host) or is_genuine(host) or is_tenant(host):
        return 0, 0
    below = host.removesuffix(org_domain(host)).rstrip(".")
    # An internationalised label is one word to its reader; hosted pages are named by machines.
    hyphens = (
        max(label.count("-") for label in host.split(".")) if not is_hosted_page(host) and "xn--" not in host else 0
    )
    return below.count(".") + 1 if below else 0, hyphens
