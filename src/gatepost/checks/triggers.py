"""Triggers: which checks have something to look at, told for all of them at once.

Of some sixty checks four find something in a message. Each one states what must be there for it to find anything
(`needs` and `themes` of the decorator `check`), in words that `data/signs.toml` lists. Here the words are bits.
`find_signs` sets those of a message in one pass over what the reading knows; `compile_triggers` makes one row of each
check, so that a check whose bits are not set costs one test of two numbers.

A bit that is set without need costs one call. A bit that is missing would lose a finding, so each stands for a
necessary condition of the checks that need it: `tests/checks/test_triggers.py` runs whatever was left out and proves
that it finds nothing. What depends on a name alone is worked out once for each name and kept.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from gatepost.checks.files.malware import EICAR_SIGNATURE
from gatepost.checks.headers.bulk_mail import BULK_FIELDS, WRITTEN_BY_MACHINE
from gatepost.checks.headers.fields import (
    IDENTIFIER_FORM,
    PROVIDER_MARKS,
    QUARTERS,
    RARE_FIELDS,
    SUBJECT_BLANKS,
    find_foreign_charset,
    has_plain_from,
    is_of_that_day,
)
from gatepost.checks.headers.replies import REPLY_SUBJECT
from gatepost.checks.known_names import (
    find_brands,
    is_form_service,
    is_freemail,
    is_hosted_page,
    is_picture_host,
    is_shortener,
    measure_ending,
)
from gatepost.checks.links.hosts import find_address_in_name
from gatepost.checks.links.urls import has_odd_form, may_download, may_lure
from gatepost.checks.phrases import MAX_TEXTS, THEMES, find_phrases
from gatepost.checks.reading import SIGNS, THEME_SIGN, Check, Reading
from gatepost.checks.sender.authentication import BAD_SPF
from gatepost.checks.sender.envelope import MAX_LOOKED_AT, is_malformed_recipient, is_malformed_sender
from gatepost.checks.sender.lookalikes import find_known_imitation
from gatepost.checks.sender.mailboxes import MAX_NAME, NAME_FRAMES, domain_could_exist, measure_host, measure_randomness
from gatepost.checks.sender.sending_host import PROVIDER_HOSTS
from gatepost.checks.text.advertising import GTUBE, GTUBE_TEXTS, may_evade
from gatepost.checks.text.fraud import MAX_OPENING_TEXT, find_large_sum, has_odd_number
from gatepost.checks.text.learned import MANY_RECIPIENTS
from gatepost.checks.text.lures import MAX_NAMED, MAX_PLANTED_TEXT, SHORTEST_PLANTED, begins_with_sum
from gatepost.findings.kinds import Finding
from gatepost.mail.message import Field, Link, Message
from gatepost.mail.reader import SMIME_TYPES
from gatepost.names import Address, keep_answers, normal_domain, org_domain
from gatepost.speedups import native

# A check, compiled: the bits of which one must be set, those of its themes, and what it does.
Row = tuple[int, int, str, Callable[[Reading], Iterable[Finding]]]

ALWAYS = 1
BITS = {
    word: 1 << number
    for number, word in enumerate((*SIGNS, *(f"{THEME_SIGN}{theme}" for theme in sorted(THEMES))), start=1)
}
EVERYTHING = (1 << (len(BITS) + 1)) - 1
_THEME_BITS = {theme: BITS[f"{THEME_SIGN}{theme}"] for theme in THEMES}


def compile_trigger(check: Check) -> tuple[int, int]:
    """Return the bits of which one must be set for a check, and those of its themes; `KeyError` for no sign."""
    themes = {f"{THEME_SIGN}{theme}" for theme in check.themes}
    return _join_bits(check.needs) or ALWAYS, _join_bits(themes) or ALWAYS


def _join_bits(words: Iterable[str]) -> int:
    found = 0
    for word in words:
        found |= BITS[word]
    return found


def compile_triggers(stages: Iterable[tuple[str, Check]]) -> tuple[Row, ...]:
    """Return one row for each check, with the name of its stage."""
    return tuple((*compile_trigger(check), stage, check.run) for stage, check in stages)


def _find_bits(words: str) -> tuple[int, ...]:
    return tuple(BITS[word] for word in words.split())


LINK, ATTACHMENT, LINK_IN_FILE, TRAIT, UNREAD = _find_bits("link attachment link-in-file trait unread")
DEFECT, SIGNATURE, REPLY_TO, PROTECTED = _find_bits("defect signature reply-to protected")
REMEMBERED, REPUTATION, ANTIVIRUS = _find_bits("remembered reputation antivirus")
LEARNT, CAMPAIGN, AUTHENTICATION = _find_bits("learnt campaign authentication")
ODD_SENDER, FREE_SENDER, PROVIDER_SENDER = _find_bits("odd-sender free-sender provider-sender")
BRAND_SENDER, NAME_ADDRESS, NAME_DOT, NAME_FRAME = _find_bits("brand-sender name-address name-dot name-frame")
RANDOM, IMITATING, CHEAP, ADDRESS, PUNYCODE = _find_bits("random-name imitating-name cheap-name address-name punycode")
ENVELOPE_DIFFERS, ENVELOPE_EMPTY, ODD_ENVELOPE = _find_bits("envelope-differs envelope-empty odd-envelope")
HOP, ODD_DATE, ODD_CLOCK, ODD_IDENTIFIER, ODD_FIELD = _find_bits("hop odd-date odd-clock odd-identifier odd-field")
PROGRAM, PLACEHOLDER, FOREIGN_CHARSET, BULK_FIELD = _find_bits("program placeholder foreign-charset bulk-field")
UNNAMED, LONG_RECIPIENT = _find_bits("unnamed-recipient long-recipient")
ODD_SUBJECT, ADVERTISING_SUBJECT, SUM_SUBJECT, REPLY_IN_SUBJECT = _find_bits(
    "odd-subject advertising-subject sum-subject reply-subject"
)
ODD_URL, REDIRECT, SHORTENER, PICTURE_HOST = _find_bits("odd-url redirect shortener picture-host")
FOREIGN_SITE, SHOWN_NAME = _find_bits("foreign-site shown-name")
DOWNLOAD_URL, LURE_PATH, OPENING = _find_bits("download-url lure-path opening")
EVASIVE, PLANTED_SUM, ODD_NUMBER = _find_bits("evasive-text planted-sum odd-number")
WALLET, TEST_TEXT, TEST_FILE, SMIME = _find_bits("wallet test-text test-file smime")

# Which signs of a host count for a sender's domain, and for a site that a reader can follow.
_OF_NAMES = RANDOM | IMITATING | CHEAP | ADDRESS | PUNYCODE
_OF_SENDER_DOMAIN = _OF_NAMES | ODD_SENDER | FREE_SENDER | PROVIDER_SENDER
_OF_SITE = _OF_NAMES | ODD_URL | REDIRECT | SHORTENER
_OF_SENDERS = _OF_SENDER_DOMAIN | BRAND_SENDER | NAME_ADDRESS | NAME_DOT | NAME_FRAME


def find_signs(reading: Reading) -> int:
    """Return the bits of everything that is there for a check to look at."""
    fields = reading.fields
    return (
        ALWAYS
        | _look_at_sources(reading)
        | _look_at_senders(reading)
        | _look_at_envelope(reading)
        | _look_at_fields(reading)
        | _look_at_times(fields.get("date"), fields.get("received"))
        | _look_at_identifier(fields.get("message-id"), "dkim-signature" in fields)
        | _look_at_subject(reading.message.subject, fields.get("subject", ""))
        | (_look_at_links(reading) if reading.links else 0)
        | _look_at_text(reading)
        | _look_at_files(reading)
    )


def _look_at_sources(reading: Reading) -> int:
    """What others say: authentication, history, reputation, models."""
    bits = 0
    seen, met, said = reading.authentication, reading.sender_history, reading.campaign
    if seen.dkim:
        bits |= SIGNATURE | AUTHENTICATION
    elif seen.spf.result in BAD_SPF or seen.dmarc.result in ("pass", "fail"):
        bits |= AUTHENTICATION
    if met.ready or met.hosts:
        bits |= REMEMBERED
    if reading.protected.is_stated:
        bits |= PROTECTED
    if reading.reputation.listings or reading.reputation.silent:
        bits |= REPUTATION
    if reading.antivirus.status != "off":
        bits |= ANTIVIRUS
    if reading.learnt.models:
        bits |= LEARNT
    if said.marked or said.recipients >= MANY_RECIPIENTS:
        bits |= CAMPAIGN
    return bits


def _look_at_senders(reading: Reading) -> int:
    message = reading.message
    senders, reply_to = message.senders, message.reply_to
    bits = (REPLY_TO if reply_to else 0) | (DEFECT if message.defects else 0)
    if len(senders) != 1:
        bits |= _OF_SENDERS | UNNAMED
    else:
        sender = senders[0]
        bits |= _describe_sender(sender)
        # A recipient who is neither the sender nor whoever gets the answers is a person to whom somebody writes.
        named = message.recipients[0] if message.recipients else None
        if named is None or not named.domain:
            bits |= UNNAMED
        else:
            local = named.local.casefold()
            if local == sender.local.casefold() or (
                reply_to and local in [each.local.casefold() for each in reply_to[:5]]
            ):
                bits |= UNNAMED
    for recipient in message.recipients[:MAX_NAMED]:
        if len(recipient.name) >= SHORTEST_PLANTED:
            bits |= LONG_RECIPIENT
            break
    return bits


@lru_cache(4096)
def _describe_sender(sender: Address) -> int:
    """The signs of a message's only sender, but for what depends on the message."""
    name, domain = sender.name, normal_domain(sender.domain)
    bits = describe_host(domain)[0] & _OF_SENDER_DOMAIN
    if not sender.local:
        bits |= ODD_SENDER
    if "@" in name or not name.isascii():
        bits |= NAME_ADDRESS | NAME_FRAME
    elif name[:1] in NAME_FRAMES:
        bits |= NAME_FRAME
    if "." in name:
        bits |= NAME_DOT
    if find_brands(name[:MAX_NAME] or sender.local[:MAX_NAME]):
        bits |= BRAND_SENDER
    mailbox = sender.local[:64].partition("+")[0]
    if mailbox.isalnum() and measure_randomness(mailbox):
        bits |= RANDOM
    return bits


