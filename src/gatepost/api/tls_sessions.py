"""TLS for clients that come again: a new connection resumes a session of one before (RFC 8446 section 2.2, RFC 5077).

A resumed handshake has no certificate: neither side signs or verifies anything, and the client needs one round trip of
bytes less to read. The library gives a client no way to pass a session when it opens a connection through asyncio,
anyio or httpx. All of them ask the context for the connection, though, so the context remembers: `ResumingContext`
passes the last session of the same server name, and its connections give it theirs once they have read something, for
a ticket of TLS 1.3 comes after the handshake. A server that does not know the session any more, because it was started
again or because the ticket is of another process, answers with a full handshake.

A session is as good as the verification that it began with. It belongs to one context, so that a context with other
authorities begins anew.
"""

import ssl
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

# Server names whose sessions are kept.
MAX_NAMES = 64


class SessionCounts:
    """How many handshakes a context has completed, and how many of them were resumed."""

    __slots__ = ("handshakes", "resumed")

    def __init__(self) -> None:
        self.handshakes = self.resumed = 0


class _Resumable:
    """What connections of a `ResumingContext` do besides: they give it their session after the first bytes."""

    context: Any
    session: Any
    session_reused: Any
    server_hostname: Any
    _is_kept = False

    def read(self, *arguments: Any, **options: Any) -> Any:
        data = super().read(*arguments, **options)  # type: ignore[misc]
        if not self._is_kept and isinstance(self.context, ResumingContext):
            self._is_kept = self.context.keep(self.server_hostname, self.session)
        return data

    def do_handshake(self, *arguments: Any, **options: Any) -> None:
        super().do_handshake(*arguments, **options)  # type: ignore[misc]
        if isinstance(self.context, ResumingContext):
            self.context.count(resumed=bool(self.session_reused))


class _ResumableObject(_Resumable, ssl.SSLObject):
    """A connection whose bytes somebody else carries, as in asyncio."""


class _ResumableSocket(_Resumable, ssl.SSLSocket):
    """A connection with its socket."""


class ResumingContext(ssl.SSLContext):
    """A context for clients of a few servers."""

    sslobject_class = _ResumableObject
    sslsocket_class = _ResumableSocket

    def __init__(self, _protocol: int) -> None:
        self.counts = SessionCounts()
        self._sessions: OrderedDict[str, ssl.SSLSession] = OrderedDict()

    def keep(self, name: str | None, session: ssl.SSLSession | None) -> bool:
        """Remember a session for the next connection to a server; returns whether it can be resumed."""
        if not name or session is None or not session.has_ticket:
            return False
        self._sessions[name] = session
        self._sessions.move_to_end(name)
        while len(self._sessions) > MAX_NAMES:
            self._sessions.popitem(last=False)
        return True

    def count(self, *, resumed: bool) -> None:
        """Count a handshake."""
        self.counts.handshakes += 1
        self.counts.resumed += resumed

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        session = session or self._find(server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def wrap_socket(self, sock: Any, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        if options.get("session") is None:
            options["session"] = self._find(options.get("server_hostname"))
        return super().wrap_socket(sock, *arguments, **options)

    def _find(self, name: str | bytes | None) -> ssl.SSLSession | None:
        text = name.decode("ascii", "replace") if isinstance(name, bytes) else name
        return self._sessions.get(text) if text else None


def client_context(ca: str | Path | None = None) -> ResumingContext:
    """A context that verifies servers, by the authorities of a file or by those of the system, and resumes sessions."""
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    if sys.version_info >= (3, 13):
        # As `ssl.create_default_context` has it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
    if ca:
        context.load_verify_locations(cafile=str(ca))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context
