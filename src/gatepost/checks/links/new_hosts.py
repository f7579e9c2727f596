"""Links to sites that no delivered mail of the tenant led to before today.

Phishing pages live for hours, shops and partners for years. The site of a sender who is new as well is no more news
than the sender, so its own site is left out; what remains is a link to a third party that no earlier mail had. New
things are linked to every day: it weighs little by itself.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_under
from gatepost.findings import Reading
from gatepost.kinds import URL_NEW_HOST, Finding
from gatepost.mail.message import Link
from gatepost.names import org_domain

KINDS = (URL_NEW_HOST,)
NEEDS = frozenset({"remembered"})

MAX_FOUND = 3


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in list(find_new_hosts(reading).items())[:MAX_FOUND]:
        yield URL_NEW_HOST.at(link.where, host=host, about=link.url)


def find_new_hosts(reading: Reading) -> dict[str, Link]:
    """One link for each organisation that is new to the tenant and not the sender's own."""
    return reading.once(_find)


def _find(reading: Reading) -> dict[str, Link]:
    met = reading.sender_history
    strange = {host for host, known in met.hosts.items() if not known.days}
    if not strange or reading.is_discussion:
        return {}
    ours = reading.protected.own_domains | reading.protected.partner_domains
    strange -= reading.sender_domains | {host for host in strange if is_under(host, ours)}
    found: dict[str, Link] = {}
    for link in reading.sites.values():
        owner = org_domain(link.host)
        if owner in strange and not link.hidden:
            found.setdefault(owner, link)
    return found
