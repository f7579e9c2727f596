"""Letters that want money: the first letter of a stranger, advance fee, extortion, calls to a false hotline (with
telephone numbers that are written so that only a person can read them), payments led astray, work that does not exist.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator

from gatepost.checks.known_names import is_freemail, is_genuine, is_under
from gatepost.checks.phrases import MAX_TEXTS, Phrases, find_phrases, names_contact, quote
from gatepost.checks.reading import Reading, check
from gatepost.checks.sender.history import is_first_contact
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import normal_domain, org_domain
from gatepost.speedups import native

MAX_CALL_TEXT = 4_000
# As such mail writes numbers: (888) 555-0100, +1 888 555 0100, 1-888-555-0100, 0800 555 0100.
_GAP = r"[ .\-–—_~*]{1,3}"
_PHONE_NUMBER = re.compile(
    rf"(?<![\w/.=-])(?:\+ ?|00)?\(?\d{{1,4}}\)?{_GAP}\(?\d{{2,4}}\)?{_GAP}\(?\d{{3,4}}\)?"
    rf"(?:{_GAP}\(?\d{{2,4}}\)?)?(?![\w/=])"
    r"|(?<![\w/.=-])\+ ?\d{1,3} ?\(\d{3}\) ?\d{7}(?![\w/=])"
)
# "1-8O5-5S5-O1OO": letters that look like digits, in the groups of a number of North America.
_LOOKALIKE_GAP = r"[ .\-–—_~*(){}\[\]/|]{1,4}"
_LOOKALIKE_DIGITS = re.compile(
    rf"(?<![\w/.=@-])(?:[\[({{+]{{1,3}}[1li|]?{_LOOKALIKE_GAP}|[1li|]{_LOOKALIKE_GAP})?[\[({{]?([0-9oilszb|]{{3}}){_LOOKALIKE_GAP}"
    rf"([0-9oilszb|]{{3}}){_LOOKALIKE_GAP}([0-9oilszb|]{{4}})(?![\w/=@])"
)
# "8 0 5 5 5 5 0 1 0 0": a gap after every digit.
_SPREAD_DIGITS = re.compile(r"(?<![\w.,:/-])\+?(?:[0-9][ ._*~•·|-]{1,3}){9,11}[0-9](?![\w,:/])")
# "eight zero five, five five five, zero one zero zero"
_DIGIT_WORDS = re.compile(
    r"(?<!\w)(?:(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|triple|double)[ ,.\-–—_*]{1,4}){6,14}"
    r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)(?!\w)"
)
# Digits of other alphabets and styles: fullwidth, circled, mathematical, superscript; keycaps of emoji.
_STYLED_DIGIT = re.compile(
    r"[\u2460-\u2468\u24ea\u24f5-\u24fd\u2776-\u277e\u2780-\u2788\u278a-\u2792\uff10-\uff19\u2070\u2074-\u2079"
    r"\u2080-\u2089\U0001d7ce-\U0001d7ff\U0001fbf0-\U0001fbf9]|[0-9]\ufe0f?\u20e3"
)
_STYLED_NUMBER = 7
_STYLED_WITHIN = 60
_LEAST_REAL_DIGITS = 5
_WITH_CHARGE, _WITH_CALL, _NUMBER_SITES = coefficients(kinds.TEXT_DISGUISED_NUMBER, "charge", "call", "sites")


def find_phone_number(text: str) -> str:
    """Return the first telephone number in a folded text, "" for none."""
    plain = _PHONE_NUMBER.search(text)
    return plain.group() if plain else find_disguised_number(text)


def find_disguised_number(text: str) -> str:
    """Return the first telephone number of a folded text that is written for people only, "" for none."""
    if native and not native.may_spell_number(text):
        return ""
    return search_disguised_number(text)


def search_disguised_number(text: str) -> str:
    """The same without a look beforehand."""
    for match in _LOOKALIKE_DIGITS.finditer(text):
        written = "".join(match.groups())
        digits = sum(character.isdigit() for character in written)
        if _LEAST_REAL_DIGITS <= digits < len(written):
            return match.group()
    found = _SPREAD_DIGITS.search(text) or _DIGIT_WORDS.search(text)
    return found.group() if found else ""


@check(kinds.TEXT_DISGUISED_NUMBER, needs={"odd-number"}, themes={"charge", "call"})
def disguised_number(reading: Reading) -> Iterator[Finding]:
    """Telephone numbers that filters cannot read: `Call +1 (8O5) 5S5-O1OO`, with letters for digits.

    Call-back fraud has nothing but its number, which ends up on lists of bad ones. So it is written with letters that
    look like digits, with a gap after each digit, in words, or with digits that were made for formulas. A company wants
    to be called, and writes its number as in a telephone book; words that a keypad spells (`1-800-FLOWERS`) have other
    letters. Numbers in words stand in deeds and on cheques, so the text must speak of a charge or ask to call.
    """
    phrases = find_phrases(reading)
    if not phrases.count_of("charge", "call"):
        return
    if phrases.length_of("charge", "call") > MAX_CALL_TEXT or reading.is_known_post:
        return
    number = find_disguised_number(phrases.text[: 2 * MAX_CALL_TEXT]) or _find_styled(reading)
    if number:
        degree = _WITH_CHARGE if "charge" in phrases.themes else _WITH_CALL
        degree *= _NUMBER_SITES if len(reading.sites) > 1 and reading.is_known_sender else 1.0
        yield kinds.TEXT_DISGUISED_NUMBER.at("text", strength=round(degree, 2), number=ascii(number))


def has_odd_number(folded: str, shown: Iterable[str]) -> bool:
    """Return whether a number for people only may stand in folded text, or one of styled digits in a shown text."""
    return bool(search_disguised_number(folded[: 2 * MAX_CALL_TEXT])) or not all(map(str.isascii, shown))


def _find_styled(reading: Reading) -> str:
    """Return a row of styled digits as long as a number, or ""; folding the text would lose them."""
    for text in reading.message.texts[:MAX_TEXTS]:
        visible = text.visible[:MAX_CALL_TEXT]
        if text.attached or visible.isascii():
            continue
        places = [match.start() for match in _STYLED_DIGIT.finditer(visible)]
        for first, last in zip(places, places[_STYLED_NUMBER - 1 :], strict=False):
            if last - first < _STYLED_WITHIN:
                return visible[first : last + 1]
    return ""


_ENOUGH_FORTUNE = 4
_MOST_FORTUNE_SITES = 4
_PER_FORTUNE_PHRASE, _FORTUNE_FULL_LENGTH, _PER_FORTUNE_SITE, _FORTUNE_POSTED, _LEAST_FORTUNE = coefficients(
    kinds.TEXT_ADVANCE_FEE, "per_phrase", "full_length", "per_site", "posted", "least"
)


@check(kinds.TEXT_ADVANCE_FEE, themes={"fortune"})
def advance_fee(reading: Reading) -> Iterator[Finding]:
    """Advance fee: a fortune waits, and only your help, your data and a small fee are missing.

    The oldest letter of its kind has many plots (a widow, an heir, a general, a lottery) and one vocabulary. Any one of
    its words is ordinary; half a dozen in a letter are not. Such letters are posted on lists as well; on a
    known list, answers that quote one are left out, and what begins a thread counts less.
    """
    phrases = find_phrases(reading)
    words = phrases.of("fortune")
    if len(words) < _ENOUGH_FORTUNE:
        return
    if reading.is_known_post and reading.is_known_answer:
        return
    brevity = min(1.0, _FORTUNE_FULL_LENGTH / max(phrases.length_of("fortune"), 1))
    further_sites = min(_MOST_FORTUNE_SITES, max(0, len(reading.sites) - 1)) if reading.is_known_sender else 0
    degree = _PER_FORTUNE_PHRASE * (len(words) - 2) * brevity - _PER_FORTUNE_SITE * further_sites
    degree = min(1.0, degree) * (_FORTUNE_POSTED if reading.is_known_post else 1.0)
    if degree >= _LEAST_FORTUNE:
        yield kinds.TEXT_ADVANCE_FEE.at("text", strength=round(degree, 2), words=quote(words))


MAX_WALLET_TEXT = 50_000
_ENOUGH_THREATS = 3
_PER_THREAT, _THREAT_WALLET, _LEAST_THREAT = coefficients(kinds.TEXT_EXTORTION, "per_phrase", "wallet", "least")
MAX_WALLETS_TRIED = 50
_SHORTEST_WALLET = 23
_WALLET_FORM = re.compile(
    r"(?<![A-Za-z0-9])(?:bc1[a-z0-9]{20,80}|BC1[A-Z0-9]{20,80}|0x[0-9a-fA-F]{40}"
    r"|[13][1-9A-HJ-NP-Za-km-z]{25,34}|[LMT][1-9A-HJ-NP-Za-km-z]{33}|[48][1-9A-HJ-NP-Za-km-z]{94})(?![A-Za-z0-9])"
)
_BASE58 = {char: value for value, char in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")}
_BECH32 = {char: value for value, char in enumerate("qpzry9x8gf2tvdw0s3jn54khce6mua7l")}
_BECH32_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


@check(kinds.TEXT_EXTORTION, kinds.TEXT_WALLET_ADDRESS, needs={"wallet", "theme:extortion"})
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
    texts = reading.message.texts[:MAX_TEXTS] if words or "wallet" in phrases.text else ()
    found = next((wallet for text in texts for wallet in find_wallets(text.visible[:MAX_WALLET_TEXT])), "")
    if found:
        yield kinds.TEXT_WALLET_ADDRESS.at("text", wallet=found)
    if len(words) < _ENOUGH_THREATS:
        return
    degree = _PER_THREAT * len(words) + (_THREAT_WALLET if found else 0.0)
    if degree >= _LEAST_THREAT:
        yield kinds.TEXT_EXTORTION.at("text", strength=round(min(1.0, degree), 2), words=quote(words), wallet=found)


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
# An honest confirmation of an order has a link, two such phrases and a number of its shop.
_ENOUGH_CHARGES = 2
_SHORTEST_SELLER = 4
_PER_CHARGE, _PER_CALL, _CALL_SITE, _CALL_SELLER, _CALL_LINKED, _LEAST_CALL = coefficients(
    kinds.TEXT_CALL_BACK, "per_charge", "per_call", "site", "seller", "linked", "least"
)
# A receipt of a shop leads to the order, the shop, its terms and its help; a call-back scam has nothing to lead to.
_LINKS_OF_RECEIPT = 10


@check(kinds.TEXT_CALL_BACK, themes={"charge", "alarm"})
def call_back(reading: Reading) -> Iterator[Finding]:
    """Call-back scams: a renewal that you never ordered costs $399, or somebody signed in; to stop it, call a number.

    There is no link and often no word of text, only an invoice and a telephone number, so that nothing can be scanned.
    Real invoices of known senders link to their shop, or come from the domain of the company that they name; the
    mailbox of a scam has nothing to do with the brand in its text. Invitations to an appointment bring such letters as
    well.
    """
    phrases = find_phrases(reading)
    charges, calls = phrases.of("charge", "alarm"), phrases.of("call")
    if len(charges) < 2 or phrases.length_of("charge", "alarm", "call") > MAX_CALL_TEXT:
        return
    number = find_phone_number(phrases.text[:20_000])
    sites = _list_sites(reading) if number else ()
    if not number or (sites and (not calls or len(charges) <= _ENOUGH_CHARGES)) or reading.is_known_post:
        return
    degree = min(1.0, _PER_CHARGE * len(charges) + _PER_CALL * min(_MOST_CALLS, len(calls)))
    if reading.is_known_sender:
        degree -= (_CALL_SITE if sites else 0.0) + (_CALL_SELLER if _names_sender(phrases.text, reading) else 0.0)
    if sites and len(reading.web_links) >= _LINKS_OF_RECEIPT:
        degree *= _CALL_LINKED
    if degree >= _LEAST_CALL:
        facts = {"number": number, "words": quote((*charges, *calls))}
        yield kinds.TEXT_CALL_BACK.at("text", strength=round(degree, 2), **facts)


def _list_sites(reading: Reading) -> tuple[str, ...]:
    """Return the linked sites; in an invitation (RFC 5545), where calendars add links, no well-known companies."""
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
_PER_PAYMENT, _PAYMENT_URGENCY, _PAYMENT_ERRAND, _PAYMENT_REPLY, _LEAST_PAYMENT = coefficients(
    kinds.TEXT_PAYMENT_CHANGE, "per_phrase", "urgency", "errand", "reply_elsewhere", "least"
)
_PER_ERRAND, _ERRAND_REPLY = coefficients(kinds.TEXT_ERRAND, "per_phrase", "reply_elsewhere")
_PER_GIFT, _GIFT_ERRAND, _GIFT_UNASKED = coefficients(kinds.TEXT_GIFT_CARDS, "per_phrase", "per_errand", "unasked")
# What is said of a party, too: "send me the numbers", "text me the picture", "the nearest store".
_ANY_LETTER = re.compile(r"(?:send|email|text|snap|forward|nearest|closest|peel|scratch)\b")
_CARDS = (" card", " gift", "giftcard", "itunes", "voucher", "google play", "steam")
# What a shop writes in receipts and offers. Who wants the codes asks for them.
_SHOP_TALK = re.compile(
    r"(?:buy|purchase|get|pick up|procure|obtain|order|denomination|face value|nearest|closest|card|gift ?card"
    r"|itunes|google play|steam|apple|amazon)\b"
)


@check(kinds.TEXT_PAYMENT_CHANGE, kinds.TEXT_ERRAND, kinds.TEXT_GIFT_CARDS, themes={"payment", "errand", "gift"})
def payment_requests(reading: Reading) -> Iterator[Finding]:
    """Payments led astray: new bank details, a quiet transfer for the boss, gift cards with their codes.

    This fraud has no link and no file, only a letter in a name that the reader trusts. Real companies do change banks:
    the letter then weighs little by itself, and more where it presses, asks for silence, or answers go to another
    address. Codes of gift cards are cash that cannot be called back. Shops advertise gift cards all day, and send
    receipts for them; only a thief wants pictures of scratched ones. Numbers and pictures of something else are sent
    every day, so a card must be named.
    """
    phrases = find_phrases(reading)
    if phrases.length_of("payment", "errand") <= _PAYMENT_LETTER and not reading.is_known_post:
        yield from _find_transfer(phrases, reading)
    yield from _find_gift_cards(phrases)


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
            yield kinds.TEXT_PAYMENT_CHANGE.at("text", strength=strength, words=quote((*pays, *errands)))
    if len(errands) >= 2 or (errands and leaves and phrases.length_of("errand") < _ERRAND_NOTE):
        yield kinds.TEXT_ERRAND.at(
            "text", strength=min(1.0, _PER_ERRAND * len(errands) + _ERRAND_REPLY * leaves), words=quote(errands)
        )


def _find_gift_cards(phrases: Phrases) -> Iterator[Finding]:
    gifts, errands = phrases.of("gift"), phrases.count_of("errand")
    if not gifts or phrases.length_of("gift", "errand") >= _GIFT_LETTER or (len(gifts) < 2 and not errands):
        return
    if all(map(_ANY_LETTER.match, gifts)) and not any(word in phrases.text for word in _CARDS):
        return
    strength = min(1.0, _PER_GIFT * len(gifts) + _GIFT_ERRAND * errands)
    if not errands and all(map(_SHOP_TALK.match, gifts)):
        strength *= _GIFT_UNASKED
    yield kinds.TEXT_GIFT_CARDS.at("text", strength=round(strength, 2), words=quote(gifts))


def _replies_leave(reading: Reading) -> bool:
    """Return whether a reply goes to free mail of another owner than the sender."""
    own = {org_domain(sender.domain) for sender in reading.message.senders}
    replies = {normal_domain(reply.domain) for reply in reading.message.reply_to}
    return any(org_domain(reply) not in own and is_freemail(reply) for reply in replies)


_PER_PAYROLL, _PAYROLL_FREEMAIL, _PAYROLL_STRANGER, _PAYROLL_REPLY, _PAYROLL_HASTE, _LEAST_PAYROLL = coefficients(
    kinds.TEXT_PAYROLL_CHANGE, "per_phrase", "freemail", "stranger", "reply_elsewhere", "haste", "least"
)


@check(kinds.TEXT_PAYROLL_CHANGE, themes={"payroll"})
def payroll_change(reading: Reading) -> Iterator[Finding]:
    """Payroll lures: `I have changed banks. Please update my direct deposit before the next pay run.`

    The letter is in the name of an employee, short, polite, and without a link or a file. Employees do change banks and
    write so to their office, from its own domain or by the form of the payroll system, which links to itself. From a
    free mailbox, from a stranger, or with answers that go elsewhere, the salary goes to somebody else.
    """
    phrases = find_phrases(reading)
    words = phrases.of("payroll")
    if not words:
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
        yield kinds.TEXT_PAYROLL_CHANGE.at("text", strength=round(min(1.0, degree), 2), words=quote(words))


_PER_JOB_PHRASE, _JOB_MESSENGER, _JOB_FREEMAIL, _JOB_FULL_LENGTH, _JOB_KNOWN, _LEAST_JOB = coefficients(
    kinds.TEXT_JOB_OFFER, "per_phrase", "messenger", "freemail", "full_length", "known", "least"
)
_MESSENGER_SITES = frozenset("t.me telegram.me telegram.org wa.me whatsapp.com line.me".split())


@check(kinds.TEXT_JOB_OFFER, themes={"job"})
def job_offer(reading: Reading) -> Iterator[Finding]:
    """Work that does not exist: `Earn 350 dollars a day from home, no experience required. Message us on WhatsApp.`

    The reader is to pay for the tasks, to pass stolen money or parcels on, or to send papers. Employers look for people
    who can do something, answer from their own domain, and wait for an application. Job boards send lists of offers
    that say such things, in long letters to those who asked for them: known lists and newsletters are left out. One
    phrase counts where the talk is to go on in a messenger or in a free mailbox.
    """
    phrases = find_phrases(reading)
    words = phrases.of("job")
    if not words or reading.is_known_post or reading.is_known_newsletter:
        return
    senders = reading.message.senders[:1]
    is_free = any(is_freemail(normal_domain(sender.domain)) for sender in senders) or _replies_leave(reading)
    by_messenger = names_contact("messenger", phrases.text) or any(
        org_domain(host) in _MESSENGER_SITES for host in reading.sites
    )
    if len(words) < 2 and not is_free and not by_messenger:
        return
    degree = min(1.0, _PER_JOB_PHRASE * len(words) + _JOB_MESSENGER * by_messenger + _JOB_FREEMAIL * is_free)
    degree *= min(1.0, _JOB_FULL_LENGTH / max(phrases.length_of("job"), 1))
    degree *= _JOB_KNOWN if reading.is_known_sender else 1.0
    if degree >= _LEAST_JOB:
        yield kinds.TEXT_JOB_OFFER.at("text", strength=round(degree, 2), words=quote(words))


_SUM_NOTE = 350
# "+28,282$", "25.371 $", "0.7495 BTC"
_NOTED_SUM = re.compile(
    r"(?<![\w.,])(?:[$€£] ?\d[\d.,]{2,11}|\+? ?\d[\d.,]{2,11} ?(?:[$€£]|usd|eur|usdt)(?!\w)"
    r"|\d[\d.,]{0,11} ?(?:btc|bitcoins?)(?!\w))"
)


@check(kinds.TEXT_SUDDEN_SUM, themes={"windfall"})
def sudden_sum(reading: Reading) -> Iterator[Finding]:
    """Notes of a line or two that report money: `You are now rich, +28,282$ on your balance`, with a link or a PDF.

    They come from free mailboxes, to many people who do not know the sender; a sentence from a novel makes each another
    one. Banks and exchanges write from a domain of their own. A friend who writes about money does not say that it came
    in to the reader's balance; answers of known senders, and known lists, are left out.
    """
    phrases = find_phrases(reading)
    words = phrases.of("windfall")
    if not words or phrases.length > _SUM_NOTE or reading.is_known_answer or reading.is_known_post:
        return
    has_way = bool(reading.web_links) or reading.has_attachment
    amount = _NOTED_SUM.search(phrases.text.replace("_", " ")[:2_000]) if has_way else None
    if amount and any(is_freemail(normal_domain(sender.domain)) for sender in reading.message.senders[:1]):
        yield kinds.TEXT_SUDDEN_SUM.at("text", sum=amount.group(), words=quote(words))


MAX_OPENING_TEXT = 8_000
_OPENING_LETTER = 4_000
_PER_OPENING_PHRASE, _OPENING_SUM, _OPENING_ELSEWHERE, _OPENING_UNNAMED, *_OPENING = coefficients(
    kinds.TEXT_OPENING_LETTER, "per_phrase", "sum", "elsewhere", "unnamed", "freemail", "site", "full_length", "least"
)
_OPENING_FREE, _PER_OPENING_SITE, _OPENING_FULL_LENGTH, _LEAST_OPENING = _OPENING
# A hundred thousand and more: $1,300,000 and 850.000 EUR; 10.5 million dollars; USD 2.4M.
_COIN = r"(?:[$€£¥]|us\$|usd|eur|gbp|euros?|dollars?|dolares|pounds?|us-dollar|dollari|долларов|евро)"
_LARGE = r"(?:\d{3}[., ]\d{3}|\d{1,3}[., ]\d{3}[., ]\d{3}(?:[., ]\d{3})?)(?:[.,]\d{2})?"
_MANY = (
    r"\d{1,4}(?:[.,]\d{1,3})? ?"
    r"(?:m|mio|mln|millions?|millionen|millones|milioni|milhoes|miljoen|milionow|billions?|mrd)"
)
# Every sum has one of these; most letters have none, and a look for them costs little.
_SUM_MARKS = frozenset("$€£¥").union(("usd", "eur", "gbp", "dol", "pound", "долл", "евро"))
_LARGE_SUM = re.compile(
    rf"{_COIN} ?(?:{_LARGE}|{_MANY})(?!\w)|(?<![\d.,]){_LARGE} ?{_COIN}|(?<![\d.,]){_MANY}\b[ a-z.'-]{{0,16}}{_COIN}"
)


@check(kinds.TEXT_OPENING_LETTER, kinds.TEXT_LARGE_SUM, needs={"opening"})
def opening_letter(reading: Reading) -> Iterator[Finding]:
    """Letters by which a stranger begins a correspondence: an heir, a donation, a loan, or just "did you get my mail?".

    The fraud comes later; the first letter only has to be answered. So it has no link and no file, and it asks for a
    reply. Any of this is ordinary. It counts where the letter also hides something: answers go to another address, no
    recipient is named, or a free mailbox speaks of a fortune. Businesses write about millions and ask for answers as
    well, in their own name, to somebody, and answer in the same mailbox; answers of known senders, and known
    lists, are left out.
    """
    if reading.is_known_answer or reading.is_known_post or not reading.message.senders:
        return
    elsewhere, free = _goes_elsewhere(reading), is_freemail(normal_domain(reading.message.senders[0].domain))
    # A round letter of a company to its staff names nobody either.
    if not (elsewhere or free):
        return
    phrases = find_phrases(reading)
    if phrases.length_of("opening", "fortune") > _OPENING_LETTER:
        return
    large = find_large_sum(phrases.text[:MAX_OPENING_TEXT])
    if large:
        yield kinds.TEXT_LARGE_SUM.at("text", sum=large)
    opens = phrases.of("opening")
    if not opens and not (large and elsewhere):
        return
    degree = _PER_OPENING_PHRASE * len(opens) + _OPENING_SUM * bool(large)
    degree += (
        _OPENING_ELSEWHERE * elsewhere
        + _OPENING_UNNAMED * _is_unnamed(reading)
        + _OPENING_FREE * free
        - _PER_OPENING_SITE * bool(reading.sites)
    )
    degree *= min(1.0, _OPENING_FULL_LENGTH / max(phrases.length_of("opening", "fortune"), 1))
    if degree >= _LEAST_OPENING:
        yield kinds.TEXT_OPENING_LETTER.at("text", strength=round(min(1.0, degree), 2), words=quote(opens))


def find_large_sum(text: str) -> str:
    """Return the first sum of a hundred thousand or more in a folded text, "" for none."""
    found = _LARGE_SUM.search(text) if any(mark in text for mark in _SUM_MARKS) else None
    return found.group() if found else ""


def _goes_elsewhere(reading: Reading) -> bool:
    """Return whether answers go to another mailbox than the sender's."""
    sender = reading.message.senders[0]
    mine = sender.local.casefold(), normal_domain(sender.domain)
    return any((each.local.casefold(), normal_domain(each.domain)) != mine for each in reading.message.reply_to[:3])


def _is_unnamed(reading: Reading) -> bool:
    """Return whether the letter names nobody but its sender as a recipient."""
    sender = str(reading.message.senders[0]).casefold()
    named = (each for each in reading.message.recipients[:20] if each.domain)
    return all(str(each).casefold() == sender for each in named)
