"""Answers that quote a conversation which never was.

`Re: Invoice 4711`, and below it what the reader is supposed to have written last week. Mail programs refer to what
they answer (In-Reply-To, References; RFC 5322 section 3.6.4), and have for decades. A mail that answers, quotes a mail
of the reader's own house with its From and To, and refers to nothing, made the quotation up, or was sent through a
form that drops such fields. From somebody who never wrote here before it can only be the former.
"""

import re
from collections.abc import Iterator

from gatepost.checks.fake_reply import claims_answer
from gatepost.checks.first_contact import is_stranger
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import addresses_in, org_domain

INVENTED = Kind("header:invented-thread", "The mail answers and quotes a mail of the reader's, but refers to none")
KINDS = (INVENTED,)

MAX_TEXT = 12_000
_WEAK = 0.2
_BLOCK = re.compile(r"\n[>| ]{0,4}\*?(?:from|von|de|da|van|od|fra|från)\s?:\*?[ \t]?([^\n]{3,200})\n", re.IGNORECASE)


def check(reading: Reading) -> Iterator[Finding]:
    if not claims_answer(reading) or reading.is_discussion:
        return
    houses = {org_domain(to.rpartition("@")[2].strip("> ")) for to in reading.envelope.recipients[:20]} - {""}
    houses -= reading.sender_domains
    for text in reading.message.texts[:4]:
        for block in _BLOCK.finditer(text.visible[:MAX_TEXT]):
            quoted = next((each for each in addresses_in(block[1]) if org_domain(each.domain) in houses), None)
            if quoted:
                strength = 1.0 if is_stranger(reading) else _WEAK
                yield INVENTED.at(text.where, strength=strength, quoted=quoted, subject=reading.message.subject)
                return
