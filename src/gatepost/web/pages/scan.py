"""The scan page: upload a message and see its ledger. It is analysed like one sent to the API, and recorded as a trial.

Its user makes up the message and its envelope, so it is no mail: it is neither counted nor held nor learnt from, and it
is no sighting of a campaign.
"""

import msgspec
from starlette.responses import Response

from gatepost.abby.scan import MILLISECOND, read_parameters
from gatepost.api.errors import EMPTY_EMAIL, Failure
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.api.scanning import MAX_BODY
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import ScanRequest
from gatepost.scanning.spool import SpooledBody
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, UploadRoute, WebRoute

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
    """Show the form for a message."""
    return await context.page(
        request,
        "scan.html",
        scopes=await find_scopes(context, request),
        form=request.form,
        fault=fault,
        default_recipient=DEFAULT_RECIPIENT,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/scan", show_scan, "messages.scan"),
    UploadRoute("/scan", scan_file, "messages.scan", MAX_BODY),
)
