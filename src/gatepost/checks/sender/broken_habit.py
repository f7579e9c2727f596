"""Senders who do not behave as they always did.

A domain whose mail proved its sender on every day for weeks (an aligned SPF or DKIM pass), and now does not, is most
likely forged, whatever its owner publishes about it in DNS. Lists and forwarders break signatures too: a domain that
came through some of them before has no such habit, and one that comes through a list today weighs little.

A known sender whose answers never went elsewhere, and now do, may write from a mailbox that was taken over: the
thief wants to read the answers. Services that send in the name of others do it all the time, so they have no habit.
"""

from collections.abc import Iterator

from gatepost.auth.results import Authentication
from gatepost.findings import Reading
from gatepost.kinds import SENDER_BROKEN_HABIT, SENDER_NEW_REPLY_TO, Finding
from gatepost.sender_history import Standing
from gatepost.strengths import coefficients

KINDS = (SENDER_BROKEN_HABIT, SENDER_NEW_REPLY_TO)
NEEDS = frozenset({"remembered"})

LEAST_DAYS = 5
LEAST_AGE = 14
# One day without proof among so many with it does not end a habit.
RATIO = 10
(_VIA_LIST,) = coefficients(SENDER_BROKEN_HABIT, "via_list")


def check(reading: Reading) -> Iterator[Finding]:
    met = reading.sender_history
    if not met.ready or not reading.message.senders or reading.protected.host_trusted:
        return
    sender = reading.message.senders[0]
    proven = met.domain.proven
    if _always_authenticated(met.domain) and _is_unauthenticated(reading.authentication):
        via_list = reading.is_discussion or "list-id" in reading.fields
        strength = _VIA_LIST if via_list else 1.0
        yield SENDER_BROKEN_HABIT.at(
            "From", strength=strength, sender=sender, proven_days=proven.days, since_days=proven.age
        )
    if met.redirection and not met.redirection.days and _is_old(met.address) and not reading.is_discussion:
        yield SENDER_NEW_REPLY_TO.at("Reply-To", answers=reading.message.reply_to[0], sender=sender)


def _always_authenticated(standing: Standing) -> bool:
    proven, claimed = standing.proven, standing.claimed
    return proven.days >= LEAST_DAYS and proven.age >= LEAST_AGE and claimed.days * RATIO <= proven.days


def _is_old(standing: Standing) -> bool:
    return any(known.days >= LEAST_DAYS and known.age >= LEAST_AGE for known in (standing.proven, standing.claimed))


def _is_unauthenticated(seen: Authentication) -> bool:
    """Return whether nothing is proven, although DNS answered and no forwarder vouches for the mail (ARC)."""
    if seen.aligned or seen.arc.result == "pass":
        return False
    results = (seen.dmarc.result, seen.spf.result, *(each.result for each in seen.dkim))
    return bool(seen.host) and "temperror" not in results
