"""What is known about a sender from before: the tenant's sender history, and DNS reputation zones.

Whether somebody wrote before says how much to believe of the rest of the message.

The operator chooses the zones and says what their answers mean (`reputation.zones` in guard.yml). Gatepost ships none:
each has terms of its own, and each is somebody else's opinion. So every finding names the zone, its answer and what the
operator lets it mean.
"""

from collections.abc import Iterator, Mapping

from gatepost.checks.known_names import is_freemail, is_under
from gatepost.checks.links.hosts import find_link_away, find_new_hosts
from gatepost.checks.phrases import find_phrases, quote
from gatepost.checks.reading import Reading, check
from gatepost.checks.sender.authentication import is_vouched_for
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding, Kind
from gatepost.findings.strengths import coefficients
from gatepost.mail.sender_history import Standing
from gatepost.names import normal_domain, org_domain
from gatepost.questions import Listing


@check(kinds.SENDER_FIRST_CONTACT, needs={"remembered"})
def first_contact(reading: Reading) -> Iterator[Finding]:
    """Senders from whom the tenant never had mail before today.

    Every sender writes for a first time, so it is next to nothing by itself. It says how much else to believe: most
    attacks come from strangers, and most mail does not. A colleague of a known sender is no stranger, except at
    providers of free mail, where all customers have the same domain; nor are partners, own domains, and posts on
    known discussion lists.
    """
    if is_first_contact(reading):
        yield kinds.SENDER_FIRST_CONTACT.at("From", sender=reading.message.senders[0])


def is_first_contact(reading: Reading) -> bool:
    """Is the sender new to the tenant? No, where too little is remembered to tell."""
    return reading.once(_is_first_contact)


def _is_first_contact(reading: Reading) -> bool:
    met, senders = reading.sender_history, reading.message.senders
    if not met.ready or not senders or met.address.known or reading.is_known_list or reading.protected.host_trusted:
        return False
    domain = normal_domain(senders[0].domain)
    ours = reading.protected.trusted_domains
    if not domain or is_under(domain, ours):
        return False
    return is_freemail(domain) or not met.domain.known


_ASKING_LETTER = 3_000
_MONEY_THEMES = ("payment", "errand", "gift")
_SECRET_THEMES = ("credential", "limitation", "mailbox", "document", "salary")
(_PER_MONEY_PHRASE,) = coefficients(kinds.SENDER_STRANGER_ASKS, "per_phrase")
(_PER_SECRET_PHRASE,) = coefficients(kinds.URL_NEW_HOST_ASKS, "per_phrase")


@check(
    kinds.SENDER_STRANGER_ASKS, kinds.URL_NEW_HOST_ASKS, needs={"remembered"}, themes={*_MONEY_THEMES, *_SECRET_THEMES}
)
def stranger_asks(reading: Reading) -> Iterator[Finding]:
    """Strangers who ask at once for money or a secret.

    What the text wants and who wants it are two findings of their own; together they say more than their sum. A
    supplier who has written for years may announce a new bank account. A sender who never wrote before has no account
    that could be new, and an honest page that asks for a password is one that earlier mail of the tenant linked to.
    """
    if not reading.sender_history.ready:
        return
    phrases = find_phrases(reading)
    if reading.is_known_sender and (
        phrases.length_of(*_MONEY_THEMES, *_SECRET_THEMES) > _ASKING_LETTER or phrases.count_of("warning") > 1
    ):
        return
    money = phrases.of(*_MONEY_THEMES)
    if money and is_first_contact(reading):
        yield kinds.SENDER_STRANGER_ASKS.at(
            "text", strength=min(1.0, _PER_MONEY_PHRASE * len(money)), words=quote(money)
        )
    secrets = phrases.of(*_SECRET_THEMES)
    away = find_link_away(reading) if secrets and find_new_hosts(reading) else None
    if away and org_domain(away.link.host) in find_new_hosts(reading):
        strength = round(min(1.0, _PER_SECRET_PHRASE * len(secrets)) * away.distance, 2)
        yield kinds.URL_NEW_HOST_ASKS.at(away.link.where, strength=strength, about=away.link.url, words=quote(secrets))


HABIT_DAYS = 5
HABIT_AGE = 14
# One day without proof among so many with it does not end a habit.
HABIT_RATIO = 10
(_HABIT_VIA_LIST,) = coefficients(kinds.SENDER_BROKEN_HABIT, "via_list")


