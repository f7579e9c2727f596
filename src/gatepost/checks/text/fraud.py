"""Letters that want money: advance fee, extortion, calls to a false hotline, payments led astray."""

import hashlib
import re
from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, is_genuine, is_under
from gatepost.checks.phrases import MAX_TEXTS, Phrases, find_phrases, quote
from gatepost.checks.sender.history import is_first_contact
from gatepost.checks.text.phone_numbers import MAX_CALL_TEXT, find_phone_number
from gatepost.findings import Reading, check
from gatepost.kinds import (
    TEXT_ADVANCE_FEE,
    TEXT_CALL_BACK,
    TEXT_ERRAND,
    TEXT_EXTORTION,
    TEXT_GIFT_CARDS,
    TEXT_PAYMENT_CHANGE,
    TEXT_PAYROLL_CHANGE,
    TEXT_SUDDEN_SUM,
    TEXT_WALLET_ADDRESS,
    Finding,
)
from gatepost.names import normal_domain, org_domain
from gatepost.strengths import coefficients

_ENOUGH_FORTUNE = 4
_MOST_FORTUNE_SITES = 4
_THREADED = frozenset({"in-reply-to", "references"})
_PER_FORTUNE_PHRASE, _FORTUNE_FULL_LENGTH, _PER_FORTUNE_SITE, _FORTUNE_POSTED, _LEAST_FORTUNE = coefficients(
    TEXT_ADVANCE_FEE, "per_phrase", "full_length", "per_site", "posted", "least"
)


@check(TEXT_ADVANCE_FEE, themes={"fortune"})
def advance_fee(reading: Reading) -> Iterator[Finding]:
    """Advance fee: a fortune waits, and only your help, your data and a small fee are missing.

    The oldest letter of its kind has many plots (a widow, an heir, a general, a lottery) and one vocabulary. Any one of
    its words is ordinary; half a dozen in a letter are not. Such letters are posted on lists as well; there, answers
    that quote one are left out, and what begins a thread counts less.
    """
    phrases = find_phrases(reading)
    words = phrases.of("fortune")
    if len(words) < _ENOUGH_FORTUNE:
        return
    if reading.is_discussion and not _THREADED.isdisjoint(reading.fields):
        return
    brevity = min(1.0, _FORTUNE_FULL_LENGTH / max(phrases.length, 1))
    further_sites = min(_MOST_FORTUNE_SITES, max(0, len(reading.sites) - 1))
    degree = _PER_FORTUNE_PHRASE * (len(words) - 2) * brevity - _PER_FORTUNE_SITE * further_sites
    degree = min(1.0, degree) * (_FORTUNE_POSTED if reading.is_discussion else 1.0)
    if degree >= _LEAST_FORTUNE:
        yield TEXT_ADVANCE_FEE.at("text", strength=round(degree, 2), words=quote(words))