@keep_answers
def describe_host(host: str) -> tuple[int, str]:
    """Return the signs of a host, and the organisation that it belongs to; "" for a name without a dot."""
    bits = 0
    if measure_host(host):
        bits |= RANDOM
    if find_known_imitation(host) is not None:
        bits |= IMITATING
    if measure_ending(host) or is_hosted_page(host) or is_form_service(host):
        bits |= CHEAP
    if host[:1].isdigit() or host[:1] == "[" or find_address_in_name(host):
        bits |= ADDRESS
    if "xn--" in host:
        bits |= PUNYCODE
    if has_odd_form(host):
        bits |= ODD_URL
    if is_shortener(host):
        bits |= SHORTENER | REDIRECT
    if is_freemail(host):
        bits |= FREE_SENDER
    if host in PROVIDER_HOSTS:
        bits |= PROVIDER_SENDER
    if host and not domain_could_exist(host):
        bits |= ODD_SENDER
    return bits, org_domain(host) if "." in host else ""


def _look_at_envelope(reading: Reading) -> int:
    envelope = reading.envelope
    sender = envelope.sender
    bare = sender.strip("<> ")
    bits = 0
    if not bare:
        if envelope.remote_address and reading.links:
            bits |= ENVELOPE_EMPTY
    elif len(reading.sender_domains) != 1 or " " in sender or bare[-1] == "@" or not sender.isascii():
        bits |= ENVELOPE_DIFFERS
    if is_malformed_sender(bare):
        bits |= ODD_ENVELOPE
    for recipient in envelope.recipients[:MAX_LOOKED_AT]:
        if _is_odd_recipient(recipient):
            return bits | ODD_ENVELOPE
    return bits


