"""Call-back scams: a renewal that you never ordered costs $399; to cancel, call this number.

There is no link and often no word of text, only an invoice and a telephone number, so that nothing can be scanned. Real
invoices link to their shop or come with an order that the reader made.
"""

import re
from collections.abc import Iterator

from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

CALL = Kind("text:call-back", "The text reports a charge and gives a number to call, and nothing else to follow")
KINDS = (CALL,)
THEMES = frozenset({"charge"})

# As such mail writes numbers: (888) 555-0100, +1 888 555 0100, 1-888-555-0100, 0800 555 0100.
_GAP = r"[ .\-–—_~*]{1,3}"
_NUMBER = re.compile(
    rf"(?<![\w/.=-])(?:\+ ?|00)?\(?\d{{1,4}}\)?{_GAP}\(?\d{{2,4}}\)?{_GAP}\d{{3,4}}(?:{_GAP}\d{{2,4}})?(?![\w/=])"
)
_LETTER = 4_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    charges, calls = said.said("charge"), said.said("call")
    if len(charges) < 2 or said.size > _LETTER:
        return
    number = _NUMBER.search(said.text[:20_000])
    if number is None or len(reading.sites) > 1 or reading.is_discussion:
        return
    degree = 0.15 * len(charges) + 0.2 * min(2, len(calls)) - (0.4 if reading.sites else 0.0)
    if degree >= 0.4:
        facts = {"number": number.group(), "words": shown((*charges, *calls))}
        yield CALL.at("text", strength=round(min(1.0, degree), 2), **facts)
