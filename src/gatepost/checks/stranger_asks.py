"""Strangers who ask at once for money or a secret.

What the text wants and who wants it are two findings of their own; together they say more than their sum. A supplier
who has written for years may announce a new bank account. Who never wrote before has no account that could be new, and
a page where a password is wanted is not one that nobody here has ever been sent to.
"""

from collections.abc import Iterator

from gatepost.checks.first_contact import is_stranger
from gatepost.checks.lure import way_out
from gatepost.checks.new_hosts import new_hosts
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import org_domain

MONEY = Kind("sender:stranger-asks", "Somebody who never wrote before asks for a payment, a gift card or a favour")
SECRET = Kind("url:new-host-asks", "The text presses for an account or a secret, on a site that is new to the tenant")
KINDS = (MONEY, SECRET)

_LETTER = 3_000
_MONEY = ("payment", "errand", "gift")
_SECRETS = ("credential", "limitation", "mailbox", "document", "salary")


def check(reading: Reading) -> Iterator[Finding]:
    if not reading.acquaintance.ready:
        return
    said = wording(reading)
    if said.size > _LETTER or said.count("warning") > 1:
        return
    money = said.said(*_MONEY)
    if money and is_stranger(reading):
        yield MONEY.at("text", strength=min(1.0, 0.5 * len(money)), words=shown(money))
    secrets = said.said(*_SECRETS)
    way = way_out(reading) if secrets and new_hosts(reading) else None
    if way and org_domain(way.link.host) in new_hosts(reading):
        strength = round(min(1.0, 0.5 * len(secrets)) * way.distance, 2)
        yield SECRET.at(way.link.where, strength=strength, about=way.link.url, words=shown(secrets))
