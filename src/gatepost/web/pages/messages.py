"""Messages on record: search, the page of one message with its ledger, reports of wrong decisions, re-evaluation.

The page of a message gives the reasons first, then every finding with its evidence. The message itself is only stored
while it is held; it is shown as plain text that a sealed worker made of it, without links, and with pictures only on
request. Each sender, host and file leads to the form of a list with the entry filled in; the form previews the effect
before anything is saved.

A reported message is kept to learn from if it is held and the reporter acts for the whole deployment: one tenant must
not be able to train the filter of all.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from gatepost.abby.core_state import Down
from gatepost.abby.held_mail import explain_absence
from gatepost.abby.message_timelines import describe_timeline
from gatepost.api.errors import CORE_UNAVAILABLE, NOT_FOUND, Failure
from gatepost.ids import canonical, id_prefix
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.links import split_url
from gatepost.lists.subjects import Role
from gatepost.policy.rules import VERDICTS
from gatepost.rejudge.dry_run import replay_record
from gatepost.report import ListNote, Report, shown_sender
from gatepost.scanning.held_mail import ExportOrder, NotHeld, PictureOrder, ViewOrder
from gatepost.store.feedback import Correction
from gatepost.store.message_records import MessageRecord
from gatepost.store.messages import MessageSummary
from gatepost.store.quarantine import HeldMessage
from gatepost.times import milliseconds
from gatepost.view.values import NotShown, View
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import LAST_PERIODS
from gatepost.web.held_places import find_neighbours, list_of, tail_of
from gatepost.web.message_lines import attachments, defang, headline, is_body, links_by_host, strongest_lines
from gatepost.web.page_responses import html_response, image_response, redirect
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.search_fields import DECISIONS, MORE_FIELDS, SORTS, parse_message_filter

MAX_PER_ROLE = 8


class EntryLink(msgspec.Struct, frozen=True):
    """One possible list entry, what it is, and the URLs of the forms that block or allow it."""

    what: str
    entry: str
    block: str
    allow: str


def entry_links(report: Report, ggrid: str, place: str = "") -> list[EntryLink]:
    """Return links for sender, sender's domain, sending host, link hosts and files, each once; `place` is where the
    message stands (`held_places`)."""
    found: dict[tuple[str, str], EntryLink] = {}
    for what, entry, lists in _entry_candidates(report):
        block, allow = (_entry_form_path(ggrid, name, entry) + place.replace("?", "&", 1) for name in lists)
        found.setdefault((what, entry), EntryLink(what, entry, block, allow))
    return list(found.values())


def _entry_candidates(report: Report) -> Iterator[tuple[str, str, tuple[str, str]]]:
    senders = ("blocked-senders", "allowed-senders")
    roles: tuple[Role, ...] = ("from", "envelope")
    for role in roles:
        for address in _values_of_role(report, role):
            yield "sender", address, senders
            if domain := address.rpartition("@")[2]:
                yield "sender's domain", domain, senders
    for host in _values_of_role(report, "host"):
        yield "sending host", host, ("blocked-ips", "allowed-ips")
    for link in _values_of_role(report, "link"):
        if parts := split_url(link):
            yield "link host", parts[0], ("blocked-urls", "allowed-urls")
    for digest in _values_of_role(report, "file"):
        yield "file", digest, ("blocked-files", "allowed-files")


def _values_of_role(report: Report, role: Role) -> list[str]:
    return [subject.value for subject in report.subjects if subject.role == role][:MAX_PER_ROLE]


def _entry_form_path(ggrid: str, name: str, entry: str) -> str:
    return f"/messages/{ggrid}/entry?{urlencode({'list': name, 'entry': entry}, errors='replace')}"


CORRECTIONS: dict[str, Correction] = {"deliver": "should have been delivered", "hold": "should have been held"}


async def report_wrong_decision(context: WebContext, request: SignedInRequest, ggrid: str, word: str) -> bool:
    """Record that a decision was wrong; return False where there is no such message for the user."""
    if not await context.store.feedback.report_wrong(ggrid, CORRECTIONS[word], request.actor, request.user.tenant):
        return False
    if request.user.tenant is None:
        raw = await context.held_mail.carry_out(ExportOrder(ggrid, by=request.actor, for_learning=True))
        if isinstance(raw, bytes):
            await asyncio.to_thread(context.installation.learn, raw, word == "deliver")
    return True


ROWS_ON_A_PAGE = 100
# How many results are sorted by something else than time.
SORTED_ROWS = 1_000
SORT_KEYS: dict[str, Callable[[MessageSummary], Any]] = {
    "score": lambda row: -row.score,
    "sender": lambda row: row.sender.casefold(),
}


class MessageOnRecord(msgspec.Struct, frozen=True):
    """A message on record, and its record in the quarantine if it has one."""

    record: MessageRecord
    held: HeldMessage | None

    @property
    def is_held(self) -> bool:
        return self.held is not None and self.held.state in ("held", "releasing")


async def show_messages(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Search messages, newest first, or the newest thousand by score or sender."""
    wanted = parse_message_filter(request, context.now())
    if isinstance(wanted, Failure):
        return wanted
    query = request.query
    ggrid = id_prefix(wanted.ggrid or wanted.anywhere or "")
    if ggrid and canonical(ggrid):
        return redirect(f"/messages/{ggrid}")
    sort = query.text("sort", 20) or "newest"
    limit = ROWS_ON_A_PAGE if sort == "newest" else SORTED_ROWS
    page = await context.store.messages.search(wanted, query.text("before", 200) or None, limit)
    rows = sorted(page.rows, key=SORT_KEYS[sort]) if sort in SORT_KEYS else page.rows
    return html_response(
        await context.renderer.render_in_turns(
            "messages.html",
            request,
            here="/messages",
            page=page,
            rows=rows,
            heads=await context.store.messages.heads([row.ggrid for row in rows]),
            count=await context.store.messages.count(wanted) if query.is_filtered and page.rows else None,
            query=query,
            scopes=await find_scopes(context, request),
            verdicts=VERDICTS,
            decisions=DECISIONS,
            sorts=SORTS,
            is_sorted=sort in SORT_KEYS,
            sorted_rows=limit,
            periods=LAST_PERIODS,
            has_more=any(query.has(name) for name in MORE_FIELDS),
            searches=[
                each for each in await context.store.users.saved_searches(request.user.uid) if each.page == "/messages"
            ],
            narrowed=query.is_filtered,
        )
    )


