"""Events to a syslog server: RFC 5424 messages whose text is the event as JSON.

Over UDP (RFC 5426) an event is a datagram; over TCP and TLS (RFC 5425) a frame with its length in front (RFC 6587
section 3.4.1), so that nothing inside a message can end it; over a Unix socket a datagram, or frames where the socket
is a stream. Syslog has no acknowledgement: what the system took before a connection broke may be lost. While the server
cannot be reached, events wait in memory; beyond eight MiB the oldest are dropped.
"""

import errno
import os
import socket
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from gatepost.events.output import (
    DeliveryCounter,
    DeliveryError,
    OutputCounters,
    SendingThread,
    WaitingEvents,
    describe_error,
    of_kinds,
)
from gatepost.events.schema import EncodedEvent
from gatepost.settings.events import Facility, Severity, SyslogSettings

SEND_SECONDS = 10.0
BATCH = 100
# IPv4's 65,535 bytes without the headers of IP and UDP.
MAX_DATAGRAM = 65_507
FACILITIES: dict[Facility, int] = {
    "user": 1,
    "mail": 2,
    "daemon": 3,
    "auth": 4,
    "syslog": 5,
    "authpriv": 10,
    "local0": 16,
    "local1": 17,
    "local2": 18,
    "local3": 19,
    "local4": 20,
    "local5": 21,
    "local6": 22,
    "local7": 23,
}
SEVERITIES: dict[Severity, int] = {"error": 3, "warning": 4, "notice": 5, "info": 6}
PORTS = {"udp": 514, "tcp": 601, "tls": 6514}


def format_syslog(event: EncodedEvent, facility: Facility, node: str) -> bytes:
    """Return an event as a message of RFC 5424 section 6: MSGID is the kind; the JSON is plain UTF-8 without a BOM."""
    priority = FACILITIES[facility] * 8 + SEVERITIES[event.severity]
    header = f"<{priority}>1 {event.at} {node[:255]} gatepost {os.getpid()} {event.kind} - "
    return header.encode("ascii") + event.line


class SyslogConnection:
    """A socket to a syslog server, opened when it is needed."""

    def __init__(self, settings: SyslogSettings) -> None:
        self._address = settings.address
        self._tls = ssl.create_default_context(cafile=settings.ca) if self._address.startswith("tls:") else None
        self._socket: socket.socket | None = None
        self._framed = False

    def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; raises `DeliveryError`."""
        try:
            connected = self._connect()
            if self._framed:
                connected.sendall(b"".join([b"%d %s" % (len(each), each) for each in messages]))
            else:
                for each in messages:
                    connected.send(each[:MAX_DATAGRAM])
        except OSError as fault:
            self.close()
            raise DeliveryError(f"cannot be reached: {describe_error(fault)}") from None

    def close(self) -> None:
        """Close the socket."""
        if self._socket:
            self._socket.close()
        self._socket = None

    def _connect(self) -> socket.socket:
        if self._socket and self._framed and _is_closed(self._socket):
            self.close()
        if self._socket is None:
            self._socket = self._open()
        return self._socket

    def _open(self) -> socket.socket:
        if self._address.startswith("unix:"):
            return self._open_unix(self._address.removeprefix("unix:"))
        parts = urlsplit(self._address)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        self._framed = parts.scheme != "udp"
        if not self._framed:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            datagrams = socket.socket(family, kind, protocol)
            datagrams.connect(address)
            return datagrams
        plain = socket.create_connection((host, port), SEND_SECONDS)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._tls is None:
            return plain
        try:
            return self._tls.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def _open_unix(self, path: str) -> socket.socket:
        for kind, framed in ((socket.SOCK_DGRAM, False), (socket.SOCK_STREAM, True)):
            local = socket.socket(socket.AF_UNIX, kind)
            local.settimeout(SEND_SECONDS)
            try:
                local.connect(path)
            except OSError as fault:
                local.close()
                # The path is a socket of the other type.
                if framed or fault.errno != errno.EPROTOTYPE:
                    raise
                continue
            self._framed = framed
            return local
        raise AssertionError("not reached")


class SyslogOutput:
    """A syslog server, with a thread that sends to it; without the thread events are sent when the output is closed."""

    name = "syslog"

    def __init__(self, settings: SyslogSettings, node: str, *, sends: bool = True) -> None:
        self.address = settings.address
        self._facility, self._kinds, self._node = settings.facility, frozenset(settings.kinds), node
        self._connection = SyslogConnection(settings)
        self._waiting = WaitingEvents()
        self._deliveries = DeliveryCounter(self.name)
        self._thread = SendingThread("syslog", self.send_some, self._deliveries) if sends else None

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Let a batch wait for the thread that sends."""
        self._deliveries.drop(self._waiting.add(of_kinds(events, self._kinds)))
        if self._thread:
            self._thread.wake()

    def send_some(self) -> bool:
        """Send the oldest events; what fails is put back, so that some may arrive twice."""
        batch = self._waiting.take(BATCH)
        if not batch:
            return False
        try:
            self._connection.send([format_syslog(event, self._facility, self._node) for event in batch])
        except DeliveryError:
            self._deliveries.drop(self._waiting.put_back(batch))
            raise
        self._deliveries.succeed(len(batch))
        return True

    def close(self, seconds: float) -> None:
        """Send what can be sent in time; the rest is lost, and counted."""
        if self._thread:
            self._thread.stop(seconds)
        else:
            self._send_all()
        self._connection.close()

    def test(self, event: EncodedEvent) -> str:
        """Send one event."""
        try:
            self._connection.send([format_syslog(event, self._facility, self._node)])
        except DeliveryError as fault:
            return str(fault)
        finally:
            self._connection.close()
        return ""

    def counters(self) -> OutputCounters:
        return self._deliveries.counters(self._waiting.bytes)

    def _send_all(self) -> None:
        try:
            while self.send_some():
                pass
        except DeliveryError as fault:
            self._deliveries.fail(str(fault))


def _is_closed(connected: socket.socket) -> bool:
    """Return whether the server has closed the connection; it has nothing to say otherwise."""
    connected.setblocking(False)
    try:
        # A TLS connection cannot be peeked at; what it reads is not needed.
        return connected.recv(1) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        connected.settimeout(SEND_SECONDS)
