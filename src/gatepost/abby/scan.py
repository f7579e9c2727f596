"""`POST /v1/messageQueue/submitEmail`: take a message, wait for its analysis, answer the result.

The order of checks is that of the interface: credential, media type, size, syntax, fields, tenant. The `parameters`
part is decoded fast, and on failure checked again by a collector that names every fault: known fields are strict (`"5"`
is not 5), unknown ones are ignored, null on an optional field means absent.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import Authenticator, Caller
from gatepost.abby.cores import Cores
from gatepost.abby.json_bodies import LARGE_BODY, kind_of, list_faults, wrong_kind
from gatepost.abby.upload import read_parts, split_plain
from gatepost.api.direct import DirectCall, DirectExchange, RawHeaders
from gatepost.api.errors import INVALID_PARAMETERS, TENANT_NOT_FOUND, Failure
from gatepost.api.http import ClientLeft, ConnectedClient, JsonResponse, json_failure, note_fault, parse_boundary
from gatepost.api.scanning import (
    MAX_RECIPIENTS,
    MessageAnalysisRequest,
    MessageAnalysisResult,
    encode_scanning,
)
from gatepost.api.strict_json import decode_json, find_repeated_key, has_too_many_values
from gatepost.ids import canonical, new_id
from gatepost.mail.message import Envelope
from gatepost.process.logs import Logger
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool, SpooledBody
from gatepost.store.tenants import Tenants
from gatepost.times import date_time

# An IPv6 address that ends in an IPv4 address, all groups written out.
_MAX_ADDRESS = 45

_DECODER = msgspec.json.Decoder(MessageAnalysisRequest)


def read_parameters(data: bytes) -> Envelope | Failure:
    """Return the envelope that `parameters` states, or everything that is wrong with it."""
    try:
        envelope = None if has_too_many_values(data) else _envelope(_DECODER.decode(data))
        if envelope is not None and not find_repeated_key(data):
            return envelope
    except (ValueError, RecursionError):  # the second also in a field that is not known, and was skipped
        pass
    return _faults(data)


def _envelope(request: MessageAnalysisRequest) -> Envelope | None:
    """Return the envelope, or None if one of its values cannot be."""
    border, tenant = request.border_mta_data, request.tenant_uid
    address = None if border.remote_address is None else _normalize_address(border.remote_address)
    texts = "\t".join((border.envelope_from, border.sender_helo or "", *border.envelope_recipients))
    if not _is_text(texts) or (address is None and border.remote_address is not None):
        return None
    if tenant is not None and (tenant := canonical(tenant)) is None:
        return None
    sender, recipients = border.envelope_from, tuple(border.envelope_recipients)
    if "<" in texts:
        sender, recipients = _strip_brackets(sender), tuple(map(_strip_brackets, recipients))
    return Envelope(sender, recipients, address, border.sender_helo, tenant)


def _strip_brackets(address: str) -> str:
    """Without the angle brackets of SMTP (RFC 5321 section 4.1.1.2), which some border MTAs pass on."""
    return address[1:-1] if address[:1] == "<" and address[-1:] == ">" else address


def _is_text(value: str) -> bool:
    return "\r" not in value and "\n" not in value and "\0" not in value


def _is_address(value: str) -> bool:
    return _normalize_address(value) is not None


def _normalize_address(value: str) -> str | None:
    """Return an IP address in its usual form; None for what is none, or has a zone."""
    return _parse_address(value) if len(value) <= _MAX_ADDRESS else None


@lru_cache(1024)
def _parse_address(value: str) -> str | None:
    try:
        return str(ip_address(value)) if "%" not in value else None
    except ValueError:
        return None


def _faults(data: bytes) -> Failure:
    """Return every fault by the name of its field."""
    found = decode_json("the part parameters", data)
    if isinstance(found, Failure):
        return found
    return list_faults(INVALID_PARAMETERS, _request_faults(found))


def _request_faults(found: Any) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"parameters must be an object, not {kind_of(found)}"
        return
    border = found.get("borderMtaData")
    if isinstance(border, dict):
        yield from _border_faults(border)
    else:
        yield wrong_kind("borderMtaData", border, "an object", "borderMtaData" in found)
    yield from _optional_faults(found, "tenantUid", "tenantUid", lambda value: canonical(value) is not None, "a UUID")


def _border_faults(border: dict[str, Any]) -> Iterator[str]:
    prefix = "borderMtaData."
    if isinstance(border.get("envelopeFrom"), str):
        yield from _text_faults(prefix + "envelopeFrom", border["envelopeFrom"])
    else:
        yield wrong_kind(prefix + "envelopeFrom", border.get("envelopeFrom"), "a string", "envelopeFrom" in border)
    yield from _recipient_faults(prefix + "envelopeRecipients", border)
    yield from _optional_faults(
        border, "remoteAddress", prefix + "remoteAddress", _is_address, "an IPv4 or IPv6 address"
    )
    yield from _optional_faults(border, "senderHelo", prefix + "senderHelo", _is_text, "text without CR, LF and NUL")


def _recipient_faults(name: str, border: dict[str, Any]) -> Iterator[str]:
    recipients = border.get("envelopeRecipients")
    if not isinstance(recipients, list):
        yield wrong_kind(name, recipients, "an array of strings", "envelopeRecipients" in border)
        return
    if not 1 <= len(recipients) <= MAX_RECIPIENTS:
        yield f"{name} must have 1 to {MAX_RECIPIENTS:,} items, not {len(recipients):,}"
    for index, recipient in enumerate(recipients):
        if not isinstance(recipient, str):
            yield f"{name}[{index}] must be a string, not {kind_of(recipient)}"
        else:
            yield from _text_faults(f"{name}[{index}]", recipient)


def _optional_faults(found: dict[str, Any], key: str, name: str, sound: Any, wanted: str) -> Iterator[str]:
    value = found.get(key)
    if value is None:
        return
    if not isinstance(value, str):
        yield f"{name} must be a string, not {kind_of(value)}"
    elif not sound(value):
        yield f"{name} must be {wanted}"


def _text_faults(name: str, value: str) -> Iterator[str]:
    if not _is_text(value):
        yield f"{name} must be text without CR, LF and NUL"


MILLISECOND = 1_000_000
PATH = "/v1/messageQueue/submitEmail"

log = Logger("gatepost.abby")

OutcomeObserver = Callable[[ScanResult | Failure, float], None]


def ignore_outcome(_outcome: ScanResult | Failure, _seconds: float) -> None:
    """The default observer: do nothing with the outcome."""


class ScanApi:
    """The scan endpoint. `seconds` is `longRequestTimeout`; `observe` is called with every outcome of an authenticated
    request, and with the seconds it took."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        cores: Cores,
        store: Tenants,
        spool: Spool,
        seconds: float,
        observe: OutcomeObserver = ignore_outcome,
    ) -> None:
        self._authenticator = authenticator
        self._cores = cores
        self._store = store
        self._spool = spool
        self._seconds = seconds
        self._observe = observe

    async def submit(self, request: Request) -> Response | Failure | None:
        """Take one message from upload to result."""
        opened = time.time_ns()
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        with self._spool.new() as body:
            envelope = await self._read(request, body)
            if isinstance(envelope, Envelope):
                outcome = await self._scan(envelope, body, ConnectedClient(request.receive), opened)
            else:
                outcome = envelope
        return self._describe(outcome, caller, opened)

    def begin(self, headers: RawHeaders, host: str) -> DirectCall | None:
        """Take an upload whose header section has come without an ASGI exchange; None gives it back, as does False
        after its body: everything that is refused is refused by `submit`."""
        opened = time.time_ns()
        boundary = parse_boundary(headers)
        caller = None if isinstance(boundary, Failure) else self._authenticator.enter_at_once(headers, host)
        if isinstance(boundary, Failure) or caller is None:
            return None
        known = caller

        def take(body: bytes, exchange: DirectExchange) -> bool:
            parts = split_plain(body, boundary)
            envelope = read_parameters(parts[0]) if parts and len(parts[0]) <= LARGE_BODY else None
            if parts is None or not isinstance(envelope, Envelope):
                return False
            exchange.start(self._answer(parts[1], envelope, exchange, known, opened))
            return True

        return take

    async def _answer(
        self, message: bytes, envelope: Envelope, exchange: DirectExchange, caller: Caller, opened: int
    ) -> None:
        try:
            body = self._spool.hold(message)
            try:
                outcome = await self._scan(envelope, body, ConnectedClient(exchange.receive), opened)
            finally:
                body.close()
            result = self._describe(outcome, caller, opened)
        except Exception as fault:  # noqa: BLE001  it becomes the answer, as `HttpErrors` has it
            result = note_fault(fault, PATH)
        exchange.answer(json_failure(result) if isinstance(result, Failure) else result)

    def _describe(
        self, outcome: ScanResult | Failure | ClientLeft, caller: Caller, opened: int
    ) -> JsonResponse | Failure | None:
        if isinstance(outcome, ClientLeft):
            log.info("client left", client=caller.name)
            return None
        seconds = (time.time_ns() - opened) / 1e9
        self._observe(outcome, seconds)
        if isinstance(outcome, Failure):
            log.info("scan refused", client=caller.name, error=outcome.error.code)
            return outcome
        # The core logs what it found; this line says who asked for it.
        log.debug("scan answered", ggrid=outcome.ggrid, client=caller.name, seconds=round(seconds, 4))
        return JsonResponse(encode_scanning(_describe_result(outcome)))

    def _scan(
        self, envelope: Envelope, body: SpooledBody, client: ConnectedClient, opened: int
    ) -> Coroutine[Any, Any, ScanResult | Failure | ClientLeft]:
        scan = ScanRequest(new_id(opened), opened // MILLISECOND, envelope, "rest")
        if envelope.tenant:
            return self._scan_for_tenant(scan, envelope.tenant, body, client)
        return self._cores.scan(scan, body, client, self._seconds)

    async def _scan_for_tenant(
        self, scan: ScanRequest, tenant: str, body: SpooledBody, client: ConnectedClient
    ) -> ScanResult | Failure | ClientLeft:
        if await self._store.find(tenant) is None:
            return Failure(TENANT_NOT_FOUND, f"tenantUid: there is no tenant {tenant}")
        return await self._cores.scan(scan, body, client, self._seconds)

    async def _read(self, request: Request, body: SpooledBody) -> Envelope | Failure | ClientLeft:
        parameters = await read_parts(request, body)
        if not isinstance(parameters, bytes):
            return parameters
        if len(parameters) > LARGE_BODY:
            return await asyncio.to_thread(read_parameters, parameters)
        return read_parameters(parameters)


def _describe_result(result: ScanResult) -> MessageAnalysisResult:
    report = result.report
    return MessageAnalysisResult(
        ggrid=result.ggrid,
        created=date_time(result.created),
        completed=date_time(max(result.created, result.completed)),
        decision=report.decision,
        verdict=report.verdict,
        tags=tuple(sorted(set(report.tags))),
    )
