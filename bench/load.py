"""The same messages to any scanner, over as many connections at once as asked for: a client that costs next to nothing.

Requests are built beforehand and sent as they are; of a response only the status, the length and the body are read. So
most of what two cores can do is left to the server.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Result:
    """What one run gave: seconds for all, each latency in seconds, and what was answered."""

    seconds: float
    latencies: list[float]
    answers: list[bytes]
    errors: int

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


def unverified() -> ssl.SSLContext:
    """The certificate of a service on loopback is its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass
class Connection:
    """One kept-alive HTTP/1.1 connection."""

    url: str
    stream: socket.socket | None = None
    rest: bytes = b""
    context: ssl.SSLContext = field(default_factory=unverified)

    def exchange(self, request: bytes) -> bytes:
        if self.stream is None:
            self.stream, self.rest = self.connect(), b""
        try:
            self.stream.sendall(request)
            return self._response(self.stream)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def connect(self) -> socket.socket:
        place = urlsplit(self.url)
        plain = socket.create_connection((place.hostname or "", place.port or 443), timeout=120)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if place.scheme == "http":
            return plain
        return self.context.wrap_socket(plain, server_hostname=place.hostname)

    def _response(self, stream: socket.socket) -> bytes:
        data = self.rest
        while b"\r\n\r\n" not in data:
            data += self._more(stream)
        head, _, body = data.partition(b"\r\n\r\n")
        lower = head.lower()
        start = lower.index(b"content-length:") + 15
        length = int(lower[start : lower.find(b"\r", start) if b"\r" in lower[start:] else None])
        while len(body) < length:
            body += self._more(stream)
        body, self.rest = body[:length], body[length:]
        if b"connection: close" in lower:
            self.close()
        return head.split(b"\r\n", 1)[0] + b"\n" + body

    def _more(self, stream: socket.socket) -> bytes:
        data = stream.recv(262_144)
        if not data:
            raise ConnectionError("closed by the server")
        return data


def send(
    url: str,
    requests: Sequence[bytes],
    connections: int,
    once: Callable[[Connection, bytes], bytes] | None = None,
    rate: float | None = None,
) -> Result:
    """Send every request once, spread over the connections: as fast as they are answered, or so many a second. With a
    rate, connections are made beforehand, and a latency begins when the request was due, so that those which wait for a
    connection count in full."""
    exchange = once or Connection.exchange
    numbers = iter(range(len(requests)))
    lock = threading.Lock()
    latencies = [0.0] * len(requests)
    answers = [b""] * len(requests)
    errors: list[int] = []

    def work(connection: Connection) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            now = time.perf_counter()
            due = begun + number / rate if rate else now
            time.sleep(max(0.0, due - now))
            try:
                answers[number] = exchange(connection, requests[number])
            except OSError:
                errors.append(number)
            latencies[number] = time.perf_counter() - due
        connection.close()

    made = [Connection(url) for _ in range(connections)]
    for each in made if rate else ():
        each.stream = each.connect()
    threads = [threading.Thread(target=work, args=(each,)) for each in made]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Result(time.perf_counter() - begun, latencies, answers, len(errors))


def upload(
    raw: bytes, envelope: dict[str, object], token: str, host: str = "127.0.0.1", tenant: str | None = None
) -> bytes:
    """A whole submitEmail request."""
    boundary = b"----bench7d1f"
    stated = {"borderMtaData": envelope, **({"tenantUid": tenant} if tenant else {})}
    parameters = json.dumps(stated).encode()
    body = (
        b'--%b\r\nContent-Disposition: form-data; name="parameters"\r\nContent-Type: application/json\r\n\r\n%b\r\n'
        b'--%b\r\nContent-Disposition: form-data; name="email"; filename="m.eml"\r\n'
        b"Content-Type: message/rfc822\r\n\r\n%b\r\n--%b--\r\n"
    ) % (boundary, parameters, boundary, raw, boundary)
    head = (
        f"POST /v1/messageQueue/submitEmail HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary.decode()}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