async def find_message(context: WebContext, request: SignedInRequest) -> MessageOnRecord | Failure:
    """Return the message that the path names, if the user may see it."""
    ggrid = canonical(request.path_part("ggrid"))
    if ggrid is None:
        return NOT_VISIBLE
    held = await context.store.quarantine.find_or_deleted(ggrid, request.user.tenant)
    record = await context.store.messages.find(ggrid) or (held.record if held else None)
    if record is None or (request.user.tenant and record.envelope.tenant != request.user.tenant):
        return NOT_VISIBLE
    return MessageOnRecord(record, held)


async def show_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show one message with its ledger."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    return html_response(await render_message(context, request, found))


async def render_message(
    context: WebContext, request: SignedInRequest, found: MessageOnRecord, *, fault: str = ""
) -> str:
    """Render the page of a message."""
    record, report = found.record, found.record.report
    order = ViewOrder(record.ggrid, request.user.tenant)
    view = await context.held_mail.carry_out(order) if found.is_held else NotHeld()
    if isinstance(view, View):
        await context.store.audit.note_view(record.ggrid, record.envelope.tenant, request.actor)
    way = await context.store.messages.timeline(record.ggrid, request.user.tenant)
    return await context.renderer.render_in_turns(
        "message.html",
        request,
        here="/messages",
        record=record,
        report=report,
        held=found.held,
        having=await context.store.quarantine.recipient_releases(record.ggrid) if found.held else (),
        is_held=found.is_held,
        headline=headline(report),
        sender=shown_sender(report, record.envelope.sender),
        reasons=strongest_lines(report),
        hosts=links_by_host(report),
        attachments=attachments(report),
        defang=defang,
        said=await context.store.feedback.state(record.ggrid, request.user.tenant),
        neighbours=await find_neighbours(context, request, found.held) if found.held else None,
        place=tail_of(request),
        list_path=list_of(request),
        timeline=describe_timeline(way, shows_hosts=request.user.tenant is None) if way else None,
        milliseconds=milliseconds,
        silent=[line for line in report.lines if not line.counted and not line.conclusive],
        view=view if isinstance(view, View) else None,
        missing_text=_explain_missing_text(request, found, view),
        entry_links=_entry_links(request, found),
        files=[file for file in report.files if not is_body(file)],
        bodies=[file for file in report.files if is_body(file)],
        note_owner=partial(_note_owner, request, record),
        list_names={name: each.display_name for name, each in BY_NAME.items()},
        notes=tuple(dict.fromkeys(msgspec.structs.replace(note, where="") for note in report.lists)),
        scopes=await find_scopes(context, request),
        picture=request.query.text("picture", 6),
        fault=fault,
    )


