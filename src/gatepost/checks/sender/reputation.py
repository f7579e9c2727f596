"""What DNS reputation zones say of the sending host, of domains and addresses, and of files.

The operator chooses the zones and says what their answers mean (`reputation.zones` in guard.yml). Gatepost ships none:
each has terms of its own, and each is somebody else's opinion. So every finding names the zone, its answer and what the
operator lets it mean.
"""

from collections.abc import Iterator, Mapping

from gatepost.findings import Reading, check
from gatepost.kinds import (
    REPUTATION_ALLOWED_HOST,
    REPUTATION_DYNAMIC_HOST,
    REPUTATION_LISTED_ADDRESS,
    REPUTATION_LISTED_FILE,
    REPUTATION_LISTED_HOST,
    REPUTATION_LISTED_LINK,
    REPUTATION_LISTED_SENDER,
    REPUTATION_MALWARE_LINK,
    REPUTATION_NEW_LINK,
    REPUTATION_NEW_SENDER,
    REPUTATION_NO_ANSWER,
    REPUTATION_PHISHING_LINK,
    REPUTATION_PHISHING_SENDER,
    Finding,
    Kind,
)
from gatepost.names import normal_domain
from gatepost.questions import Listing

_KINDS: Mapping[tuple[str, str], Kind] = {
    ("host", "listed"): REPUTATION_LISTED_HOST,
    ("host", "dynamic"): REPUTATION_DYNAMIC_HOST,
    ("host", "allowed"): REPUTATION_ALLOWED_HOST,
    ("link", "listed"): REPUTATION_LISTED_LINK,
    ("link", "phishing"): REPUTATION_PHISHING_LINK,
    ("link", "malware"): REPUTATION_MALWARE_LINK,
    ("link", "new"): REPUTATION_NEW_LINK,
    ("sender", "listed"): REPUTATION_LISTED_SENDER,
    ("sender", "phishing"): REPUTATION_PHISHING_SENDER,
    ("sender", "malware"): REPUTATION_PHISHING_SENDER,
    ("sender", "new"): REPUTATION_NEW_SENDER,
    ("address", "listed"): REPUTATION_LISTED_ADDRESS,
    ("file", "listed"): REPUTATION_LISTED_FILE,
    ("file", "malware"): REPUTATION_LISTED_FILE,
}
_AGAINST_HOST = frozenset({REPUTATION_LISTED_HOST.id, REPUTATION_DYNAMIC_HOST.id})
_WHERE = {"host": "sending host", "sender": "sender", "address": "address", "link": "link", "file": "file"}


@check(REPUTATION_NO_ANSWER, *dict.fromkeys(_KINDS.values()), needs={"reputation"})
def reputation(reading: Reading) -> Iterator[Finding]:
    """What the operator's reputation zones list.

    A host that is on an allow zone is not held against the message because of another zone: zones list large providers
    now and then, and it is the purpose of an allow zone to know those. Nothing else is lifted by an allow zone, since
    captured accounts send through good hosts. The operator's own relays are nobody's sending host.
    """
    said = reading.reputation
    for zone, reason in said.silent:
        yield REPUTATION_NO_ANSWER.at("DNS", zone=zone, reason=reason)
    allowed = reading.protected.host_trusted or any(listing.means == "allowed" for listing in said.listings)
    for listing in said.listings:
        kind = _KINDS.get((listing.subject, listing.means))
        if kind is None or (allowed and kind.id in _AGAINST_HOST):
            continue
        facts = {"value": listing.value, "zone": listing.zone, "answer": listing.answer, "meaning": listing.text}
        yield kind.at(
            _find_place(reading, listing),
            strength=listing.strength,
            about=_find_about(reading, listing),
            **{name: text for name, text in facts.items() if text},
        )


def _find_place(reading: Reading, listing: Listing) -> str:
    if listing.subject == "link":
        return next((link.where for link in reading.links if normal_domain(link.host) == listing.value), "link")
    if listing.subject == "file":
        return next((file.path for file in reading.files if file.sha256 == listing.value), "file")
    return _WHERE[listing.subject]


def _find_about(reading: Reading, listing: Listing) -> str:
    """The link or file that the finding is about, so that an entry that allows it clears the finding."""
    if listing.subject == "file":
        return listing.value
    if listing.subject != "link":
        return ""
    return next((link.url for link in reading.links if normal_domain(link.host) == listing.value), "")
