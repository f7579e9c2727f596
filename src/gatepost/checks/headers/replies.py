"""Messages that claim to answer another one: replies and bounces."""

import re
from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail, list_words
from gatepost.checks.phrases import find_phrases, quote
from gatepost.checks.reading import Reading, check
from gatepost.checks.sender.envelope import SERVER_SAYS, is_from_mail_system
from gatepost.checks.sender.history import is_first_contact
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.mail.message import Text
from gatepost.names import Address, find_shown_addresses, normal_address, normal_domain, org_domain

MAX_TEXT = 12_000
MAX_QUOTE = 20_000
MAX_TEXTS = 4
MAX_RECIPIENTS = 20
(_KNOWN_SENDER,) = coefficients(kinds.HEADER_INVENTED_THREAD, "known_sender")

REPLY_SUBJECT = re.compile(
    r"\s{0,5}(?:re|aw|sv|antw|rv|res|odp|ynt|vs|回复|回覆|答复|返信)\s{0,2}(?:\[\d{1,3}\])?\s{0,2}[:：]", re.IGNORECASE
)
_REFERENCE_FIELDS = tuple(
    "in-reply-to references thread-index thread-topic x-ms-has-attach resent-from x-forwarded-message-id".split()
)
_QUOTE_MARKS = (
    *("\n>", "\n|", "-----original message", "-------- original", "\nfrom:", "\nvon:", "\nde:", "\nda:"),
    *("wrote:", "schrieb", "a écrit", "escribió", "escreveu", "ha scritto", "schreef", "写道", "пишет"),
)
_QUOTED_SENDER = re.compile(
    r"\n[>| ]{0,4}\*?(?:from|von|de|da|van|od|fra|från)\s?:\*?[ \t]?([^\n]{3,200})\n", re.IGNORECASE
)


@check(kinds.HEADER_FAKE_REPLY, kinds.HEADER_INVENTED_THREAD, needs={"reply-subject"})
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
    if not REPLY_SUBJECT.match(reading.message.subject) or reading.is_known_list:
        return
    if any(name in reading.fields for name in _REFERENCE_FIELDS):
        return
    texts = [text for text in reading.message.texts[:MAX_TEXTS] if text.form != "document"]
    if not any(mark in text.visible[:MAX_QUOTE].casefold() for text in texts for mark in _QUOTE_MARKS):
        yield kinds.HEADER_FAKE_REPLY.at("Subject", subject=reading.message.subject)
    where, quoted = _find_quoted_recipient(reading)
    if quoted:
        strength = 1.0 if is_first_contact(reading) else _KNOWN_SENDER
        yield kinds.HEADER_INVENTED_THREAD.at(where, strength=strength, quoted=quoted, subject=reading.message.subject)


def _find_quoted_recipient(reading: Reading) -> tuple[str, Address | None]:
    """Return where the text quotes a mail from an address of the recipients' organisations, and that address."""
    own = {org_domain(to.rpartition("@")[2].strip("> ")) for to in reading.envelope.recipients[:MAX_RECIPIENTS]} - {""}
    own -= reading.sender_domains
    for text in reading.message.texts[:MAX_TEXTS]:
        if text.form == "document":
            continue
        for block in _QUOTED_SENDER.finditer(text.visible[:MAX_TEXT]):
            quoted = next((each for each in find_shown_addresses(block[1]) if org_domain(each.domain) in own), None)
            if quoted:
                return text.where, quoted
    return "", None


MAX_QUOTED_PEOPLE = 60
MAX_QUOTED_WORDS = 2_000
# The header of a quoted message, as mail programs copy it: who wrote it, and to whom.
_QUOTED_PERSON = re.compile(
    r"\n[>| \t]{0,6}\*?(from|von|de|da|van|od|fra|från|от|差出人|发件人|to|an|à|para|aan|do|til|till|кому|宛先|收件人"
    r"|cc|kopie|copie)"
    r"\s?[:：]\*?[ \t]?([^\n]{3,600})",
    re.IGNORECASE,
)
_QUOTED_AUTHOR = frozenset("from von de da van od fra från от 差出人 发件人".split())
# "On Friday, Ann <ann@house.example> wrote:"
_QUOTED_BY = re.compile(
    r"\n[>| \t]{0,6}[^\n<>@]{0,150}<([^\s<>@]{1,64}@[^\s<>@]{3,255})>[^\n]{0,30}"
    r"(?:wrote|schrieb|écrit|escribió|escreveu|scritto|schreef|写道|пишет)\W"
)
_BROUGHT_PICTURE = ("image/",)
_THREAD_STRANGER, _THREAD_NAMESAKE, _THREAD_FREEMAIL, _THREAD_NO_HISTORY, _THREAD_AUTHORS_ONLY = coefficients(
    kinds.HEADER_STOLEN_THREAD, "stranger", "namesake", "freemail", "no_history", "authors_only"
)