MAX_WALLET_TEXT = 50_000
_ENOUGH_THREATS = 3
_MOST_THREAT_SITES = 3
_PER_THREAT, _THREAT_WALLET, _PER_THREAT_SITE, _LEAST_THREAT = coefficients(
    TEXT_EXTORTION, "per_phrase", "wallet", "per_site", "least"
)
MAX_WALLETS_TRIED = 50
_SHORTEST_WALLET = 23
_WALLET_FORM = re.compile(
    r"(?<![A-Za-z0-9])(?:bc1[a-z0-9]{20,80}|BC1[A-Z0-9]{20,80}|0x[0-9a-fA-F]{40}"
    r"|[13][1-9A-HJ-NP-Za-km-z]{25,34}|[LMT][1-9A-HJ-NP-Za-km-z]{33}|[48][1-9A-HJ-NP-Za-km-z]{94})(?![A-Za-z0-9])"
)
_BASE58 = {char: value for value, char in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
_BECH32 = {char: value for value, char in enumerate("qpzry9x8gf2tvdw0s3jn54khce6mua7l")}
_BECH32_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


@check(TEXT_EXTORTION, TEXT_WALLET_ADDRESS)
def extortion(reading: Reading) -> Iterator[Finding]:
    """Extortion: I have filmed you, pay to this wallet.

    The threat alone is a story; with an address to pay to it is a demand. Newsletters about cryptocurrency have the
    words and no threat, and a donation page has an address and no threat.

    Addresses of wallets are told from other long words by their form and, where that is cheap, by their checksum:
    Bitcoin's old form is Base58 with four bytes of double SHA-256 at its end; `bc1…` is Bech32 (BIP 173, BIP 350) with
    a checksum of six characters. Monero and Ethereum are told by length and alphabet.
    """
    phrases = find_phrases(reading)
    words = phrases.of("extortion")
    found = _find_wallet(reading) if words or "wallet" in phrases.text else ""
    if found:
        yield TEXT_WALLET_ADDRESS.at("text", wallet=found)
    if len(words) < _ENOUGH_THREATS or reading.is_discussion or phrases.length > 12_000:
        return
    degree = (
        _PER_THREAT * len(words)
        + (_THREAT_WALLET if found else 0.0)
        - _PER_THREAT_SITE * min(_MOST_THREAT_SITES, len(reading.sites))
    )
    if degree >= _LEAST_THREAT:
        yield TEXT_EXTORTION.at("text", strength=round(min(1.0, degree), 2), words=quote(words), wallet=found)


def _find_wallet(reading: Reading) -> str:
    texts = (text.visible[:MAX_WALLET_TEXT] for text in reading.message.texts[:MAX_TEXTS])
    return next((wallet for text in texts for wallet in find_wallets(text)), "")


def find_wallets(text: str) -> Iterator[str]:
    """Yield the addresses of wallets in a text, in their order."""
    long = (word for word in text.split() if len(word) >= _SHORTEST_WALLET)
    for tried, match in enumerate(match for word in long for match in _WALLET_FORM.finditer(word)):
        if tried >= MAX_WALLETS_TRIED:
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
    checksum = 1
    for value in values:
        top = checksum >> 25
        checksum = (checksum & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_BECH32_GENERATORS):
            checksum ^= generator if top >> bit & 1 else 0
    return checksum in (1, 0x2BC830A3)


_MOST_CALLS = 2
_SHORTEST_SELLER = 4
_PER_CHARGE, _PER_CALL, _CALL_SITE, _CALL_SELLER, _LEAST_CALL = coefficients(
    TEXT_CALL_BACK, "per_charge", "per_call", "site", "seller", "least"
)


@check(TEXT_CALL_BACK, themes={"charge", "alarm"})
def call_back(reading: Reading) -> Iterator[Finding]:
    """Call-back scams: a renewal that you never ordered costs $399, or somebody signed in; to stop it, call a number.

    There is no link and often no word of text, only an invoice and a telephone number, so that nothing can be scanned.
    Real invoices link to their shop, or come from the domain of the company that they name; the mailbox of a scam has
    nothing to do with the brand in its text. Invitations to an appointment bring such letters as well.
    """
    phrases = find_phrases(reading)
    charges, calls = phrases.of("charge", "alarm"), phrases.of("call")
    if len(charges) < 2 or phrases.length > MAX_CALL_TEXT:
        return
    number = find_phone_number(phrases.text[:20_000])
    sites = _list_sites(reading) if number else ()
    if not number or len(sites) > 1 or reading.is_discussion:
        return
    degree = (
        _PER_CHARGE * len(charges) + _PER_CALL * min(_MOST_CALLS, len(calls)) - (_CALL_SITE if sites else 0.0)
    ) - (_CALL_SELLER if _names_sender(phrases.text, reading) else 0.0)
    if degree >= _LEAST_CALL:
        facts = {"number": number, "words": quote((*charges, *calls))}
        yield TEXT_CALL_BACK.at("text", strength=round(min(1.0, degree), 2), **facts)


def _list_sites(reading: Reading) -> tuple[str, ...]:
    """Return the sites that are linked to; in an invitation (RFC 5545) without those of well-known companies, since the
    calendar writes links to itself."""
    is_invitation = any(part.content_type == "text/calendar" for part in reading.message.parts)
    return tuple(host for host in reading.sites if not (is_invitation and is_genuine(host)))


def _names_sender(text: str, reading: Reading) -> bool:
    """Return whether the text names the organisation whose domain the mail is from; free mail is nobody's."""
    for sender in reading.message.senders[:1]:
        domain = normal_domain(sender.domain)
        name = org_domain(domain).partition(".")[0]
        return len(name) >= _SHORTEST_SELLER and not is_freemail(domain) and name in text
    return False


_PAYMENT_LETTER = 3_000
_ERRAND_NOTE = 600
_GIFT_LETTER = 2_500
_FEW_GIFT_SITES = 2
_PER_PAYMENT, _PAYMENT_URGENCY, _PAYMENT_ERRAND, _PAYMENT_REPLY, _LEAST_PAYMENT = coefficients(
    TEXT_PAYMENT_CHANGE, "per_phrase", "urgency", "errand", "reply_elsewhere", "least"
)
_PER_ERRAND, _ERRAND_REPLY = coefficients(TEXT_ERRAND, "per_phrase", "reply_elsewhere")
_PER_GIFT, _GIFT_ERRAND = coefficients(TEXT_GIFT_CARDS, "per_phrase", "per_errand")


@check(TEXT_PAYMENT_CHANGE, TEXT_ERRAND, TEXT_GIFT_CARDS, themes={"payment", "errand", "gift"})
def payment_requests(reading: Reading) -> Iterator[Finding]:
    """Payments led astray: new bank details, a quiet transfer for the boss, gift cards with their codes.

    This fraud has no link and no file, only a letter in a name that the reader trusts. Real companies do change banks:
    the letter then weighs little by itself, and more where it presses, asks for silence, or answers go to another
    address. Codes of gift cards are cash that cannot be called back. Shops advertise gift cards all day; only a thief
    wants pictures of scratched ones.
    """
    phrases = find_phrases(reading)
    if phrases.length <= _PAYMENT_LETTER and not reading.is_discussion:
        yield from _find_transfer(phrases, reading)
    yield from _find_gift_cards(phrases, reading)


def _find_transfer(phrases: Phrases, reading: Reading) -> Iterator[Finding]:
    pays, errands = phrases.of("payment"), phrases.of("errand")
    if not pays and not errands:
        return
    leaves = _replies_leave(reading)
    if pays:
        degree = (
            _PER_PAYMENT * len(pays)
            + _PAYMENT_URGENCY * ("urgency" in phrases.themes)
            + _PAYMENT_ERRAND * bool(errands)
            + _PAYMENT_REPLY * leaves
        )
        if degree >= _LEAST_PAYMENT:
            strength = round(min(1.0, degree), 2)
            yield TEXT_PAYMENT_CHANGE.at("text", strength=strength, words=quote((*pays, *errands)))
    if len(errands) >= 2 or (errands and leaves and phrases.length < _ERRAND_NOTE):
        yield TEXT_ERRAND.at(
            "text", strength=min(1.0, _PER_ERRAND * len(errands) + _ERRAND_REPLY * leaves), words=quote(errands)
        )


def _find_gift_cards(phrases: Phrases, reading: Reading) -> Iterator[Finding]:
    gifts, errands = phrases.of("gift"), phrases.count_of("errand")
    is_letter = phrases.length < _GIFT_LETTER and len(reading.sites) <= _FEW_GIFT_SITES
    if gifts and is_letter and (len(gifts) >= 2 or errands):
        yield TEXT_GIFT_CARDS.at(
            "text", strength=min(1.0, _PER_GIFT * len(gifts) + _GIFT_ERRAND * errands), words=quote(gifts)
        )


def _replies_leave(reading: Reading) -> bool:
    """Return whether a reply goes to free mail of another owner than the sender."""
    own = {org_domain(sender.domain) for sender in reading.message.senders}
    replies = {normal_domain(reply.domain) for reply in reading.message.reply_to}
    return any(org_domain(reply) not in own and is_freemail(reply) for reply in replies)


_PAYROLL_LETTER = 1_500
_PER_PAYROLL, _PAYROLL_FREEMAIL, _PAYROLL_STRANGER, _PAYROLL_REPLY, _PAYROLL_HASTE, _LEAST_PAYROLL = coefficients(
    TEXT_PAYROLL_CHANGE, "per_phrase", "freemail", "stranger", "reply_elsewhere", "haste", "least"
)


@check(TEXT_PAYROLL_CHANGE, themes={"payroll"})
def payroll_change(reading: Reading) -> Iterator[Finding]:
    """Payroll lures: `I have changed banks. Please update my direct deposit before the next pay run.`

    The letter is in the name of an employee, short, polite, and without a link or a file. Employees do change banks and
    write so to their office, from its own domain or by the form of the payroll system, which links to itself. From a
    free mailbox, from a stranger, or with answers that go elsewhere, the salary goes to somebody else.
    """
    phrases = find_phrases(reading)
    words = phrases.of("payroll")
    if not words or phrases.length > _PAYROLL_LETTER or reading.sites or reading.is_discussion:
        return
    sender = reading.message.senders[0] if reading.message.senders else None
    if sender is None or is_under(normal_domain(sender.domain), reading.protected.own_domains):
        return
    degree = (
        _PER_PAYROLL * len(words)
        + _PAYROLL_FREEMAIL * is_freemail(normal_domain(sender.domain))
        + _PAYROLL_STRANGER * is_first_contact(reading)
        + _PAYROLL_REPLY * _replies_leave(reading)
        + _PAYROLL_HASTE * (not {"urgency", "errand"}.isdisjoint(phrases.themes))
    )
    if degree >= _LEAST_PAYROLL:
        yield TEXT_PAYROLL_CHANGE.at("text", strength=round(min(1.0, degree), 2), words=quote(words))


_SUM_NOTE = 350
# "+28,282$", "25.371 $", "0.7495 BTC"
_NOTED_SUM = re.compile(
    r"(?<![\w.,])(?:[$€£] ?\d[\d.,]{2,11}|\+? ?\d[\d.,]{2,11} ?(?:[$€£]|usd|eur|usdt)(?!\w)"
    r"|\d[\d.,]{0,11} ?(?:btc|bitcoins?)(?!\w))"
)


@check(TEXT_SUDDEN_SUM, themes={"windfall"})
def sudden_sum(reading: Reading) -> Iterator[Finding]:
    """Notes of a line or two that report money: `You are now rich, +28,282$ on your balance`, with a link or a PDF.

    They come from free mailboxes, to many people who do not know the sender; a sentence from a novel makes each another
    one. Banks and exchanges write from a domain of their own. A friend who writes about money does not say that it came
    in to the reader's balance, and answers do not begin so; both are left out where they are answers.
    """
    phrases = find_phrases(reading)
    words = phrases.of("windfall")
    if not words or phrases.length > _SUM_NOTE or reading.is_discussion or not _THREADED.isdisjoint(reading.fields):
        return
    has_way = bool(reading.web_links) or "attachment" in reading.signs
    amount = _NOTED_SUM.search(phrases.text.replace("_", " ")[:2_000]) if has_way else None
    if amount and any(is_freemail(normal_domain(sender.domain)) for sender in reading.message.senders[:1]):
        yield TEXT_SUDDEN_SUM.at("text", sum=amount.group(), words=quote(words))
