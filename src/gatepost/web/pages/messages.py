"""Messages on record: search, the page of one message with its ledger, and its source.

The page of a message gives the reasons first, then every finding with its evidence. The message itself is only stored
while it is held; it is shown as plain text that a sealed worker made of it, without links, and with pictures only on
request.

A reported message is kept to learn from if it is held and the reporter acts for the whole deployment: one tenant must
not be able to train the filter of all.

The source is what an analyst looks at when the ledger does not suffice. Of held mail there is the whole message, of
other mail the header section that is kept with its record. Both are shown as text that nothing acts in: bytes that are
no UTF-8, control characters and characters that turn text round are written out. Every reading of held mail, and every
file of it, is put on record. A file is the message as it came, or a zip file with a password, so that no virus scanner
on the way deletes it and no mail program opens it.

The scan page analyses an uploaded message like one sent to the API, and records it as a trial. Its user makes up the
message and its envelope, so it is no mail: it is neither counted nor held nor learnt from, and it is no sighting of a
campaign.
"""

import asyncio
import hmac
import secrets
import sys
import time
import zlib
from array import array
from collections.abc import Callable
from functools import partial
from hashlib import pbkdf2_hmac
from struct import Struct
from typing import Any

import msgspec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from markupsafe import Markup, escape
from starlette.responses import Response

from gatepost.abby.cores import Down
from gatepost.abby.held_mail import explain_absence
from gatepost.abby.messages import describe_timeline
from gatepost.abby.scan import MILLISECOND, read_parameters
from gatepost.analysis.report import ListNote, shown_sender
from gatepost.api.errors import CORE_UNAVAILABLE, EMPTY_EMAIL, INVALID_REQUEST, NOT_FOUND, Failure
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.api.scanning import MAX_BODY
from gatepost.ids import canonical, id_prefix, new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.policy.rules import VERDICTS
from gatepost.rejudge.try_change import NOTHING, try_on
from gatepost.scanning.held_mail import ExportOrder, HtmlOrder, NotHeld, PictureOrder, ViewOrder
from gatepost.scanning.request import ScanRequest
from gatepost.scanning.spool import SpooledBody
from gatepost.store.feedback import Before, Correction
from gatepost.store.found_values import FoundValues
from gatepost.store.message_records import MessageRecord
from gatepost.store.messages import MessageSummary
from gatepost.store.paging import MessageCount, Page
from gatepost.store.quarantine import HeldMessage
from gatepost.store.record_packing import is_cut
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.search_language import DECISIONS
from gatepost.times import milliseconds
from gatepost.view.values import NotShown, View, write_page
from gatepost.web.charts import describe_found
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import whole_number
from gatepost.web.message_lines import (
    attachments,
    compare_messages,
    defang,
    entry_links,
    headline,
    is_body,
    links_by_host,
    strongest_lines,
)
from gatepost.web.message_search import Search, describe_search, find_neighbours, for_messages, list_of, tail_of
from gatepost.web.page_responses import (
    FRAMING,
    download_response,
    html_response,
    image_response,
    mail_response,
    redirect,
    with_status,
)
from gatepost.web.rendering import write_out
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, UploadRoute, WebRoute, about

CORRECTIONS: dict[str, Correction] = {"deliver": "should have been delivered", "hold": "should have been held"}


async def report_wrong_decision(context: WebContext, request: SignedInRequest, ggrid: str, word: str) -> Before | None:
    """Record that a decision was wrong; return what was said before, None where there is no such message for the
    user."""
    noted = await context.store.feedback.report_wrong(ggrid, CORRECTIONS[word], request.actor, request.user.tenant)
    if noted is None:
        return None
    if request.user.tenant is None:
        raw = await context.held_mail.carry_out(ExportOrder(ggrid, by=request.actor, for_learning=True))
        if isinstance(raw, bytes):
            await asyncio.to_thread(context.installation.learn, raw, word == "deliver")
    return noted.before


async def take_report_back(
    context: WebContext, request: SignedInRequest, ggrid: str, word: str, before: Before
) -> bool:
    """Take back a report of the user: what was before holds again. Return False where the message is gone."""
    says, tenant = CORRECTIONS[word], request.user.tenant
    if not await context.store.feedback.take_back(ggrid, says, before, request.actor, tenant):
        return False
    if tenant is None:
        found = await _find_one(context, request, ggrid)
        wanted = {"wanted": True, "unwanted": False}.get(before.mark)
        if not isinstance(found, Failure):
            await asyncio.to_thread(context.installation.unlearn, found.record.sha256, wanted)
    return True


