"""The source of a message, as text and as files: what an analyst looks at when the ledger does not suffice.

Of held mail there is the whole message, of other mail the header section that is kept with its record. Both are shown
as text that nothing acts in: bytes that are no UTF-8, control characters and characters that turn text round are
written out. Every reading of held mail, and every file of it, is put on record.
"""

import asyncio

from markupsafe import Markup, escape
from starlette.responses import Response

from gatepost.abby.core_state import Down
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.scanning.held_mail import ExportOrder, NotHeld
from gatepost.store.record_packing import is_cut
from gatepost.web.context import WebContext
from gatepost.web.encrypted_zip import PASSWORD, zip_with_password
from gatepost.web.held_places import tail_of
from gatepost.web.page_responses import download_response, html_response
from gatepost.web.pages.messages import MessageOnRecord, core_is_away, find_message
from gatepost.web.rendering import write_out
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

# As much of a source as a page shows; the rest is in the file.
MAX_SHOWN = 256 << 10
UNKNOWN_FORM = Failure(INVALID_REQUEST, "form: choose eml or zip")


async def show_source(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the source of a held message, or the header section of another one."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    raw = await _read_held(context, request, found)
    if isinstance(raw, Down):
        return core_is_away(request, raw)
    header = None if raw is not None else await context.store.messages.header(found.record.ggrid)
    content = raw if raw is not None else header
    page = await context.renderer.render_in_turns(
        "source.html",
        request,
        here="/messages",
        record=found.record,
        report=found.record.report,
        is_whole=raw is not None,
        source=None if content is None else await asyncio.to_thread(_write_source, content[:MAX_SHOWN]),
        left=max(0, len(content or b"") - MAX_SHOWN),
        is_cut=header is not None and is_cut(header),
        place=tail_of(request),
    )
    return html_response(page)


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


async def export_message(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Send the original message as a file, or in a zip file with a password; the audit trail records it."""
    found, form = await find_message(context, request), request.form.text("form") or "eml"
    if isinstance(found, Failure):
        return found
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
    packed = await asyncio.to_thread(zip_with_password, raw, name, PASSWORD)
    return download_response(packed, f"{found.record.ggrid}.zip", "application/zip")


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/messages/{ggrid}/source", show_source, "messages.read"),
    PageRoute("POST", "/messages/{ggrid}/export", export_message, "quarantine.act"),
)
