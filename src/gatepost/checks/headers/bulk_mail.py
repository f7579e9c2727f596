"""Mail that was sent to many: what says so openly, and the traces of mass-mailing tools."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from gatepost.checks.known_names import is_freemail
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import normal_domain

# Fields by which mailing services recognise their own campaigns when complaints come back.
_SERVICE_FIELDS = frozenset(
    "feedback-id x-feedback-id x-mc-user x-campaign x-campaignid x-campaign-id x-mailgun-sid x-sg-eid x-ses-outgoing "
    "x-csa-complaints x-mailer-lid x-mailer-recptid x-mj-mid x-mandrill-user x-rpcampaign x-job x-sfmc-stack "
    "x-klaviyo-message-id x-cmail-tracking x-roving-id x-delivery x-msys-api x-rm-trackid x-hs-cid "
    "x-hubspot-correlation-id x-iterable-message-id x-pvtl x-emarsys-identify x-mailup-campaign x-binding "
    "x-report-abuse-to x-elqpod x-et-messageid x-cio-campaign".split()
)
# Whatever field says that a mail went to many.
BULK_FIELDS = _SERVICE_FIELDS | {"list-post", "mailing-list", "list-unsubscribe", "precedence"}
_FAREWELLS = tuple(
    "unsubscribe;opt out;opt-out;manage preferences;email preferences;abmelden;abbestellen;austragen;désabonner;"
    "désinscri;se desabonner;cancelar suscripción;darse de baja;cancelar inscrição;descadastrar;cancellati;"
    "disiscri;afmelden;uitschrijven;отписаться;配信停止;退订".split(";")
)


@check(*kinds.list_kinds("bulk:"), needs={"bulk-field", "link"})
def bulk_mail(reading: Reading) -> Iterator[Finding]:
    """Mail that says itself it went to many: lists and newsletters (RFC 2369, RFC 2919, RFC 8058).

    This is no fault. It names the mail `bulk`, which is delivered; only together with bad signs does it matter. Besides
    the fields of the standards there are older and private ones: `Precedence: bulk`, `Feedback-ID`, the marks of
    mailing services, and a link to unsubscribe in the text.
    """
    fields = reading.fields
    if reading.claims_discussion:
        yield kinds.BULK_DISCUSSION_LIST.at("List-Post", list=fields.get("list-id", ""))
        return
    if unsubscribe := fields.get("list-unsubscribe"):
        one_click = "yes" if "list-unsubscribe-post" in fields else "no"
        yield kinds.BULK_UNSUBSCRIBE.at("List-Unsubscribe", target=unsubscribe, one_click=one_click)
    if fields.get("precedence", "").strip().lower() in ("bulk", "list"):
        yield kinds.BULK_PRECEDENCE.at("Precedence", value=fields["precedence"])
    if not _SERVICE_FIELDS.isdisjoint(fields):
        yield kinds.BULK_MAILING_SERVICE.at("header", field=min(_SERVICE_FIELDS & fields.keys()))
    elif not unsubscribe and (shown := _find_unsubscribe_link(reading)):
        yield kinds.BULK_UNSUBSCRIBE_LINK.at("links", shown=shown)


def _find_unsubscribe_link(reading: Reading) -> str:
    """Return the text of a link that ends a subscription. The last links are looked at first."""
    shown = [link.shown for link in reading.message.links[-30:] if link.shown and link.source == "html"]
    together = "\n".join(shown).casefold()
    for word in _FAREWELLS:
        if word in together:
            return next((text for text in reversed(shown) if any(each in text.casefold() for each in _FAREWELLS)), "")
    return ""


(_OPENLY,) = coefficients("sent-openly", "factor")


def measure_openness(reading: Reading) -> float:
    """Return the factor for ways of advertising that subscribers accept: shorteners, cheap names, haste.

    A shop that the tenant knows stands by its mail. A free mailbox is anybody's.
    """
    if not reading.is_known_sender or is_freemail(normal_domain(reading.message.senders[0].domain)):
        return 1.0
    return _OPENLY


# "ADV:" was the label of laws in the United States, "未承諾広告" of one in Japan. "(광고)" is asked of every advertiser
# in Korea, also where the reader agreed.
_LABEL = re.compile(
    r"(?:\[[^\]]{1,40}\] {0,3})?\W{0,3}(adv(?:ertisement)?(?=\W{0,3}[:;])|adv(?=[ \])]{1,2}\w)|未承諾広告)",
    re.IGNORECASE,
)
_LABEL_BY_LAW = re.compile(r"\W{0,3}(광고)\W")
(_BY_LAW,) = coefficients(kinds.HEADER_ADVERTISING_LABEL, "by_law")


@check(kinds.HEADER_ADVERTISING_LABEL, needs={"advertising-subject"})
def advertising_label(reading: Reading) -> Iterator[Finding]:
    """Subjects that say themselves that nobody asked for the mail: `ADV: Grow your own`.

    Laws asked for such labels so that unsolicited advertising could be sorted out. Newsletters that people subscribed
    to have none, except in Korea.
    """
    subject = reading.message.subject[:100]
    if match := _LABEL.match(subject):
        yield kinds.HEADER_ADVERTISING_LABEL.at("Subject", label=match.group(1))
    elif match := _LABEL_BY_LAW.match(subject):
        yield kinds.HEADER_ADVERTISING_LABEL.at("Subject", strength=_BY_LAW, label=match.group(1))


_UUID = r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"


class _Habit(msgspec.Struct, frozen=True):
    """What a program writes: the form of its Message-ID, and fields of which at least one is there."""

    claim: re.Pattern[str]
    identifier: re.Pattern[str] | None
    fields: tuple[str, ...] = ()


def _make_habit(claim: str, identifier: str | None, *fields: str) -> _Habit:
    return _Habit(re.compile(claim), re.compile(identifier) if identifier else None, fields)


_HABITS = (
    # Hotmail and MSN, through which Outlook Express sent as well, write their own identifiers.
    _make_habit(
        r"Microsoft Outlook Express \d", r"<(?:[0-9a-f]{12}\$[0-9a-f]{8}\$[0-9a-f]{8}@|[^@$]{1,200}@)", "x-mimeole"
    ),
    _make_habit(r"Microsoft Office Outlook,? ", None, "x-mimeole", "thread-index"),
    _make_habit(r"Microsoft Outlook,? Build ", None, "x-mimeole", "thread-index"),
    _make_habit(
        r"The Bat! \(", r"<\d{1,12}\.(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d[0-5]\d@"
    ),
    _make_habit(r"Apple Mail \(|(?:iPhone|iPad) Mail \(", rf"<{_UUID}(?:\.\w+)?@"),
    _make_habit(r"(?:Mozilla )?Thunderbird[ /]\d", rf"<(?:[0-9A-Fa-f]{{8}}\.\d{{6,8}}|{_UUID}|[\w.-]{{1,80}})@"),
    _make_habit(r"QUALCOMM Windows Eudora", r"<[\d.]{10}[\w.]*+@|<v0\d[a-z0-9]++@"),
)
# "6pHng", "SufxM" and "2" are filled in by a machine: no program is named so.
_RANDOM_MAILER = re.compile(
    r"(?:\d{1,6}|(?=[A-Za-z0-9]{2,6}\Z)(?:\d+[A-Za-z]|[A-Za-z]+\d+[A-Za-z]).*|[A-Za-z]{1,3}[a-z][A-Z])\Z"
)
# "nobGVzTknRlXjDG2G4To7Uoft": what is left of it without words such as "Mail" or "sender" is most of it.
_LONG_MAILER = re.compile(r"[A-Za-z0-9]{14,40}\Z")
_MAILER_WORDS = re.compile(r"[A-Z]?[a-z]{2,}")
_MAILER_NOISE_PERCENT = 35
WRITTEN_BY_MACHINE = ("from", "reply-to", "message-id", "x-mailer", "to", "sender", "return-path", "date")
_PLACEHOLDER = re.compile(
    r"%(?:MSGID|MESSAGEID|XMAILER|RANDOM|RND|CUSTOM|SUBJECT|BOUNDARY|EMAIL|[A-Z_]{4,20}(?![A-Za-z%]))"
    r"|(?i:\{\{?[%#$]?[A-Za-z][\w. ]{1,30}\}|\[\[[\w.]{2,30}\]\]|%%[\w.]{2,30}%%|##[\w.]{2,30}##"
    r"|\[(?:nu|num|rnd|rand|random|an|al|email|e?mail_?user|domain|name|firstname|fromname|user)(?:_?\d{1,4})?\]"
    r"|\$\{?(?:rand|email|name|domain|subject)\w{0,20}\}?)"
)
_PLACEHOLDER_MARKS = frozenset("%{[#$")


@check(
    kinds.HEADER_FORGED_MAILER,
    kinds.HEADER_ODD_MAILER,
    kinds.HEADER_UNFILLED_TEMPLATE,
    needs={"program", "placeholder"},
)
def bulk_tools(reading: Reading) -> Iterator[Finding]:
    """Traces of mass-mailing tools: a mail program that is only claimed, and placeholders that were not filled in.

    `X-Mailer: Microsoft Outlook Express 6.00` comes with an X-MimeOLE field and a Message-ID of three groups of hex
    digits; The Bat! puts the time into its Message-ID; Apple's programs use a UUID. Mass-mailing tools copy the name of
    the program and not its habits. Lists and gateways may take fields away, so habits are not looked for in mail of
    known discussion lists. Some tools write random letters where the name of the program stands.

    In `Reply-To: reply-[nu_24]@example.com` or `X-Mailer: %XMAILER` the template shows through. Honest mailers also
    send "Dear {first name}" now and then, but in the subject; addresses and identifiers are written by their system.
    """
    yield from _find_forged_program(reading)
    for name in WRITTEN_BY_MACHINE:
        value = reading.fields.get(name, "")
        if not _PLACEHOLDER_MARKS.isdisjoint(value) and (match := _PLACEHOLDER.search(value[:1000])):
            yield kinds.HEADER_UNFILLED_TEMPLATE.at(name, place=match.group())
            return


def _find_forged_program(reading: Reading) -> Iterator[Finding]:
    for claimed in reading.programs:
        if _RANDOM_MAILER.match(claimed) or _is_noise(claimed):
            yield kinds.HEADER_ODD_MAILER.at("X-Mailer", claimed=claimed)
            return
        habit = None if reading.is_known_list else next((each for each in _HABITS if each.claim.match(claimed)), None)
        if habit and (missing := _find_missing_habit(habit, reading.fields)):
            yield kinds.HEADER_FORGED_MAILER.at("X-Mailer", claimed=claimed, missing=missing)
            return


def _is_noise(name: str) -> bool:
    """Return whether a long name without blanks is made of random letters of both cases and digits."""
    if not _LONG_MAILER.match(name) or name.isupper() or name.islower():
        return False
    return 100 * len(_MAILER_WORDS.sub("", name)) >= _MAILER_NOISE_PERCENT * len(name)


def _find_missing_habit(habit: _Habit, fields: Mapping[str, str]) -> str:
    """Return what the program always writes and this mail has not, "" for nothing."""
    identifier = fields.get("message-id")
    if habit.identifier and identifier and not habit.identifier.match(identifier.strip()):
        return "its form of Message-ID"
    if habit.fields and not any(name in fields for name in habit.fields):
        return habit.fields[0]
    return ""
