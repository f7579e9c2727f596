"""The Email Scanning API over real HTTPS: every row of the status table, and what streams do."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.blackbox.conftest import READER, RECORD, TENANT, TOKEN, FakeCore, error, wait_for
from tests.own_names import replace_in

from gatepost.abby import authenticator
from gatepost.api import http
from gatepost.process import background_work
from gatepost.process.background_work import BackgroundWork

SUBMIT = "/v1/messageQueue/submitEmail"
STATUS = "/v1/admin/status"
LIMIT = 52_428_800
AUTH = {"Authorization": f"Bearer {TOKEN}"}
BORDER = {"envelopeFrom": "a@example.org", "envelopeRecipients": ["b@example.net"]}
STATED = json.dumps({"borderMtaData": BORDER}).encode()
PARAMETERS = b'Content-Disposition: form-data; name="parameters"\r\nContent-Type: application/json\r\n\r\n' + STATED
EMAIL = b'Content-Disposition: form-data; name="email"; filename="m.eml"\r\nContent-Type: message/rfc822\r\n\r\n'
UNTYPED = b'Content-Disposition: form-data; name="email"; filename="m.eml"\r\n\r\nSubject: x\r\n\r\ny'
MAIL = EMAIL + b"Subject: x\r\n\r\ny"


def form(*parts: bytes, boundary: bytes = b"BOUND") -> bytes:
    return b"".join(b"--%s\r\n%s\r\n" % (boundary, part) for part in parts) + b"--%s--\r\n" % boundary


def post(service: Any, body: bytes, content_type: str = "multipart/form-data; boundary=BOUND") -> httpx.Response:
    response: httpx.Response = service.client.post(SUBMIT, content=body, headers=AUTH | {"Content-Type": content_type})
    return response


def in_background(call: Callable[[], Any]) -> Any:
    return ThreadPoolExecutor(1).submit(call)


def start_full(start: Any, core: FakeCore | None = None, **options: Any) -> tuple[Any, Any]:
    """An abby whose only slot is taken, and the scan that has it."""
    service = start([core or FakeCore(maximum=1)], **options)
    return service, hold_scan(service)


def hold_scan(service: Any) -> Any:
    """A scan that its core holds."""
    service.core.holding = True
    scan = in_background(service.submit)
    wait_for(lambda: len(service.core.scanned) == 1)
    return scan


@pytest.mark.parametrize("parts", [(PARAMETERS, MAIL), (MAIL, PARAMETERS), (PARAMETERS, UNTYPED)])
def test_parts_in_either_order(service: Any, parts: tuple[bytes, ...]) -> None:
    response = post(service, form(*parts))
    assert response.status_code == 200
    result = response.json()
    assert list(result) == ["ggrid", "created", "completed", "decision", "verdict", "tags"]
    assert result["created"] <= result["completed"]
    assert result["created"][-5] == "."
    assert result["created"].endswith("Z")
    (request,) = service.core.scanned
    assert request.ggrid == result["ggrid"]
    assert request.envelope.recipients == ("b@example.net",)


def part(name: str, content: bytes = b"x", extra: bytes = b"") -> bytes:
    return b'Content-Disposition: form-data; name="%s"%s\r\n\r\n%s' % (name.encode(), extra, content)


TEXT_PARAMETERS = PARAMETERS.replace(b"application/json", b"text/plain")
CHARSET_PARAMETERS = PARAMETERS.replace(b"application/json", b"Application/JSON; charset=utf-8")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (form(CHARSET_PARAMETERS, MAIL), (200, "")),
        (form(PARAMETERS, MAIL, part("note")), (200, "")),
        (form(part("note"), part("note"), PARAMETERS, MAIL), (200, "")),
        (b"a preamble\r\n" + form(PARAMETERS, MAIL) + b"an epilogue", (200, "")),
        (b"", (400, "malformed_request")),
        (b"not multipart", (400, "malformed_request")),
        (form(PARAMETERS, MAIL)[:-9], (400, "malformed_request")),
        (form(b"no header\r\n\r\nx"), (400, "malformed_request")),
        (form(PARAMETERS, *[part("n")] * 200, MAIL), (400, "malformed_request")),
        (form(part("x" * 9000)), (400, "malformed_request")),
        (form(PARAMETERS, MAIL.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1)),
         (400, "malformed_request")),
        (form(PARAMETERS), (400, "missing_part")),
        (form(MAIL), (400, "missing_part")),
        (form(part("Email"), PARAMETERS), (400, "missing_part")),
        (b"--BOUND--\r\n", (400, "missing_part")),
        (form(PARAMETERS, MAIL, MAIL), (400, "duplicate_part")),
        (form(PARAMETERS, PARAMETERS, MAIL), (400, "duplicate_part")),
        (form(part("parameters", STATED), MAIL), (400, "wrong_part_type")),
        (form(TEXT_PARAMETERS, MAIL), (400, "wrong_part_type")),
        (form(PARAMETERS, EMAIL), (400, "empty_email")),
        (form(PARAMETERS + b"}", MAIL), (400, "malformed_request")),
        (form(PARAMETERS.replace(b"a@example", b"\xff@example"), MAIL), (400, "malformed_request")),
        (form(PARAMETERS.replace(STATED, b"[" * 200_000), MAIL), (400, "malformed_request")),
        (form(PARAMETERS.replace(STATED, b"{}"), MAIL), (400, "invalid_parameters")),
        (form(PARAMETERS + b" " * (1 << 20), MAIL), (400, "invalid_parameters")),
    ],
)  # fmt: skip
def test_uploads(service: Any, body: bytes, expected: tuple[int, str]) -> None:
    response = post(service, body)
    assert (response.status_code, response.json().get("error", "")) == expected
    assert bool(service.core.scanned) == (expected[0] == 200)
    assert service.submit().status_code == 200


def test_every_fault_of_the_parameters_is_named(service: Any) -> None:
    response = service.submit({"borderMtaData": {"envelopeRecipients": [], "remoteAddress": "x"}, "tenantUid": 5})
    assert error(response) == (400, "invalid_parameters")
    for field in ("envelopeFrom", "envelopeRecipients", "remoteAddress", "tenantUid"):
        assert field in response.json()["message"]


@pytest.mark.parametrize(
    ("tenant", "expected"), [(TENANT, 200), (TENANT.upper(), 200), (None, 200), (TENANT.replace("a", "b"), 404)]
)
def test_tenants(service: Any, tenant: str | None, expected: int) -> None:
    response = service.submit({"borderMtaData": BORDER, "tenantUid": tenant})
    assert response.status_code == expected
    if expected == 404:
        assert error(response) == (404, "tenant_not_found")
    else:
        assert service.core.scanned[0].envelope.tenant == (TENANT if tenant else None)


@pytest.mark.parametrize("header", [None, "", "Bearer", f"Basic {TOKEN}", "Bearer wrong"])
@pytest.mark.parametrize(("method", "path"), [("POST", SUBMIT), ("POST", STATUS), ("GET", f"/v1/messages/{RECORD}")])
def test_unauthorized(service: Any, header: str | None, method: str, path: str) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = service.client.request(method, path, headers=headers)
    assert error(response) == (401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_the_scheme_is_read_in_any_case(service: Any) -> None:
    assert service.client.post(STATUS, headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


def test_a_message_with_its_ledger(service: Any) -> None:
    response = service.client.get(f"/v1/messages/{RECORD.upper()}", headers={"Authorization": f"Bearer {READER}"})
    assert response.status_code == 200
    found = response.json()
    assert found["ggrid"] == RECORD
    assert sum(line["counted"] for line in found["ledger"]["findings"]) == pytest.approx(found["ledger"]["score"])
    assert error(service.client.get(f"/v1/messages/{RECORD}", headers=AUTH)) == (403, "forbidden")
    for ggrid in (TENANT, "x", "%00", RECORD + "0"):
        missing = service.client.get(f"/v1/messages/{ggrid}", headers={"Authorization": f"Bearer {READER}"})
        assert error(missing) == (404, "message_not_found")


@pytest.mark.parametrize(
    ("method", "path", "expected", "allow"),
    [
        ("GET", "/nowhere/at/all", (404, "not_found"), None),
        ("GET", "/v1", (404, "not_found"), None),
        ("POST", "/v1/messageQueue/submitEmail/", (404, "not_found"), None),
        ("GET", "/v1/messages/", (404, "not_found"), None),
        ("POST", f"/v1/messages/{RECORD}/release/", (404, "not_found"), None),
        ("GET", f"/v1/messages/{RECORD}/release", (405, "method_not_allowed"), "POST"),
        ("BREW", "/nowhere", (404, "not_found"), None),
        ("GET", SUBMIT, (405, "method_not_allowed"), "POST"),
        ("DELETE", STATUS, (405, "method_not_allowed"), "POST"),
        ("PATCH", "/docs", (405, "method_not_allowed"), "GET, HEAD"),
        ("TRACE", SUBMIT, (405, "method_not_allowed"), "POST"),
    ],
)
def test_unknown_paths_and_methods(
    service: Any, method: str, path: str, expected: tuple[int, str], allow: str | None
) -> None:
    if method == "BREW":
        # The HTTP parser knows the methods that exist; others are no HTTP to it.
        expected = (400, "malformed_request")
    response = service.client.request(method, path)
    assert error(response) == expected
    assert response.headers.get("allow") == (allow and f"{allow}, OPTIONS")


def test_pages_only_for_people(service: Any) -> None:
    wants = {"Accept": "text/html,*/*"}
    assert service.client.get("/nowhere", headers=wants).headers["content-type"].startswith("text/html")
    assert service.client.get("/nowhere").headers["content-type"] == "application/json"
    for path in ("/v1", "/v1/nowhere", "/api/nowhere", SUBMIT):
        assert service.client.get(path, headers=wants).headers["content-type"] == "application/json"


def test_head_and_options(service: Any) -> None:
    head = service.client.head("/v1/openapi.json")
    assert (head.status_code, head.content) == (200, b"")
    options = service.client.options(SUBMIT)
    assert (options.status_code, options.headers["allow"]) == (204, "POST, OPTIONS")


def test_docs_need_no_credential_and_nothing_from_outside(service: Any) -> None:
    page = service.client.get("/docs")
    assert page.status_code == 200
    assert "submitEmail" in page.text
    assert "<script" not in page.text
    # Examples may name a link; nothing is fetched or linked.
    assert not re.search(r"""(?:src|href|action|url\()\s*=?\s*["'(]?https?:""", page.text)
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert service.client.get("/v1/openapi.json").json()["info"]["version"] == "1.1.0"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (415, "unsupported_media_type")),
        ({"Content-Type": "multipart/form-data; boundary=BOUND", "Content-Encoding": "gzip"},
         (415, "unsupported_media_type")),
        ({"Content-Type": "multipart/form-data"}, (400, "malformed_request")),
    ],
)  # fmt: skip
def test_media_types(service: Any, headers: dict[str, str], expected: tuple[int, str]) -> None:
    response = service.client.post(SUBMIT, content=form(PARAMETERS, MAIL), headers=AUTH | headers)
    assert error(response) == expected


