"""State of the service: `POST /v1/admin/status` for its clients; health, readiness and metrics for its operators."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import Authenticator
from gatepost.abby.cores import Cores
from gatepost.api.errors import (
    CORE_UNAVAILABLE,
    FORBIDDEN,
    INVALID_PARAMETERS,
    MALFORMED_REQUEST,
    PAYLOAD_TOO_LARGE,
    Failure,
)
from gatepost.api.http import JsonResponse, is_from_this_machine
from gatepost.api.scanning import SystemStatus, encode_scanning
from gatepost.api.strict_json import decode_json

MAX_BODY = 64 << 10
BODY_SECONDS = 10.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OK = b'{"status":"ok"}'

ReadinessCheck = Callable[[], Awaitable[str | None]]


async def always_ready() -> str | None:
    """The default readiness check: nothing besides the cores is needed."""
    return None


class StatusApi:
    """The endpoints for state. `ready` returns what is missing, None for nothing; `metrics` the text for Prometheus."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        cores: Cores,
        ready: ReadinessCheck = always_ready,
        metrics: Callable[[], bytes] = bytes,
        metrics_public: bool = False,
    ) -> None:
        self._authenticator = authenticator
        self._cores = cores
        self._ready = ready
        self._metrics = metrics
        self._metrics_public = metrics_public

    async def status(self, request: Request) -> Response | Failure | None:
        """Return the colour of the queue. The body, if any, must be a JSON object; its fields are ignored."""
        caller = await self._authenticator.enter(request)
        if isinstance(caller, Failure):
            return caller
        refusal = await _body_fault(request)
        if refusal:
            return refusal
        colour = "RED" if await self._ready() else await self._cores.status()
        return JsonResponse(encode_scanning(SystemStatus(colour)))

    async def health(self, _request: Request) -> Response:
        """Answer that the process runs and serves."""
        return JsonResponse(OK)

    async def readiness(self, _request: Request) -> Response | Failure:
        """Answer whether the service can do its work."""
        missing = await self._ready() or (None if self._cores.answering else "no core answers")
        if not missing and self._cores.colour == "RED" and (faults := self._cores.faults):
            missing = faults[0]
        return Failure(CORE_UNAVAILABLE, missing) if missing else JsonResponse(OK)

    async def metrics(self, request: Request) -> Response | Failure:
        """Return the metrics, to clients on this machine only unless they are public."""
        if self._metrics_public or is_from_this_machine(request):
            return Response(self._metrics(), headers={"content-type": METRICS_TYPE})
        return Failure(FORBIDDEN, "metrics are answered on loopback only")


async def _body_fault(request: Request) -> Failure | None:
    data = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MAX_BODY:
                    return Failure(PAYLOAD_TOO_LARGE, "no body is needed here")
    except TimeoutError:
        return Failure(MALFORMED_REQUEST, "the request body stopped arriving")
    if not data:
        return None
    found = decode_json("the body", data)
    if isinstance(found, Failure):
        return found
    return None if isinstance(found, dict) else Failure(INVALID_PARAMETERS, "the body must be an object")
