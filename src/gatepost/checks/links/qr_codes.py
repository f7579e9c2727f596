"""Links in QR codes, and texts that ask to scan one.

A code in a picture takes the reader from the company's machine, with its filters, to a telephone without any, whose
small screen hides where the link leads. Tickets, payment slips and posters carry codes honestly, so a code alone is a
small thing; what it leads to is looked at like every other link. Together with talk of accounts, pay or documents, a
request to scan is a lure.
"""

from collections.abc import Iterator

from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_QR_LURE, URL_QR_CODE, Finding
from gatepost.strengths import coefficients

KINDS = (URL_QR_CODE, TEXT_QR_LURE)

_LONG = 8_000
_MOST_REASONS = 3
_REASONS = ("credential", "limitation", "salary", "document", "mailbox")
_BASE, _PER_REASON, _CODE = coefficients(TEXT_QR_LURE, "base", "per_reason", "code")


def check(reading: Reading) -> Iterator[Finding]:
    hosts = {link.host: link for file in reading.files for link in file.links if link.source == "qr" and link.host}
    for host, link in hosts.items():
        yield URL_QR_CODE.at(link.where, about=link.url, leads_to=host)
    phrases = find_phrases(reading)
    words = phrases.of("scan")
    if not words or phrases.length > _LONG:
        return
    reasons = phrases.of(*_REASONS)
    code = any(link.source == "qr" for link in reading.links)
    degree = _BASE + _PER_REASON * min(_MOST_REASONS, len(reasons)) + _CODE * code
    yield TEXT_QR_LURE.at("text", strength=round(min(1.0, degree), 2), words=quote((*words, *reasons)))
