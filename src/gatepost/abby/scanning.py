"""`POST /v1/messageQueue/submitEmail`: take a message, wait for its analysis, answer the result.

The order of checks is that of the interface: credential, media type, size, syntax, fields, tenant.
"""

import time
from collections.abc import Callable

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from gatepost.abby.cores import Cores
from gatepost.abby.credentials import Caller, Door
from gatepost.abby.failures import Json
from gatepost.abby.multipart import TOO_LARGE, Left, boundary_of, read_upload
from gatepost.abby.parameters import read_parameters
from gatepost.api.errors import TENANT_NOT_FOUND, Failure
from gatepost.api.scanning import MAX_BODY, MessageAnalysisResult, encode
from gatepost.api.times import date_time
from gatepost.guard.scan import ScanRequest, ScanResult
from gatepost.guard.spool import Spool, SpooledBody
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.store.tenants import TenantStore

MILLISECOND = 1_000_000

log = structlog.get_logger("gatepost.abby")

Observer = Callable[[ScanResult | Failure, float], None]


def unobserved(_outcome: ScanResult | Failure, _seconds: float) -> None:
    """Nobody counts."""


class Scanning:
    """The scan endpoint with everything it needs. `seconds` is `longRequestTimeout`; `observe` is told every outcome
    of a request that got past its credential, with the seconds it took."""

    def __init__(
        self,
        *,
        door: Door,
        cores: Cores,
        store: TenantStore,
        spool: Spool,
        seconds: float,
        observe: Observer = unobserved,
    ) -> None:
        self._door = door
        self._cores = cores
        self._store = store
        self._spool = spool
        self._seconds = seconds
        self._observe = observe

    async def submit(self, request: Request) -> Response | Failure | None:
        """One message from upload to result."""
        opened = time.time_ns()
        caller = await self._door.enter(request)
        if isinstance(caller, Failure):
            return caller
        with self._spool.new() as body:
            outcome = await self._scan(request, body, opened)
        if isinstance(outcome, Left):
            log.info("client left", client=caller.name)
            return None
        self._note(outcome, caller, (time.time_ns() - opened) / 1e9)
        return outcome if isinstance(outcome, Failure) else Json(encode(_result(outcome)))

    async def _scan(self, request: Request, body: SpooledBody, opened: int) -> ScanResult | Failure | Left:
        envelope = await self._read(request, body)
        if not isinstance(envelope, Envelope):
            return envelope
        if envelope.tenant and await self._store.tenant(envelope.tenant) is None:
            return Failure(TENANT_NOT_FOUND, f"tenantUid: there is no tenant {envelope.tenant}")
        scan = ScanRequest(new_id(opened), opened // MILLISECOND, envelope, body)
        return await self._cores.scan(scan, Waiting(body, request.receive), self._seconds)

    async def _read(self, request: Request, body: SpooledBody) -> Envelope | Failure | Left:
        headers = request.scope["headers"]
        boundary = boundary_of(headers)
        if isinstance(boundary, Failure):
            return boundary
        if _announced(headers) > MAX_BODY:
            return TOO_LARGE
        parameters = await read_upload(request.receive, boundary, body)
        if not isinstance(parameters, bytes):
            return parameters
        body.finish()
        return read_parameters(parameters)

    def _note(self, outcome: ScanResult | Failure, caller: Caller, seconds: float) -> None:
        self._observe(outcome, seconds)
        if isinstance(outcome, Failure):
            log.info("scan refused", client=caller.name, error=outcome.error.code)
        else:
            # The core logs what it found; here only who asked for it.
            log.debug("scan answered", ggrid=outcome.ggrid, client=caller.name, seconds=round(seconds, 4))


class Waiting:
    """The client of a scan: its message, and its connection."""

    def __init__(self, body: SpooledBody, receive: Receive) -> None:
        self._body = body
        self._receive = receive

    def park(self) -> None:
        self._body.to_disk()

    async def gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue


def _announced(headers: list[tuple[bytes, bytes]]) -> int:
    """Content-Length, which the HTTP parser has already held to be a number."""
    return next((int(value) for name, value in headers if name == b"content-length" and value.isdigit()), 0)


def _result(result: ScanResult) -> MessageAnalysisResult:
    report = result.report
    return MessageAnalysisResult(
        ggrid=result.ggrid,
        created=date_time(result.created),
        completed=date_time(max(result.created, result.completed)),
        decision=report.decision,
        verdict=report.verdict,
        tags=tuple(sorted(set(report.tags))),
    )
