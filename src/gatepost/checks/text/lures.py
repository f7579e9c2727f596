"""Texts that bring their reader to follow a link, or to open an account or a machine to a stranger: by a password, a
code, a command or a permission.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gatepost.checks.headers.bulk_mail import measure_openness
from gatepost.checks.known_names import Brand, find_imitated, is_under, owns
from gatepost.checks.links.hosts import LinkAway, find_link_away
from gatepost.checks.phrases import MAX_TEXTS, Phrases, find_phrases, names_contact, quote
from gatepost.checks.reading import Reading, check
from gatepost.checks.sender.history import is_first_contact
from gatepost.files.documents.page_scripts import find_told_command
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding, Kind
from gatepost.findings.strengths import coefficients
from gatepost.names import normal_domain, org_domain


class Lure(msgspec.Struct, frozen=True):
    """One story: the theme that tells it, when it is told, and how strongly.

    It is told by one phrase of the theme together with a phrase of a theme in `beside` (in a text shorter than
    `beside_within`), by two phrases alone where `two_phrases` is set, and by one in the subject where `in_subject` is.
    `numbers` are what each phrase adds, the number of characters from which on strength falls, and what each of
    `raised_by` adds: a set of themes of which one is there, or `_SUBJECT` where the subject tells the story.
    """

    kind: Kind
    theme: str
    numbers: tuple[float, ...]
    raised_by: tuple[frozenset[str], ...]
    beside: frozenset[str] = frozenset()
    beside_within: float = float("inf")
    two_phrases: bool = True
    in_subject: bool = False

    def is_told(self, phrases: Phrases) -> bool:
        """Return whether a text with these phrases tells this story."""
        count = phrases.count_of(self.theme)
        if count > 1 and self.two_phrases:
            return True
        if self.in_subject and self.theme in phrases.in_subject:
            return True
        return (
            count > 0
            and phrases.length_of(self.theme, *self.beside) < self.beside_within
            and not self.beside.isdisjoint(phrases.themes)
        )

    def measure_strength(self, phrases: Phrases, distance: float) -> float:
        """Return how strongly these phrases tell the story, beside a link that leads so far away from the sender."""
        per_phrase, full_length, *additions = self.numbers
        degree = per_phrase * phrases.count_of(self.theme)
        for value, themes in zip(additions, self.raised_by, strict=True):
            is_there = not themes.isdisjoint(phrases.themes) if themes else self.theme in phrases.in_subject
            degree += value * is_there
        return round(
            min(1.0, degree) * distance * min(1.0, full_length / max(phrases.length_of(self.theme, *self.beside), 1)), 2
        )


(_LEAST_LURE,) = coefficients("lure", "least")
# What may raise the strength of a lure by its name there: themes of which one is in the text, or the subject.
_SUBJECT: frozenset[str] = frozenset()
_RAISING = {
    "urgency": frozenset({"urgency"}),
    "document": frozenset({"document", "scan"}),
    "follow": frozenset({"follow"}),
    "credential": frozenset({"credential"}),
    "in_subject": _SUBJECT,
}


def _make_lure(kind: Kind, theme: str, raised_by: str, beside: str = "", **told: Any) -> Lure:
    names = raised_by.split()
    numbers = coefficients(kind, "per_phrase", "full_length", *names)
    return Lure(kind, theme, numbers, tuple(_RAISING[name] for name in names), frozenset(beside.split()), **told)


_ASKS = "follow urgency credential document limitation"
LURES = (
    _make_lure(kinds.TEXT_PARCEL_LURE, "parcel", "urgency", "follow urgency"),
    _make_lure(
        *(kinds.TEXT_REFUND_LURE, "refund", "urgency", "follow urgency credential limitation"),
        two_phrases=False,
    ),
    _make_lure(kinds.TEXT_PRIZE_LURE, "prize", "in_subject urgency", in_subject=True),
    _make_lure(
        kinds.TEXT_SALARY_LURE, "salary", "document", "follow document urgency credential scan", two_phrases=False
    ),
    _make_lure(kinds.TEXT_DOCUMENT_LURE, "document", "follow in_subject", "follow", beside_within=600),
    _make_lure(kinds.TEXT_MAILBOX_LURE, "mailbox", "credential urgency", "credential limitation urgency"),
    _make_lure(kinds.TEXT_CRYPTO_LURE, "crypto", "in_subject urgency", _ASKS, in_subject=True),
    _make_lure(kinds.TEXT_AUTHORITY_LURE, "authority", "in_subject urgency", _ASKS, beside_within=3_000),
)


@check(*(lure.kind for lure in LURES), themes={lure.theme for lure in LURES})
def lures(reading: Reading) -> Iterator[Finding]:
    """Lures of one form: a story that concerns most people, a reason to follow a link, and a link away from the sender.

    A parcel waits for a fee, a tax office owes a refund, a prize is to be claimed, pay or benefits changed, a document
    was shared, a mailbox is full, tokens are given away or a wallet is frozen, a court summons or a fine is due. Those
    who could honestly write so (the carrier, the tax office, the shop, the employer, the sharing service, the mail
    provider, the exchange, the court) link to a site of their own; the lure links to wherever its form
    is. One phrase of a story is ordinary: it needs a second one, or a phrase that presses or tells to follow. A long
    text says less than a short one with the same phrases.
    """
    phrases = find_phrases(reading)
    for lure in LURES:
        if lure.theme not in phrases.themes or not lure.is_told(phrases):
            continue
        away = find_link_away(reading)
        if away is None:
            return
        strength = lure.measure_strength(phrases, away.distance)
        if strength >= _LEAST_LURE:
            words = quote(phrases.of(lure.theme))
            yield lure.kind.at(away.link.where, strength=strength, about=away.link.url, words=words)


_ALARM_LETTER = 3_000
_LONG_REQUEST = 6_000
_PER_REQUEST, _PER_THREAT, _REQUEST_URGENCY, _REQUEST_EXPLAINED, _LEAST_REQUEST = coefficients(
    kinds.TEXT_CREDENTIAL_LURE, "per_request", "per_threat", "urgency", "explained", "least"
)


@check(kinds.TEXT_CREDENTIAL_LURE, themes={"credential", "limitation"})
def credential_lure(reading: Reading) -> Iterator[Finding]:
    """Lures for passwords: the account is in danger, so prove here that it is yours.

    `Your mailbox has been limited. Verify your account within 24 hours: Sign in`. Three things come together: a request
    to confirm an identity or a secret, a reason to be afraid or in haste, and a link that leads away from the sender. A
    real password-reset mail has the first one only, and its link leads home; a bank that warns of such mail has no such
    link.
    """
    phrases = find_phrases(reading)
    asks, fears = phrases.of("credential"), phrases.of("limitation")
    alarm = len(fears) > 1 and phrases.length_of("limitation") < _ALARM_LETTER
    if not alarm and not (asks and (fears or phrases.count_of("urgency", "follow"))):
        return
    away = find_link_away(reading)
    if away is None:
        return
    degree = min(
        1.0, _PER_REQUEST * len(asks) + _PER_THREAT * len(fears) + _REQUEST_URGENCY * ("urgency" in phrases.themes)
    )
    # Warnings that explain how such mail looks use its words, too.
    if reading.is_known_sender and (
        phrases.count_of("warning") > 1 or phrases.length_of("credential", "limitation") > _LONG_REQUEST
    ):
        degree *= _REQUEST_EXPLAINED
    strength = round(degree * away.distance, 2)
    if strength >= _LEAST_REQUEST:
        yield kinds.TEXT_CREDENTIAL_LURE.at(
            away.link.where, strength=strength, about=away.link.url, words=quote((*asks, *fears))
        )


MAX_STEPS = 20
_BESIDE_COMMAND = frozenset({"urgency", "credential", "limitation", "document"})
_PER_COMMAND, _COMMAND_BESIDE, _COMMAND_LINK, _COMMAND_KNOWN, _COMMAND_SPELLED = coefficients(
    kinds.TEXT_PASTED_COMMAND, "per_phrase", "beside", "link", "known", "spelled"
)


@check(kinds.TEXT_PASTED_COMMAND, themes={"command"})
def pasted_command(reading: Reading) -> Iterator[Finding]:
    """Commands that the reader is to run: `Press Windows + R, then Ctrl + V and Enter to prove that you are human.`

    What is pasted was put into the clipboard by a page, or stands in the mail, and no program asks before it runs
    (ClickFix). A help desk that explains how a program is started names one such step and leads nowhere; that alone is
    nothing. Known senders and known lists may write more of it. Where the command stands there and fetches something
    from elsewhere, nothing is left to guess.
    """
    phrases = find_phrases(reading)
    words = _list_steps(phrases)
    if not words:
        return
    away, beside = find_link_away(reading), not _BESIDE_COMMAND.isdisjoint(phrases.themes)
    if len(words) < 2 and not beside and away is None:
        return
    degree = _PER_COMMAND * len(words) + _COMMAND_BESIDE * beside + _COMMAND_LINK * (away.distance if away else 0.0)
    strength = min(1.0, degree) * (_COMMAND_KNOWN if reading.is_known_sender else 1.0)
    if any(find_told_command(text.visible) for text in reading.message.texts[:MAX_TEXTS]):
        strength *= _COMMAND_SPELLED
    yield kinds.TEXT_PASTED_COMMAND.at("text", strength=round(strength, 2), words=quote(words))


def _list_steps(phrases: Phrases) -> list[str]:
    """Return the phrases about commands that no other one contains: keys have the same names in many languages."""
    words = phrases.of("command")[:MAX_STEPS]
    return [word for word in words if not any(word != other and word in other for other in words)]


MAX_CODE_TEXT = 4_000
# "C7KFQ2W9X", "WDJB-MJHT", "ABC-DEF-GHIJ": as authorization servers give them (RFC 8628 section 6.1).
_DEVICE_CODE = re.compile(
    r"(?<![A-Za-z0-9-])(?:[A-Z0-9]{3,4}-[A-Z0-9]{3,4}(?:-[A-Z0-9]{3,4})?|[A-Z0-9]{8,9})(?![A-Za-z0-9-])"
)
_CODE_PRETEXTS = frozenset({"document", "urgency"})
_PER_CODE_PHRASE, _CODE_PRETEXT, _CODE_SHOWN = coefficients(kinds.TEXT_DEVICE_CODE, "per_phrase", "pretext", "code")


@check(kinds.TEXT_DEVICE_CODE, themes={"device-code"})
def device_code(reading: Reading) -> Iterator[Finding]:
    """Codes that sign in a device of the attacker's: `To join, enter this code at microsoft.com/devicelogin`.

    The device authorization grant (RFC 8628) lets a television sign in: it shows a code, and its owner enters that on a
    page of the provider. Here the device is the attacker's, and the code comes by mail. The link is genuine, and so is
    the page, so where links lead says nothing, and accounts that were taken over write such mail to those who know
    them: nobody is excused. A device shows its code on its screen, and no provider sends one by mail.
    """
    phrases = find_phrases(reading)
    words = phrases.of("device-code")
    if not words:
        return
    has_pretext = not _CODE_PRETEXTS.isdisjoint(phrases.themes) or names_contact("meeting", phrases.text)
    if len(words) < 2 and not has_pretext:
        return
    code = _find_device_code(reading)
    degree = _PER_CODE_PHRASE * len(words) + _CODE_PRETEXT * has_pretext + _CODE_SHOWN * bool(code)
    yield kinds.TEXT_DEVICE_CODE.at("text", strength=round(min(1.0, degree), 2), words=quote(words), code=code)


def _find_device_code(reading: Reading) -> str:
    """Return the first word that looks like a code: capitals, and a digit or a hyphen among them; "" for none."""
    for text in reading.message.texts[:MAX_TEXTS]:
        for match in _DEVICE_CODE.finditer(text.visible[:MAX_CODE_TEXT]):
            word = match.group()
            # A number with a hyphen is a telephone number, a word of capitals is a word.
            if any(map(str.isalpha, word)) and ("-" in word or any(map(str.isdigit, word))):
                return word
    return ""


MAX_CONSENT_LINKS = 20
_PER_CONSENT, _CONSENT_DOCUMENT = coefficients(kinds.TEXT_CONSENT_LURE, "per_phrase", "document")


@check(kinds.TEXT_CONSENT_LURE, needs={"link"}, themes={"consent"})
def consent_lure(reading: Reading) -> Iterator[Finding]:
    """Permissions for an application of a stranger: `To view the document, grant the app access to your mailbox`.

    Who accepts gives away no password, and a new one does not help: the application reads mail and files from then on
    (OAuth, RFC 6749 section 4.1). The page that asks is the provider's own, so a link to it leads away from the sender,
    too. Services ask for such permissions honestly when somebody signs up, and then on their own site, so it weighs
    little alone.
    """
    phrases = find_phrases(reading)
    words = phrases.of("consent")
    away = _find_consent_link(reading) if words else None
    if away is None:
        return
    degree = min(1.0, _PER_CONSENT * len(words) + _CONSENT_DOCUMENT * ("document" in phrases.themes))
    strength = round(degree * away.distance, 2)
    if strength >= _LEAST_LURE:
        yield kinds.TEXT_CONSENT_LURE.at(
            away.link.where, strength=strength, about=away.link.url, words=quote(words), host=away.link.host
        )


def _find_consent_link(reading: Reading) -> LinkAway | None:
    """Return the link to a page that grants an application access (RFC 6749 section 4.1.1), or one that leads away."""
    away = find_link_away(reading)
    if away is None or reading.is_known_sender:
        return away
    for link in reading.web_links[:MAX_CONSENT_LINKS]:
        url = link.url.lower()
        if "client_id=" in url and "oauth" in url:
            return LinkAway(link, 1.0)
    return away


_PER_THREAD_PHRASE, _THREAD_STRANGER, _LEAST_THREAD = coefficients(
    kinds.TEXT_INVENTED_THREAD, "per_phrase", "stranger", "least"
)


@check(kinds.TEXT_INVENTED_THREAD, needs={"link", "attachment"}, themes={"thread"})
def invented_thread(reading: Reading) -> Iterator[Finding]:
    """Conversations that never were: `As discussed on the phone, please see the attached document.`

    Whoever believes to have forgotten a talk opens what it was about. People who did talk write so as well, and most of
    them have written before: known senders and known lists are left out, and so are answers of theirs. Quoted mail
    proves nothing, because anybody can write it below. One such phrase counts where the sender is new to the tenant;
    from somebody who really telephoned for the first time it weighs little.
    """
    if reading.is_known_sender or not (reading.web_links or reading.has_attachment):
        return
    words = find_phrases(reading).of("thread")
    degree = _PER_THREAD_PHRASE * len(words) + _THREAD_STRANGER * (bool(words) and is_first_contact(reading))
    if degree >= _LEAST_THREAD:
        yield kinds.TEXT_INVENTED_THREAD.at("text", strength=round(min(1.0, degree), 2), words=quote(words))


_URGENT_LETTER = 4_000
_PER_URGENT_PHRASE, _LONG_URGENT = coefficients(kinds.TEXT_URGENCY, "per_phrase", "long")


@check(kinds.TEXT_URGENCY, themes={"urgency"})
def urgency(reading: Reading) -> Iterator[Finding]:
    """Haste: within 24 hours, final notice, or else.

    Every lure needs it, so that its reader does not stop to think. Reminders and sales need it as well: alone it weighs
    next to nothing, and beside other signs it says that the reader is being pressed.
    """
    phrases = find_phrases(reading)
    words = phrases.of("urgency")
    if len(words) >= 2 or (words and "urgency" in phrases.in_subject):
        strength = min(1.0, _PER_URGENT_PHRASE * len(words)) * (
            _LONG_URGENT if phrases.length_of("urgency") > _URGENT_LETTER else 1.0
        )
        strength = round(strength * measure_openness(reading), 2)
        yield kinds.TEXT_URGENCY.at("text", strength=strength, words=quote(words))


_BRAND_THEMES = ("credential", "limitation", "parcel", "refund", "mailbox", "charge")
# Suppliers name their customer beside charges, refunds and parcels.
_PROTECTED_THEMES = ("credential", "limitation", "mailbox")
_BRAND_OPENING = 200
_BRAND_LETTER = 5_000
_BRAND_BASE, _PER_BRAND_PHRASE = coefficients(kinds.TEXT_BRAND_WITHOUT_LINK, "base", "per_phrase")


@check(kinds.TEXT_BRAND_WITHOUT_LINK, themes=set(_BRAND_THEMES))
def brand_mention(reading: Reading) -> Iterator[Finding]:
    """Texts that speak for a well-known company and never lead to it.

    `Your Netflix membership is on hold`, from anywhere, with links to anywhere but Netflix. A company that writes about
    an account of its own links to itself. Others name companies all the time, in news and offers: only together with
    talk of accounts, payments or parcels does the name say whose account is meant. A name that the operator protects is
    that of the reader's own house, so it counts beside talk of accounts alone.
    """
    phrases = find_phrases(reading)
    words = phrases.of(*_BRAND_THEMES)
    away = (
        find_link_away(reading)
        if words and phrases.length_of(*_BRAND_THEMES) < _BRAND_LETTER and not reading.is_known_post
        else None
    )
    if away is None:
        return
    for brand in _find_companies(reading):
        if not _is_company_involved(brand, reading):
            strength = min(1.0, _BRAND_BASE + _PER_BRAND_PHRASE * len(words)) * away.distance
            yield kinds.TEXT_BRAND_WITHOUT_LINK.at(
                away.link.where,
                strength=round(strength, 2),
                about=away.link.url,
                company=brand.name,
                words=quote(words),
            )
            return


def _find_companies(reading: Reading) -> Iterator[Brand]:
    """Companies named in the subject or where the text begins."""
    message = reading.message
    openings = [text.visible[:_BRAND_OPENING] for text in message.texts[:2] if not text.attached]
    for text in (message.subject[:_BRAND_OPENING], *openings):
        for mention in find_imitated(text, reading.protected.names):
            if mention.brand.protected and not find_phrases(reading).of(*_PROTECTED_THEMES):
                continue
            if not mention.brand.ordinary:
                yield mention.brand


def _is_company_involved(brand: Brand, reading: Reading) -> bool:
    """Return whether the company sent it, or is linked to at all."""
    senders = (normal_domain(sender.domain) for sender in reading.message.senders)
    involved = (*senders, *reading.sender_domains, *reading.sites)
    own = reading.protected.own_domains if brand.protected else frozenset[str]()
    return any(owns(brand, domain) or is_under(domain, own) for domain in involved)


MAX_PLANTED_TEXT = 600
# "Hello ✅ +$1,989 ➡️ https://forms.example/x", "Username: www.x.example - 146 821 USD"
_PLANTED_SUM = r"(?:[+$€]{1,2} ?\d[\d., ]{2,9}|\d[\d., ]{2,9} ?(?:\$|€|usd|eur|btc|eth|usdt)(?!\w))"
_PLANTED_ADDRESS = r"(?:https?://|www\.)[^\s<>]{4,200}"
_PLANTED = re.compile(
    rf"(?:\A|[\n:,>]|\b(?:hi|hello|dear|hey|ol[áa]|hola|hallo|bonjour|welcome))[^\w\n]{{1,8}}"
    rf"(?:{_PLANTED_SUM}[^\n]{{0,40}}?{_PLANTED_ADDRESS}|{_PLANTED_ADDRESS}[^\n\w]{{1,8}}{_PLANTED_SUM})"
)

# "ok.me/rCQE1", without what a browser leaves out.
_PLANTED_BARE = re.compile(
    rf"\b(?:hi|hello|dear|hey|ol[áa]|hola|hallo|bonjour|welcome)[^\w\n]{{1,8}}{_PLANTED_SUM}[^\w\n]{{1,12}}"
    r"([a-z0-9-]{1,30}\.[a-z]{2,8})/\w{3,40}"
)
# Few letters begin with both, which is sooner told.
_PLANTED_ADDRESS_MARKS = ("://", "www.")
_PLANTED_SUM_MARKS = ("+", "$", "€", "usd", "eur", "btc", "eth")
_ANY_PLANTED_SUM = re.compile(_PLANTED_SUM)


@check(kinds.TEXT_PLANTED_LINK, needs={"planted-sum"})
def planted_link(reading: Reading) -> Iterator[Finding]:
    """Messages that strangers plant in the mail of honest services: a link and a sum where a name should stand.

    Whoever registers at a site, shares a file or fills in a form gives a name and the address of the victim. The site
    then greets `Hello ✅ +$1,989 ➡️ https://forms.example/x` in its own signed mail. No person has a link and a sum in
    their name. Shops name prices and links after a greeting, too, but in sentences, and to their own site.
    """
    if reading.is_known_answer or reading.is_known_post:
        return
    for text in reading.message.texts[:2]:
        opening = text.visible[:MAX_PLANTED_TEXT].lower()
        if text.attached or not begins_with_sum(opening):
            continue
        bare = _PLANTED_BARE.search(opening)
        if bare and org_domain(bare[1]) not in reading.sender_domains:
            yield kinds.TEXT_PLANTED_LINK.at("text", words=bare.group().strip()[:100])
            return
        if any(mark in opening for mark in _PLANTED_ADDRESS_MARKS) and (match := _PLANTED.search(opening)):
            away = (link for link in reading.web_links[:20] if org_domain(link.host) not in reading.sender_domains)
            if any(link.host and link.host in match.group() for link in away):
                yield kinds.TEXT_PLANTED_LINK.at("text", words=match.group().strip()[:100])
            return


def begins_with_sum(opening: str) -> bool:
    """Return whether a sum stands in the first characters of a text, in small letters."""
    return any(mark in opening for mark in _PLANTED_SUM_MARKS) and _ANY_PLANTED_SUM.search(opening) is not None


MAX_NAMED = 10
SHORTEST_PLANTED = 25
_NAMED_LINK = re.compile(
    r"https?:|www\.|(?<![a-z0-9-])[a-z0-9-]{2,30}\.(?:com|me|net|io|ly|org|xyz|top|site|online)/", re.IGNORECASE
)
_NAMED_SUM = re.compile(r"[$€£] ?\d[\d.,]{1,12}|\d[\d.,]{2,12} ?(?:[$€£]|usd|eur|btc|usdt)(?!\w)", re.IGNORECASE)
_NAMED_NUMBER = re.compile(r"\d{6,}")
# "Hello. You …", and no "Dr. Ann" or "No. 4711"
_NAMED_SENTENCE = re.compile(r"[^\W\d_]{5}[.!?] +[^\W\d_]{2}")
_SENTENCE_ALONE, _LINK_OR_SUM = coefficients(kinds.TEXT_PLANTED_NAME, "sentence", "link_or_sum")


@check(kinds.TEXT_PLANTED_NAME, needs={"long-recipient"})
def planted_name(reading: Reading) -> Iterator[Finding]:
    """Names of recipients that are a message: `To: "You have a new transaction. Order 2672333" <ann@house.example>`.

    A shop or a signing service takes the name that somebody typed into its form, and writes it into the greeting, the
    subject and the header of its own signed mail. People have names of a few words; those of companies are longer, but
    hold no sum, no link and no sentence with a number of an order in it.
    """
    if reading.is_known_post:
        return
    for recipient in reading.message.recipients[:MAX_NAMED]:
        name = recipient.name[:300]
        if len(name) < SHORTEST_PLANTED or "@" in name:
            continue
        if _NAMED_LINK.search(name) or _NAMED_SUM.search(name):
            yield kinds.TEXT_PLANTED_NAME.at("To", strength=_LINK_OR_SUM, name=name)
            return
        if _NAMED_NUMBER.search(name) and _NAMED_SENTENCE.search(name):
            yield kinds.TEXT_PLANTED_NAME.at("To", strength=_SENTENCE_ALONE, name=name)
            return
