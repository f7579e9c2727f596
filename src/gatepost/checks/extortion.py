"""Extortion: I have filmed you, pay to this wallet.

The threat alone is a story; with an address to pay to it is a demand. Newsletters about cryptocurrency have the words
and no threat, and a donation page has an address and no threat.
"""

from collections.abc import Iterator

from gatepost.checks.wallets import wallets
from gatepost.checks.wording import MAX_TEXTS, shown, wording
from gatepost.findings import Finding, Kind, Reading

DEMAND = Kind("text:extortion", "The text threatens the reader and demands money")
WALLET = Kind("text:wallet-address", "The text gives the address of a crypto wallet")
KINDS = (DEMAND, WALLET)

MAX_SEEN = 50_000
_ENOUGH = 3


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    words = said.said("extortion")
    found = _wallet(reading) if words or "wallet" in said.text else ""
    if found:
        yield WALLET.at("text", wallet=found)
    if len(words) < _ENOUGH or reading.is_discussion or said.size > 12_000:
        return
    degree = 0.12 * len(words) + (0.5 if found else 0.0) - 0.1 * min(3, len(reading.sites))
    if degree >= 0.4:
        yield DEMAND.at("text", strength=round(min(1.0, degree), 2), words=shown(words), wallet=found)


def _wallet(reading: Reading) -> str:
    texts = (text.visible[:MAX_SEEN] for text in reading.message.texts[:MAX_TEXTS])
    return next((wallet for text in texts for wallet in wallets(text)), "")
