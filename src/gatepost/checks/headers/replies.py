"""Messages that claim to answer another one: replies and bounces."""

import re
from collections.abc import Iterator

from gatepost.checks.phrases import find_phrases, quote
from gatepost.checks.sender.history import is_first_contact
from gatepost.findings import Reading, check
from gatepost.kinds import HEADER_FAKE_BOUNCE, HEADER_FAKE_REPLY, HEADER_INVENTED_THREAD, Finding
from gatepost.names import Address, addresses_in, org_domain
from gatepost.strengths import coefficients

MAX_TEXT = 12_000
MAX_QUOTE = 20_000
MAX_TEXTS = 4
MAX_RECIPIENTS = 20
(_KNOWN_SENDER,) = coefficients(HEADER_INVENTED_THREAD, "known_sender")

_REPLY_SUBJECT = re.compile(
    r"\s{0,5}(?:re|aw|sv|antw|rv|res|odp|ynt|vs|回复|回覆|答复|返信)\s{0,2}(?:\[\d{1,3}\])?\s{0,2}[:：]", re.IGNORECASE
)
_REFERENCE_FIELDS = (
    "in-reply-to",
    "references",
    "thread-index",
    "thread-topic",
    "x-ms-has-attach",
    "resent-from",
    "x-forwarded-message-id",
)
_QUOTE_MARKS = (
    *("\n>", "\n|", "-----original message", "-------- original", "\nfrom:", "\nvon:", "\nde:", "\nda:"),
    *("wrote:", "schrieb", "a écrit", "escribió", "escreveu", "ha scritto", "schreef", "写道", "пишет"),
)
_QUOTED_SENDER = re.compile(
    r"\n[>| ]{0,4}\*?(?:from|von|de|da|van|od|fra|från)\s?:\*?[ \t]?([^\n]{3,200})\n",
    re.IGNORECASE,
)


@check(HEADER_FAKE_REPLY, HEADER_INVENTED_THREAD)
def fake_reply(reading: Reading) -> Iterator[Finding]:
    """Replies to nothing: `Re:` or `Fwd:` in the subject, and no reference to any message.

    A reader who believes in an old conversation trusts what comes next. Mail programs have written In-Reply-To or
    References into replies for decades (RFC 5322 section 3.6.4). Some old ones and web forms do not, and people type
    `Re:` by hand; a forward starts anew in some programs. So it weighs little, and nothing where the text does quote
    something.

    Some go further and quote a conversation that never was: below `Re: Invoice 4711` stands what the reader is supposed
    to have written last week, with its From and To. A mail that quotes an address of the recipient's own organisation
    and refers to nothing made the quotation up, or was sent through a form that drops such fields. From a sender who
    never wrote before it can only be made up.
    """
    if not _claims_reply(reading) or reading.is_discussion:
        return
    texts = [text for text in reading.message.texts[:MAX_TEXTS] if text.form != "document"]
    if not any(mark in text.visible[:MAX_QUOTE].casefold() for text in texts for mark in _QUOTE_MARKS):
        yield HEADER_FAKE_REPLY.at("Subject", subject=reading.message.subject)
    where, quoted = _find_quoted_recipient(reading)
    if quoted:
        strength = 1.0 if is_first_contact(reading) else _KNOWN_SENDER
        yield HEADER_INVENTED_THREAD.at(where, strength=strength, quoted=quoted, subject=reading.message.subject)


def _claims_reply(reading: Reading) -> bool:
    """Return whether the subject says that this is a reply, and no field says to what."""
    claims = _REPLY_SUBJECT.match(reading.message.subject)
    return bool(claims) and not any(name in reading.fields for name in _REFERENCE_FIELDS)


def _find_quoted_recipient(reading: Reading) -> tuple[str, Address | None]:
    """Return where the text quotes a mail from an address of the recipients' organisations, and that address."""
    own = {org_domain(to.rpartition("@")[2].strip("> ")) for to in reading.envelope.recipients[:MAX_RECIPIENTS]} - {""}
    own -= reading.sender_domains
    for text in reading.message.texts[:MAX_TEXTS]:
        if text.form == "document":
            continue
        for block in _QUOTED_SENDER.finditer(text.visible[:MAX_TEXT]):
            quoted = next((each for each in addresses_in(block[1]) if org_domain(each.domain) in own), None)
            if quoted:
                return text.where, quoted
    return "", None


_REPORT_TYPES = ("multipart/report", "message/")
_MAIL_SYSTEMS = (
    "mailer-daemon",
    "postmaster",
    "mail delivery",
    "maildelivery",
    "mdaemon",
    "daemon",
    "mail-daemon",
    "bounce",
    "mailsystem",
)
_SERVER_SAYS = re.compile(
    r"(?<![\d.])[45][0-9]{2}[ -](?:#?[45]\.\d{1,3}\.\d{1,3}|\w)"
    r"|(?:final|original)-recipient|x-failed-recipients|diagnostic|smtp|mx "
)


@check(HEADER_FAKE_BOUNCE, themes={"bounce"})
def fake_bounce(reading: Reading) -> Iterator[Finding]:
    """Bounces that are none: a subject like a returned mail's, in front of a letter with links.

    `Mail delivery failed: returning message to sender`, and below: release your messages here. Genuine reports are
    `multipart/report` (RFC 6522), or at least come from a mail system with an empty envelope sender, or carry the
    returned message or the words of the server that refused it. Many mail systems write reports of their own kind, so
    anything that looks like one is believed.
    """
    phrases = find_phrases(reading)
    message = reading.message
    is_reply = message.subject[:3].lower() in ("re:", "aw:", "fw:")
    if "bounce" not in phrases.in_subject or not reading.web_links or is_reply:
        return
    if reading.is_discussion or not reading.envelope.sender.strip("<> "):
        return
    if any(part.content_type.startswith(_REPORT_TYPES) for part in message.parts):
        return
    senders = " ".join(f"{sender.name} {sender}" for sender in message.senders[:3]).casefold()
    if any(system in senders for system in _MAIL_SYSTEMS) or _SERVER_SAYS.search(phrases.text[:5_000]):
        return
    yield HEADER_FAKE_BOUNCE.at("Subject", subject=message.subject, words=quote(phrases.of("bounce")))
