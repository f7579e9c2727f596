"""QR lures: scan the code with your phone.

A telephone reads the code outside of the company's filters, and its small screen hides where the link leads. Tickets
and payments show codes for honest reasons; together with talk of accounts, pay or documents they do not.
"""

from collections.abc import Iterator

from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading

SCAN = Kind("text:qr-lure", "The text asks to scan a code with a telephone")
KINDS = (SCAN,)
THEMES = frozenset({"scan"})


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("scan")
    if not words or said.size > 8_000:
        return
    reasons = said.said("credential", "limitation", "salary", "document", "mailbox")
    code = any(link.source == "qr" for link in reading.links)
    degree = 0.2 + 0.25 * min(3, len(reasons)) + 0.3 * code
    yield SCAN.at("text", strength=round(min(1.0, degree), 2), words=shown((*words, *reasons)))
