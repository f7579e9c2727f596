"""Outputs of the event stream: what an output is, the queue of one that sends over a network, files, syslog and mail.

An output gets batches from one thread of the stream and must not block it: files are written there and then, what goes
over a network waits in memory or on disk for the output's own thread. A send that fails is repeated after a wait that
doubles from one second to five minutes. While a process stops, each output has some seconds to send what is left. What
an output gets was chosen by its filter (`stream`).

A file has events as JSON lines, which only its owner can read, and needs no thread. Several processes may write one
file (guard, abby, a command): each batch is one `write` to a file that was opened for appending. A process whose file
was moved away or deleted, by another one or by logrotate, opens the path again before the next batch. At `maxSize` a
file is renamed to `NAME.1`, that to `NAME.2`, and so on. A lock lets one process write at a time.

Nothing waits for the disk (no fsync): a kill of the process loses nothing that was written, a power cut may lose the
last seconds. While the file cannot be written, events wait in memory; beyond eight MiB the oldest are dropped.

A syslog server gets RFC 5424 messages whose text is the event as JSON. Over UDP (RFC 5426) an event is a datagram; over
TCP and TLS (RFC 5425) a frame with its length in front (RFC 6587 section 3.4.1), so that nothing inside a message can
end it; over a Unix socket a datagram, or frames where the socket is a stream. Syslog has no acknowledgement: what the
system took before a connection broke may be lost. While the server cannot be reached, events wait in memory; beyond
eight MiB the oldest are dropped.
"""

import contextlib
import errno
import fcntl
import os
import random
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Any, Protocol, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import astuple

from gatepost.events.schema import EncodedEvent
from gatepost.process.logs import Logger
from gatepost.settings.events import EventMailSettings, Facility, Severity, SyslogSettings

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
IDLE_SECONDS = 1.0
# What waits in memory for a server that does not answer.
MAX_WAITING_BYTES = 8 << 20

log = Logger("gatepost.events")


class OutputCounters(msgspec.Struct, frozen=True):
    """Events that an output delivered or gave up, attempts that failed, and bytes that wait."""

    delivered: int = 0
    dropped: int = 0
    failures: int = 0
    waiting_bytes: int = 0

    def __add__(self, other: "OutputCounters") -> "OutputCounters":
        return OutputCounters(*map(sum, zip(astuple(self), astuple(other), strict=True)))


class Output(Protocol):
    """Something that gets events. `write` and `close` are called by one thread and never raise."""

    @property
    def name(self) -> str:
        """What metrics and logs call it."""
        ...

    @property
    def address(self) -> str:
        """Where events go, for people; without secrets."""
        ...

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Take a batch; quick."""
        ...

    def close(self, seconds: float) -> None:
        """Deliver what can be delivered within so many seconds, and end."""
        ...

    def test(self, event: EncodedEvent) -> str:
        """Deliver one event at once; "" if that worked, else the end of a sentence that starts with the output."""
        ...

    def counters(self) -> OutputCounters: ...


class DeliveryError(Exception):
    """A send failed; the text is the end of a sentence that starts with the output."""


class DeliveryCounter:
    """Counts attempts, and logs when an output begins to fail and when it works again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._failing = False
        self.delivered = self.dropped = self.failures = 0

    def succeed(self, count: int) -> None:
        self.delivered += count
        if self._failing:
            log.info("events are delivered again", output=self._name)
        self._failing = False

    def fail(self, reason: str) -> None:
        self.failures += 1
        if not self._failing:
            log.warning("events are not delivered", output=self._name, reason=reason)
        self._failing = True

    def drop(self, count: int) -> None:
        if count and not self.dropped:
            log.error("events are dropped: too many wait", output=self._name)
        self.dropped += count

    def counters(self, waiting_bytes: int = 0) -> OutputCounters:
        return OutputCounters(self.delivered, self.dropped, self.failures, waiting_bytes)


