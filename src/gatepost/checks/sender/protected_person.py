"""Outsiders who use the name of a person whom the operator protects.

`Ann Director <ann.director.office@gmail.com>` asks the accountant for a payment. The name is compared folded, in any
order of its words, and with look-alike letters made plain; the address must be the person's own.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import is_under, words_of
from gatepost.findings import Reading
from gatepost.kinds import SENDER_PROTECTED_PERSON, Finding
from gatepost.names import Address, normal_address, normal_domain, skeleton

KINDS = (SENDER_PROTECTED_PERSON,)
NEEDS = frozenset({"protected"})


def check(reading: Reading) -> Iterator[Finding]:
    people = reading.protected.people
    if not people:
        return
    for sender in reading.message.senders:
        name = _sort_words(sender.name)
        bearers = [person for person in people if name and _sort_words(person.name) == name]
        if bearers and not _is_insider(sender, bearers, reading):
            yield SENDER_PROTECTED_PERSON.at("From", person=bearers[0].name, known_as=bearers[0], actual=sender)


def _sort_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, sorted: "Director, Ann" is "Ann Director"."""
    return tuple(sorted(words_of(skeleton(name))))


def _is_insider(sender: Address, bearers: list[Address], reading: Reading) -> bool:
    """Return the person's own address, or any of the own domains: a namesake there is a colleague, and a forged own
    domain is found as such."""
    known = {normal_address(str(person)) for person in bearers}
    return normal_address(str(sender)) in known or is_under(normal_domain(sender.domain), reading.protected.own_domains)
