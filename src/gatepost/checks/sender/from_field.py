"""From fields that name no sender, or several (RFC 5322 section 3.6.2 asks for at least one address).

Without an address there is no domain to authenticate: `From: Microsoft account team` passes DMARC by having nothing to
check. Several addresses let one be authenticated and another be shown.
"""

import re
from collections.abc import Iterator

from gatepost.checks.known_names import ending_exists
from gatepost.findings import Reading
from gatepost.kinds import SENDER_INVALID_FROM, SENDER_MISSING_FROM, SENDER_SEVERAL_FROM, Finding
from gatepost.names import Address, normal_domain, org_domain
from gatepost.strengths import coefficients

KINDS = (SENDER_MISSING_FROM, SENDER_INVALID_FROM, SENDER_SEVERAL_FROM)

_REPORTER = re.compile(r"daemon|postmaster|mail (?:delivery|system)")
_DOMAIN = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,10}\Z")
# Names that only make sense inside one network; some machines write from them.
_LOCAL = frozenset("localhost localdomain local internal lan intranet corp home invalid test example localnet".split())
_SPLIT_NAME, _NAME_ALONE = coefficients(SENDER_INVALID_FROM, "split_name", "name_alone")


def check(reading: Reading) -> Iterator[Finding]:
    senders = reading.message.senders
    # Servers that report on delivery do not always name themselves properly.
    if _is_report(reading):
        return
    if not senders:
        yield SENDER_MISSING_FROM.at("From", field=reading.fields.get("from", ""))
        return
    # A program on the same machine may write as its user alone: `root`.
    if len(senders) == 1 and not senders[0].local and senders[0].name.isalnum() and senders[0].name.islower():
        return
    if not any(sender.local for sender in senders):
        yield SENDER_INVALID_FROM.at("From", shown=senders[0].name, address=senders[0])
        return
    if not senders[0].domain and not senders[0].local:
        # `Doe, Ann <ann@example.com>` without quotes is a common mistake; a name alone and then an address is none.
        strength = _SPLIT_NAME if senders[1].name else _NAME_ALONE
        yield SENDER_INVALID_FROM.at("From", strength=strength, shown=senders[0].name, address=senders[1])
    # Machines inside a network write as root@host, and X.400 gateways as names without a domain: no claim is made.
    for sender in senders[:1]:
        if sender.domain and not _could_exist(sender):
            yield SENDER_INVALID_FROM.at("From", shown=sender.name, address=sender)
    owners = {org_domain(sender.domain) for sender in senders if sender.domain}
    if len(owners) > 1:
        yield SENDER_SEVERAL_FROM.at("From", senders=", ".join(map(str, senders[:5])))


def _is_report(reading: Reading) -> bool:
    shown = reading.fields.get("from", "").casefold()
    if not shown.strip("<> "):
        return not reading.envelope.sender.strip("<>")
    return _REPORTER.search(shown) is not None


def _could_exist(sender: Address) -> bool:
    domain = normal_domain(sender.domain)
    if domain.startswith("[") or domain.rpartition(".")[2] in _LOCAL:
        return True
    return _DOMAIN.match(domain) is not None and ending_exists(domain)
