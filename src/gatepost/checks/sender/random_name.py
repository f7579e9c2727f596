"""Domains and mailboxes with names that a machine made up: `zw6ht96`, `bqtirvjmdsvqgksn`, `62nwxj8mam`.

Throw-away domains are registered by the thousand and mailboxes filled in by a template. Names that people choose can be
spoken: vowels come every few letters, and digits stand at an end; abbreviations joined to words ("cbsnews") stay under
the bar. Ticket systems and bounce handlers write from made-up mailboxes as well, so only the shown sender counts, and
a domain counts more than a mailbox.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.known_names import is_genuine, is_hosted_page, is_tenant
from gatepost.findings import Reading
from gatepost.kinds import SENDER_RANDOM_DOMAIN, SENDER_RANDOM_MAILBOX, URL_RANDOM_HOST, Finding
from gatepost.names import is_ip, normal_domain, org_domain
from gatepost.strengths import coefficients

KINDS = (URL_RANDOM_HOST, SENDER_RANDOM_DOMAIN, SENDER_RANDOM_MAILBOX)

_LONG = 12
_SHORTEST = 7
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}")
# Two letters that are one sound, and endings that many words have.
_ONE_SOUND = re.compile(r"tch|sch|ght|[scptwg]h|ck|st|nd|nt|ng|ss|ll|tt|rs|ts|ns|rt|rd")
_TURNS = re.compile(r"(?<=[a-z])\d|(?<=\d)[a-z]")
_VOWELS = re.compile(r"[aeiouy]")
_OTHERS = re.compile(r"[b-df-hj-np-tv-xz]")
_CAPITALS = re.compile(r"[A-Z]")
_MANY_CAPITALS = 3
_PER_TURN, _PER_CONSONANT, _FEW_VOWELS, _VOWEL_SHARE, _HOPPING, _BAR, _SURE, _BELOW = coefficients(
    "randomness", "per_turn", "per_consonant", "few_vowels", "vowel_share", "capitals", "bar", "sure", "below"
)


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        if strength := _measure_host(normal_domain(sender.domain)):
            yield SENDER_RANDOM_DOMAIN.at("From", strength=strength, domain=sender.domain)
        if strength := _measure_mailbox(sender.local[:64].partition("+")[0]):
            yield SENDER_RANDOM_MAILBOX.at("From", strength=strength, mailbox=sender)
    for host, link in reading.sites.items():
        if strength := _measure_host(host):
            yield URL_RANDOM_HOST.at(link.where, strength=strength, about=link.url, host=host)
            return


def _measure_mailbox(name: str) -> float:
    """Return how random a mailbox name is, 0 to 1.

    Mailboxes with separators are tickets, bounces and aliases: machines of honest owners name those.
    """
    return randomness(name) if name.isalnum() else 0.0


@lru_cache(8192)
def _measure_host(host: str) -> float:
    """Return how random the registered name is, 0 to 1.

    What stands below it is its owner's business, unless it is long noise.
    """
    if "." not in host or is_ip(host) or is_genuine(host) or is_tenant(host) or is_hosted_page(host) or "xn--" in host:
        return 0.0
    name = org_domain(host)
    below = (label for label in host.removesuffix(name).split(".") if len(label) >= _LONG)
    return max(
        *(randomness(part) for part in name.partition(".")[0].split("-")),
        *(_BELOW * (randomness(label) >= _SURE) for label in below),
        0.0,
    )


@lru_cache(8192)
def randomness(label: str) -> float:
    """Return how far a label is from a name that a person may have chosen: 0 for such a name, else up to 1."""
    if len(label) < _SHORTEST or not label.isascii():
        return 0.0
    # "aLaZFLJt" is no word in capitals and no two words joined.
    capitals = len(_CAPITALS.findall(label)) if not label.isupper() else 0
    hopping = capitals >= _MANY_CAPITALS and label[0].islower()
    label = label.lower()
    turns = len(_TURNS.findall(label))
    longest = max((len(_ONE_SOUND.sub("-", run)) for run in _CONSONANTS.findall(label)), default=0)
    score = _PER_TURN * max(0, turns - 1) + _PER_CONSONANT * max(0, longest - 4)
    vowels = len(_VOWELS.findall(label))
    letters = vowels + len(_OTHERS.findall(label))
    if letters >= _SHORTEST and vowels < _VOWEL_SHARE * letters:
        score += _FEW_VOWELS
    score += _HOPPING * hopping
    return min(1.0, score) if score >= _BAR else 0.0
