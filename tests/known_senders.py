"""What proves that a sender or a list is known: a reading with it, beside the same reading that only claims it."""

import msgspec

from gatepost.auth.results import Dmarc
from gatepost.checks.reading import Reading
from gatepost.mail.sender_history import KNOWN_DAYS, Standing
from gatepost.questions import FacetAge

OFTEN, SELDOM, NEVER = FacetAge(KNOWN_DAYS, 30), FacetAge(KNOWN_DAYS - 1, 30), FacetAge()


def know_sender(reading: Reading, age: FacetAge = OFTEN, *, aligned: bool = True) -> Reading:
    """The same mail, `aligned` with its From, where proven mail of that address was delivered before."""
    authentication = msgspec.structs.replace(reading.authentication, dmarc=Dmarc("none", dkim_aligned=aligned))
    history = msgspec.structs.replace(reading.sender_history, ready=True, address=Standing(proven=age))
    return msgspec.structs.replace(reading, authentication=authentication, sender_history=history)


def know_list(reading: Reading, age: FacetAge = OFTEN) -> Reading:
    """The same mail, where posts of the list that it names were delivered from the same network before."""
    history = msgspec.structs.replace(reading.sender_history, ready=True, mailing_list=age)
    return msgspec.structs.replace(reading, sender_history=history)


def know_member(reading: Reading) -> Reading:
    """The same mail, a post on a known list by a member who is a known sender."""
    return know_sender(know_list(reading))
