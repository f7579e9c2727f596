"""HTTP as RFC 9112 has it: what a server must refuse is refused, and an offer to change the protocol costs nothing."""

import asyncio
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gatepost.api.server import server_config


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers what it was asked, and the body that came with it."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    names = sorted(name.decode() for name, _ in scope["headers"])
    data = json.dumps([scope["method"], scope["path"], body.decode(), names]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(data))]})
    await send({"type": "http.response.body", "body": data})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(echo))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join()
    listening.close()


def ask(port: int, *pieces: bytes) -> tuple[int, Any]:
    """Send the pieces one by one; return status and body of the answer."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        for piece in pieces:
            client.sendall(piece)
        return read_answer(client.makefile("rb"))


def read_answer(stream: Any) -> tuple[int, Any]:
    status = int(stream.readline().split()[1])
    headers = {}
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    return status, json.loads(stream.read(int(headers[b"content-length"])))


def post(*headers: str, body: str = "hello", version: str = "1.1", host: str = "Host: x") -> bytes:
    lines = [f"POST /a HTTP/{version}", *([host] if host else []), *headers]
    return ("\r\n".join([*lines, "", ""]) + body).encode()


LENGTH = "Content-Length: 5"


@pytest.mark.parametrize(
    ("request_bytes", "reason"),
    [
        (post(LENGTH, host=""), "no Host"),
        (post(LENGTH, "Host: x"), "more than one Host"),
        (post(LENGTH, "Host: y", version="1.0"), "more than one Host"),
        (post(LENGTH, host="Host: a b"), "Host header is not"),
        (post(LENGTH, host="Host: user@x"), "Host header is not"),
        (post(LENGTH, host="Host: x/y"), "Host header is not"),
        (post(LENGTH, version="2.0"), "HTTP/2.0"),
        (b"GET /\r\n\r\n", "HTTP/0.9"),
        (b"GET / HTTP/0.9\r\nHost: x\r\n\r\n", "HTTP/0.9"),
        (post("Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"), "Transfer-Encoding"),
        (post("Transfer-Encoding: chunked, chunked", body="0\r\n\r\n"), ""),
        (post("Transfer-Encoding: gzip", "Transfer-Encoding: chunked", body="0\r\n\r\n"), "Transfer-Encoding"),
        (post("Transfer-Encoding: chunked", body="0\r\n\r\n", version="1.0"), "Transfer-Encoding"),
        (post("Transfer-Encoding: xchunked", body="0\r\n\r\n"), ""),
        (post("Transfer-Encoding: chunked", LENGTH, body="0\r\n\r\n"), ""),
        (post(LENGTH, "Content-Length: 6"), ""),
        (post(LENGTH, "Upgrade: h2c", "Connection: Upgrade", host=""), "no Host"),
    ],
)
def test_refused(port: int, request_bytes: bytes, reason: str) -> None:
    status, error = ask(port, request_bytes)
    assert (status, error["error"]) == (400, "malformed_request")
    assert reason in error["message"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(LENGTH),
        post(LENGTH, host="Host: [::1]:9081"),
        post(LENGTH, host="Host:"),
        post(LENGTH, host="", version="1.0"),
        post(LENGTH, "Connection: upgrade", "Upgrade: h2c", host="", version="1.0"),
        post("Transfer-Encoding: Chunked", body="5\r\nhello\r\n0\r\n\r\n"),
    ],
)
def test_served(port: int, request_bytes: bytes) -> None:
    assert ask(port, request_bytes)[1][:3] == ["POST", "/a", "hello"]


JAVA = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)


@pytest.mark.parametrize("offer", [JAVA, ("connection: keep-alive, UPGRADE", "upgrade: websocket")])
@pytest.mark.parametrize("cut", [None, 1, 20, -3])
def test_an_offer_to_change_the_protocol_is_ignored_and_the_body_kept(
    port: int, offer: tuple[str, ...], cut: int | None
) -> None:
    for length, body in ((LENGTH, "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")):
        whole = post(length, *offer, body=body)
        status, answer = ask(port, whole[:cut], whole[cut:] if cut is not None else b"")
        assert (status, answer[:3]) == (200, ["POST", "/a", "hello"])


def test_offers_in_many_requests_of_one_connection(port: int) -> None:
    one = post(LENGTH, *JAVA)
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(one * 3 + post(LENGTH) + post(*JAVA, "Content-Length: 0", body="") + one)
        stream = client.makefile("rb")
        bodies = [read_answer(stream)[1][2] for _ in range(6)]
    assert bodies == ["hello"] * 4 + ["", "hello"]


def test_connect_is_answered(port: int) -> None:
    status, _ = ask(port, b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n")
    assert status in (200, 400)


JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;
public class Post {
  public static void main(String[] arguments) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(arguments[0])).POST(HttpRequest.BodyPublishers.ofString("hello"));
    var client = HttpClient.newHttpClient();
    for (int i = 0; i < 3; i++)
      System.out.println(client.send(request.build(), HttpResponse.BodyHandlers.ofString()).body());
  }
}
"""


@pytest.mark.variant
@pytest.mark.skipif(not shutil.which("javac"), reason="not run: a JDK is not installed")
def test_the_default_client_of_java(port: int, tmp_path: Path) -> None:
    (tmp_path / "Post.java").write_text(JAVA_CLIENT)
    command = ["java", str(tmp_path / "Post.java"), f"http://127.0.0.1:{port}/a"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [json.loads(line)[:3] for line in printed] == [["POST", "/a", "hello"]] * 3