# Recipients are the operator's own people: the same ones again and again.
_is_odd_recipient = keep_answers(is_malformed_recipient)

_FIELD_BITS: dict[str, int] = {
    **dict.fromkeys(BULK_FIELDS, BULK_FIELD),
    **dict.fromkeys(RARE_FIELDS, ODD_FIELD),
    **dict.fromkeys(("x-mailer", "user-agent"), PROGRAM),
    "received": HOP,
}
# How nearly all mail spells the fields that people read.
_SPELLED = {"from": b"From", "subject": b"Subject", "to": b"To"}


def find_field_signs(
    fields: tuple[Field, ...], table: Mapping[str, int], spelled: Mapping[str, bytes], odd: int
) -> int:
    """Return what the table says of the names of fields, together; and `odd` where one of those whose spelling is given
    begins with other bytes, or has bytes that are not ASCII."""
    bits = 0
    for field in fields:
        name = field.name
        bits |= table.get(name, 0)
        if name in spelled and not (field.raw.isascii() and field.raw.startswith(spelled[name])):
            bits |= odd
    return bits


def _look_at_fields(reading: Reading) -> int:
    fields = reading.message.headers.fields
    bits: int = (native.field_signs if native else find_field_signs)(fields, _FIELD_BITS, _SPELLED, ODD_FIELD)
    get = reading.fields.get
    if not has_plain_from(get("from", "")[:600]):
        bits |= ODD_FIELD
    written = "\n".join([get(name, "") for name in WRITTEN_BY_MACHINE])
    if "[" in written or "%" in written or "{" in written or "#" in written or "$" in written:
        bits |= PLACEHOLDER
    declared = get("content-type", "")[:500]
    if "charset" in declared.lower() and find_foreign_charset(declared):
        bits |= FOREIGN_CHARSET
    return bits


