"""Strangers who ask at once for money or a secret.

What the text wants and who wants it are two findings of their own; together they say more than their sum. A supplier
who has written for years may announce a new bank account. A sender who never wrote before has no account that could be
new, and an honest page that asks for a password is one that earlier mail of the tenant linked to.
"""

from collections.abc import Iterator

from gatepost.checks.link_away import find_link_away
from gatepost.checks.links.new_hosts import find_new_hosts
from gatepost.checks.phrases import find_phrases, quote
from gatepost.checks.sender.first_contact import is_first_contact
from gatepost.findings import Reading
from gatepost.kinds import SENDER_STRANGER_ASKS, URL_NEW_HOST_ASKS, Finding
from gatepost.names import org_domain
from gatepost.strengths import coefficients

KINDS = (SENDER_STRANGER_ASKS, URL_NEW_HOST_ASKS)
NEEDS = frozenset({"remembered"})

_LETTER = 3_000
_MONEY = ("payment", "errand", "gift")
_SECRETS = ("credential", "limitation", "mailbox", "document", "salary")
THEMES = frozenset({*_MONEY, *_SECRETS})
(_PER_MONEY_PHRASE,) = coefficients(SENDER_STRANGER_ASKS, "per_phrase")
(_PER_SECRET_PHRASE,) = coefficients(URL_NEW_HOST_ASKS, "per_phrase")


def check(reading: Reading) -> Iterator[Finding]:
    if not reading.sender_history.ready:
        return
    phrases = find_phrases(reading)
    if phrases.length > _LETTER or phrases.count_of("warning") > 1:
        return
    money = phrases.of(*_MONEY)
    if money and is_first_contact(reading):
        yield SENDER_STRANGER_ASKS.at("text", strength=min(1.0, _PER_MONEY_PHRASE * len(money)), words=quote(money))
    secrets = phrases.of(*_SECRETS)
    away = find_link_away(reading) if secrets and find_new_hosts(reading) else None
    if away and org_domain(away.link.host) in find_new_hosts(reading):
        strength = round(min(1.0, _PER_SECRET_PHRASE * len(secrets)) * away.distance, 2)
        yield URL_NEW_HOST_ASKS.at(away.link.where, strength=strength, about=away.link.url, words=quote(secrets))
