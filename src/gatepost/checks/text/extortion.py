"""Extortion: I have filmed you, pay to this wallet.

The threat alone is a story; with an address to pay to it is a demand. Newsletters about cryptocurrency have the words
and no threat, and a donation page has an address and no threat.

Addresses of wallets are told from other long words by their form and, where that is cheap, by their checksum: Bitcoin's
old form is Base58 with four bytes of double SHA-256 at its end; `bc1…` is Bech32 (BIP 173, BIP 350) with a checksum of
six characters. Monero and Ethereum are told by length and alphabet.
"""

import hashlib
import re
from collections.abc import Iterator

from gatepost.checks.phrases import MAX_TEXTS, find_phrases, quote
from gatepost.findings import Reading
from gatepost.kinds import TEXT_EXTORTION, TEXT_WALLET_ADDRESS, Finding
from gatepost.strengths import coefficients

KINDS = (TEXT_EXTORTION, TEXT_WALLET_ADDRESS)

MAX_SEEN = 50_000
_ENOUGH = 3
_MOST_SITES = 3
_PER_PHRASE, _WALLET, _PER_SITE, _LEAST = coefficients(TEXT_EXTORTION, "per_phrase", "wallet", "per_site", "least")
MAX_TRIED = 50
_SHORTEST = 23

_WORD = re.compile(
    r"(?<![A-Za-z0-9])(?:bc1[a-z0-9]{20,80}|BC1[A-Z0-9]{20,80}|0x[0-9a-fA-F]{40}"
    r"|[13][1-9A-HJ-NP-Za-km-z]{25,34}|[LMT][1-9A-HJ-NP-Za-km-z]{33}|[48][1-9A-HJ-NP-Za-km-z]{94})(?![A-Za-z0-9])"
)
_BASE58 = {char: value for value, char in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
_BECH32 = {char: value for value, char in enumerate("qpzry9x8gf2tvdw0s3jn54khce6mua7l")}
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def check(reading: Reading) -> Iterator[Finding]:
    phrases = find_phrases(reading)
    words = phrases.of("extortion")
    found = _find_wallet(reading) if words or "wallet" in phrases.text else ""
    if found:
        yield TEXT_WALLET_ADDRESS.at("text", wallet=found)
    if len(words) < _ENOUGH or reading.is_discussion or phrases.length > 12_000:
        return
    degree = _PER_PHRASE * len(words) + (_WALLET if found else 0.0) - _PER_SITE * min(_MOST_SITES, len(reading.sites))
    if degree >= _LEAST:
        yield TEXT_EXTORTION.at("text", strength=round(min(1.0, degree), 2), words=quote(words), wallet=found)


def _find_wallet(reading: Reading) -> str:
    texts = (text.visible[:MAX_SEEN] for text in reading.message.texts[:MAX_TEXTS])
    return next((wallet for text in texts for wallet in find_wallets(text)), "")


def find_wallets(text: str) -> Iterator[str]:
    """Yield the addresses of wallets in a text, in their order."""
    long = (word for word in text.split() if len(word) >= _SHORTEST)
    for tried, match in enumerate(match for word in long for match in _WORD.finditer(word)):
        if tried >= MAX_TRIED:
            return
        word = match.group()
        if word[:3].lower() == "bc1":
            if _is_bech32(word.lower()):
                yield word
        elif word[0] in "13LMT":
            if _is_base58(word):
                yield word
        elif word.startswith("0x") or any(char.isdigit() for char in word[1:]):
            yield word


def _is_base58(word: str) -> bool:
    number = 0
    for char in word:
        number = number * 58 + _BASE58[char]
    if number.bit_length() > 200:
        return False
    data = number.to_bytes(25, "big")
    return hashlib.sha256(hashlib.sha256(data[:21]).digest()).digest()[:4] == data[21:]


def _is_bech32(word: str) -> bool:
    if not all(char in _BECH32 for char in word[3:]):
        return False
    values = [3, 3, 0, 2, 3, *(_BECH32[char] for char in word[3:])]
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATORS):
            check ^= generator if top >> bit & 1 else 0
    return check in (1, 0x2BC830A3)