class WaitingEvents:
    """Events in memory, the oldest first; beyond `limit` bytes the oldest are dropped."""

    def __init__(self, limit: int = MAX_WAITING_BYTES) -> None:
        self._limit = limit
        self._events: deque[EncodedEvent] = deque()
        self._lock = threading.Lock()
        self.bytes = 0

    def add(self, events: Sequence[EncodedEvent]) -> int:
        """Add events; return how many were dropped for them."""
        dropped = 0
        with self._lock:
            self._events.extend(events)
            self.bytes += sum(len(event.line) for event in events)
            while self.bytes > self._limit:
                self.bytes -= len(self._events.popleft().line)
                dropped += 1
        return dropped

    def take(self, count: int = sys.maxsize) -> list[EncodedEvent]:
        with self._lock:
            taken = [self._events.popleft() for _ in range(min(count, len(self._events)))]
            self.bytes -= sum(len(event.line) for event in taken)
        return taken

    def put_back(self, events: Sequence[EncodedEvent]) -> int:
        """Put events back that could not be sent; return how many had no place any more."""
        with self._lock:
            self._events.extendleft(reversed(events))
            self.bytes += sum(len(event.line) for event in events)
        return self.add(())


class SendingThread:
    """Calls `send_some` again and again, with growing waits after failures. It sends the next events that wait; returns
    False where there are none, and raises `DeliveryError`."""

    def __init__(self, name: str, send_some: Callable[[], bool], deliveries: DeliveryCounter) -> None:
        self._send_some, self._deliveries = send_some, deliveries
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"events-{name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something to send."""
        self._wake.set()

    def stop(self, seconds: float) -> None:
        """Let the thread send what is left, until its first failure or for so many seconds."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        failed = 0
        while True:
            # Asked before: what came until the stop is sent once more after it.
            is_last = self._stopping.is_set()
            try:
                sent = self._send_some()
            except (DeliveryError, OSError) as fault:
                self._deliveries.fail(str(fault))
                failed += 1
                if self._stopping.wait(next_wait(failed)):
                    return
                continue
            failed = 0
            if not sent:
                if is_last:
                    return
                self._wake.wait(IDLE_SECONDS)
                self._wake.clear()


def next_wait(failed: int) -> float:
    """Return the seconds to wait after so many failures in a row, with some chance in it."""
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failed - 1, 20))
    return longest * random.uniform(0.75, 1.0)  # noqa: S311  no secret


def until(seconds: float) -> float:
    """Return the moment in so many seconds, on the clock that `time_left` reads."""
    return time.monotonic() + seconds


def time_left(end: float) -> float:
    """Return the seconds until a moment; never below zero."""
    return max(0.0, end - time.monotonic())


class Sender(Protocol):
    """Sends events over a network. One thread at a time calls it."""

    @property
    def address(self) -> str:
        """Where events go, for people; without secrets."""
        ...

    def send(self, events: Sequence[EncodedEvent]) -> None:
        """Send events; raises `DeliveryError`."""
        ...

    def close(self) -> None: ...


class QueuedOutput:
    """Events that wait in memory for a sender, which gets `batch` of them at a time. Those that fail are sent again;
    after `attempts`, if there are to be so many, they are dropped. Without a thread (`sends`) events are sent when the
    output is closed."""

    def __init__(
        self,
        name: str,
        sender: Sender,
        *,
        batch: int = 1,
        limit: int = MAX_WAITING_BYTES,
        attempts: int | None = None,
        sends: bool = True,
    ) -> None:
        self.name, self.address = name, sender.address
        self._sender, self._batch, self._attempts = sender, batch, attempts
        self._failed = 0
        self._waiting = WaitingEvents(limit)
        self._deliveries = DeliveryCounter(name)
        self._thread = SendingThread(name, self.send_some, self._deliveries) if sends else None

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Let a batch wait for the thread that sends."""
        self._deliveries.drop(self._waiting.add(events))
        if self._thread and events:
            self._thread.wake()

    def send_some(self) -> bool:
        """Send the oldest events; what fails is put back, so that some may arrive twice."""
        batch = self._waiting.take(self._batch)
        if not batch:
            return False
        try:
            self._sender.send(batch)
        except DeliveryError:
            self._failed += 1
            is_over = self._failed == self._attempts
            self._deliveries.drop(len(batch) if is_over else self._waiting.put_back(batch))
            self._failed = 0 if is_over else self._failed
            raise
        self._failed = 0
        self._deliveries.succeed(len(batch))
        return True

    def close(self, seconds: float) -> None:
        """Send what can be sent in time; the rest is lost."""
        if self._thread:
            self._thread.stop(seconds)
        else:
            self._send_all()
        self._sender.close()

    def test(self, event: EncodedEvent) -> str:
        return try_sender(self._sender, event)

    def counters(self) -> OutputCounters:
        return self._deliveries.counters(self._waiting.bytes)

    def _send_all(self) -> None:
        try:
            while self.send_some():
                pass
        except DeliveryError as fault:
            self._deliveries.fail(str(fault))


