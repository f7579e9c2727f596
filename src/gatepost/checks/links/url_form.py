"""URLs in forms that people do not choose: a name before the host, an unusual port, a host many levels deep or strung
together by hyphens.

In `https://bank.example@evil.example/` (RFC 3986 section 3.2.1) what stands before the @ is a user name to a browser
and looks like the host to a person; old FTP sites had such links, so those are left out. Kits run on another port of a
broken-into machine, beside the real site; administrators do mail links with ports to each other, so a port weighs
little, and less where test servers use it. `secure.login.account.update.example.com` fills the address bar, so that its
end is not seen. Content networks and click counters are deep as well, so depth counts from the registered name, and
services with customers below are left out.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.known_names import is_genuine, is_hosted_page, is_tenant
from gatepost.findings import Reading
from gatepost.kinds import URL_DEEP_SUBDOMAIN, URL_MANY_HYPHENS, URL_ODD_PORT, URL_USERINFO, Finding
from gatepost.names import is_ip, org_domain
from gatepost.strengths import coefficients

KINDS = (URL_ODD_PORT, URL_DEEP_SUBDOMAIN, URL_MANY_HYPHENS, URL_USERINFO)
NEEDS = frozenset({"link"})

_DEEP = 4
_HYPHENS = 4
_PORT = re.compile(r"[a-z]{2,5}://[^/?#]{0,400}:(\d{1,5})(?=[/?#]|\Z)")
_TEST_PORTS = frozenset(
    {"8000", "8008", "8080", "8081", "8443", "8888", "3000", "5000", "9000", "9090", "2082", "2083"}
)
(_TEST_PORT,) = coefficients(URL_ODD_PORT, "test_port")
(_PLAIN_NAME,) = coefficients(URL_USERINFO, "plain_name")


def check(reading: Reading) -> Iterator[Finding]:
    yield from _find_port(reading)
    yield from _find_userinfo(reading)
    for host, link in reading.sites.items():
        depth, hyphens = _measure(host)
        if depth >= _DEEP:
            yield URL_DEEP_SUBDOMAIN.at(link.where, about=link.url, host=host, levels=depth)
        if hyphens >= _HYPHENS:
            yield URL_MANY_HYPHENS.at(link.where, about=link.url, host=host)


def _find_port(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        # A colon after the scheme's own is needed.
        if link.url.find(":", 7) > 0 and (match := _PORT.match(link.url)):
            strength = _TEST_PORT if match[1] in _TEST_PORTS else 1.0
            yield URL_ODD_PORT.at(link.where, strength=strength, about=link.url, host=link.host, port=match[1])
            return


def _find_userinfo(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        if "@" in link.url and link.url.startswith("http"):
            authority = link.url.partition("://")[2].partition("/")[0]
            user, at, _ = authority.rpartition("@")
            if at:
                strength = 1.0 if "." in user else _PLAIN_NAME
                yield URL_USERINFO.at(link.where, strength=strength, about=link.url, host=link.host)
                return


@lru_cache(8192)
def _measure(host: str) -> tuple[int, int]:
    """Return how many levels stand below the registered name, and how many hyphens are in one label."""
    if is_ip(host) or is_genuine(host) or is_tenant(host):
        return 0, 0
    below = host.removesuffix(org_domain(host)).rstrip(".")
    # An internationalised label is one word to its reader; hosted pages are named by machines.
    hyphens = (
        max(label.count("-") for label in host.split(".")) if not is_hosted_page(host) and "xn--" not in host else 0
    )
    return below.count(".") + 1 if below else 0, hyphens
