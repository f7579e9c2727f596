"""Call-back scams: a renewal that you never ordered costs $399; to cancel, call this number.

There is no link and often no word of text, only an invoice and a telephone number, so that nothing can be scanned. Real
invoices link to their shop or come with an order that the reader made.
"""

import re
from collections.abc import Iterator

from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_CALL_BACK, Finding
from gatepost.strengths import coefficients

KINDS = (TEXT_CALL_BACK,)
THEMES = frozenset({"charge"})

# As such mail writes numbers: (888) 555-0100, +1 888 555 0100, 1-888-555-0100, 0800 555 0100.
_GAP = r"[ .\-–—_~*]{1,3}"
_NUMBER = re.compile(
    rf"(?<![\w/.=-])(?:\+ ?|00)?\(?\d{{1,4}}\)?{_GAP}\(?\d{{2,4}}\)?{_GAP}\d{{3,4}}(?:{_GAP}\d{{2,4}})?(?![\w/=])"
)
_LETTER = 4_000
_MOST_CALLS = 2
_PER_CHARGE, _PER_CALL, _SITE, _LEAST = coefficients(TEXT_CALL_BACK, "per_charge", "per_call", "site", "least")


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    charges, calls = phrases.of("charge"), phrases.of("call")
    if len(charges) < 2 or phrases.length > _LETTER:
        return
    number = _NUMBER.search(phrases.text[:20_000])
    if number is None or len(reading.sites) > 1 or reading.is_discussion:
        return
    degree = _PER_CHARGE * len(charges) + _PER_CALL * min(_MOST_CALLS, len(calls)) - (_SITE if reading.sites else 0.0)
    if degree >= _LEAST:
        facts = {"number": number.group(), "words": quote((*charges, *calls))}
        yield TEXT_CALL_BACK.at("text", strength=round(min(1.0, degree), 2), **facts)
