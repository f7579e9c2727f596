"""Traces that no server left: Received fields that were made up (RFC 5321 section 4.4).

A mass mailer puts a few Received fields under its mail, so that it seems to come from far away through well-known
providers. Servers write what they see, so what they write can be true. Made-up fields have addresses that do not exist
(`[302.17.4.9]`), stand there twice word for word, or were stamped days after the hop that came later. Clocks that are
off by hours are common; the same hop in front of itself never is.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from gatepost.findings import Reading
from gatepost.kinds import HEADER_FORGED_RECEIVED, Finding
from gatepost.strengths import coefficients

KINDS = (HEADER_FORGED_RECEIVED,)

MAX_HOPS = 12
MAX_TEXT = 600
_LEAST = 40
# An address in brackets with a number over 255.
_IMPOSSIBLE = re.compile(r"\[(?=\d{1,3}(?:\.\d{1,3}){3}\])[\d.]{0,12}?(?<!\d)(?:25[6-9]|2[6-9]\d|[3-9]\d\d)[.\]]")
_DATE = re.compile(r"\s{0,9}(?:[A-Z][a-z]{2},\s{1,3})?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) ")
_MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())}
# Days by which clocks and time zones may disagree, with months taken for 31 days.
_LEEWAY = 4
_REPEATED, _OUT_OF_ORDER = coefficients(HEADER_FORGED_RECEIVED, "repeated", "out_of_order")


def check(reading: Reading) -> Iterator[Finding]:
    # The fields that are next to us were written by servers on our side.
    hops = [value[:MAX_TEXT] for value in reading.message.headers.all("received")[:MAX_HOPS]]
    if len(hops) < 2:
        return
    if impossible := next(filter(_IMPOSSIBLE.search, hops), None):
        yield HEADER_FORGED_RECEIVED.at("Received", why="an address that cannot be", field=impossible)
        return
    twice = [hop for hop, next_hop in pairwise(hops) if len(hop) > _LEAST and hop == next_hop]
    if twice:
        yield HEADER_FORGED_RECEIVED.at("Received", strength=_REPEATED, why="the same hop twice", field=twice[0])
        return
    days = [_parse_day(hop) for hop in hops]
    for (later, earlier), hop in zip(pairwise(days), hops[1:], strict=True):
        if later and earlier - later > _LEEWAY:
            yield HEADER_FORGED_RECEIVED.at(
                "Received", strength=_OUT_OF_ORDER, why="stamped days after the hop that followed it", field=hop
            )
            return


def _parse_day(hop: str) -> int:
    """Return the day on which a server says it had the message, as a number that grows; 0 where it says none."""
    found = _DATE.match(hop, hop.rfind(";") + 1)
    if not found or found[2] not in _MONTHS:
        return 0
    return (int(found[3]) * 12 + _MONTHS[found[2]]) * 31 + int(found[1])
