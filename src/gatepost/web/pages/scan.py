"""The scan page: drop a message, see its ledger. It is analysed and put on record like any that comes in by the API."""

import msgspec
from starlette.responses import Response

from gatepost.abby.scan import MILLISECOND, Waiting, read_parameters
from gatepost.api.errors import EMPTY_EMAIL, Failure
from gatepost.api.requests import ClientLeft
from gatepost.api.scanning import MAX_BODY
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import ScanRequest
from gatepost.scanning.spool import SpooledBody
from gatepost.web.context import WebContext, scopes
from gatepost.web.forms import Form
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row, Upload

SOMEBODY = "postmaster@localhost"
EMPTY = Failure(EMPTY_EMAIL, "choose a file first: a message as .eml, with all its headers")


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """The form."""
    return html_response(await _page(desk, visit))


async def scan(desk: WebContext, visit: SignedInRequest, body: SpooledBody) -> Response | Failure:
    """Analyse the file, then show its ledger."""
    envelope = EMPTY if body.size == 0 else _envelope(visit)
    if isinstance(envelope, Failure):
        return html_response(await _page(desk, visit, fault=envelope.message), envelope.error.status)
    opened = int(desk.clock() * 1e9)
    request = ScanRequest(new_id(opened), opened // MILLISECOND, envelope, body)
    outcome = await desk.cores.scan(request, Waiting(body, visit.request.receive), desk.scan_seconds)
    if isinstance(outcome, Failure):
        return html_response(await _page(desk, visit, fault=outcome.message), outcome.error.status)
    return redirect("/scan" if isinstance(outcome, ClientLeft) else f"/messages/{outcome.ggrid}")


def _envelope(visit: SignedInRequest) -> Envelope | Failure:
    """What the form says, held to the rules of the API."""
    form, scope = visit.form, visit.user.tenant or visit.scope(visit.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    border: dict[str, object] = {
        "envelopeFrom": form.text("from", 320),
        "envelopeRecipients": form.text("recipients", 10_000).replace(",", " ").split() or [SOMEBODY],
    }
    if address := form.text("address", 60):
        border["remoteAddress"] = address
    if helo := form.text("helo", 255):
        border["senderHelo"] = helo
    stated: dict[str, object] = {"borderMtaData": border}
    if scope:
        stated["tenantUid"] = scope
    return read_parameters(msgspec.json.encode(stated))


async def _page(desk: WebContext, visit: SignedInRequest, *, fault: str = "") -> str:
    form: Form = visit.form
    return desk.renderer.page(
        "scan.html", visit, here="/scan", scopes=await scopes(desk, visit), form=form, fault=fault, somebody=SOMEBODY
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/scan", show, "messages.scan"),
    Upload("/scan", scan, "messages.scan", MAX_BODY),
)
