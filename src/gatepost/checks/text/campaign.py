"""Near-copies: of mail that the operator marked as unwanted, and of mail that many others got within hours.

A campaign is the same text to many, with a name or a number changed. That alone is no crime: newsletters, lists and
notes to all staff are campaigns too, so mail that names itself as bulk, and that of the operator's own domains,
makes no burst.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import CAMPAIGN_BURST, CAMPAIGN_MARKED, Finding
from gatepost.names import org_domain
from gatepost.near_duplicates import compute_signature

KINDS = (CAMPAIGN_MARKED, CAMPAIGN_BURST)

MANY = 20
_BULK = frozenset({"list-unsubscribe", "list-id", "list-post"})


def check(reading: Reading) -> Iterator[Finding]:
    marked = reading.models.marked
    if marked.by_hash and marked.has_near_duplicate(compute_signature(reading.written)):
        yield CAMPAIGN_MARKED.at("text")
    if reading.campaign.recipients >= MANY and _BULK.isdisjoint(reading.fields) and not _is_own(reading):
        yield CAMPAIGN_BURST.at("text", recipients=reading.campaign.recipients, copies=reading.campaign.copies)


def _is_own(reading: Reading) -> bool:
    own = {org_domain(domain) for domain in reading.protected.own_domains}
    return not own.isdisjoint(reading.sender_domains) and reading.authentication.aligned
