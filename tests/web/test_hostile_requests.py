"""Requests that no page of ours sends: each gets a clear answer, none breaks anything."""

import socket
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.api.scanning import MAX_BODY
from gatepost.ids import new_id
from gatepost.web.forms import MAX_FORM, SIGNED_IN
from gatepost.web.registry import PAGES
from gatepost.web.routing import PublicRoute, UploadRoute

# What signs the shared visitor out, or takes a second over every password.
NOT_FUZZED = {"/sign-out", "/sign-in", "/sign-in/code", "/account/password", "/account/totp/confirm"}
NOT_FUZZED |= {"/account/totp/remove", "/users", "/users/{uid}/password", "/system/examine"}
ROWS = [row for row in PAGES if row.path not in NOT_FUZZED]
NAMES = (
    *("tenant", "scope", "since", "until", "sender", "recipient", "subject", "verdict", "decision", "tag", "ggrid"),
    *("before", "after", "span", "q", "how", "add", "part", "picture", "done", "format", "key", "entries", "comment"),
    *("expires", "name", "action", "says", "recipients", "text", "role", "disabled", "domains", "kind", "category"),
    *("max-size", "display-name", "released", "actor", "list", "what", "skip", "sure", "from", "address", "helo"),
)
ODD = (
    *("", "\0", "\r\nX-Injected: 1", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "%00"),
    *("9" * 400, "-1", "1e309", "NaN", "0001-01-01", "9999-12-31", "9999-12-31T23:59:59.999999+23:59", "2026-02-30"),
    *("../../etc/passwd", "global", new_id(), "blocked-urls", "x" * 5_000, "\u202e\u0000\U0010ffff", "{{7*7}}"),
    *("%", "*", "'; DROP TABLE x--", "eyJhIjoxfQ", "AAAA", "1,2,3", "a@b", "*@*", "@", "ı", "İ" * 200),
    *("release", "save", "contains", "csv", "url", "block"),
)
values = st.one_of(st.sampled_from(ODD), st.text(max_size=40))
fields = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)


def send_values(visitor: Any, row: Any, examples: int) -> None:
    """Ask for a page so often, each time with other values in its address and its form."""

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(part=values, asked=fields, typed=fields, file=st.binary(max_size=60))
    def sent(part: str, asked: dict[str, str], typed: dict[str, str], file: bytes) -> None:
        path: str = row.path
        for name in ("ggrid", "index", "id", "uid", "kind"):
            path = path.replace(f"{{{name}}}", quote(part, safe="", errors="replace") or "x")
        path = path.replace("{scope}", "global" if len(part) % 2 else quote(part, safe="", errors="replace") or "x")
        path = path.replace("{name}", "blocked-phrases")
        query = {name: value.encode("utf-8", "replace") for name, value in asked.items()}
        form = {name: value.encode("utf-8", "replace").decode() for name, value in typed.items()}
        if isinstance(row, UploadRoute):
            answer = visitor.upload(path, "f.csv", file, form)
        elif row.method == "POST":
            answer = visitor.post(path, form, params=query)
        else:
            answer = visitor.get(path, params=query)
        assert answer.status_code < 500, (path, query, form)
        assert "x-injected" not in answer.headers

    sent()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{getattr(row, 'method', 'POST')} {row.path}")
def test_no_value_breaks_a_page(site: Any, row: Any) -> None:
    send_values(site.visitor(), row, 4)


@pytest.mark.long
def test_many_values_break_no_page(site: Any) -> None:
    for row in ROWS:
        send_values(site.visitor(), row, 24)


MANY = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n'


def raw(site: Any, request: bytes) -> bytes:
    """What the server says to bytes that no client library would send."""
    host, port = site.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while piece := connection.recv(65_536):
            said += piece
    return said


@pytest.mark.parametrize(
    "target", ["/messages%0d%0aX-Injected:%201", "/sign-in?next=/a%0d%0aX-Injected:1", "/%0d%0aSet-Cookie:x=1"]
)
def test_no_header_comes_of_an_address(site: Any, target: str) -> None:
    for visitor in (httpx, site.visitor()):
        base = site.url if visitor is httpx else ""
        answer = visitor.get(base + target)
        assert "x-injected" not in answer.headers
        assert "x=1" not in answer.headers.get("set-cookie", "")
        assert "\r" not in answer.headers.get("location", "")


def test_a_file_name_never_reaches_a_header(site: Any, tenant: str) -> None:
    name = 'x"\r\nX-Injected: 1\r\n.csv'
    answer = site.visitor().upload(f"/lists/{tenant}/blocked-urls/import", name, b"a.example\n", {"what": "try"})
    assert answer.status_code in (200, 400)
    assert "x-injected" not in answer.headers
    assert site.visitor().get(f"/lists/{tenant}/blocked-urls%22%0d%0aX:1/export").status_code == 404


