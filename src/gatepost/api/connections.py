"""Connections of a port: how they are accepted, and how many there may be.

A port takes so many connections in all and from one address, and some are kept free for listed hosts. A connection
counts from the moment it is accepted, before TLS: a client that says nothing holds a descriptor and memory as well. A
connection above a limit is closed without an answer; nothing has been read from it. Where the port is full, the oldest
connection that waits for a request gives way first, so that clients that say nothing do not keep others out.

Clients resume the TLS session of a connection before (RFC 8446 section 2.2, RFC 5077). A resumed handshake has no
certificate: neither side signs or verifies anything. The library gives a client no way to pass a session when it opens
a connection through asyncio, anyio or httpx. All of them ask the context for the connection, though, so the context
remembers: `ResumingContext` passes the last session of the same server name, and its connections give it theirs once
they have read something, for a ticket of TLS 1.3 comes after the handshake. A session is as good as the verification
that it began with. It belongs to one context, so that a context with other authorities begins anew.
"""

import asyncio
import math
import socket
import ssl
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from weakref import WeakMethod

from gatepost.process.logs import Logger

ACCEPT_PAUSE_SECONDS = 0.1

log = Logger("gatepost")


class Accepting:
    """Accepts connections on bound sockets until `stop`; `handle` gets each with the address of its client. The next
    start can bind a port while closed connections are in TIME-WAIT (RFC 9293 section 3.6.1)."""

    def __init__(
        self, sockets: Iterable[socket.socket], backlog: int, handle: Callable[[socket.socket, Any], None]
    ) -> None:
        self._loop, self._handle, self._sockets = asyncio.get_running_loop(), handle, tuple(sockets)
        for each in self._sockets:
            each.setblocking(False)
            each.listen(backlog)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._begin(each)

    def stop(self) -> None:
        """Accept no more, and close the sockets."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()

    def _begin(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:  # else it was closed in the pause
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, address = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client has gone already
        except OSError as fault:
            # No descriptor is left; that passes.
            log.warning("a connection could not be accepted", reason=fault.strerror)
            self._loop.remove_reader(listening)
            self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._begin, listening)
            return
        connection.setblocking(False)
        self._handle(connection, address)


_IPV6_NETWORK = 64


class ConnectionLimits:
    """Counts the connections of one port. `open` are those at this moment; of the `refused` ones, `refused_full` came
    while the port had no room for anybody of their kind.

    Hosts in `listed`, and this machine where `trusts_loopback` is set, have no limit of their own; of the connections
    in all, `reserved` are for them alone.
    """

    def __init__(
        self,
        in_all: int,
        per_address: int,
        reserved: int = 0,
        listed: Iterable[str] = (),
        *,
        trusts_loopback: bool = False,
    ) -> None:
        self._in_all, self._per_address, self._reserved = in_all, per_address, min(reserved, in_all - 1)
        self._listed: tuple[IPv4Network | IPv6Network, ...] = tuple(ip_network(each, strict=False) for each in listed)
        self._trusts_loopback = trusts_loopback
        self._of_group: Counter[str] = Counter()
        self.open = self.refused = self.refused_full = 0

    def is_full(self, peer: str, *, listed: bool = False) -> bool:
        """Whether the port has no room for this address, however few connections it has itself; an address at its own
        limit is not admitted in any case."""
        address, group = _parse(peer)
        known = listed or self._is_listed(address)
        return self._has_no_room(known) and (known or self._of_group[group] < self._per_address)

    def is_known(self, peer: str) -> bool:
        """Whether a host is listed, or on this machine where that is trusted."""
        return self._is_listed(_parse(peer)[0])

    def admit(self, peer: str, *, listed: bool = False) -> bool:
        """Count a connection from this address, if it may be; then `leave` must be called once. `listed` says that the
        caller knows the host to be listed."""
        address, group = _parse(peer)
        known = listed or self._is_listed(address)
        full = self._has_no_room(known)
        if full or (not known and self._of_group[group] >= self._per_address):
            self.refused += 1
            self.refused_full += full
            return False
        self._of_group[group] += 1
        self.open += 1
        return True

    def leave(self, peer: str) -> None:
        """Count a connection no longer."""
        _, group = _parse(peer)
        self.open -= 1
        self._of_group[group] -= 1
        if not self._of_group[group]:
            del self._of_group[group]

    def _has_no_room(self, known: bool) -> bool:
        return self.open >= (self._in_all if known else self._in_all - self._reserved)

    def _is_listed(self, address: IPv4Address | IPv6Address | None) -> bool:
        if address is None:
            return False
        return (self._trusts_loopback and address.is_loopback) or any(address in network for network in self._listed)


def _parse(peer: str) -> tuple[IPv4Address | IPv6Address | None, str]:
    """Return an address and what it is counted as: an IPv6 host can choose its addresses from a /64."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return None, peer
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return address, str(ip_network((address, _IPV6_NETWORK), strict=False))
        address = address.ipv4_mapped
    return address, str(address)


