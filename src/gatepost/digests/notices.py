"""Notices: mail that tells recipients of messages which somebody found, such as delivered mail that proved bad.

A notice says which messages are meant, by time, sender and subject, which of them were delivered and which are held,
what to do, and in the words of whoever sent it anything else. It has no links at all: a mail that asks people to follow
one would teach them what phishing wants. Foreign text is treated as in a digest (`gatepost.digests.mail`).

Notices go to one's own people only, by the same rule as digests, through the next hop, by the routes of other mail.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape

import msgspec

from gatepost.digests.mail import (
    ITEM_STYLE,
    MAX_SUBJECT,
    PLAIN_ADDRESS,
    Texts,
    escape_line_by_line,
    find_texts,
    isolate,
    name_sender,
    show,
)
from gatepost.digests.run import LONGEST_PAUSE, MAX_ATTEMPTS, MINUTE, SEND_SECONDS, find_own_domains
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.smtp.client import Tenancy
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import Routing
from gatepost.store.digests import DigestPreferences
from gatepost.store.message_records import MessageRecord
from gatepost.store.recipient_notices import RecipientNotice
from gatepost.store.store import Store
from gatepost.times import now

BATCH = 50
OUTSIDE = "the address is in no domain of the tenant"
GONE = "none of the messages is on record any more"

log = Logger("gatepost.notices")


class ToldMessage(msgspec.Struct, frozen=True):
    """A message as a notice lists it; `is_delivered` says whether the recipient has it."""

    record: MessageRecord
    is_delivered: bool


class _Line(msgspec.Struct, frozen=True):
    time: str
    sender: str
    subject: str
    state: str


def build_notice(
    notice: RecipientNotice, messages: Sequence[ToldMessage], preferences: DigestPreferences, sender: str
) -> EmailMessage:
    """Return the mail of a notice. Only the listed messages that are still on record are given."""
    texts, zone = find_texts(preferences.language), preferences.time_zone
    lines = [_describe(each, texts, preferences) for each in messages]
    left_out = max(0, notice.number - len(lines))
    advice = [
        *([texts.say("notice_delivered")] if any(each.is_delivered for each in messages) else []),
        *([texts.say("notice_held")] if any(not each.is_delivered for each in messages) else []),
    ]
    more = texts.say("notice_more", count=left_out) if left_out else ""
    domain = sender.rpartition("@")[2]
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    # An address that a header cannot have without help stands in the envelope alone.
    message["To"] = notice.address if PLAIN_ADDRESS.fullmatch(notice.address) else "undisclosed-recipients:;"
    message["Subject"] = texts.say("notice_subject")
    message["Date"] = format_datetime(datetime.now(zone))
    message["Message-ID"] = f"<notice-{notice.id}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    parts = (advice, escape_line_by_line(notice.said), lines, more, texts.say("footer", zone=preferences.zone or "UTC"))
    message.set_content(_write_text(texts, *parts), cte="quoted-printable")
    message.add_alternative(_write_html(texts, *parts), subtype="html", cte="quoted-printable")
    message["Content-Language"] = texts.code
    return message


def _describe(each: ToldMessage, texts: Texts, preferences: DigestPreferences) -> _Line:
    record = each.record
    return _Line(
        texts.write_moment(record.completed, preferences.time_zone),
        name_sender(record.report, record.envelope.sender) or texts.say("no_sender"),
        show(record.report.subject, MAX_SUBJECT) or texts.say("no_subject"),
        texts.say("notice_state_delivered" if each.is_delivered else "notice_state_held"),
    )


def _write_text(texts: Texts, advice: list[str], said: str, lines: list[_Line], more: str, foot: str) -> str:
    names = [texts.say(key) for key in ("column_subject", "column_from", "notice_time", "notice_state")]
    blocks = [*advice, *([said] if said else [])]
    for line in lines:
        values = (isolate(line.subject), isolate(line.sender), line.time, line.state)
        blocks.append("\n".join(f"{name}: {value}" for name, value in zip(names, values, strict=True)))
    return "\n\n".join([*blocks, *([more] if more else []), f"-- \n{foot}"]) + "\n"


def _write_html(texts: Texts, advice: list[str], said: str, lines: list[_Line], more: str, foot: str) -> str:
    items = "".join(
        f'<div style="{ITEM_STYLE}"><strong><bdi>{escape(line.subject)}</bdi></strong><br>'
        f"{escape(texts.say('column_from'))}: <bdi>{escape(line.sender)}</bdi><br>"
        f"{escape(texts.say('notice_time'))}: {escape(line.time)}<br>"
        f"{escape(texts.say('notice_state'))}: {escape(line.state)}</div>"
        for line in lines
    )
    words = "".join(f'<p dir="auto">{escape(each)}</p>' for each in (*advice, *said.split("\n"), more) if each)
    return (
        f'<!doctype html><html lang="{texts.code}" dir="{texts.direction}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(texts.say('notice_subject'))}</title></head>"
        f'<body dir="{texts.direction}" style="font-family:sans-serif;line-height:1.4;max-width:45em">'
        f'<h1 style="font-size:20px">{escape(texts.say("notice_subject"))}</h1>'
        f'{words}{items}<p style="font-size:13px"><bdi>{escape(foot)}</bdi></p></body></html>'
    )


async def find_told(store: Store, ggrids: Sequence[str], scope: str | None) -> list[ToldMessage]:
    """Return those of the messages of a scope that are on record, with what became of each. What came through the scan
    page is left out: nobody got it."""
    states = await store.quarantine.states(ggrids)
    found = []
    for ggrid in ggrids:
        record = await store.messages.find(ggrid)
        if record is None:
            held = await store.quarantine.find_or_deleted(ggrid, scope)
            record = held.record if held else None
        if record and record.envelope.tenant == scope and not record.is_trial:
            state = states.get(record.ggrid)
            is_delivered = state == "released" if state else record.report.decision == "deliver"
            found.append(ToldMessage(record, is_delivered))
    return found


class NoticeSender:
    """Sends notices that are due. `tenants` are those of domains in `guard.yml`, `pause` is what waits between two
    mails, of which `per_minute` are sent."""

    def __init__(
        self,
        store: Store,
        routing: Routing,
        tenancy: Tenancy,
        sender: str,
        tenants: Mapping[str, str],
        per_minute: int,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._routing, self._tenancy, self._sender = store, routing, tenancy, sender
        self._tenants, self._rest, self._pause = tenants, 60.0 / per_minute, pause

    async def run(self) -> tuple[int, int]:
        """Send what is due; return how many notices were sent, and how many were not. It ends when the next hop does
        not answer: the others come later."""
        sent = failed = 0
        while due := await self._store.recipient_notices.due(BATCH):
            for notice in due:
                if not await self._store.recipient_notices.claim(notice):
                    continue
                fault, is_over = await self._send(notice)
                sent, failed = sent + (not fault), failed + bool(fault)
                if is_over:
                    return sent, failed
                await self._pause(self._rest)
        return sent, failed

    async def _send(self, notice: RecipientNotice) -> tuple[str, bool]:
        """Send one notice; return why it was not sent, and whether the next hop is down for all of them."""
        preferences = (await self._store.digests.scope(notice.scope)).preferences
        # A tenant may want digests for some of its domains; a notice is for all of them.
        narrowed = preferences.domains if notice.scope is None else ()
        domains = await find_own_domains(self._store, self._tenancy, self._tenants, notice.scope, narrowed)
        domain = notice.address.rpartition("@")[2]
        if domain not in domains:
            return await self._give_up(notice, OUTSIDE), False
        messages = await find_told(self._store, notice.items, notice.scope)
        if not messages:
            return await self._give_up(notice, GONE), False
        mail = await asyncio.to_thread(build_notice, notice, messages, preferences, self._sender)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                tenants = {normal_domain(domain): notice.scope}
                outcome = await self._routing.send(self._sender, [notice.address], mail.as_bytes(), tenants)
        except TimeoutError:
            return await self._fail(notice, "the next hop did not answer in time"), True
        except NextHopError as fault:
            return await self._fail(notice, f"the next hop {fault}"), True
        if outcome.reply.positive:
            await self._store.recipient_notices.mark_sent(notice.id)
            return "", False
        refusal = f"the next hop answered {outcome.reply.code}"
        if outcome.reply.code >= 500:
            return await self._give_up(notice, refusal), False
        return await self._fail(notice, refusal), False

    async def _give_up(self, notice: RecipientNotice, fault: str) -> str:
        log.warning("notice given up", notice=notice.id, reason=fault)
        await self._store.recipient_notices.mark_sent(notice.id, fault)
        return fault

    async def _fail(self, notice: RecipientNotice, fault: str) -> str:
        if notice.attempts + 1 >= MAX_ATTEMPTS:
            return await self._give_up(notice, fault)
        pause = min(LONGEST_PAUSE, 5 * MINUTE << min(notice.attempts, 10))
        await self._store.recipient_notices.mark_failed(notice.id, now() + pause, fault)
        return fault
