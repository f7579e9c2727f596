"""What of a message could go into a list: each leads to the form of that list with the entry filled in.

The form shows what the entry would have done to the last messages before it is saved, so nothing is blocked by one
careless click.

A decision that was wrong: on record for everybody, and kept to learn from where somebody of the deployment says so.

Only held mail can be kept, since no other bytes are there. What a tenant's own people report teaches nothing by itself:
one tenant must not be able to train everybody's filter.

Messages on record: searching them, and the page of one, which is its ledger.

Sentences come first, then every finding with its evidence. The message itself is only there while it is held; then it
is shown as plain text that a sealed worker made of it, with dead links, and pictures only by choice.

A message on record, judged again with the policy and the lists of today, line by line beside what was said then.
"""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from gatepost.abby.core_state import Down
from gatepost.api.errors import CORE_UNAVAILABLE, NOT_FOUND, Failure
from gatepost.ids import canonical
from gatepost.lists.hosts import split_url
from gatepost.lists.subjects import Role
from gatepost.policy.rules import VERDICTS
from gatepost.rejudge.dry_run import replay_record
from gatepost.report import Line, Report
from gatepost.scanning.held_mail import NotHeld
from gatepost.store.feedback import Correction
from gatepost.store.held_mail import HeldMessage
from gatepost.store.message_search import MessageFilter
from gatepost.store.messages import MessageRecord
from gatepost.view.values import NotShown, View
from gatepost.web.context import WebContext, scopes
from gatepost.web.forms import parse_period
from gatepost.web.request import GLOBAL, NOT_HERE, SignedInRequest
from gatepost.web.responses import download_response, html_response, image_response, redirect
from gatepost.web.site import Page, Row

MAX_OF_A_ROLE = 8


class EntryLink(msgspec.Struct, frozen=True):
    """One entry, what it is, and where it can be blocked or allowed."""

    what: str
    entry: str
    block: str
    allow: str


def entry_links(report: Report, scope: str | None) -> list[EntryLink]:
    """Sender, its domain, host, link hosts and files, each once."""
    found: dict[tuple[str, str], EntryLink] = {}
    for what, entry, lists in _candidates(report):
        block, allow = (_path(scope, name, entry) for name in lists)
        found.setdefault((what, entry), EntryLink(what, entry, block, allow))
    return list(found.values())


def _candidates(report: Report) -> Iterator[tuple[str, str, tuple[str, str]]]:
    senders = ("blocked-senders", "allowed-senders")
    roles: tuple[Role, ...] = ("from", "envelope")
    for role in roles:
        for address in _values(report, role):
            yield "sender", address, senders
            if domain := address.rpartition("@")[2]:
                yield "sender's domain", domain, senders
    for host in _values(report, "host"):
        yield "sending host", host, ("blocked-ips", "allowed-ips")
    for link in _values(report, "link"):
        if parts := split_url(link):
            yield "host of a link", parts[0], ("blocked-urls", "allowed-urls")
    for digest in _values(report, "file"):
        yield "file", digest, ("blocked-files", "allowed-files")


def _values(report: Report, role: Role) -> list[str]:
    return [subject.value for subject in report.subjects if subject.role == role][:MAX_OF_A_ROLE]


def _path(scope: str | None, name: str, entry: str) -> str:
    return f"/lists/{scope or GLOBAL}/{name}?{urlencode({'add': entry}, errors='replace')}#add"


SAYS: dict[str, Correction] = {"deliver": "should have been delivered", "hold": "should have been held"}


async def reported(desk: WebContext, visit: SignedInRequest, ggrid: str, word: str) -> bool:
    """Put it on record; False where there is no such message for the visitor."""
    if not await desk.store.report_wrong(ggrid, SAYS[word], visit.actor, visit.user.tenant):
        return False
    if visit.user.tenant is None:
        raw = await desk.held_mail.export(ggrid, visit.actor)
        if isinstance(raw, bytes):
            await asyncio.to_thread(desk.installation.learn, raw, word == "deliver")
    return True


ROWS_ON_A_PAGE = 100
DECISIONS = ("deliver", "quarantine", "bounce", "drop", "undecided")
NO_CORE = Failure(CORE_UNAVAILABLE, "the core that has this message does not answer; try again in a moment")
REASONS = 6


class Found(msgspec.Struct, frozen=True):
    """A message on record, and its place in the quarantine if it has one."""

    record: MessageRecord
    held: HeldMessage | None

    @property
    def is_held(self) -> bool:
        return self.held is not None and self.held.state != "released"


