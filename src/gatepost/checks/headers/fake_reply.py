"""Replies to nothing: `Re:` or `Fwd:` in the subject, and no reference to any message.

A reader who believes in an old conversation trusts what comes next. Mail programs have written In-Reply-To or
References into replies for decades (RFC 5322 section 3.6.4). Some old ones and web forms do not, and people type
`Re:` by hand; a forward starts anew in some programs. So it weighs little, and nothing where the text does quote
something.

Some go further and quote a conversation that never was: below `Re: Invoice 4711` stands what the reader is supposed to
have written last week, with its From and To. A mail that quotes an address of the recipient's own organisation and
refers to nothing made the quotation up, or was sent through a form that drops such fields. From a sender who never
wrote before it can only be made up.
"""

import re
from collections.abc import Iterator

from gatepost.checks.sender.first_contact import is_first_contact
from gatepost.findings import Reading
from gatepost.kinds import HEADER_FAKE_REPLY, HEADER_INVENTED_THREAD, Finding
from gatepost.names import Address, addresses_in, org_domain
from gatepost.strengths import coefficients

KINDS = (HEADER_FAKE_REPLY, HEADER_INVENTED_THREAD)

MAX_TEXT = 12_000
MAX_QUOTE = 20_000
MAX_TEXTS = 4
MAX_RECIPIENTS = 20
(_KNOWN_SENDER,) = coefficients(HEADER_INVENTED_THREAD, "known_sender")

_ANSWER = re.compile(
    r"\s{0,5}(?:re|aw|sv|antw|rv|res|odp|ynt|vs|回复|回覆|答复|返信)\s{0,2}(?:\[\d{1,3}\])?\s{0,2}[:：]", re.IGNORECASE
)
_REFERENCES = (
    "in-reply-to",
    "references",
    "thread-index",
    "thread-topic",
    "x-ms-has-attach",
    "resent-from",
    "x-forwarded-message-id",
)
_QUOTES = (
    *("\n>", "\n|", "-----original message", "-------- original", "\nfrom:", "\nvon:", "\nde:", "\nda:"),
    *("wrote:", "schrieb", "a écrit", "escribió", "escreveu", "ha scritto", "schreef", "写道", "пишет"),
)
_QUOTED_SENDER = re.compile(
    r"\n[>| ]{0,4}\*?(?:from|von|de|da|van|od|fra|från)\s?:\*?[ \t]?([^\n]{3,200})\n",
    re.IGNORECASE,
)


def check(reading: Reading) -> Iterator[Finding]:
    if not _claims_reply(reading) or reading.is_discussion:
        return
    texts = reading.message.texts[:MAX_TEXTS]
    if not any(quote in text.visible[:MAX_QUOTE].casefold() for text in texts for quote in _QUOTES):
        yield HEADER_FAKE_REPLY.at("Subject", subject=reading.message.subject)
    where, quoted = _find_quoted_recipient(reading)
    if quoted:
        strength = 1.0 if is_first_contact(reading) else _KNOWN_SENDER
        yield HEADER_INVENTED_THREAD.at(where, strength=strength, quoted=quoted, subject=reading.message.subject)


def _claims_reply(reading: Reading) -> bool:
    """Return whether the subject says that this is a reply, and no field says to what."""
    claims = _ANSWER.match(reading.message.subject)
    return bool(claims) and not any(name in reading.fields for name in _REFERENCES)


def _find_quoted_recipient(reading: Reading) -> tuple[str, Address | None]:
    """Return where the text quotes a mail from an address of the recipients' organisations, and that address."""
    own = {org_domain(to.rpartition("@")[2].strip("> ")) for to in reading.envelope.recipients[:MAX_RECIPIENTS]} - {""}
    own -= reading.sender_domains
    for text in reading.message.texts[:MAX_TEXTS]:
        for block in _QUOTED_SENDER.finditer(text.visible[:MAX_TEXT]):
            quoted = next((each for each in addresses_in(block[1]) if org_domain(each.domain) in own), None)
            if quoted:
                return text.where, quoted
    return "", None