def try_sender(sender: Sender, event: EncodedEvent) -> str:
    """Send one event at once; "" if that worked, else the end of a sentence that starts with the output."""
    try:
        sender.send([event])
    except DeliveryError as fault:
        return str(fault)
    finally:
        sender.close()
    return ""


FILE_MODE, FOLDER_MODE = 0o600, 0o700
BATCH = 10_000
LOCK_SECONDS, LOCK_PAUSE = 1.0, 0.005


class FileOutput:
    """A file of JSON lines."""

    name = "file"

    def __init__(self, path: Path, max_size: int, keep: int) -> None:
        self._path, self._max_size, self._keep = path, max_size, keep
        self.address = str(path)
        self._waiting = WaitingEvents()
        self._deliveries = DeliveryCounter(self.name)
        self._file: int | None = None
        self._size = 0

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Append a batch, and what waits from before."""
        self._deliveries.drop(self._waiting.add(events))
        while batch := self._waiting.take(BATCH):
            try:
                self._append(b"".join([event.line + b"\n" for event in batch]))
            except OSError as fault:
                self._deliveries.fail(f"cannot be written: {describe_error(fault)}")
                self._forget_file()
                self._waiting.put_back(batch)
                return
            self._deliveries.succeed(len(batch))

    def close(self, _seconds: float) -> None:
        """Try once more to write what waits, and close the file."""
        self.write(())
        self._forget_file()

    def test(self, event: EncodedEvent) -> str:
        try:
            self._append(event.line + b"\n")
        except OSError as fault:
            return f"cannot be written: {describe_error(fault)}"
        finally:
            self._forget_file()
        return ""

    def counters(self) -> OutputCounters:
        return self._deliveries.counters(self._waiting.bytes)

    def _append(self, data: bytes) -> None:
        self._path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        with lock_file(self._numbered("lock"), LOCK_SECONDS):
            file = self._open_current()
            if self._size and self._size + len(data) > self._max_size:
                self._rotate()
                file = self._open_current()
            append_whole(file, data)

    def _open_current(self) -> int:
        """Return the file that has the path now."""
        if self._file is not None:
            try:
                there, ours = self._path.stat(), os.fstat(self._file)
            except FileNotFoundError:
                self._forget_file()
            else:
                if (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev):
                    self._size = there.st_size
                    return self._file
                self._forget_file()
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._size = os.fstat(self._file).st_size
        return self._file

    def _rotate(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            if self._numbered(number).exists():
                self._numbered(number).replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        self._forget_file()

    def _numbered(self, number: int | str) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _forget_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


@contextlib.contextmanager
def lock_file(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a file, which ends with the process; `OSError` if another process has it for so long."""
    lock = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    end = until(seconds)
    try:
        while not try_lock(lock):
            if not time_left(end):
                raise OSError(errno.EAGAIN, "another process does not let go of it")
            time.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(lock)


