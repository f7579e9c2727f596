"""Servers on loopback that receive events, and events to send."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gatepost.events.output import OutputCounters
from gatepost.events.schema import EncodedEvent, MessageHeld, encode_event
from gatepost.service.certificates import sign_certificate


class Receiver(ThreadingHTTPServer):
    """An HTTP server that answers as `answer` says, and keeps the bodies that it took."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[int], int] = lambda _number: 200
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.taken: list[bytes] = []
        self.location = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    @property
    def ids(self) -> list[str]:
        """The ids of all events that were taken, in their order."""
        return [event["id"] for body in list(self.taken) for event in json.loads(body)["events"]]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = len(self.server.calls)
        self.server.calls.append((dict(self.headers), body))
        status = self.server.answer(number)
        if status == 0:
            self.close_connection = True
            return
        if 200 <= status < 300:
            self.server.taken.append(body)
        self.send_response(status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Memory:
    """An output that keeps what it gets, and can be made to hang."""

    name = address = "memory"

    def __init__(self) -> None:
        self.batches: list[Sequence[EncodedEvent]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def write(self, events: Sequence[EncodedEvent]) -> None:
        self.may_go_on.wait(180)
        self.batches.append(events)

    def close(self, _seconds: float) -> None:
        self.batches.append(())

    def test(self, event: EncodedEvent) -> str:
        return event.kind

    def counters(self) -> OutputCounters:
        return OutputCounters(len(self.events), 1, 2, 3)

    @property
    def events(self) -> list[EncodedEvent]:
        return [event for batch in self.batches for event in batch]

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def make_events(count: int, text: str = "") -> list[EncodedEvent]:
    """Events that differ in their ids."""
    return [encode_event(MessageHeld(ggrid=f"{number}{text}", verdict="spam", size=1), "n") for number in range(count)]


def eventually(is_so: Callable[[], bool], seconds: float = 180.0) -> None:
    """Wait until something is so; fail if it takes too long."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def listen_on_loopback(kind: socket.SocketKind) -> socket.socket:
    """A socket on a free loopback port."""
    made = socket.socket(socket.AF_INET, kind)
    made.bind(("127.0.0.1", 0))
    made.settimeout(60)
    if kind == socket.SOCK_STREAM:
        made.listen()
    return made


def make_server_context(folder: Path) -> ssl.SSLContext:
    """TLS of a server named `localhost`; clients trust it by `c.pem` in the folder."""
    chain, key = sign_certificate(["localhost"], datetime.now(UTC))
    (folder / "c.pem").write_bytes(chain)
    (folder / "k.pem").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "c.pem", folder / "k.pem")
    return context
