"""Digests: a mail (RFC 5322) with a list as plain text and as HTML (RFC 2046 section 5.1.4), its links, and the runs.

Subjects and senders come from mail that is held, so they are hostile. Control characters and direction overrides are
written out, long ones are cut, addresses of web pages are written so that no mail program makes links of them, and each
value is isolated (UAX 9 section 2.4), so that it cannot turn round what stands beside it. The only links are ours.

The Message-ID is made of the id of the digest: a digest that had to be sent twice is recognised as the same message.

Each language has a file of texts in `texts`, read once. A language that is not known is English, and so is a text that
a language lacks.

A link is signed, has an end, and is for one message of one recipient. It names a digest and a message by their ids;
whose digest it is stands in storage, so that no address is in the link. It is signed with HMAC-SHA-256 (RFC 2104), of
which 128 bits are sent. Without the key nothing can be learnt from trying: a link that is forged, has ended, was used
or never was gets the same answer. Keys have numbers, so that a new one can be taken while links of older ones are still
on their way.

    version (1) · number of the key (4) · end, in Unix seconds (5) · digest (16) · message (16) · signature (16)

written as base64url without padding (RFC 4648 section 5). A message of zeros is the page of the recipient's own
entries.

In a run, the digests of a scope are planned when they are due, and sent through the next hop. One process works on a
scope at a time (`store.jobs`). What could not be sent is tried again, with growing pauses; what the next hop refuses
for good is given up, and the status says so.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import struct
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache
from html import escape
from importlib.resources import files
from uuid import UUID

import msgspec

from gatepost.analysis.report import Report, shown_sender
from gatepost.names import normal_domain, unicode_domain
from gatepost.process.logs import Logger
from gatepost.scanning.held_mail import RECIPIENT_VERDICTS
from gatepost.settings.delivery import DigestSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import Routing
from gatepost.store.digests import DIGEST, Digest, DigestKey, DigestPreferences, DigestRecord
from gatepost.store.jobs import HeldJob
from gatepost.store.quarantine import HeldMessage
from gatepost.store.store import Store
from gatepost.times import now
from gatepost.view.values import ELLIPSIS, escape_line

VERSION = 1
_LAYOUT = struct.Struct(">BIBI16s16s")
_SIGNATURE = 16
_SIZE = _LAYOUT.size + _SIGNATURE
# What the text of a link can be long; longer ones are not even decoded.
MAX_TEXT = 128
_PURPOSE = b"gatepost digest link\0"
_NO_ITEM = bytes(16)
_NO_KEY = DigestKey(0, bytes(32), 0)


class DigestLink(msgspec.Struct, frozen=True):
    """What a link says: the digest, the message (`item`, "" for the recipient's own entries), and its end in Unix
    milliseconds."""

    digest: str
    item: str
    expires: int


def sign_link(link: DigestLink, key: DigestKey) -> str:
    """Return the text of a link."""
    seconds = link.expires // 1000
    item = UUID(link.item).bytes if link.item else _NO_ITEM
    content = _LAYOUT.pack(VERSION, key.number, seconds >> 32, seconds & 0xFFFFFFFF, UUID(link.digest).bytes, item)
    return base64.urlsafe_b64encode(content + _mac(key, content)).rstrip(b"=").decode("ascii")


def read_link(text: str, keys: Iterable[DigestKey], moment: int) -> DigestLink | None:
    """Return what a link says if one of the keys has signed it and its end has not come; None otherwise."""
    raw = _decode(text)
    content, signature = raw[: _LAYOUT.size], raw[_LAYOUT.size :]
    version, number, high, low, digest, item = _LAYOUT.unpack(content)
    key = next((each for each in keys if each.number == number), None)
    # A signature is computed and compared in any case.
    is_right = hmac.compare_digest(_mac(key or _NO_KEY, content), signature)
    expires = (high << 32 | low) * 1000
    if not is_right or key is None or version != VERSION or expires <= moment:
        return None
    return DigestLink(str(UUID(bytes=digest)), "" if item == _NO_ITEM else str(UUID(bytes=item)), expires)


def _decode(text: str) -> bytes:
    """Return the bytes of a link; of a text that is none, bytes of the same size that no key has signed."""
    try:
        if len(text) > MAX_TEXT or not text.isascii():
            return bytes(_SIZE)
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return bytes(_SIZE)
    # The last character of the text has bits to spare: only one spelling is a link.
    is_one = len(raw) == _SIZE and base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") == text
    return raw if is_one else bytes(_SIZE)


def _mac(key: DigestKey, content: bytes) -> bytes:
    return hmac.new(key.secret, _PURPOSE + content, hashlib.sha256).digest()[:_SIGNATURE]


DEFAULT = "en"


class Texts:
    """The texts of one language."""

    def __init__(self, code: str, texts: Mapping[str, str]) -> None:
        self.code, self._texts = code, texts

    def say(self, key: str, **values: object) -> str:
        """Return a text with values filled in. Values are foreign: braces in them mean nothing."""
        text = self._texts[key]
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def say_count(self, key: str, count: int) -> str:
        """Return a text with a number in it, in the form that the number needs (Unicode CLDR, plural rules)."""
        form = find_plural(self.code, count)
        return self.say(f"{key}_{form}" if f"{key}_{form}" in self._texts else f"{key}_other", count=count)

    @property
    def direction(self) -> str:
        """Which way the language is written, as HTML says it."""
        return self._texts["direction"]

    def write_date(self, moment: datetime) -> str:
        """Return a day as people of this language write it."""
        month = self._texts["months"].split(",")[moment.month - 1]
        return self.say("date", day=moment.day, month=month, number=moment.month, year=moment.year)

    def write_moment(self, milliseconds: int, zone: tzinfo) -> str:
        """Return a day and a minute in a time zone."""
        moment = datetime.fromtimestamp(milliseconds / 1000, zone)
        return f"{self.write_date(moment)}, {moment:%H:%M}"

    def reason(self, verdict: str) -> str:
        """Return why a message with this verdict is held, in plain words."""
        return self._texts.get(f"reason_{verdict}") or self._texts["reason_clean"]


def find_plural(code: str, count: int) -> str:
    """Return the category of a whole number in a language: `one`, `two`, `few`, `many` or `other`."""
    ten, hundred = count % 10, count % 100
    if code in ("zh-Hans", "ja"):
        return "other"
    if code in ("pl", "ru"):
        if count == 1 or (code == "ru" and ten == 1 and hundred != 11):
            return "one"
        return "few" if ten in (2, 3, 4) and hundred not in (12, 13, 14) else "many"
    if code == "ar":
        if count in (1, 2):
            return "one" if count == 1 else "two"
        return "few" if 3 <= hundred <= 10 else "many" if hundred >= 11 else "other"
    return "one" if count == 1 or (count == 0 and code in ("fr", "pt")) else "other"


@cache
def _read_all() -> dict[str, dict[str, str]]:
    folder = files("gatepost.digests").joinpath("texts")
    return {
        each.name.removesuffix(".toml"): tomllib.loads(each.read_text("utf-8"))
        for each in folder.iterdir()
        if each.name.endswith(".toml")
    }


def list_languages() -> tuple[tuple[str, str], ...]:
    """Return code and name of each language, English first."""
    read = _read_all()
    return tuple((code, read[code]["language"]) for code in sorted(read, key=lambda code: (code != DEFAULT, code)))


@cache
def find_texts(code: str) -> Texts:
    read = _read_all()
    known = code if code in read else DEFAULT
    return Texts(known, {**read[DEFAULT], **read[known]})


# What of an Accept-Language field is read (RFC 9110 section 12.5.4).
MAX_RANGES = 20
_RANGE = re.compile(r"\s*+([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,4})\s*+(?:;\s*+q=([01](?:\.[0-9]{0,3})?)\s*+)?\Z")


def choose_texts(preferred: str, accepted: str) -> Texts:
    """Return the texts of the language that a tenant has chosen, or else of the first one that a browser asks for."""
    if preferred:
        return find_texts(preferred)
    known = {code.lower(): code for code in _read_all()} | {"zh": "zh-Hans", "zh-cn": "zh-Hans", "zh-sg": "zh-Hans"}
    wanted = []
    for index, part in enumerate(accepted[:500].split(",")[:MAX_RANGES]):
        found = _RANGE.match(part)
        if found and (weight := float(found[2] or 1)) > 0:
            tag = found[1].lower()
            code = known.get(tag) or known.get(tag.rpartition("-")[0]) or known.get(tag.partition("-")[0])
            # Whoever reads traditional characters is better served in another language that they ask for.
            if code and not tag.startswith(("zh-hant", "zh-tw", "zh-hk", "zh-mo")):
                wanted.append((-weight, index, code))
    return find_texts(min(wanted)[2] if wanted else DEFAULT)


MAX_SUBJECT, MAX_SENDER = 160, 120
PATH = "/digest/"

_SCHEME = re.compile(r"(?i)\bh(tt)(ps?)(?=:)")
_DOT_IN_NAME = re.compile(r"(?<=\w)\.(?=[^\W\d_])")
PLAIN_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9.-]{1,255}", re.ASCII)
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


class DigestPlan(msgspec.Struct, frozen=True):
    """What the mails of a run have in common: sender, base address, key and end of the links (Unix milliseconds)."""

    sender: str
    base: str
    key: DigestKey
    expires: int


class _Line(msgspec.Struct, frozen=True):
    """One message of the list, in words."""

    time: str
    sender: str
    subject: str
    reason: str
    action: str
    link: str


def build_digest(
    digest: Digest, messages: Sequence[HeldMessage], left_out: int, preferences: DigestPreferences, plan: DigestPlan
) -> EmailMessage:
    """Return the mail of a digest that lists these messages; `left_out` more are held."""
    texts, zone = find_texts(preferences.language), preferences.time_zone
    last_day = datetime.fromtimestamp(plan.expires / 1000, zone)
    lines = [_describe(digest, mail, preferences, texts, plan) for mail in messages]
    entries = _link(plan, digest, "") if preferences.own_entries else ""
    ends = texts.say("links_end", date=texts.write_date(last_day))
    footer = texts.say("footer", zone=preferences.zone or "UTC")
    more = texts.say_count("more", left_out) if left_out else ""
    intro = escape_line_by_line(preferences.intro) or texts.say("intro")
    total = len(lines) + left_out
    message = EmailMessage(policy=SMTP)
    message["From"] = plan.sender
    # An address that a header cannot have without help stands in the envelope alone.
    message["To"] = digest.address if PLAIN_ADDRESS.fullmatch(digest.address) else "undisclosed-recipients:;"
    message["Subject"] = texts.say_count("subject", total)
    message["Date"] = format_datetime(datetime.now(zone))
    domain = plan.sender.rpartition("@")[2]
    message["Message-ID"] = f"<digest-{digest.id}@{domain}>"
    message["List-Id"] = f"<digest.{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Precedence"] = "bulk"
    message["X-Auto-Response-Suppress"] = "All"
    address = escape_line(digest.address[:MAX_SENDER])
    parts = (texts.say("greeting", address=address), intro, lines, more, entries, f"{ends} {footer}")
    message.set_content(_write_text(texts, *parts), cte="quoted-printable")
    message.add_alternative(_write_html(texts, *parts), subtype="html", cte="quoted-printable")
    message["Content-Language"] = texts.code
    return message


def show(text: str, most: int) -> str:
    """Return foreign text for one line: cut, without characters that act, and without anything to click on."""
    shown = escape_line(text[:most]) + (ELLIPSIS if len(text) > most else "")
    return _DOT_IN_NAME.sub("[.]", _SCHEME.sub(r"hxx\2", shown))


def show_sender(mail: HeldMessage) -> str:
    """Return the sender of held mail as most mail programs show it, "" for mail without one."""
    return name_sender(mail.record.report, mail.record.envelope.sender)


def name_sender(report: Report, envelope_sender: str) -> str:
    """Return a sender as most mail programs show it, "" for mail without one. The address is not taken apart: a reader
    has to recognise it."""
    sender = shown_sender(report, envelope_sender)
    address = escape_line(sender.address[:MAX_SENDER]) + (ELLIPSIS if len(sender.address) > MAX_SENDER else "")
    name = show(sender.name, MAX_SENDER)
    return f"{name} <{address}>" if name else address


def escape_line_by_line(text: str) -> str:
    """Return the words of a tenant, in lines of their own."""
    return "\n".join(escape_line(line) for line in text.splitlines()).strip()


def _describe(
    digest: Digest, mail: HeldMessage, preferences: DigestPreferences, texts: Texts, plan: DigestPlan
) -> _Line:
    report = mail.record.report
    may_release = report.verdict in RECIPIENT_VERDICTS
    return _Line(
        texts.write_moment(mail.kept, preferences.time_zone),
        show_sender(mail) or texts.say("no_sender"),
        show(report.subject, MAX_SUBJECT) or texts.say("no_subject"),
        texts.reason(report.verdict),
        texts.say("link_release" if may_release else "link_request"),
        _link(plan, digest, mail.record.ggrid),
    )


def _link(plan: DigestPlan, digest: Digest, item: str) -> str:
    return f"{plan.base}{PATH}{sign_link(DigestLink(digest.id, item, plan.expires), plan.key)}"


def isolate(text: str) -> str:
    """Return foreign text so that it cannot turn round what stands beside it (UAX 9 section 2.4)."""
    return text if text.isascii() else f"{_ISOLATE}{text}{_END_OF_ISOLATE}"


def _write_text(
    texts: Texts, greeting: str, intro: str, lines: Sequence[_Line], more: str, entries: str, footer: str
) -> str:
    names = [texts.say(f"column_{each}") for each in ("time", "from", "subject", "reason")]
    blocks = [greeting, intro]
    for line in lines:
        values = (line.time, isolate(line.sender), isolate(line.subject), line.reason)
        facts = [f"{name}: {value}" for name, value in zip(names, values, strict=True)]
        blocks.append("\n".join([*facts, f"{line.action}: {line.link}"]))
    if more:
        blocks.append(more)
    if entries:
        blocks.append(f"{texts.say('entries_link')} {entries}")
    return "\n\n".join([*blocks, f"-- \n{footer}"]) + "\n"


# A word without an end must not push anything out of sight.
ITEM_STYLE = "border-top:1px solid #b8c0c8;padding:12px 0;overflow-wrap:anywhere;word-break:break-word"
_BUTTON = (
    "display:inline-block;margin-top:8px;padding:6px 12px;border:1px solid #1f5f3f;border-radius:4px;color:#1f5f3f"
)


def _write_html(
    texts: Texts, greeting: str, intro: str, lines: Sequence[_Line], more: str, entries: str, footer: str
) -> str:
    items = "".join(_write_item(texts, line) for line in lines)
    said = "".join(f"<p>{escape(each)}</p>" for each in intro.split("\n") if each)
    rest = f"<p>{escape(more)}</p>" if more else ""
    own = f'<p><a href="{escape(entries)}">{escape(texts.say("entries_link").rstrip(":"))}</a></p>' if entries else ""
    return (
        f'<!doctype html><html lang="{texts.code}" dir="{texts.direction}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(greeting)}</title></head>"
        f'<body dir="{texts.direction}" style="font-family:sans-serif;line-height:1.4;max-width:45em">'
        f'<h1 style="font-size:20px;overflow-wrap:anywhere"><bdi>{escape(greeting)}</bdi></h1>'
        f'{said}{items}{rest}{own}<p style="font-size:13px">{escape(footer)}</p></body></html>'
    )


def _write_item(texts: Texts, line: _Line) -> str:
    """Write one message: in a column, since a table would be too wide for a phone."""
    return (
        f'<div style="{ITEM_STYLE}"><strong><bdi>{escape(line.subject)}</bdi></strong><br>'
        f"{escape(texts.say('column_from'))}: <bdi>{escape(line.sender)}</bdi><br>"
        f"{escape(texts.say('column_time'))}: {escape(line.time)}<br>"
        f"{escape(texts.say('column_reason'))}: {escape(line.reason)}<br>"
        f'<a style="{_BUTTON}" href="{escape(line.link)}">{escape(line.action)}</a></div>'
    )


DAY = 86_400_000
MINUTE = 60_000
SEND_SECONDS = 120.0
# A message gets its time before its record can be seen.
MARGIN = MINUTE
MAX_ATTEMPTS = 20
LONGEST_PAUSE = 4 * 60 * MINUTE
BATCH = 50

log = Logger("gatepost.digests")


class DigestSender:
    """Sends digests. `base` is `publicUrl`, `sender` the address in From, `pause` what waits between two mails."""

    def __init__(
        self,
        store: Store,
        routing: Routing,
        tenancy: Tenancy,
        settings: DigestSettings,
        base: str,
        sender: str,
        tenants: Mapping[str, str],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._routing, self._tenancy, self._settings = store, routing, tenancy, settings
        self._base, self._sender, self._tenants, self._pause = base, sender, tenants, pause

    async def run(self, scope: str | None, *, at_once: bool = False) -> DigestRecord | None:
        """Plan the digests of a scope if they are due, or `at_once`, and send those that wait; None where another
        process does."""
        async with self._store.jobs.take(DIGEST, scope) as held:
            if held is None:
                return None
            record = DigestRecord(finished=now(), message="it was interrupted")
            try:
                record = await self._work(held, at_once=at_once)
            finally:
                await held.finish(detail=msgspec.json.encode(record).decode())
            return record

    async def _work(self, held: HeldJob, *, at_once: bool) -> DigestRecord:
        scope, moment = held.job.scope or None, now()
        preferences = (await self._store.digests.scope(scope)).preferences
        if not preferences.enabled:
            return DigestRecord(finished=moment, message="digests are switched off")
        domains = await self.find_domains(scope, preferences)
        if not domains:
            return DigestRecord(finished=moment, message="no domain of recipients is known")
        if at_once or held.job.next_run <= moment:
            until = moment if at_once else moment - MARGIN
            await self._store.digests.begin_planning(held.job, until, preferences.next_time(moment))
        while await self._store.digests.plan(held.job, domains):
            pass
        record = await self._send_waiting(held, preferences)
        await self._store.digests.purge(moment)
        return record

    async def find_domains(self, scope: str | None, preferences: DigestPreferences) -> tuple[str, ...]:
        """Return the domains whose recipients get digests: those of the tenant, of which some may be named, or those
        that were named where there is no tenant. Mail can be addressed to anybody, and digests go to one's own people
        only."""
        wanted: Sequence[str] = preferences.domains
        if scope:
            tenant = await self._store.tenants.find(scope)
            own = [domain for domain, uid in self._tenants.items() if uid == scope]
            own += tenant.domains if tenant else ()
            wanted = [each for each in wanted if each in own] if wanted else own
        names = [domain for domain in map(normal_domain, wanted) if await self._tenancy.tenant_of(domain) == scope]
        return tuple(dict.fromkeys(each for name in names for each in (name, unicode_domain(name))))

    async def build(self, digest: Digest, preferences: DigestPreferences) -> EmailMessage | None:
        """Return the mail of a digest; None where nothing of it is held any more."""
        lifetime = self._settings.link_lifetime * DAY
        found, count = await self._store.digests.messages(digest, self._settings.max_messages)
        if not found:
            return None
        key = await self._store.digests.current_key(lifetime)
        plan = DigestPlan(self._sender, self._base, key, now() + lifetime)
        return await asyncio.to_thread(build_digest, digest, found, max(0, count - len(found)), preferences, plan)

    async def _send_waiting(self, held: HeldJob, preferences: DigestPreferences) -> DigestRecord:
        sent = failed = 0
        message = ""
        while digests := await self._store.digests.waiting(held.job.scope, BATCH):
            for digest in digests:
                if held.is_lost:
                    return DigestRecord(now(), sent, failed, "another process took over")
                if sent + failed >= self._settings.max_recipients:
                    return DigestRecord(now(), sent, failed, "more digests wait; they follow", is_cut=True)
                fault, is_over = await self._send(digest, preferences)
                sent, failed = sent + (not fault), failed + bool(fault)
                message = fault or message
                if is_over:
                    return DigestRecord(now(), sent, failed, message)
                await self._pause(60.0 / self._settings.per_minute)
        return DigestRecord(now(), sent, failed, message)

    async def _send(self, digest: Digest, preferences: DigestPreferences) -> tuple[str, bool]:
        """Send one digest; return why it was not sent, and whether the next hop is down for all of them."""
        mail = await self.build(digest, preferences)
        if mail is None:
            await self._store.digests.drop(digest.id)
            return "", False
        domain = normal_domain(digest.address.rpartition("@")[2])
        tenants = {domain: digest.scope}
        try:
            async with asyncio.timeout(SEND_SECONDS):
                outcome = await self._routing.send(self._sender, [digest.address], mail.as_bytes(), tenants)
        except TimeoutError:
            return await self._fail(digest, "the next hop did not answer in time"), True
        except NextHopError as fault:
            return await self._fail(digest, f"the next hop {fault}"), True
        if outcome.reply.positive:
            await self._store.digests.mark_sent(digest.id, now() + self._settings.link_lifetime * DAY)
            return "", False
        refusal = f"the next hop answered {outcome.reply.code}"
        if outcome.reply.code >= 500:
            log.warning("digest refused", digest=digest.id, reason=refusal)
            await self._store.digests.mark_sent(digest.id, now(), refusal)
            return refusal, False
        return await self._fail(digest, refusal), False

    async def _fail(self, digest: Digest, fault: str) -> str:
        if digest.attempts + 1 >= MAX_ATTEMPTS:
            log.warning("digest given up", digest=digest.id, reason=fault)
            await self._store.digests.mark_sent(digest.id, now(), fault)
        else:
            pause = min(LONGEST_PAUSE, 5 * MINUTE << min(digest.attempts, 10))
            await self._store.digests.mark_failed(digest.id, now() + pause, fault)
        return fault