@check(kinds.SENDER_BROKEN_HABIT, kinds.SENDER_NEW_REPLY_TO, needs={"remembered"})
def broken_habit(reading: Reading) -> Iterator[Finding]:
    """Senders who do not behave as they always did.

    A domain whose mail proved its sender on every day for weeks (an aligned SPF or DKIM pass), and now does not, is
    most likely forged, whatever its owner publishes about it in DNS. Lists and forwarders break signatures too: a
    domain that came through some of them before has no such habit, and one that comes through a list today weighs
    little.

    A known sender whose answers never went elsewhere, and now do, may write from a mailbox that was taken over: the
    thief wants to read the answers. Services that send in the name of others do it all the time, so they have no habit.
    """
    met = reading.sender_history
    if not met.ready or not reading.message.senders or reading.protected.host_trusted:
        return
    sender = reading.message.senders[0]
    proven = met.domain.proven
    if _always_authenticated(met.domain) and _is_unauthenticated(reading):
        strength = _HABIT_VIA_LIST if reading.is_known_list else 1.0
        yield kinds.SENDER_BROKEN_HABIT.at(
            "From", strength=strength, sender=sender, proven_days=proven.days, since_days=proven.age
        )
    if met.redirection and not met.redirection.days and _is_long_known(met.address) and not reading.is_known_list:
        yield kinds.SENDER_NEW_REPLY_TO.at("Reply-To", answers=reading.message.reply_to[0], sender=sender)


def _always_authenticated(standing: Standing) -> bool:
    proven, claimed = standing.proven, standing.claimed
    return proven.days >= HABIT_DAYS and proven.age >= HABIT_AGE and claimed.days * HABIT_RATIO <= proven.days


def _is_long_known(standing: Standing) -> bool:
    return any(known.days >= HABIT_DAYS and known.age >= HABIT_AGE for known in (standing.proven, standing.claimed))


def _is_unauthenticated(reading: Reading) -> bool:
    """Return whether nothing is proven, although DNS answered, and nobody whom we believe vouches for it (ARC)."""
    seen = reading.authentication
    if seen.aligned or is_vouched_for(reading):
        return False
    results = (seen.dmarc.result, seen.spf.result, *(each.result for each in seen.dkim))
    return seen.origin in ("", "outside") and bool(seen.host) and "temperror" not in results


_KINDS: Mapping[tuple[str, str], Kind] = {
    ("host", "listed"): kinds.REPUTATION_LISTED_HOST,
    ("host", "dynamic"): kinds.REPUTATION_DYNAMIC_HOST,
    ("host", "allowed"): kinds.REPUTATION_ALLOWED_HOST,
    ("link", "listed"): kinds.REPUTATION_LISTED_LINK,
    ("link", "phishing"): kinds.REPUTATION_PHISHING_LINK,
    ("link", "malware"): kinds.REPUTATION_MALWARE_LINK,
    ("link", "new"): kinds.REPUTATION_NEW_LINK,
    ("sender", "listed"): kinds.REPUTATION_LISTED_SENDER,
    ("sender", "phishing"): kinds.REPUTATION_PHISHING_SENDER,
    ("sender", "malware"): kinds.REPUTATION_PHISHING_SENDER,
    ("sender", "new"): kinds.REPUTATION_NEW_SENDER,
    ("address", "listed"): kinds.REPUTATION_LISTED_ADDRESS,
    ("file", "listed"): kinds.REPUTATION_LISTED_FILE,
    ("file", "malware"): kinds.REPUTATION_LISTED_FILE,
}
_AGAINST_HOST = frozenset({kinds.REPUTATION_LISTED_HOST.id, kinds.REPUTATION_DYNAMIC_HOST.id})


@check(kinds.REPUTATION_NO_ANSWER, *dict.fromkeys(_KINDS.values()), needs={"reputation"})
def reputation(reading: Reading) -> Iterator[Finding]:
    """What the operator's reputation zones list.

    A host that is on an allow zone is not held against the message because of another zone: zones list large providers
    now and then, and it is the purpose of an allow zone to know those. Nothing else is lifted by an allow zone, since
    captured accounts send through good hosts. The operator's own relays are nobody's sending host. Of mail through a
    list the author's host is looked up as well, and an allow zone speaks for the host alone that it lists.
    """
    said = reading.reputation
    for zone, reason in said.silent:
        yield kinds.REPUTATION_NO_ANSWER.at("DNS", zone=zone, reason=reason)
    allowed = {listing.value for listing in said.listings if listing.means == "allowed"}
    for listing in said.listings:
        kind = _KINDS.get((listing.subject, listing.means))
        is_excused = reading.protected.host_trusted or listing.value in allowed
        if kind is None or (is_excused and kind.id in _AGAINST_HOST):
            continue
        facts = {"value": listing.value, "zone": listing.zone, "answer": listing.answer, "meaning": listing.text}
        where, about = _locate(reading, listing)
        shown = {name: text for name, text in facts.items() if text}
        yield kind.at(where, strength=listing.strength, about=about, **shown)


def _locate(reading: Reading, listing: Listing) -> tuple[str, str]:
    """Where the finding is, and the link or file that it is about: an entry that allows that clears the finding."""
    if listing.subject == "link":
        found = (link for link in reading.links if normal_domain(link.host) == listing.value)
        return next(((link.where, link.url) for link in found), ("link", ""))
    if listing.subject == "file":
        path = next((file.path for file in reading.files if file.sha256 == listing.value), "file")
        return path, listing.value
    return "sending host" if listing.subject == "host" else listing.subject, ""
