"""`POST /v1/messages/{ggrid}/report`: a person or program says that a decision was wrong, or that it was right.

The body is JSON, or multipart as in `submitEmail` with the message beside it: delivered mail leaves no bytes behind,
and records of some age have no feature row. The bytes are read by a sealed worker of a core, like any mail, and only
their feature row and the signature of their text are kept. The permission is `messages.report`.
"""

import time
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby import message_bodies
from gatepost.abby.authenticator import Authenticator
from gatepost.abby.cores import Cores
from gatepost.abby.messages import find_tenant_fault
from gatepost.abby.upload import TOO_LARGE, read_upload
from gatepost.api.call_limits import CallLimits
from gatepost.api.errors import MESSAGE_NOT_FOUND, MESSAGE_NOT_SHOWN, Failure
from gatepost.api.http import ClientLeft, ConnectedClient, JsonResponse, content_length, parse_boundary
from gatepost.api.messages import MessageReport, ReportMessageRequest, ShouldHaveBeen
from gatepost.api.scanning import MAX_BODY, encode_scanning
from gatepost.ids import canonical, new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import ScanRequest
from gatepost.scanning.spool import Spool, SpooledBody
from gatepost.store.feedback import NO_EVIDENCE, Correction, Evidence
from gatepost.store.store import Store
from gatepost.times import date_time, now
from gatepost.view.values import NotShown
from gatepost.workers.protocol import Extracted

CORRECTIONS: Mapping[ShouldHaveBeen, Correction] = {
    "delivered": "should have been delivered",
    "held": "should have been held",
}
NOT_FOUND = Failure(MESSAGE_NOT_FOUND, "no analysis with this ggrid is on record")


class ReportsApi:
    """The endpoint for reports. `seconds` is how long the reading of a reported message may take."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        store: Store,
        cores: Cores,
        spool: Spool,
        limits: CallLimits,
        seconds: float,
    ) -> None:
        self._authenticator, self._store, self._cores = authenticator, store, cores
        self._spool, self._limits, self._seconds = spool, limits, seconds

    async def report(self, request: Request) -> Response | Failure | None:
        """Note what a decision should have been; near-copies are judged by it from then on, and models learn it."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        with self._spool.new() as email:
            body = await self._read(request, email)
            if isinstance(body, ClientLeft):
                return None
            if isinstance(body, Failure):
                return body
            tenant = canonical(body.tenant_uid) if body.tenant_uid is not None else None
            if refusal := caller.may("messages.report") or await find_tenant_fault(self._store.tenants, tenant):
                return refusal
            ggrid = canonical(request.path_params["ggrid"])
            if ggrid is None or (
                await self._store.messages.find(ggrid) is None and await self._store.quarantine.find(ggrid) is None
            ):
                return NOT_FOUND
            evidence: Evidence | Failure | ClientLeft = NO_EVIDENCE
            if email.size:
                call = self._limits.begin("view", caller.party)
                if isinstance(call, Failure):
                    return call
                with call:
                    evidence = await self._read_message(request, email)
            if isinstance(evidence, ClientLeft):
                return None
            if isinstance(evidence, Failure):
                return evidence
        noted = await self._store.feedback.report_wrong(
            ggrid, CORRECTIONS[body.should_have_been], caller.actor, tenant, evidence
        )
        if noted is None:
            return NOT_FOUND
        answer = MessageReport(ggrid, body.should_have_been, date_time(now()), noted.taught)
        return JsonResponse(encode_scanning(answer))

    async def _read(self, request: Request, email: SpooledBody) -> ReportMessageRequest | Failure | ClientLeft:
        """Return the body of a request; the message in it, where there is one, goes to the spool."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            return await message_bodies.REPORT.read(request)
        headers = request.scope["headers"]
        boundary = parse_boundary(headers)
        if isinstance(boundary, Failure):
            return boundary
        if content_length(headers) > MAX_BODY:
            return TOO_LARGE
        parameters = await read_upload(request.receive, boundary, email)
        if not isinstance(parameters, bytes):
            return parameters
        email.finish()
        return message_bodies.REPORT.decode(parameters)

    async def _read_message(self, request: Request, email: SpooledBody) -> Evidence | Failure | ClientLeft:
        """Have a core read the reported message in a sealed worker."""
        opened = time.time_ns()
        message = ScanRequest(new_id(opened), opened // 1_000_000, Envelope())
        client = ConnectedClient(request.receive)
        found = await self._cores.read_features(message, email, client, self._seconds)
        if isinstance(found, NotShown):
            return Failure(MESSAGE_NOT_SHOWN, f"the reported message cannot be read: {found.reason}")
        return Evidence(found.row, found.signature) if isinstance(found, Extracted) else found
