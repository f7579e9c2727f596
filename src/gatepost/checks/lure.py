"""What lures have in common: a link that leads away from whoever claims to write.

A company that asks its customers to sign in links to its own site, most often beside others. A lure has no page there,
so none of its links leads to the domain of its sender. Posts on discussion lists quote and link all sorts of things.
"""

import msgspec

from gatepost.findings import Reading
from gatepost.mail.message import Link
from gatepost.names import org_domain


class Way(msgspec.Struct, frozen=True):
    """The link that a lure offers, and how far from its sender it leads: 1 is elsewhere, less is doubtful."""

    link: Link
    distance: float


def way_out(reading: Reading) -> Way | None:
    """Where a reader who does as told is led to; None where there is nothing to follow."""
    return reading.once(_way_out)


def _way_out(reading: Reading) -> Way | None:
    links = [link for link in reading.web_links if not link.hidden]
    if not links:
        return None
    foreign = [link for link in links if org_domain(link.host) not in reading.sender_domains]
    distance = 1.0 if len(foreign) == len(links) else 0.35
    if reading.authentication.aligned and len(foreign) < len(links):
        distance = 0.15
    if reading.is_discussion:
        distance *= 0.3
    return Way(foreign[0] if foreign else links[0], distance)
