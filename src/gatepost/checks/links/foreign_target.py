"""Where all links of a mail lead, taken together.

Mail in a company's name that has one link, and that to a stranger, is what phishing looks like; so is what a friend
sends who found something. It says a little, and only beside other signs.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, is_genuine, is_tenant
from gatepost.findings import Reading
from gatepost.kinds import URL_FOREIGN_TARGET, Finding
from gatepost.names import normal_domain, org_domain

KINDS = (URL_FOREIGN_TARGET,)
NEEDS = frozenset({"link"})


def check(reading: Reading) -> Iterator[Finding]:
    if not reading.sites or reading.is_discussion:
        return
    owners = {org_domain(host) for host in reading.sites}
    if len(owners) != 1 or owners & reading.sender_domains:
        return
    (host, link), *_ = reading.sites.items()
    senders = reading.message.senders
    if is_genuine(host) or is_tenant(host) or not senders or is_freemail(normal_domain(senders[0].domain)):
        return
    if link.source != "text":
        yield URL_FOREIGN_TARGET.at(link.where, about=link.url, host=host, sender=senders[0])