ROWS_ON_A_PAGE = 100
# How many results are sorted by something else than time.
SORTED_ROWS = 1_000
# How many of them a page shows: a row takes 0.25 ms.
SORTED_SHOWN = 500
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


@for_messages
async def show_messages(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Search messages, newest first, or the newest thousand by score or sender. Controls of the form lead to the
    address that has the search as text."""
    query, wanted = search.form, search.messages
    if request.query.has("refine"):
        return redirect(f"/messages?{query.with_field('before', '')}".rstrip("?"))
    ggrid = id_prefix(wanted.ggrid or wanted.anywhere or "")
    if ggrid and canonical(ggrid):
        return redirect(f"/messages/{ggrid}")
    sort = query.text("sort", 20) or "newest"
    limit = ROWS_ON_A_PAGE if sort == "newest" else SORTED_ROWS
    page: Page[MessageSummary] = Page(())
    found = FoundValues()
    if not search.fault:
        page = await context.store.messages.search(wanted, query.text("before", 200) or None, limit)
        found = await context.store.messages.explore(wanted) if page.rows and not query.has("before") else found
    rows = sorted(page.rows, key=SORT_KEYS[sort])[:SORTED_SHOWN] if sort in SORT_KEYS else page.rows
    shown = await context.page(
        request,
        "messages.html",
        page=page,
        rows=rows,
        heads=await context.store.messages.heads([row.ggrid for row in rows]),
        count=await _count_found(context, wanted, found) if search.text and page.rows else None,
        verdicts=VERDICTS,
        decisions=DECISIONS,
        is_sorted=sort in SORT_KEYS,
        **await describe_search(context, request, search),
        **await describe_found(context, request, search, found),
    )
    return with_status(shown, 400) if search.fault else shown


# The newest messages of a watched search, how far back they reach, and how often they are searched for, however many
# people watch.
LIVE_ROWS = 50
LIVE_PERIOD = 3_600_000
LIVE_MILLISECONDS = 2_000
MAX_WATCHED = 200


@for_messages
async def show_live(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Show messages as they come in, of one search."""
    shown = await context.page(
        request,
        "messages-live.html",
        here="/messages",
        **await _find_live(context, request, search),
        **await describe_search(context, request, search),
    )
    return with_status(shown, 400) if search.fault else shown


@for_messages
async def show_live_rows(context: WebContext, request: SignedInRequest, search: Search) -> PageResult:
    """Show the part of the page that changes."""
    found = await _find_live(context, request, search)
    return html_response(context.renderer.render_public("messages-live-rows.html", **found))


async def _find_live(context: WebContext, request: SignedInRequest, search: Search) -> dict[str, Any]:
    """Return the newest messages of the last hour that fit."""
    now, key = context.now(), ("live", request.user.tenant, search.text)
    known: tuple[int, dict[str, Any]] | None = context.top_values.get(key)
    if known and 0 <= now - known[0] < LIVE_MILLISECONDS:
        return known[1]
    wanted = search.messages
    wanted = msgspec.structs.replace(wanted, since=max(wanted.since or 0, now - LIVE_PERIOD))
    page = Page[MessageSummary](()) if search.fault else await context.store.messages.search(wanted, None, LIVE_ROWS)
    heads = await context.store.messages.heads([row.ggrid for row in page.rows])
    found = {"rows": page.rows, "heads": heads, "more": bool(page.next), "now": now}
    if len(context.top_values) >= MAX_WATCHED:
        context.top_values.clear()
    context.top_values[key] = (now, found)
    return found


async def _count_found(context: WebContext, wanted: MessageFilter, found: FoundValues) -> MessageCount:
    """Return how many messages fit; those that were counted for the chart need not be counted again."""
    if found.counted and not found.more:
        return MessageCount(found.counted)
    return await context.store.messages.count(wanted)


async def _find_one(context: WebContext, request: SignedInRequest, written: str) -> MessageOnRecord | Failure:
    """Return the message of an id, if the user may see it."""
    ggrid = canonical(written)
    if ggrid is None:
        return NOT_VISIBLE
    held = await context.store.quarantine.find_or_deleted(ggrid, request.user.tenant)
    record = await context.store.messages.find(ggrid, request.user.tenant) or (held.record if held else None)
    return MessageOnRecord(record, held) if record else NOT_VISIBLE


for_message = about(lambda context, request: _find_one(context, request, request.path_part("ggrid")))


async def show_message(
    context: WebContext, request: SignedInRequest, found: MessageOnRecord, *, fault: str = ""
) -> Response:
    """Show one message with its ledger; `fault` says why an action on it failed."""
    record, report = found.record, found.record.report
    order = ViewOrder(record.ggrid, request.user.tenant)
    view = await context.held_mail.carry_out(order) if found.is_held else NotHeld()
    if isinstance(view, View):
        await context.store.audit.note_view(record.ggrid, record.envelope.tenant, request.actor)
    way = await context.store.messages.timeline(record.ggrid, request.user.tenant)
    reasons = strongest_lines(report)
    told = any(line.verdict == report.verdict for line in reasons)
    page = await context.page(
        request,
        "message.html",
        record=record,
        report=report,
        held=found.held,
        having=[*(await context.store.quarantine.recipient_releases(record.ggrid)).values()] if found.held else (),
        is_held=found.is_held,
        # Where the findings follow, they are the reason.
        headline=headline(report).partition(":")[0] if told else headline(report),
        sender=shown_sender(report, record.envelope.sender),
        reasons=reasons,
        hosts=links_by_host(report),
        attachments=attachments(report),
        defang=defang,
        said=await context.store.feedback.state(record.ggrid, request.user.tenant),
        neighbours=await find_neighbours(context, request, found.held) if found.held else None,
        notes_written=await context.store.message_notes.of(record.ggrid),
        place=tail_of(request),
        list_path=list_of(request),
        timeline=describe_timeline(way, shows_hosts=request.user.tenant is None) if way else None,
        milliseconds=milliseconds,
        silent=[line for line in report.lines if not line.counted and not line.conclusive],
        view=view if isinstance(view, View) else None,
        missing_text=_explain_missing_text(request, found, view),
        entry_links=entry_links(report, record.ggrid, tail_of(request)) if request.may("lists.change") else [],
        files=[file for file in report.files if not is_body(file)],
        bodies=[file for file in report.files if is_body(file)],
        note_owner=partial(_note_owner, request, record),
        list_names={name: each.display_name for name, each in BY_NAME.items()},
        notes=tuple(dict.fromkeys(msgspec.structs.replace(note, where="") for note in report.lists)),
        scopes=await find_scopes(context, request),
        picture=request.query.text("picture", 6),
        fault=fault,
    )
    if isinstance(view, View) and view.pages:
        page.headers["Content-Security-Policy"] = FRAMING
    return page


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


@for_message
async def show_picture(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Send one picture of a held message, drawn anew."""
    index = whole_number(request.path_part("index"), -1)
    if not 0 <= index < 1_000:
        return NOT_VISIBLE
    order = PictureOrder(found.record.ggrid, request.user.tenant, index=index)
    drawn = await context.held_mail.carry_out(order)
    if isinstance(drawn, Down):
        return core_is_away(request, drawn)
    if isinstance(drawn, NotHeld | NotShown):
        return Failure(NOT_FOUND, "this picture cannot be shown")
    await context.store.audit.note_view(found.record.ggrid, found.record.envelope.tenant, request.actor)
    return image_response(drawn.png)


@for_message
async def show_html(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Show the HTML of a held message as its reader would have seen it, for a frame of its page."""
    shown = await context.held_mail.carry_out(HtmlOrder(found.record.ggrid, request.user.tenant))
    if isinstance(shown, Down):
        return core_is_away(request, shown)
    if isinstance(shown, NotHeld | NotShown):
        reason = shown.reason if isinstance(shown, NotShown) else "the message is not held any more"
        return Failure(NOT_FOUND, f"the HTML cannot be shown: {reason}")
    await context.store.audit.note_view(found.record.ggrid, found.record.envelope.tenant, request.actor)
    return mail_response(await asyncio.to_thread(write_page, shown, found.record.report.subject or "(no subject)"))


@for_message
async def show_reevaluation(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Compare the decision on record with the one that the policy and the lists of today would lead to."""
    tried = await try_on(context.store, context.policies, NOTHING, found.record)
    return await context.page(request, "replay.html", record=found.record, tried=tried, place=tail_of(request))


@for_message
async def show_comparison(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Compare a message with another one, value by value."""
    other = await _find_one(context, request, request.query.text("with", 60))
    if isinstance(other, Failure):
        return Failure(NOT_FOUND, "with: there is no message with this id that you may see")
    one, two = found.record, other.record
    alike = len(set(one.report.signature) & set(two.report.signature))
    return await context.page(
        request,
        "compare.html",
        here="/messages",
        one=one,
        two=two,
        rows=compare_messages(one, two),
        place=tail_of(request),
        # Hashes of words that follow each other; both have as many where both texts are long enough.
        alike=100 * alike // len(one.report.signature) if one.report.signature and two.report.signature else None,
    )


# As much of a source as a page shows; the rest is in the file.
MAX_SHOWN = 256 << 10
UNKNOWN_FORM = Failure(INVALID_REQUEST, "form: choose eml or zip")


@for_message
async def show_source(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Show the source of a held message, or the header section of another one."""
    raw = await _read_held(context, request, found)
    if isinstance(raw, Down):
        return core_is_away(request, raw)
    header = None if raw is not None else await context.store.messages.header(found.record.ggrid)
    content = raw if raw is not None else header
    return await context.page(
        request,
        "source.html",
        record=found.record,
        report=found.record.report,
        is_whole=raw is not None,
        source=None if content is None else await asyncio.to_thread(_write_source, content[:MAX_SHOWN]),
        left=max(0, len(content or b"") - MAX_SHOWN),
        is_cut=header is not None and is_cut(header),
        place=tail_of(request),
    )


async def _read_held(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> bytes | Down | None:
    """Return the bytes of a held message, put on record as a reading; None where it is not held, or only a person with
    more rights may have its bytes."""
    if not found.is_held or not request.may("quarantine.act"):
        return None
    order = ExportOrder(found.record.ggrid, request.user.tenant, by=request.actor, is_reading=True)
    raw = await context.held_mail.carry_out(order)
    return None if isinstance(raw, NotHeld) else raw


def _write_source(content: bytes) -> Markup:
    """Return a source as the page shows it. A quarter of a mebibyte of control characters takes a tenth of a second,
    which is spent in a thread."""
    return escape(write_out(decode_source(content)))


def decode_source(content: bytes) -> str:
    """Return raw bytes as text: UTF-8 where they are, and every other byte written out as `\\xe4`."""
    return content.decode("utf-8", "backslashreplace")


@for_message
async def export_message(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Send the original message as a file, or in a zip file with a password; the audit trail records it."""
    form = request.form.text("form") or "eml"
    if form not in ("eml", "zip"):
        return UNKNOWN_FORM
    raw = await context.held_mail.carry_out(ExportOrder(found.record.ggrid, request.user.tenant, by=request.actor))
    if isinstance(raw, Down):
        return core_is_away(request, raw)
    if isinstance(raw, NotHeld):
        return NOT_VISIBLE
    name = f"{found.record.ggrid}.eml"
    if form == "eml":
        return download_response(raw, name, "application/octet-stream")
    packed = await asyncio.to_thread(zip_with_password, raw, name)
    return download_response(packed, f"{found.record.ggrid}.zip", "application/zip")


PASSWORD = "infected"  # noqa: S105  it is shown to everybody
_ROUNDS, _SALT, _CHECK, _MAC, _KEY = 1_000, 16, 2, 10, 32
_BLOCK = 16
_CHUNK_BLOCKS = 1 << 16
_AES, _DEFLATED, _ENCRYPTED, _VERSION = 99, 8, 1, 51
# Id and length of the field, version 2 of the format, its vendor, the strength for 256 bits, the method below.
_EXTRA = Struct("<HHH2sBH").pack(0x9901, 7, 2, b"AE", 3, _DEFLATED)
_LOCAL = Struct("<4sHHHHHIIIHH")
_CENTRAL = Struct("<4sHHHHHHIIIHHHHHII")
_END = Struct("<4sHHHHIIH")


def zip_with_password(content: bytes, name: str) -> bytes:
    """Return a zip file with one encrypted file; `name` is ASCII (PKWARE APPNOTE section 4.3, WinZip AE-2).

    The password is no secret: it stands on the page, and `infected` is what analysts expect. The cipher is AES-256 as
    WinZip defines it, which 7-Zip, WinZip and the tools of analysts open. The older cipher of zip files would need a
    step of Python for every byte, which is most of a minute for a large message.
    """
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = _encrypt(deflate.compress(content) + deflate.flush(), PASSWORD.encode())
    moment = time.gmtime()
    clock = moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec // 2
    day = (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday
    label = name.encode("ascii")
    # AE-2 has no CRC: it would tell what is encrypted.
    common = (_VERSION, _ENCRYPTED, _AES, clock, day, 0, len(data), len(content), len(label), len(_EXTRA))
    local = _LOCAL.pack(b"PK\x03\x04", *common) + label + _EXTRA + data
    directory = _CENTRAL.pack(b"PK\x01\x02", _VERSION, *common, 0, 0, 0, 0, 0) + label + _EXTRA
    return local + directory + _END.pack(b"PK\x05\x06", 0, 0, 1, 1, len(directory), len(local), 0)


def _encrypt(plain: bytes, password: bytes) -> bytes:
    """Salt, two bytes to check the password, the data in counter mode, ten bytes to check the data."""
    salt = secrets.token_bytes(_SALT)
    derived = pbkdf2_hmac("sha1", password, salt, _ROUNDS, 2 * _KEY + _CHECK)
    encrypted = _count_and_mix(derived[:_KEY], plain)
    mac = hmac.new(derived[_KEY : 2 * _KEY], encrypted, "sha1").digest()[:_MAC]
    return salt + derived[2 * _KEY :] + encrypted + mac


def _count_and_mix(key: bytes, plain: bytes) -> bytes:
    """AES in counter mode with a counter that begins at 1 and has its lowest byte first, unlike the usual mode. The
    reader of archives has the same, but no service may load a reader of hostile bytes."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  the mode is built on it here
    pieces = []
    step = _CHUNK_BLOCKS * _BLOCK
    for start in range(0, len(plain), step):
        piece = plain[start : start + step]
        blocks = -(-len(piece) // _BLOCK)
        counters = array("Q", bytes(blocks * _BLOCK))
        counters[::2] = array("Q", range(start // _BLOCK + 1, start // _BLOCK + 1 + blocks))
        if sys.byteorder == "big":
            counters.byteswap()
        stream = encryptor.update(counters.tobytes())[: len(piece)]
        mixed = int.from_bytes(piece, "little") ^ int.from_bytes(stream, "little")
        pieces.append(mixed.to_bytes(len(piece), "little"))
    return b"".join(pieces)


DEFAULT_RECIPIENT = "postmaster@localhost"
EMPTY_FILE = Failure(EMPTY_EMAIL, "choose a message as an .eml file, with all headers")


async def scan_file(context: WebContext, request: SignedInRequest, body: SpooledBody) -> PageResult:
    """Analyse the file, then redirect to its ledger."""
    envelope = EMPTY_FILE if body.size == 0 else _parse_envelope(request)
    if isinstance(envelope, Failure):
        return with_status(await show_scan(context, request, fault=envelope.message), envelope.error.status)
    opened = int(context.clock() * 1e9)
    scan = ScanRequest(new_id(opened), opened // MILLISECOND, envelope, "page")
    outcome = await context.cores.scan(scan, body, ConnectedClient(request.http.receive), context.scan_seconds)
    if isinstance(outcome, Failure):
        return with_status(await show_scan(context, request, fault=outcome.message), outcome.error.status)
    if isinstance(outcome, ClientLeft):
        return redirect("/scan")
    await context.store.audit.note("message.trial", request.actor, envelope.tenant, sample=[outcome.ggrid])
    return redirect(f"/messages/{outcome.ggrid}")


def _parse_envelope(request: SignedInRequest) -> Envelope | Failure:
    """Parse the envelope of the form by the rules of the API."""
    form, scope = request.form, request.user.tenant or request.parse_scope(request.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    border: dict[str, object] = {
        "envelopeFrom": form.text("from", 320),
        "envelopeRecipients": form.text("recipients", 10_000).replace(",", " ").split() or [DEFAULT_RECIPIENT],
    }
    if address := form.text("address", 60):
        border["remoteAddress"] = address
    if helo := form.text("helo", 255):
        border["senderHelo"] = helo
    parameters: dict[str, object] = {"borderMtaData": border}
    if scope:
        parameters["tenantUid"] = scope
    return read_parameters(msgspec.json.encode(parameters))


async def show_scan(context: WebContext, request: SignedInRequest, *, fault: str = "") -> Response:
    return await context.page(
        request,
        "scan.html",
        scopes=await find_scopes(context, request),
        form=request.form,
        fault=fault,
        default_recipient=DEFAULT_RECIPIENT,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/messages", show_messages, "messages.read", "search"),
    PageRoute("GET", "/messages/live", show_live, "messages.read", "search"),
    PageRoute("GET", "/messages/live/rows", show_live_rows, "messages.read", "search", is_polled=True),
    PageRoute("GET", "/messages/{ggrid}", for_message(show_message), "messages.read"),
    PageRoute("GET", "/messages/{ggrid}/picture/{index}", show_picture, "messages.read"),
    PageRoute("GET", "/messages/{ggrid}/html", show_html, "messages.read"),
    PageRoute("GET", "/messages/{ggrid}/replay", show_reevaluation, "messages.read"),
    PageRoute("GET", "/messages/{ggrid}/compare", show_comparison, "messages.read"),
    PageRoute("GET", "/messages/{ggrid}/source", show_source, "messages.read"),
    PageRoute("POST", "/messages/{ggrid}/export", export_message, "quarantine.act"),
    PageRoute("GET", "/scan", show_scan, "messages.scan"),
    UploadRoute("/scan", scan_file, "messages.scan", MAX_BODY),
)