def test_a_form_that_is_too_large_is_refused(site: Any) -> None:
    answer = site.visitor().post("/policy", {"text": "x" * (MAX_FORM + 1)})
    assert answer.status_code == 413
    assert "form is too large" in answer.text


def test_a_page_without_a_long_text_takes_no_large_form(site: Any) -> None:
    """Parsing a form costs CPU, and any user may send one to the page of the own account."""
    answer = site.visitor().post("/account/zone", {"zone": "%" * (SIGNED_IN.size // 3 + 1)})
    assert answer.status_code == 413
    assert site.visitor().post("/account/zone", {"zone": "UTC"}).status_code < 400


def test_a_file_that_is_too_large_is_refused(site: Any) -> None:
    answer = site.visitor().upload("/scan", "big.eml", b"x" * (MAX_BODY + (1 << 20)))
    assert answer.status_code == 413


def test_many_fields_are_refused_and_a_deep_address_does_no_harm(site: Any) -> None:
    visitor = site.visitor()
    assert visitor.post("/quarantine", {f"f{number}": "x" for number in range(3_000)}).status_code == 400
    deep = "&".join(f"a{'[x]' * 50}{number}=1" for number in range(90))
    assert visitor.get(f"/messages?{deep}").status_code == 200
    assert visitor.get(f"/messages?{'&'.join(['subject=x'] * 2_000)}").status_code == 200
    assert visitor.get(f"/messages?subject={'a+' * 4_000}").status_code == 200


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        ("multipart/form-data; boundary=" + "b" * 500, b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=file; filename=x\r\n\r\nabc"),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: y\r\n" * 5_000 + b"\r\nx\r\n--b--\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: nonsense\r\n\r\nx\r\n--b--\r\n"),
        ("multipart/form-data; boundary=b", MANY * 200 + b"--b--\r\n"),
        ("text/plain", b"file=x"),
        ("application/json", b"{}"),
    ],
)  # fmt: skip
def test_a_malformed_upload_is_refused(site: Any, kind: str, body: bytes) -> None:
    visitor = site.visitor()
    for path in ("/scan", "/lists/global/blocked-urls/import"):
        answer = visitor.bare("POST", path, content=body, headers={"Content-Type": kind})
        assert answer.status_code in (400, 403, 413, 415), (path, answer.text)


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=b", "application/json", "", "text/plain"])
def test_a_form_of_another_kind_is_refused(site: Any, kind: str) -> None:
    answer = site.visitor().bare("POST", "/keys", content=b"name=x", headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_a_form_that_is_no_text_is_refused(site: Any) -> None:
    visitor = site.visitor()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert visitor.bare("POST", "/keys", content=b"name=\xff\xfe&csrf=\xc3", headers=headers).status_code == 400
    broken = visitor.bare("POST", "/keys", content=b"csrf=%zz&name=%", headers=headers)
    assert broken.status_code == 403


def test_half_a_body_changes_nothing(site: Any) -> None:
    visitor = site.visitor()
    before = len(site.run(site.store.api_keys.all()))
    head = (
        "POST /keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        f"Cookie: {visitor.cookie}\r\nContent-Length: 500\r\n\r\nname=half&csrf={quote(visitor.csrf)}"
    )
    assert b" 200 " not in raw(site, head.encode())
    assert len(site.run(site.store.api_keys.all())) == before


def test_an_upload_is_a_post_and_a_change_is_never_a_get(site: Any) -> None:
    visitor = site.visitor()
    for row in PAGES:
        if isinstance(row, PublicRoute | UploadRoute) or row.method == "GET":
            continue
        if not any(getattr(other, "method", "") == "GET" and other.path == row.path for other in PAGES):
            path = row.path.replace("{scope}", "global").replace("{name}", "x")
            assert visitor.get(path.replace("{", "").replace("}", "")).status_code in (404, 405), row.path


@pytest.mark.parametrize("path", ["/account/password", "/scan"])
def test_a_body_that_stops_arriving_is_not_waited_for(site: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor()
    monkeypatch.setattr("gatepost.api.http.IDLE_SECONDS", 0.2)
    kind = "multipart/form-data; boundary=x" if path == "/scan" else "application/x-www-form-urlencoded"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nCookie: {visitor.cookie}\r\nContent-Type: {kind}\r\n"
    port = int(site.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"{head}Content-Length: 100000\r\n\r\n--x".encode())
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400")
