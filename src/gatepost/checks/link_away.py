"""The link away from the sender, which all lures have in common.

A company that asks its customers to sign in links to its own site, most often beside others. A lure has no page there,
so none of its links leads to the domain of its sender. Posts on discussion lists quote and link all sorts of things.
"""

import msgspec

from gatepost.findings import Reading
from gatepost.mail.message import Link
from gatepost.names import org_domain
from gatepost.strengths import coefficients

_HOME, _PROVEN_HOME, _DISCUSSION = coefficients("link-away", "home", "proven_home", "discussion")


class LinkAway(msgspec.Struct, frozen=True):
    """The link that a reader is told to follow, and how surely it leads away from the sender: 1 is surely."""

    link: Link
    distance: float


def find_link_away(reading: Reading) -> LinkAway | None:
    """Return the first link that leads away from the sender, else the first link; None where there is none."""
    return reading.once(_find)


def _find(reading: Reading) -> LinkAway | None:
    links = [link for link in reading.web_links if not link.hidden]
    if not links:
        return None
    foreign = [link for link in links if org_domain(link.host) not in reading.sender_domains]
    distance = 1.0 if len(foreign) == len(links) else _HOME
    if reading.authentication.aligned and len(foreign) < len(links):
        distance = _PROVEN_HOME
    if reading.is_discussion:
        distance *= _DISCUSSION
    return LinkAway(foreign[0] if foreign else links[0], distance)