def try_lock(file: int) -> bool:
    """Return whether the lock of an open file is held now; it ends with the file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def append_whole(file: int, data: bytes) -> None:
    """Append to a file. A full disk takes a part; that is taken back, so that no line is cut. Raises `OSError`."""
    before = os.fstat(file).st_size
    if os.write(file, data) < len(data):
        os.ftruncate(file, before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def describe_error(fault: OSError) -> str:
    """Return what the system says of an error, without the path."""
    return (fault.strerror or str(fault) or type(fault).__name__).lower()


SEND_SECONDS = 10.0
# IPv4's 65,535 bytes without the headers of IP and UDP.
MAX_DATAGRAM = 65_507
FACILITIES = dict(zip(get_args(Facility), (1, 2, 3, 4, 5, 10, *range(16, 24)), strict=True))  # RFC 5424, table 1
SEVERITIES: dict[Severity, int] = {"error": 3, "warning": 4, "notice": 5, "info": 6}
PORTS = {"udp": 514, "tcp": 601, "tls": 6514}


def format_syslog(event: EncodedEvent, facility: Facility, node: str) -> bytes:
    """Return an event as a message of RFC 5424 section 6: MSGID is the kind; the JSON is plain UTF-8 without a BOM."""
    priority = FACILITIES[facility] * 8 + SEVERITIES[event.severity]
    header = f"<{priority}>1 {event.at} {node[:255]} gatepost {os.getpid()} {event.kind} - "
    return header.encode("ascii") + event.line


class SyslogSender:
    """A socket to a syslog server, opened when it is needed."""

    def __init__(self, settings: SyslogSettings, node: str) -> None:
        self.address = settings.address
        self._facility, self._node = settings.facility, node
        self._tls = ssl.create_default_context(cafile=settings.ca) if self.address.startswith("tls:") else None
        self._socket: socket.socket | None = None
        self._framed = False

    def send(self, events: Sequence[EncodedEvent]) -> None:
        messages = [format_syslog(event, self._facility, self._node) for event in events]
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
        if self.address.startswith("unix:"):
            return self._open_unix(self.address.removeprefix("unix:"))
        parts = urlsplit(self.address)
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


# Sends one message; raises `DeliveryError`.
SendsMail = Callable[[EmailMessage], None]

_HEAD = ("schema", "event", "id", "at", "node")
# What the line says of an event beside its kind.
_SAID: dict[str, tuple[str, ...]] = {
    "health.changed": ("component", "after"),
    "node.state": ("state",),
    "user.signInFailed": ("user", "reason", "address"),
    "key.created": ("name",),
    "config.published": ("version", "reason"),
    "config.rollout": ("version", "nodeName", "outcome", "reason"),
    "key.revoked": ("name",),
    "list.changed": ("list", "change"),
    "audit.recorded": ("action",),
    "flow.limited": ("limit", "subject"),
    "rule.stopped": ("rule", "reason"),
    "threshold.reached": ("alert", "count"),
    "message.held": ("verdict",),
    "events.omitted": ("count", "reason"),
}


class MailSender:
    """Sends each event as a mail."""

    def __init__(self, settings: EventMailSettings, node: str, send_mail: SendsMail) -> None:
        self.address = ", ".join(settings.recipients)
        self._settings, self._node, self._send_mail = settings, node, send_mail

    def send(self, events: Sequence[EncodedEvent]) -> None:
        for event in events:
            self._send_mail(build_event_mail(event, self._settings, self._node))

    def close(self) -> None:
        """Do nothing: each mail has a connection of its own."""


def build_event_mail(event: EncodedEvent, settings: EventMailSettings, node: str) -> EmailMessage:
    """Return the mail (RFC 5322) of an event: its kind and its fields, one in a line, marked as written by a program
    (RFC 3834 section 5)."""
    fields = read_event(event.line)
    lines = [f"{name}: {_show(value)}" for name, value in fields.items() if name not in _HEAD]
    head = [f"event: {event.kind}", f"severity: {event.severity}", f"time: {event.at}", f"node: {node}"]
    message = EmailMessage(policy=SMTP)
    message["From"] = settings.sender or f"gatepost@{node}"
    message["To"] = ", ".join(settings.recipients)
    message["Subject"] = f"[gatepost {node}] {describe_event(fields)}"
    message["Date"] = formatdate()
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join([*head, *lines, f"id: {event.id}"]) + "\n")
    return message


def describe_event(fields: dict[str, Any]) -> str:
    """Return an event in one line for people: its kind, and what matters most in it."""
    kind = str(fields.get("event", ""))
    words = [_show(fields[name]) for name in _SAID.get(kind, ()) if name in fields]
    return " ".join([kind, *words])[:200]


def read_event(line: bytes) -> dict[str, Any]:
    """Return the fields of an event; none for a line that a power cut has damaged."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return fields


def _show(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