@pytest.mark.parametrize(
    ("body", "expected"), [(b"", 200), (b"{}", 200), (b'{"x":1}', 200), (b"[]", 400), (b"{", 400), (b"{}" * 99999, 413)]
)
def test_status_takes_next_to_nothing(service: Any, body: bytes, expected: int) -> None:
    response = service.client.post(STATUS, content=body, headers=AUTH)
    assert response.status_code == expected
    if expected == 200:
        assert response.json() == {"messageQueueStatus": "GREEN"}
    else:
        error(response)


def test_a_fault_of_ours_has_a_reference_that_is_logged(service: Any, capfd: Any) -> None:
    service.core.broken = True
    response = service.submit()
    assert error(response) == (500, "internal_error")
    message = response.json()["message"]
    assert "secret detail" not in message
    reference = message.rsplit(" ", 1)[1]
    assert reference in capfd.readouterr().err


def sized(size: int) -> bytes:
    return form(PARAMETERS, EMAIL + b"x" * (size - len(form(PARAMETERS, EMAIL))))


def pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 1 << 18):
        yield body[start : start + (1 << 18)]


@pytest.mark.parametrize("chunked", [False, pytest.param(True, marks=pytest.mark.variant)])
def test_fifty_mebibytes_and_one_more(service: Any, chunked: bool) -> None:
    headers = AUTH | {"Content-Type": "multipart/form-data; boundary=BOUND"}
    for size, expected in ((LIMIT, 200), (LIMIT + 1, 413)):
        body = sized(size)
        assert len(body) == size
        response = service.client.post(SUBMIT, content=pieces(body) if chunked else body, headers=headers)
        assert response.status_code == expected
    assert error(response) == (413, "payload_too_large")
    assert service.core.sizes == [LIMIT - len(form(PARAMETERS, EMAIL))]
    assert list(service.spool.iterdir()) == []