class ArrivalPace:
    """By when more of a body must come. Something must come in `idle` seconds; the whole has `first` seconds, more at
    `rate` bytes a second, and `most` at most; and each window of `first` seconds must bring `floor` bytes a second: one
    that sends much at first and a byte now and then is found by the first window that is nearly empty."""

    def __init__(
        self, now: Callable[[], float], idle: float, first: float, rate: float, floor: float, most: float = math.inf
    ) -> None:
        self._now, self._idle, self._first, self._rate, self._most = now, idle, first, rate, most
        self._least = floor * first
        self._started = self._window = now()
        self.size = self._recent = 0

    def count(self, size: int) -> None:
        """Count bytes that have come."""
        moment = self._now()
        if moment >= self._window + self._first and self._recent >= self._least:
            self._window, self._recent = moment, 0
        self.size += size
        self._recent += size

    @property
    def deadline(self) -> float:
        """When the sender is too slow, unless more comes before."""
        whole = min(self._first + self.size / self._rate, self._most)
        window = self._first * (1 if self._recent < self._least else 2)
        return min(self._now() + self._idle, self._started + whole, self._window + window)


class DeadlineTimer:
    """Calls back when a deadline has passed that moves with all that is said. A timer that runs out sooner looks again
    then: to set one for each wait would cost more than the wait."""

    def __init__(self, passed: Callable[[], None]) -> None:
        # Weak, or whoever owns the timer would be garbage for the collector of cycles, with all that it has buffered.
        self._passed = WeakMethod(passed)
        self._handle: asyncio.TimerHandle | None = None
        self._deadline = 0.0

    def set(self, deadline: float) -> None:
        """Set or move the deadline, a time of the loop."""
        self._deadline = deadline
        if self._handle is None or self._handle.when() > deadline:
            self.stop()
            self._handle = asyncio.get_running_loop().call_at(deadline, self._look)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        if asyncio.get_running_loop().time() < self._deadline:
            self.set(self._deadline)
        elif passed := self._passed():
            passed()


class CountedProtocol(asyncio.Protocol):
    """Passes every event on to a protocol, and counts its connection until it is lost."""

    def __init__(self, inner: asyncio.Protocol, leave: Callable[[], None]) -> None:
        self._inner = inner
        self._leave: Callable[[], None] | None = leave
        self._made = False
        self.data_received = inner.data_received  # type: ignore[method-assign]  # once for each piece: without a detour

    def leave(self) -> None:
        """Count the connection no longer; again does nothing."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made = True
        self._inner.connection_made(transport)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._made else None

    def pause_writing(self) -> None:
        if self._made:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._made:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        if self._made:
            self._inner.connection_lost(exc)


# Server names whose sessions are kept.
MAX_NAMES = 64


class _Resumable:
    """What connections of a `ResumingContext` do besides: they give it their session after the first bytes."""

    context: Any
    session: Any
    server_hostname: Any
    _is_kept = False

    def read(self, *arguments: Any, **options: Any) -> Any:
        data = super().read(*arguments, **options)  # type: ignore[misc]
        if not self._is_kept and isinstance(self.context, ResumingContext):
            self._is_kept = self.context.keep(self.server_hostname, self.session)
        return data


class _ResumableObject(_Resumable, ssl.SSLObject):
    """A connection whose bytes somebody else carries, as in asyncio."""


class _ResumableSocket(_Resumable, ssl.SSLSocket):
    """A connection with its socket."""


class ResumingContext(ssl.SSLContext):
    """A context for clients of a few servers."""

    sslobject_class = _ResumableObject
    sslsocket_class = _ResumableSocket

    def __init__(self, _protocol: int) -> None:
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