@check(kinds.HEADER_STOLEN_THREAD, needs={"reply-subject"})
def stolen_thread(reading: Reading) -> Iterator[Finding]:
    """Replies in stolen threads: a stranger answers a conversation of the recipient, and brings a link or a file.

    Whoever has read a mailbox can answer what stands in it. The subject, the quoted messages and even References
    (RFC 5322 section 3.6.4) are genuine, so the reader trusts what is new. But the sender is none of the people between
    whom the quoted messages went, and the link leads to none of their organisations. Sometimes the sender has the
    name of one of them, at another address.

    People are drawn into conversations all the time: whoever was told about one by a forward stands in its To, and
    whoever wrote before today is no stranger. Quotations that name authors only ("Ann wrote:") say less, since readers
    are missing there. An answer that brings nothing new is left out.
    """
    if not REPLY_SUBJECT.match(reading.message.subject) or reading.is_known_list or not reading.message.senders:
        return
    if reading.sender_history.ready and not is_first_contact(reading):
        return
    if not reading.sites and not any(part.names for part in reading.message.parts):
        return
    sender, own = reading.message.senders[0], _list_recipient_organisations(reading)
    home = org_domain(normal_domain(sender.domain))
    if not home or home in own or not any(_may_name(text, own) for text in reading.message.texts[:MAX_TEXTS]):
        return
    people, names, is_complete = _find_quoted_people(reading)
    organisations = {org_domain(person.domain) for person in people}
    if not organisations & own or not _has_others(people, sender, home):
        return
    brought = _find_brought(reading, organisations | reading.sender_domains)
    if not brought:
        return
    name = list_words(sender.name)
    is_namesake = len(name) > 1 and f" {' '.join(name)} " in names
    strength = _THREAD_NAMESAKE if is_namesake else _THREAD_STRANGER
    strength += _THREAD_FREEMAIL if is_freemail(normal_domain(sender.domain)) else 0.0
    strength *= 1.0 if reading.sender_history.ready else _THREAD_NO_HISTORY
    strength *= 1.0 if is_complete else _THREAD_AUTHORS_ONLY
    yield kinds.HEADER_STOLEN_THREAD.at(
        "text", strength=round(min(1.0, strength), 2), sender=sender, quoted=people[0], brought=brought
    )


def _may_name(text: Text, domains: set[str]) -> bool:
    """Return whether a text may name one of these domains. Letters that are not ASCII may spell one otherwise."""
    visible = text.visible[:MAX_TEXT]
    if not visible.isascii():
        return bool(domains)
    low = visible.lower()
    return any(domain in low for domain in domains)


def _list_recipient_organisations(reading: Reading) -> set[str]:
    """Return the organisations of the recipients, without providers of free mail, where strangers are neighbours."""
    domains = (normal_domain(to.rpartition("@")[2].strip("> ")) for to in reading.envelope.recipients[:MAX_RECIPIENTS])
    return {org_domain(domain) for domain in domains if domain and not is_freemail(domain)} - {""}


def _find_quoted_people(reading: Reading) -> tuple[list[Address], str, bool]:
    """Return the people of the quoted messages, the words of their names, and whether their readers are named, too."""
    found: dict[str, Address] = {}
    names: list[str] = []
    has_author = has_readers = False
    for text in reading.message.texts[:MAX_TEXTS]:
        if text.form == "document":
            continue
        visible = text.visible[:MAX_TEXT]
        for field in _QUOTED_PERSON.finditer(visible):
            addresses = find_shown_addresses(field[2])
            is_author = field[1].casefold() in _QUOTED_AUTHOR
            names += (" ", *list_words(field[2])) if addresses and len(names) < MAX_QUOTED_WORDS else ()
            has_author |= is_author and bool(addresses)
            has_readers |= not is_author and bool(addresses)
            for address in addresses[: MAX_QUOTED_PEOPLE - len(found)]:
                found.setdefault(normal_address(str(address)), address)
        for line in _QUOTED_BY.finditer(visible) if len(found) < MAX_QUOTED_PEOPLE else ():
            for address in find_shown_addresses(f"<{line[1]}>")[:1]:
                found.setdefault(normal_address(str(address)), address)
    return list(found.values()), f" {' '.join(names)} ", has_author and has_readers


def _has_others(people: list[Address], sender: Address, home: str) -> bool:
    """Return whether the sender is none of the people of a conversation, nor a colleague of one."""
    mine = normal_address(str(sender))
    if any(normal_address(str(person)) == mine for person in people):
        return False
    # All customers of a provider of free mail have the same domain.
    return is_freemail(normal_domain(sender.domain)) or all(org_domain(person.domain) != home for person in people)


def _find_brought(reading: Reading, known: set[str] | frozenset[str]) -> str:
    """Return a link to a site of nobody in the conversation, or else the name of an attached file; "" for neither."""
    for host in reading.sites:
        if org_domain(host) not in known:
            return host
    for part in reading.message.parts:
        if part.names and not part.content_type.startswith(_BROUGHT_PICTURE):
            return part.names[0]
    return ""


_REPORT_TYPES = ("multipart/report", "message/")


@check(kinds.HEADER_FAKE_BOUNCE, themes={"bounce"})
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
    if reading.is_known_post or not reading.envelope.sender.strip("<> "):
        return
    if any(part.content_type.startswith(_REPORT_TYPES) for part in message.parts):
        return
    if is_from_mail_system(reading) or SERVER_SAYS.search(phrases.text[:5_000]):
        return
    yield kinds.HEADER_FAKE_BOUNCE.at("Subject", subject=message.subject, words=quote(phrases.of("bounce")))