def _look_at_times(date: str | None, received: str | None) -> int:
    """The Date field, beside the newest Received field."""
    bits = 0 if is_of_that_day(date, received) else ODD_DATE
    if not date:
        return bits
    zone = date.strip()[:100][-5:]
    if zone[:1] not in ("+", "-") or zone[3:] not in QUARTERS or not "00" <= zone[1:3] <= "14" or "(" in date:
        bits |= ODD_CLOCK
    return bits if date[-5:-4] in ("+", "-") else bits | ODD_FIELD


def _look_at_identifier(identifier: str | None, is_signed: bool) -> int:
    """The Message-ID field."""
    if identifier is None or not identifier.isascii():
        return ODD_IDENTIFIER | ODD_CLOCK
    bits = ODD_CLOCK if "$" in identifier else 0
    if not IDENTIFIER_FORM.match(identifier[:1000]):
        return bits | ODD_IDENTIFIER
    # These providers sign what they send.
    low = "" if is_signed else identifier.lower()
    for mark in PROVIDER_MARKS:
        if mark in low:
            bits |= ODD_IDENTIFIER
    return bits


def _look_at_subject(shown: str, written: str) -> int:
    """The subject as it is shown, and as it stands in its field: its blanks are kept there."""
    bits = ODD_SUBJECT if SUBJECT_BLANKS in written else 0
    if REPLY_SUBJECT.match(shown):
        bits |= REPLY_IN_SUBJECT
    if not shown.isascii():
        return bits | ODD_SUBJECT | ADVERTISING_SUBJECT | SUM_SUBJECT
    subject = shown[:500]
    low = subject.lower()
    end = subject[-8:]
    if (
        subject.count("!") > 2
        or "$" in subject
        or "usd" in low
        or "eur" in low
        or "dollar" in low
        or subject.isupper()
        or (end.isalnum() and not (end.islower() or end.isupper() or end.isalpha() or end.isdigit()))
        or subject[:1] == "_"
        or subject[-1:] == "_"
    ):
        bits |= ODD_SUBJECT
    if "adv" in low:
        bits |= ADVERTISING_SUBJECT
    if "+" in subject or "BTC" in subject or "Bitcoin" in subject or "ETH" in subject:
        bits |= SUM_SUBJECT
    return bits