def head(length: int | None, *extra: str) -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"POST {SUBMIT} HTTP/1.1", "Host: x", f"Authorization: Bearer {TOKEN}", size, *extra]
    lines.append("Content-Type: multipart/form-data; boundary=BOUND")
    return "\r\n".join([*lines, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, str, dict[str, Any]]:
    """Read one response from a bare connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        assert piece, f"closed after {data!r}"
        data += piece
    top, _, body = data.partition(b"\r\n\r\n")
    length = int(next(line for line in top.lower().split(b"\r\n") if line.startswith(b"content-length")).split(b":")[1])
    while len(body) < length:
        body += connection.recv(65536)
    return int(top.split()[1]), top.decode(), json.loads(body)


def test_announced_too_large_is_answered_before_the_upload(service: Any) -> None:
    with service.connect() as connection:
        connection.sendall(head(LIMIT + 1, "Expect: 100-continue"))
        status, top, body = answer(connection)
    assert (status, body["error"]) == (413, "payload_too_large")
    assert "connection: close" in top.lower()


def test_expect_is_met_with_continue(service: Any) -> None:
    body = form(PARAMETERS, MAIL)
    with service.connect() as connection:
        connection.sendall(head(len(body), "Expect: 100-continue"))
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert answer(connection)[0] == 200


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_client_that_only_reads_after_it_has_sent_gets_its_413(start: Any, encrypted: bool) -> None:
    with start(encrypted=encrypted).connect() as connection:
        connection.sendall(head(80 << 20))
        for _ in range(80):
            connection.sendall(b"x" * (1 << 20))
        assert answer(connection)[0] == 413


def test_an_early_refusal_of_a_small_body_keeps_the_connection(service: Any) -> None:
    with service.connect() as connection:
        for _ in range(2):
            connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            assert answer(connection)[0] == 404


@pytest.mark.parametrize(
    "garbage",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000,
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        head(None) + b"zz\r\n",
    ],
)
def test_what_is_no_http_is_answered_in_json(service: Any, garbage: bytes) -> None:
    with service.connect() as connection:
        connection.sendall(garbage)
        status, top, body = answer(connection)
    assert (status, body["error"]) == (400, "malformed_request")
    assert "application/json" in top
    assert service.submit().status_code == 200


@pytest.mark.parametrize("step", [1, 7])
def test_bytes_that_trickle_in_are_read_like_any(service: Any, step: int) -> None:
    body = form(PARAMETERS, MAIL)
    with service.connect() as connection:
        connection.sendall(head(None))
        for start in range(0, len(body), step):
            piece = body[start : start + step]
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        assert answer(connection)[0] == 200


def test_a_stalled_upload_ends(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.api.http.IDLE_SECONDS", 0.2)
    monkeypatch.setattr("gatepost.api.http.DRAIN_IDLE_SECONDS", 0.2)
    service = start()
    with service.connect() as connection:
        connection.sendall(head(1000) + b"--BOUND\r\n")
        assert answer(connection)[2]["error"] == "malformed_request"
        assert connection.recv(10) == b""


def test_a_client_that_leaves_mid_upload_leaves_nothing_behind(service: Any) -> None:
    connection = service.connect()
    connection.sendall(head(LIMIT) + b"--BOUND\r\n" + EMAIL + b"x" * (2 << 20))
    connection.close()
    assert service.submit().status_code == 200
    assert len(service.core.scanned) == 1


def test_a_scan_waits_for_a_slot_and_lies_on_disk(start: Any) -> None:
    service, first = start_full(start)
    status = service.client.post(STATUS, headers=AUTH)
    assert status.json()["messageQueueStatus"] == "RED"
    assert [each["code"] for each in status.json()["reasons"]] == ["full"]
    second = in_background(service.submit)
    wait_for(lambda: service.core.queued == 1)
    assert len(service.core.scanned) == 1
    service.core.holding = False
    assert first.result(180).status_code == second.result(180).status_code == 200
    assert service.core.bodies[1].on_disk
    assert not service.core.bodies[0].on_disk


def test_waiting_clients_that_leave_give_up_their_place(start: Any) -> None:
    service, first = start_full(start)
    body = form(PARAMETERS, MAIL)
    connection = service.connect()
    connection.sendall(head(len(body)) + body)
    wait_for(lambda: service.core.queued == 1)
    connection.close()
    wait_for(lambda: service.core.queued == 0)
    service.core.holding = False
    assert first.result(180).status_code == 200
    assert service.submit().status_code == 200
    assert len(service.core.scanned) == 2


def test_no_slot_in_time(start: Any) -> None:
    service, first = start_full(start, long_request_seconds=2.0)
    assert error(service.submit()) == (504, "analysis_timeout")
    assert error(first.result(180)) == (504, "analysis_timeout")


def test_waiting_has_a_limit(start: Any) -> None:
    service, first = start_full(start, FakeCore(maximum=1, waiting_limit=100))
    response = service.submit(email=b"x" * 101)
    assert error(response) == (503, "overloaded")
    assert int(response.headers["retry-after"]) > 0
    service.core.holding = False
    assert first.result(180).status_code == 200


def test_a_core_that_dies_is_not_noticed(start: Any) -> None:
    one, two = FakeCore("one", maximum=30), FakeCore("two")
    service = start([one, two])
    scan = hold_scan(service)
    one.alive = False
    response = scan.result(180)
    assert response.status_code == 200
    assert two.scanned[0].ggrid == one.scanned[0].ggrid == response.json()["ggrid"]
    assert service.client.post(STATUS, headers=AUTH).json()["messageQueueStatus"] == "YELLOW"


def test_no_core_answers(service: Any) -> None:
    service.core.alive = False
    response = service.submit()
    assert error(response) == (503, "core_unavailable")
    assert int(response.headers["retry-after"]) > 0
    assert service.client.post(STATUS, headers=AUTH).json()["messageQueueStatus"] == "RED"
    assert error(service.client.get("/readyz")) == (503, "core_unavailable")
    assert service.client.get("/healthz").status_code == 200
    service.core.alive = True
    wait_for(lambda: service.client.get("/readyz").status_code == 200)
    assert service.submit().status_code == 200


def test_scanning_disabled(service: Any) -> None:
    service.core.enabled = False
    response = service.submit()
    assert error(response) == (503, "scanning_disabled")
    assert int(response.headers["retry-after"]) > 0


def test_metrics_stay_on_this_machine(start: Any) -> None:
    service = start(metrics=lambda: b"x 1\n")
    assert service.client.get("/metrics").content == b"x 1\n"
    assert error(service.client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"})) == (403, "forbidden")


def test_guessing_is_slowed_down(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    service = start()
    assert service.submit().status_code == 200
    replace_in(monkeypatch, authenticator, "asyncio", sleep=sleep)
    for _ in range(8):
        assert service.submit(token="wrong").status_code == 401
    assert len(slept) == 3
    assert slept == sorted(slept)
    assert service.submit().status_code == 200
    assert len(slept) == 3


def test_while_much_mail_comes_lists_and_searches_wait_and_mail_does_not(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, slept = BackgroundWork(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(http, "background", work)
    replace_in(monkeypatch, background_work, "asyncio", sleep=sleep)
    service = start()
    others = ("/api/public/lists/v1/getLists", "/v1/messages/search", "/v1/heldMessages/search")
    assert [service.client.post(path, json={}).status_code for path in others] == [401] * 3
    assert slept == []
    for _ in range(1_000):
        work.note_mail()
    work.use(100.0)
    assert service.submit().status_code == 200
    assert slept == []
    assert [service.client.post(path, json={}).status_code for path in others] == [401] * 3
    assert len(slept) == 3


def test_shutting_down_finishes_what_is_in_flight(start: Any) -> None:
    service = start()
    scan = hold_scan(service)
    service.server.should_exit = True
    threading.Timer(0.2, lambda: setattr(service.core, "holding", False)).start()
    assert scan.result(180).status_code == 200


def test_a_header_section_has_to_arrive(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.api.server.HEAD_SECONDS", 0.2)
    service = start()
    with service.connect() as silent, service.connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHos")
        assert answer(slow)[2]["error"] == "malformed_request"
        assert silent.recv(10) == b""
    monkeypatch.setattr("gatepost.api.server.HEAD_SECONDS", 60.0)
    with service.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer(connection)[0] == 200
        monkeypatch.setattr("gatepost.api.server.HEAD_SECONDS", 0.2)
        time.sleep(0.4)  # between two requests it may rest
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /he")
        assert answer(connection)[0] == 200
        assert answer(connection)[2]["error"] == "malformed_request"


def test_requests_in_a_row_are_answered_in_a_row(service: Any) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    two = b"POST /v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    with service.connect() as connection:
        connection.sendall(one + two + one)
        received = b""
        while received.count(b"HTTP/1.1 ") < 3 or not received.endswith(b'"ok"}'):
            piece = connection.recv(65536)
            assert piece, received
            received += piece
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"404", b"200"]
