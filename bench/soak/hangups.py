"""Clients that leave in the middle of what they asked for."""

import socket
import time

from bench import load
from bench.soak.node import TOKEN, SoakNode

_MAIL = b"From: ann@example.org\r\nTo: bob@example.com\r\nSubject: half\r\n\r\n" + b"Half of a message.\r\n" * 60_000
_ENVELOPE: dict[str, object] = {"envelopeFrom": "ann@example.org", "envelopeRecipients": ["bob@example.com"]}


def hang_up(node: SoakNode, kind: int) -> str:
    """Hang up in one of these ways; return which."""
    if kind == 0:
        _leave(node, load.upload(_MAIL, _ENVELOPE, TOKEN)[: len(_MAIL) // 2], 0.0)
        return "half an upload"
    if kind == 1:
        _leave(node, load.upload(_MAIL[:2000], _ENVELOPE, TOKEN), 0.01)
        return "before the answer"
    if kind == 2:
        key = node.keys["alpha"]
        body = b'{"listName": "blocked-urls", "tenantUid": "%b"}' % node.tenants["alpha"].encode()
        head = f"POST /api/public/lists/v1/listEntries HTTP/1.1\r\nHost: x\r\nAuthorization: apikey {key}\r\n"
        kind_of = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        _leave(node, (head + kind_of).encode() + body, 0.02)
        return "in an export"
    if kind == 3:
        with socket.create_connection(("127.0.0.1", node.smtp), timeout=120) as stream:
            stream.recv(200)
            for line in (b"EHLO x\r\n", b"MAIL FROM:<a@example.org>\r\n", b"RCPT TO:<b@example.com>\r\n", b"DATA\r\n"):
                stream.sendall(line)
                stream.recv(1000)
            stream.sendall(_MAIL[: len(_MAIL) // 3])
        return "in DATA"
    with socket.create_connection(("127.0.0.1", node.abby), timeout=120):
        time.sleep(1)
    return "without a word"


def _leave(node: SoakNode, request: bytes, seconds: float) -> None:
    connection = load.Connection(node.url)
    stream = connection.connect()
    try:
        stream.sendall(request)
        time.sleep(seconds)
    finally:
        stream.close()