def _look_at_links(reading: Reading) -> int:
    bits = LINK
    sites = reading.sites
    owners = set()
    for host in sites:
        known, owner = describe_host(host)
        bits |= known & _OF_SITE
        owners.add(owner)
    owners.discard("")
    if len(owners - reading.sender_domains) == 1:
        bits |= FOREIGN_SITE
    others = set()
    for link in reading.links:
        host = link.host
        if link.source == "image":
            others.add(host)
            continue
        if "." in link.shown:
            bits |= SHOWN_NAME
        if link.wrapped:
            bits |= REDIRECT
        if host not in sites:
            others.add(host)
    for host in others:
        if is_picture_host(host):
            bits |= PICTURE_HOST
        if "xn--" in host:
            bits |= PUNYCODE
    return bits | _URL_BITS[(native.url_signs if native else find_url_signs)(reading.web_links)]


# What `url_signs` of `_speedups.c` says, by its bits.
_URL_BITS = tuple(
    (ODD_URL if signs & 3 else 0) | (DOWNLOAD_URL if signs & 4 else 0) | (LURE_PATH if signs & 8 else 0)
    for signs in range(16)
)


def find_url_signs(links: Iterable[Link]) -> int:
    """The Python twin of `url_signs` in `_speedups.c`: an @ (1), a colon beside that of the scheme (2), the ending of
    what is downloaded (4), a word of lures or a domain in the path (8). The native form may set one without need."""
    signs = 0
    for link in links:
        url = link.url
        signs |= 1 if "@" in url else 0
        signs |= 2 if url.count(":") > 1 else 0
        signs |= 4 if may_download(url) else 0
        signs |= 8 if may_lure(url) else 0
    return signs


def _look_at_text(reading: Reading) -> int:
    bits = 0
    phrases = find_phrases(reading)
    for theme in phrases.themes:
        bits |= _THEME_BITS[theme]
    for text in reading.message.texts[:GTUBE_TEXTS]:
        if GTUBE in text.visible:
            bits |= TEST_TEXT
    signs = find_text_signs(phrases.text, reading.message) if phrases.signs is None else phrases.signs
    if signs & 1:
        bits |= EVASIVE
    if signs & 2 and reading.links:
        bits |= PLANTED_SUM
    if signs & 8:
        bits |= ODD_NUMBER
    if signs & 16:
        bits |= WALLET
    # Who writes the letter is sooner told than what it says, but known already where it is asked.
    if (signs & 4 or "opening" in phrases.themes) and (reading.message.reply_to or _has_free_mailbox(reading)):
        bits |= OPENING
    return bits


def _has_free_mailbox(reading: Reading) -> bool:
    senders = reading.message.senders
    return len(senders) != 1 or is_freemail(normal_domain(senders[0].domain))


def find_text_signs(folded: str, message: Message) -> int:
    """The Python twin of `look_at_texts` in `message_phrases.c`: text that evades filters (1), a sum where a text
    begins (2), a large sum (4), a number for people only (8), the word for a wallet (16). The native form may set one
    without need."""
    texts = [text for text in message.texts[:MAX_TEXTS] if not text.attached]
    shown, hidden = [text.visible for text in texts], [text.hidden for text in texts if text.hidden]
    signs = 1 if may_evade(folded, message.subject, shown, hidden) else 0
    signs |= 2 if any(begins_with_sum(text[:MAX_PLANTED_TEXT].lower()) for text in shown) else 0
    signs |= 4 if find_large_sum(folded[:MAX_OPENING_TEXT]) else 0
    signs |= 8 if has_odd_number(folded, shown) else 0
    return signs | (16 if "wallet" in folded else 0)


def _look_at_files(reading: Reading) -> int:
    bits = 0
    for file in reading.files:
        if file.is_attachment:
            bits |= ATTACHMENT
        if file.links:
            bits |= LINK_IN_FILE
        if file.traits:
            bits |= TRAIT
        if file.unread:
            bits |= UNREAD
        if EICAR_SIGNATURE in (file.content[:200] if file.is_body else file.content):
            bits |= TEST_FILE
    for part in reading.message.parts:
        if part.content_type in SMIME_TYPES:
            bits |= SMIME
    return bits
