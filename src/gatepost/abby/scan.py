"""`POST /v1/messageQueue/submitEmail`: take a message, wait for its analysis, answer the result.

The order of checks is that of the interface: credential, media type, size, syntax, fields, tenant. The `parameters`
part is decoded fast, and on failure checked again by a collector that names every fault: known fields are strict (`"5"`
is not 5), unknown ones are ignored, null on an optional field means absent.

The upload is multipart/form-data (RFC 7578) with the parts `parameters` and `email` in either order; other parts are
ignored. The message goes straight into the spool, so memory stays flat whatever the size. Every bound holds while
reading: bytes of the whole body, bytes of `parameters`, number of parts, and time (`api.http.BodyPace`). Most uploads
are small and arrive whole, as every common client writes them. Those are split in place (`split_plain`); what is
unusual in any way goes to the parser, which also says what is wrong with it.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Protocol

import msgspec
from multipart import MultipartSegment, ParserLimitReached, PushMultipartParser  # type: ignore[import-untyped]
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import Authenticator, Caller
from gatepost.abby.cores import Cores
from gatepost.abby.json_bodies import LARGE_BODY, list_faults, rules_of
from gatepost.api.errors import (
    DUPLICATE_PART,
    EMPTY_EMAIL,
    INVALID_PARAMETERS,
    MALFORMED_REQUEST,
    MISSING_PART,
    PAYLOAD_TOO_LARGE,
    TENANT_NOT_FOUND,
    WRONG_PART_TYPE,
    Failure,
)
from gatepost.api.http import (
    BodyPace,
    ClientLeft,
    ConnectedClient,
    JsonResponse,
    content_length,
    json_failure,
    note_fault,
    parse_boundary,
)
from gatepost.api.scanning import (
    MAX_BODY,
    MAX_PARAMETERS,
    MessageAnalysisRequest,
    MessageAnalysisResult,
    encode_scanning,
    normalize_address,
)
from gatepost.api.server import DirectCall, DirectExchange, RawHeaders
from gatepost.api.strict_json import decode_json, find_repeated_key, has_too_many_values
from gatepost.ids import canonical, new_id
from gatepost.mail.message import Envelope
from gatepost.process.logs import Logger
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool, SpooledBody
from gatepost.store.tenants import Tenants
from gatepost.times import date_time

MAX_PARTS = 100
# Larger bodies hardly ever arrive whole; within it `parameters` has room for all that it may have.
MAX_PLAIN = 1 << 20

TOO_LARGE = Failure(PAYLOAD_TOO_LARGE, f"the request body is larger than 50 MiB ({MAX_BODY:,} bytes)")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class MessageSink(Protocol):
    """Where the bytes of the message go."""

    @property
    def size(self) -> int: ...

    def write(self, data: bytes) -> object: ...

    async def settle(self) -> None: ...


async def read_parts(request: Request, email: SpooledBody) -> bytes | Failure | ClientLeft:
    """Read the upload of a request; the message goes to the spool, and `parameters` is returned."""
    headers = request.scope["headers"]
    boundary = parse_boundary(headers)
    if isinstance(boundary, Failure):
        return boundary
    if content_length(headers) > MAX_BODY:
        return TOO_LARGE
    parameters = await read_upload(request.receive, boundary, email)
    if isinstance(parameters, bytes):
        await email.finish()
    return parameters


async def read_upload(receive: Receive, boundary: str, email: MessageSink) -> bytes | Failure | ClientLeft:
    """Read the whole body; the message goes to `email`, and `parameters` is returned."""
    upload, received = None, 0
    try:
        with BodyPace() as pace:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return ClientLeft()
                chunk = message["body"]
                received += len(chunk)
                if upload is None:
                    if not message["more_body"] and (plain := split_plain(chunk, boundary)):
                        email.write(plain[1])
                        return plain[0]
                    upload = _ScanParts(boundary, email)
                failure = TOO_LARGE if received > MAX_BODY else upload.feed(chunk)
                if failure:
                    return failure
                await email.settle()
                if not message["more_body"]:
                    return upload.finish()
                pace.earn(len(chunk))
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving, or arrives too slowly")


# Both parts with the headers that clients write, in their order. A name of a file has no escapes.
_HEADERS = (
    rb'Content-Disposition: form-data; name="%b"(?:; filename="[ !#$&-[\]^-~]{0,200}")?'
    rb"\r\nContent-Type: %b\r\n\r\n"
)
_PARAMETERS = re.compile(_HEADERS % (b"parameters", b"application/json"))
_EMAIL = re.compile(_HEADERS % (b"email", rb"[a-z0-9.+/-]{1,100}"))


def split_plain(body: bytes, boundary: str) -> tuple[bytes, bytes] | None:
    """Return `parameters` and the message of a whole body that has these two parts and nothing else, in the form that
    common clients write; None for every other body, be it right or wrong."""
    delimiter = b"\r\n--%b" % boundary.encode("ascii")
    start = len(delimiter)
    if not body.startswith(delimiter[2:]) or body[start - 2 : start] != b"\r\n" or len(body) > MAX_PLAIN:
        return None
    found = {}
    for is_last in (False, True):
        headers = _PARAMETERS.match(body, start) or _EMAIL.match(body, start)
        if headers is None:
            return None
        end = body.find(delimiter, headers.end())
        start = end + len(delimiter) + 2
        if end < 0 or body[start - 2 : start] != (b"--" if is_last else b"\r\n"):
            return None
        found[headers.re] = body[headers.end() : end]
    if body[start:] not in (b"", b"\r\n") or len(found) < 2 or not found[_EMAIL]:
        return None
    return found[_PARAMETERS], found[_EMAIL]


class _ScanParts:
    """The parts of a body, as they arrive."""

    def __init__(self, boundary: str, email: MessageSink) -> None:
        self._parser = PushMultipartParser(boundary, max_segment_count=MAX_PARTS)
        self._email = email
        self._parameters: list[bytes] = []
        self._room = MAX_PARAMETERS
        self._seen: set[str] = set()
        self._part = ""

    def feed(self, chunk: bytes) -> Failure | None:
        """Take some bytes of the body."""
        if not chunk:
            return None
        try:
            for event in self._parser.parse(chunk):
                failure = self._event(event)
                if failure:
                    return failure
        except ParserLimitReached:
            return Failure(MALFORMED_REQUEST, f"a part has too long a header, or there are over {MAX_PARTS} parts")
        except (ValueError, LookupError):
            return _malformed_multipart()
        return None

    def finish(self) -> bytes | Failure:
        """Check that both parts were there, and return `parameters`."""
        try:
            self._parser.close()
        except ValueError:
            return _malformed_multipart()
        missing = [name for name in ("parameters", "email") if name not in self._seen]
        if missing:
            return Failure(MISSING_PART, f"there is no part {' and no part '.join(missing)}")
        if not self._email.size:
            return Failure(EMPTY_EMAIL, "the part email has no bytes")
        return b"".join(self._parameters)

    def _event(self, event: MultipartSegment | bytes | None) -> Failure | None:
        if isinstance(event, MultipartSegment):
            return self._begin(event)
        if event is None:
            self._part = ""
        elif self._part == "email":
            self._email.write(event)
        elif self._part == "parameters":
            return self._parameter_bytes(event)
        return None

    def _begin(self, part: MultipartSegment) -> Failure | None:
        name = self._part = part.name or ""
        if name not in ("parameters", "email"):
            return None
        if name in self._seen:
            return Failure(DUPLICATE_PART, f"the part {name} is there twice")
        self._seen.add(name)
        if name == "parameters" and part.content_type != "application/json":
            return Failure(WRONG_PART_TYPE, "the part parameters must have application/json as its own content type")
        # RFC 7578 section 4.7 deprecates these. Encoded bytes that were scanned as they stand would pass as clean.
        encoding = next((value for key, value in part.headerlist if key == "Content-Transfer-Encoding"), "binary")
        if encoding.strip().lower() not in ("7bit", "8bit", "binary"):
            return Failure(MALFORMED_REQUEST, f"send the part {name} as it is, without Content-Transfer-Encoding")
        return None

    def _parameter_bytes(self, data: bytes) -> Failure | None:
        self._room -= len(data)
        if self._room < 0:
            return Failure(INVALID_PARAMETERS, "the part parameters is larger than 1 MiB")
        self._parameters.append(data)
        return None


def _malformed_multipart() -> Failure:
    return Failure(MALFORMED_REQUEST, "the body is not valid multipart/form-data")


_DECODER, _RULES = msgspec.json.Decoder(MessageAnalysisRequest), rules_of(MessageAnalysisRequest)


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
    address = None if border.remote_address is None else normalize_address(border.remote_address)
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


def _faults(data: bytes) -> Failure:
    """Return every fault by the name of its field."""
    found = decode_json("the part parameters", data)
    if isinstance(found, Failure):
        return found
    return list_faults(INVALID_PARAMETERS, _RULES.faults("parameters", found, True))


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
                envelope = _bind(envelope, caller)
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
            if isinstance(envelope, Envelope):
                envelope = _bind(envelope, known)
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


def _bind(envelope: Envelope, caller: Caller) -> Envelope | Failure:
    """Return an envelope as the caller may send it: mail of a token that is for one tenant is mail of that tenant."""
    if caller.tenant is None:  # as a rule
        return envelope
    tenant = caller.scope_of(envelope.tenant)
    return tenant if isinstance(tenant, Failure) else msgspec.structs.replace(envelope, tenant=tenant)


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
