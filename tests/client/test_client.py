"""Both clients against a scripted service: what they send, when they try again, what they raise."""

import asyncio
import inspect
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import multipart  # type: ignore[import-untyped]
import pytest
from tests.client.scripted_service import Script, Step, answer, error, refuse

from gatepost.api import scanning
from gatepost.client import AsyncClient, Client
from gatepost.client.calls import ApiError, Retries, UnexpectedReplyError, UnreachableError

RESULT = {
    "ggrid": "019a0000-0000-7000-8000-000000000000",
    "created": "2026-11-15T00:00:00.000Z",
    "completed": "2026-11-15T00:00:00.004Z",
    "decision": "deliver",
    "verdict": "clean",
    "tags": [],
    "laterField": 1,
}
RETRIES = Retries(attempts=4, first=1.0, longest=10.0, jitter=lambda: 1.0)
DONE = answer(200, RESULT)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`run(script, call)` makes a client of either kind and runs one call on it."""

    def sync(script: Script, call: Callable[[Any], Any], **options: Any) -> Any:
        transport = httpx.MockTransport(script.handle)
        pauses = script.pauses.append
        with Client("https://gate.test:9081", "t0ken", retries=RETRIES, transport=transport, sleep=pauses) as client:
            return call(client)

    async def asynchronous(script: Script, call: Callable[[Any], Any]) -> Any:
        transport = httpx.MockTransport(script.handle)
        client = AsyncClient(
            "https://gate.test:9081", "t0ken", retries=RETRIES, transport=transport, sleep=script.sleep
        )
        async with client:
            return await call(client)

    return sync if request.param == "sync" else lambda script, call: asyncio.run(asynchronous(script, call))


def scan(client: Any) -> Any:
    return client.scan(
        b"Subject: x\r\n\r\n--y\r\n", sender="a@b.example", recipients=["c@d.example"], remote_address="::1"
    )


def parts_of(request: httpx.Request) -> dict[str, Any]:
    kind, options = multipart.parse_options_header(request.headers["content-type"])
    assert kind == "multipart/form-data"
    return {part.name: part for part in multipart.MultipartParser(io.BytesIO(request.content), options["boundary"])}


def test_a_scan_is_what_the_interface_asks_for(run: Callable[..., Any]) -> None:
    script = Script(DONE)
    result = run(script, scan)
    assert (result.verdict, result.decision, result.ggrid) == ("clean", "deliver", RESULT["ggrid"])
    (request,) = script.requests
    parts = parts_of(request)
    assert request.url == "https://gate.test:9081/v1/messageQueue/submitEmail"
    assert request.headers["authorization"] == "Bearer t0ken"
    assert parts["parameters"].content_type == "application/json"
    assert parts["email"].raw == b"Subject: x\r\n\r\n--y\r\n"
    stated = msgspec.json.decode(parts["parameters"].raw, type=scanning.MessageAnalysisRequest)
    assert stated.border_mta_data.remote_address == "::1"
    assert stated.border_mta_data.envelope_recipients == ("c@d.example",)


def test_a_message_comes_as_bytes_path_or_stream(run: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "mail.eml"
    file.write_bytes(b"raw")
    sources: list[Callable[[], Any]] = [lambda: b"raw", lambda: file, lambda: io.BytesIO(b"raw")]
    for source in sources:
        script = Script(DONE)
        run(script, lambda client, source=source: client.scan(source(), recipients=["a@b.example"]))
        assert parts_of(script.requests[0])["email"].raw == b"raw"


@pytest.mark.parametrize(
    ("steps", "pauses"),
    [
        ([refuse, DONE], [1.0]),
        ([refuse, refuse, refuse, DONE], [1.0, 2.0, 4.0]),
        ([error(503, "overloaded", Retry_After="7"), DONE], [7.0]),
        ([error(503, "core_unavailable", Retry_After="0"), DONE], [1.0]),
        ([error(504, "analysis_timeout"), answer(502, {}), DONE], [1.0, 2.0]),
        ([error(503, "x", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), DONE], [1.0]),
        ([error(503, "x", Retry_After="soon"), DONE], [1.0]),
        ([error(503, "x", Retry_After="Mon, 01 Jan 0001 00:00:00 +2359"), DONE], [1.0]),
        ([error(429, "rate_limited", Retry_After="5"), error(429, "rate_limited"), DONE], [5.0, 2.0]),
    ],
)
def test_it_tries_again(run: Callable[..., Any], steps: list[Step], pauses: list[float]) -> None:
    script = Script(*steps)
    assert run(script, scan).verdict == "clean"
    assert script.pauses == pauses
    assert len({request.content for request in script.requests}) == 1


@pytest.mark.parametrize(
    ("step", "status", "code"),
    [
        (error(400, "invalid_parameters", "remoteAddress is not an address"), 400, "invalid_parameters"),
        (error(401, "unauthorized"), 401, "unauthorized"),
        (error(413, "payload_too_large"), 413, "payload_too_large"),
        (error(500, "internal_error"), 500, "internal_error"),
        (error(503, "scanning_disabled", Retry_After="300"), 503, "scanning_disabled"),
        (error(429, "rate_limited", Retry_After="11"), 429, "rate_limited"),
    ],
)
def test_it_does_not_repeat_what_will_not_change(run: Callable[..., Any], step: Step, status: int, code: str) -> None:
    script = Script(step)
    with pytest.raises(ApiError) as caught:
        run(script, scan)
    assert (caught.value.status, caught.value.code) == (status, code)
    assert script.pauses == []


def test_it_gives_up_with_the_last_reason(run: Callable[..., Any]) -> None:
    script = Script(*[refuse] * 3, error(503, "overloaded", "come back later"))
    with pytest.raises(ApiError, match="come back later"):
        run(script, scan)
    assert len(script.requests) == 4
    with pytest.raises(UnreachableError, match=r"^https://\S+[^/] cannot be reached: .*refused"):
        run(Script(*[refuse] * 4), scan)


@pytest.mark.parametrize("step", [answer(200, {"a": 1}), lambda _: httpx.Response(403, text="<html>"), answer(302, {})])
def test_somebody_else_answers(run: Callable[..., Any], step: Step) -> None:
    with pytest.raises(UnexpectedReplyError):
        run(Script(step), scan)


def test_a_bad_certificate_is_not_tried_twice(run: Callable[..., Any]) -> None:
    def show_own_certificate(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed", request=request)

    with pytest.raises(UnreachableError):
        run(script := Script(show_own_certificate), scan)
    assert len(script.requests) == 1


def test_status_and_message(run: Callable[..., Any]) -> None:
    script = Script(answer(200, {"messageQueueStatus": "GREEN"}), error(404, "message_not_found"))
    assert run(script, lambda client: client.status()).message_queue_status == "GREEN"
    with pytest.raises(ApiError):
        run(script, lambda client: client.message("a/../b"))
    assert script.requests[1].url.raw_path == b"/v1/messages/a%2F..%2Fb"


def test_both_clients_have_the_same_calls() -> None:
    def calls(client: type) -> dict[str, list[str]]:
        public = {name: value for name, value in vars(client).items() if not name.startswith("_")}
        return {name: list(inspect.signature(value).parameters) for name, value in public.items()}

    assert calls(Client) == calls(AsyncClient)


@pytest.mark.parametrize("address", ["127.0.0.1:9081", "ftp://127.0.0.1", "https://"])
def test_what_is_no_address_is_said_before_a_call(address: str) -> None:
    with pytest.raises(UnreachableError, match=r"is not an address: it must begin with https:// or http://"):
        Client(address, "token")
