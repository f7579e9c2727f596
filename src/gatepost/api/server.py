"""HTTP/1.1 as both services speak it: uvicorn's httptools protocol with bounds of its own and JSON for what is no HTTP.

uvicorn answers a request that it cannot parse in plain text, takes header sections of any length and waits for them for
ever. Here the answer is an `Error` like every other, a header section holds at most 64 KiB, and it comes within 30 s.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gatepost.api.errors import MALFORMED_REQUEST, Error
from gatepost.api.scanning import encode_scanning

MAX_HEAD = 64 << 10
HEAD_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 75


class JsonHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_begun = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD:
            self.send_400_response("the header section is larger than 64 KiB")
        elif self._head_begun and self._head_timer is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        self._head_begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = self._head_begun = False
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no HTTP request; it never goes into the middle of another one's answer."""
        cycle: RequestResponseCycle | None = self.cycle
        if not self.pipeline and (cycle is None or cycle.response_complete or not cycle.response_started):
            body = encode_scanning(Error(MALFORMED_REQUEST.code, msg))
            head = (b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close")
            self.transport.write(STATUS_LINE[400] + b"\r\n".join((*head, b"", body)))
        self.transport.close()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_is_late(self) -> None:
        if self._head_begun:
            self.send_400_response("the header section did not arrive in time")
        else:
            self.transport.close()


def server_config(
    app: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    certificate: Path | None = None,
    key: Path | None = None,
) -> uvicorn.Config:
    """uvicorn as both services run it: uvloop, no access log, no server name; TLS 1.2 or newer with a certificate."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http=JsonHttp,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ssl_context_factory=(lambda _config, _default: _tls(certificate, key)) if certificate and key else None,
    )


def _tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context
