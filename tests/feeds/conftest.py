"""A real HTTP server on loopback that serves feeds, well or badly, and a storage of each engine."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gatepost.feeds.run import FeedRunner
from gatepost.policy.layers import unchanged_policies
from gatepost.service.certificates import sign_certificate
from gatepost.settings.feeds import FeedSettings
from gatepost.store.store import Store


class Served:
    """What the server answers to a path: status, header fields, body; or a function of the request."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.asked = threading.Event()
        # Where there is one, an answer stops after its first byte until the gate is opened.
        self.gate: threading.Event | None = None
        self.port = 0

    def say(self, path: str, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, fields, body.encode() if isinstance(body, str) else body)

    def url(self, path: str, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def seen(self, name: str) -> list[str]:
        return [headers.get(name, "") for _, headers in self.requests]


class _Handler(BaseHTTPRequestHandler):
    served: Served
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        served = self.served
        headers = {name.lower(): value for name, value in self.headers.items()}
        served.requests.append((self.path, headers))
        served.asked.set()
        known = served.answers.get(self.path) or served.answers.get(self.path.partition("?")[0])
        status, fields, body = known or (404, {}, b"")
        etag = fields.get("ETag")
        if (etag and headers.get("if-none-match") == etag) or (
            fields.get("Last-Modified") and headers.get("if-modified-since") == fields["Last-Modified"]
        ):
            status, body = 304, b""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            if served.gate:
                self.wfile.write(body[:1])
                served.gate.wait(180)
                body = body[1:]
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        return None


def _serve(tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    served = Served()
    handler = type("Handler", (_Handler,), {"served": served})
    server = _Server(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    served.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        if served.gate:
            served.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def served() -> Iterator[Served]:
    yield from _serve()


@pytest.fixture
def served_tls(tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    """The same over TLS, for `localhost`, with the certificate to verify it by."""
    certificate, key = sign_certificate(["localhost"], datetime.now(UTC))
    (tmp_path / "feed.pem").write_bytes(certificate)
    (tmp_path / "feed.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "feed.pem", tmp_path / "feed.key")
    for each in _serve(context):
        yield each, tmp_path / "feed.pem"


Feed = Callable[..., FeedSettings]


@pytest.fixture
def feed(served: Served) -> Feed:
    """A feed of the server, with further settings by their Python names."""

    def made(path: str = "/list", **options: Any) -> FeedSettings:
        stated = {"name": "test", "list_name": "blocked-urls", "url": served.url(path), "allow_http": True, **options}
        return FeedSettings.model_validate(stated, by_name=True)

    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty storage of each engine."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'g.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def runner(store: Store) -> FeedRunner:
    """Runs feeds on the store of the test."""
    return FeedRunner(store, unchanged_policies())