def _note_owner(request: SignedInRequest, record: MessageRecord, note: ListNote) -> str:
    """Return the scope of the list that a note is about, as paths name it; "" where the user cannot open it."""
    if not request.may("lists.read"):
        return ""
    if note.scope == "tenant":
        return record.envelope.tenant or ""
    return "" if request.user.tenant else GLOBAL


def core_is_away(request: SignedInRequest, down: Down) -> Failure:
    """Return the failure of a page that needs the bytes of a message; whoever may see the cores is told which one."""
    said = explain_absence(down, named=request.may("system.read"))
    return Failure(CORE_UNAVAILABLE, f"{said}; try again in a moment")


def _explain_missing_text(request: SignedInRequest, found: MessageOnRecord, view: object) -> str:
    """Return why the text of the message is not shown."""
    if isinstance(view, NotShown):
        return f"The message cannot be shown: {view.reason}."
    if isinstance(view, Down):
        said = explain_absence(view, named=request.may("system.read"))
        return f"The message is held, but {said}."
    if found.held and found.held.state == "released":
        return "The message was released; its content is no longer stored."
    if found.held and found.held.state == "deleted":
        return "The message was deleted. While it can be restored, its content is stored but not shown."
    if found.record.is_trial:
        return "The content of a trial is not stored."
    return "The content of this message is not stored; only held messages are."


def _entry_links(request: SignedInRequest, found: MessageOnRecord) -> list[EntryLink]:
    if not request.may("lists.change"):
        return []
    return entry_links(found.record.report, found.record.ggrid, tail_of(request))


async def show_picture(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Send one picture of a held message, drawn anew."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    index = request.path_part("index")
    if not (index.isascii() and index.isdigit()) or len(index) > 3:
        return NOT_VISIBLE
    order = PictureOrder(found.record.ggrid, request.user.tenant, index=int(index))
    drawn = await context.held_mail.carry_out(order)
    if isinstance(drawn, Down):
        return core_is_away(request, drawn)
    if isinstance(drawn, NotHeld | NotShown):
        return Failure(NOT_FOUND, "this picture cannot be shown")
    await context.store.audit.note_view(found.record.ggrid, found.record.envelope.tenant, request.actor)
    return image_response(drawn.png)


async def report_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Report that the decision on a message was wrong."""
    found, word = await find_message(context, request), request.form.text("says")
    if isinstance(found, Failure) or word not in CORRECTIONS:
        return NOT_VISIBLE
    await report_wrong_decision(context, request, found.record.ggrid, word)
    return redirect(f"/messages/{found.record.ggrid}{tail_of(request)}", notice="reported")


async def show_reevaluation(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Compare the decision on record with the one that the policy and the lists of today would lead to."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    comparison = await replay_record(context.store, found.record, context.policies)
    return html_response(
        await context.renderer.render_in_turns(
            "replay.html",
            request,
            here="/messages",
            record=found.record,
            comparison=comparison,
            place=tail_of(request),
        )
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/messages", show_messages, "messages.read", "search"),
    PageRoute("GET", "/messages/{ggrid}", show_message, "messages.read"),
    PageRoute("GET", "/messages/{ggrid}/picture/{index}", show_picture, "messages.read"),
    PageRoute("POST", "/messages/{ggrid}/report", report_message, "messages.report"),
    PageRoute("GET", "/messages/{ggrid}/replay", show_reevaluation, "messages.read"),
)
