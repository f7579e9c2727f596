"""Messages on record: searching them, and the page of one, which is its ledger.

Sentences come first, then every finding with its evidence. The message itself is only there while it is held; then it
is shown as plain text that a sealed worker made of it, with dead links, and pictures only by choice.
"""

import msgspec
from starlette.responses import Response

from gatepost.abby.place import Down
from gatepost.abby.web.answers import download, html, image, see
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.entrylinks import EntryLink, entry_links
from gatepost.abby.web.reporting import SAYS, reported
from gatepost.abby.web.scopes import scopes
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.times import period
from gatepost.abby.web.visit import NOT_HERE, Visit
from gatepost.analysis import Report
from gatepost.api.errors import CORE_UNAVAILABLE, NOT_FOUND, Failure
from gatepost.guard.holding import NotHeld
from gatepost.ids import canonical
from gatepost.policy import VERDICTS
from gatepost.store.held_mail import HeldMessage
from gatepost.store.message_search import MessageFilter
from gatepost.store.messages import MessageRecord
from gatepost.verdict import Line
from gatepost.view.shown import NotShown, View

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


async def search(desk: Desk, visit: Visit) -> Response | Failure:
    """Messages that fit, newest first."""
    wanted = _filter(visit)
    if isinstance(wanted, Failure):
        return wanted
    asked = visit.query
    if wanted.ggrid and (ggrid := canonical(wanted.ggrid)):
        return see(f"/messages/{ggrid}")
    page = await desk.store.search_messages(wanted, asked.text("before", 200) or None, ROWS_ON_A_PAGE)
    return html(
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


def _filter(visit: Visit) -> MessageFilter | Failure:
    asked, tenant = visit.query, visit.tenant()
    if isinstance(tenant, Failure):
        return tenant
    when = period(asked)
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


async def find(desk: Desk, visit: Visit) -> Found | Failure:
    """The message that the path names, if it is the visitor's to see."""
    ggrid = canonical(visit.part("ggrid"))
    if ggrid is None:
        return NOT_HERE
    held = await desk.store.held(ggrid, visit.user.tenant)
    record = await desk.store.message(ggrid) or (held.record if held else None)
    if record is None or (visit.user.tenant and record.envelope.tenant != visit.user.tenant):
        return NOT_HERE
    return Found(record, held)


async def show(desk: Desk, visit: Visit) -> Response | Failure:
    """One message: its ledger."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    return html(await page(desk, visit, found))


async def page(desk: Desk, visit: Visit, found: Found, *, fault: str = "") -> str:
    """The page of a message."""
    record, report = found.record, found.record.report
    seen = await desk.room.look(record.ggrid, visit.user.tenant) if found.is_held else NotHeld()
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


def _entry_links(visit: Visit, found: Found) -> list[EntryLink]:
    if not visit.may("lists.change"):
        return []
    scope = visit.user.tenant or found.record.envelope.tenant
    return entry_links(found.record.report, scope)


async def picture(desk: Desk, visit: Visit) -> Response | Failure:
    """One picture of a held message, drawn anew."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    index = visit.part("index")
    if not (index.isascii() and index.isdigit()) or len(index) > 3:
        return NOT_HERE
    drawn = await desk.room.picture(found.record.ggrid, int(index), visit.user.tenant)
    if isinstance(drawn, Down):
        return NO_CORE
    if isinstance(drawn, NotHeld | NotShown):
        return Failure(NOT_FOUND, "this picture cannot be shown")
    return image(drawn.png)


async def export(desk: Desk, visit: Visit) -> Response | Failure:
    """The message as it came, as a file; that it was taken is on record."""
    found = await find(desk, visit)
    if isinstance(found, Failure):
        return found
    raw = await desk.room.export(found.record.ggrid, visit.actor, visit.user.tenant)
    if isinstance(raw, Down):
        return NO_CORE
    if isinstance(raw, NotHeld):
        return NOT_HERE
    return download(raw, f"{found.record.ggrid}.eml", "application/octet-stream")


async def report(desk: Desk, visit: Visit) -> Response | Failure:
    """Say that a decision was wrong."""
    found, word = await find(desk, visit), visit.form.text("says")
    if isinstance(found, Failure) or word not in SAYS:
        return NOT_HERE
    await reported(desk, visit, found.record.ggrid, word)
    return see(f"/messages/{found.record.ggrid}?done=reported")


ROWS: tuple[Row, ...] = (
    Page("GET", "/messages", search, "messages.read"),
    Page("GET", "/messages/{ggrid}", show, "messages.read"),
    Page("GET", "/messages/{ggrid}/picture/{index}", picture, "messages.read"),
    Page("POST", "/messages/{ggrid}/export", export, "quarantine.act"),
    Page("POST", "/messages/{ggrid}/report", report, "messages.report"),
)