async def search(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Messages that fit, newest first."""
    wanted = _filter(visit)
    if isinstance(wanted, Failure):
        return wanted
    asked = visit.query
    if wanted.ggrid and (ggrid := canonical(wanted.ggrid)):
        return redirect(f"/messages/{ggrid}")
    page = await desk.store.search_messages(wanted, asked.text("before", 200) or None, ROWS_ON_A_PAGE)
    return html_response(
        desk.renderer.page(
            "messages.html",
            visit,
            here="/messages",
            page=page,
            asked=asked,
            scopes=await scopes(desk, visit),
            verdicts=VERDICTS,
            decisions=DECISIONS,
            narrowed=asked.narrows,
        )
    )


def _filter(visit: SignedInRequest) -> MessageFilter | Failure:
    asked, tenant = visit.query, visit.tenant()
    if isinstance(tenant, Failure):
        return tenant
    when = parse_period(asked)
    if isinstance(when, Failure):
        return when
    return MessageFilter(
        tenant=tenant,
        since=when.since,
        until=when.until,
        sender=asked.text("sender", 320) or None,
        recipient=asked.text("recipient", 320) or None,
        subject=asked.text("subject", 200) or None,
        verdict=asked.text("verdict", 40) or None,
        decision=asked.text("decision", 40) or None,
        tag=asked.text("tag", 200) or None,
        ggrid=asked.text("ggrid", 60) or None,
    )


async def find(desk: WebContext, visit: SignedInRequest) -> Found | Failure:
    """The message that the path names, if it is the visitor's to see."""
    ggrid = canonical(visit.part("ggrid"))
    if ggrid is None:
        return NOT_HERE
    held = await desk.store.held(ggrid, visit.user.tenant)
    record = await desk.store.message(ggrid) or (held.record if held else None)
    if record is None or (visit.user.tenant and record.envelope.tenant != visit.user.tenant):
        return NOT_HERE
    return Found(record, held)


async def show_message(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """One message: its ledger."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    return html_response(await page(desk, visit, found))


async def page(desk: WebContext, visit: SignedInRequest, found: Found, *, fault: str = "") -> str:
    """The page of a message."""
    record, report = found.record, found.record.report
    seen = await desk.held_mail.look(record.ggrid, visit.user.tenant) if found.is_held else NotHeld()
    return desk.renderer.page(
        "message.html",
        visit,
        here="/messages",
        record=record,
        report=report,
        held=found.held,
        is_held=found.is_held,
        reasons=reasons(report),
        silent=[line for line in report.lines if not line.counted and not line.conclusive],
        seen=seen if isinstance(seen, View) else None,
        unseen=_unseen(found, seen),
        links=[subject for subject in report.subjects if subject.role == "link"][:500],
        entry_links=_entry_links(visit, found),
        notes=tuple(dict.fromkeys(msgspec.structs.replace(note, where="") for note in report.lists)),
        scopes=await scopes(desk, visit),
        picture=visit.query.text("picture", 6),
        fault=fault,
    )


def reasons(report: Report) -> list[Line]:
    """The lines that led to the verdict, each kind once: first those that speak for it, the heaviest first."""
    counted = (line for line in report.lines if line.counted > 0 or line.conclusive)
    ordered = sorted(counted, key=lambda line: (line.verdict != report.verdict, not line.conclusive, -line.counted))
    each: dict[str, Line] = {}
    for line in ordered:
        each.setdefault(line.kind, line)
    return list(each.values())[:REASONS]


def _unseen(found: Found, seen: object) -> str:
    """Why there is no text to look at."""
    if isinstance(seen, NotShown):
        return f"The message could not be shown: {seen.reason}."
    if isinstance(seen, Down):
        return "The core that has the message does not answer."
    if found.held and found.held.state == "released":
        return "The message was released; its text is no longer here."
    return "Only held messages are kept. Of this one there is the ledger."


def _entry_links(visit: SignedInRequest, found: Found) -> list[EntryLink]:
    if not visit.may("lists.change"):
        return []
    scope = visit.user.tenant or found.record.envelope.tenant
    return entry_links(found.record.report, scope)


async def picture(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """One picture of a held message, drawn anew."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    index = visit.part("index")
    if not (index.isascii() and index.isdigit()) or len(index) > 3:
        return NOT_HERE
    drawn = await desk.held_mail.picture(found.record.ggrid, int(index), visit.user.tenant)
    if isinstance(drawn, Down):
        return NO_CORE
    if isinstance(drawn, NotHeld | NotShown):
        return Failure(NOT_FOUND, "this picture cannot be shown")
    return image_response(drawn.png)


async def export(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """The message as it came, as a file; that it was taken is on record."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    raw = await desk.held_mail.export(found.record.ggrid, visit.actor, visit.user.tenant)
    if isinstance(raw, Down):
        return NO_CORE
    if isinstance(raw, NotHeld):
        return NOT_HERE
    return download_response(raw, f"{found.record.ggrid}.eml", "application/octet-stream")


async def report(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Say that a decision was wrong."""
    found, word = await find(desk, visit), visit.form.text("says")
    if isinstance(found, Failure) or word not in SAYS:
        return NOT_HERE
    await reported(desk, visit, found.record.ggrid, word)
    return redirect(f"/messages/{found.record.ggrid}?done=reported")


MESSAGE_PAGES: tuple[Row, ...] = (
    Page("GET", "/messages", search, "messages.read"),
    Page("GET", "/messages/{ggrid}", show_message, "messages.read"),
    Page("GET", "/messages/{ggrid}/picture/{index}", picture, "messages.read"),
    Page("POST", "/messages/{ggrid}/export", export, "quarantine.act"),
    Page("POST", "/messages/{ggrid}/report", report, "messages.report"),
)


async def show_replay(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Then and now."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    comparison = await replay_record(desk.store, found.record, desk.policies)
    return html_response(
        desk.renderer.page("replay.html", visit, here="/messages", record=found.record, comparison=comparison)
    )


REPLAY_PAGES: tuple[Row, ...] = (Page("GET", "/messages/{ggrid}/replay", show_replay, "messages.read"),)
