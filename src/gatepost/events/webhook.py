"""Events to an HTTPS server: signed calls with batches of events, repeated until the server takes them.

A call is `POST` with `{"text": "…", "events": […]}`; the text tells of the events in one line for people. The header
`Gatepost-Signature: t=SECONDS,v1=HEX` has the HMAC-SHA-256 of `SECONDS.BODY` under the secret, so that a receiver can
tell our calls from those of others, and old ones from new ones.
Any 2xx answer counts as delivered. Everything else, redirects included, is a failure, and the same events are sent
again later: an event arrives at least once, and its `id` tells a repeated one.

Only the address that the operator wrote is called: no redirect is followed and no proxy of the environment is used.

Events wait on disk for a webhook, in a folder of segments, each a file of JSON lines. A writer appends to a segment of
its own, `ID.open`, whose lock it holds; a complete segment is `ID.jsonl`. Segments that a killed process left open have
no lock any more and are taken over. So any number of processes may write into one spool, and a command that ends at
once leaves its events to the service. One process sends: the one that has the lock of the folder. A segment is deleted
when all of it was delivered; a kill in between lets it be delivered again.

Beyond `limit` bytes the oldest segments are deleted, and their events counted as dropped. Segments are not synced to
the disk one by one: a kill of the process loses nothing that was written, a power cut may lose the last seconds.
"""

import contextlib
import fcntl
import hashlib
import hmac
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gatepost import __version__
from gatepost.events import output
from gatepost.events.output import DeliveryError, OutputCounters, append_whole
from gatepost.events.schema import EncodedEvent
from gatepost.ids import new_id
from gatepost.names import is_public_address
from gatepost.process.hiding import hide_path
from gatepost.settings.events import WebhookSettings

if TYPE_CHECKING:
    import httpx

SEGMENT_BYTES = 256 << 10
OPEN, COMPLETE = ".open", ".jsonl"


class EventSpool:
    """A spool in one folder. `append` is for one thread, the other methods for the thread that sends."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._segment_bytes = min(SEGMENT_BYTES, limit // 8)
        self._lock = threading.Lock()
        self._writing: tuple[Path, int] | None = None
        self._sender: int | None = None
        self.bytes = 0
        folder.mkdir(mode=output.FOLDER_MODE, parents=True, exist_ok=True)
        self.bytes = sum(size for _, size in self._segments())

    def append(self, events: Sequence[EncodedEvent]) -> int:
        """Write events; return how many older ones were dropped for them. Raises `OSError`."""
        dropped = 0
        with self._lock:
            done, has_completed = 0, False
            while done < len(events):
                path, file = self._writing or self._start_segment()
                room = self._segment_bytes - os.fstat(file).st_size
                data, count = _join(events[done:], room)
                append_whole(file, data)
                done += count
                self.bytes += len(data)
                if done < len(events) or len(data) >= room:
                    self._complete(path, file)
                    has_completed = True
            if has_completed:
                # Other processes write here too.
                self.bytes = sum(size for _, size in self._segments())
            if self.bytes > self._limit:
                dropped = self._drop_oldest()
        return dropped

    def take_over(self) -> bool:
        """Return whether this process is the one that sends. Raises `OSError`."""
        if self._sender is not None:
            return True
        lock = os.open(self._folder / "sender.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, output.FILE_MODE)
        if not output.try_lock(lock):
            os.close(lock)
            return False
        self._sender = lock
        return True

    def next_segment(self) -> Path | None:
        """Return the oldest segment; None if there is none. The one that is being written is completed for it."""
        self.complete_segment()
        for path, _ in self._segments():
            if path.suffix == COMPLETE:
                return path
            if complete := self._adopt(path):
                return complete
        return None

    def complete_segment(self) -> None:
        """Complete the segment that is being written, so that any process can send it."""
        with self._lock:
            if self._writing and os.fstat(self._writing[1]).st_size:
                self._complete(*self._writing)

    def delete(self, segment: Path) -> None:
        with self._lock, contextlib.suppress(FileNotFoundError):
            size = segment.stat().st_size
            segment.unlink()
            self.bytes = max(0, self.bytes - size)

    def close(self) -> None:
        """Complete what is being written, for the next sender."""
        with self._lock:
            if self._writing:
                self._complete(*self._writing)
        if self._sender is not None:
            os.close(self._sender)
        self._sender = None

    def _start_segment(self) -> tuple[Path, int]:
        self._folder.mkdir(mode=output.FOLDER_MODE, parents=True, exist_ok=True)
        while True:
            path = self._folder / f"{new_id()}{OPEN}"
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, output.FILE_MODE)
            fcntl.flock(file, fcntl.LOCK_EX)
            # Before it was locked, a sender may have taken it for one whose writer is gone, and deleted it.
            if path.exists():
                self._writing = path, file
                return self._writing
            os.close(file)

    def _complete(self, path: Path, file: int) -> None:
        self._writing = None
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_suffix(COMPLETE))
        os.close(file)

    def _adopt(self, path: Path) -> Path | None:
        """Complete a segment whose writer is gone; None while somebody writes it."""
        if self._writing and path == self._writing[0]:
            return None
        complete = path.with_suffix(COMPLETE)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                if not output.try_lock(file):
                    return None
                path.rename(complete)
            finally:
                os.close(file)
        except FileNotFoundError:
            return None
        return complete

    def _drop_oldest(self) -> int:
        """Delete the oldest segments until the rest is within the limit; return how many events they had."""
        segments, dropped = list(self._segments()), 0
        self.bytes = sum(size for _, size in segments)
        for path, size in segments:
            if self.bytes <= self._limit:
                break
            if self._writing and path == self._writing[0]:
                continue
            with contextlib.suppress(FileNotFoundError):
                dropped += path.read_bytes().count(b"\n")
                path.unlink()
            self.bytes -= size
        return dropped

    def _segments(self) -> Iterator[tuple[Path, int]]:
        """Yield every segment with its size, the oldest first: their names are ordered by time."""
        with os.scandir(self._folder) as found:
            names = sorted(entry.name for entry in found if entry.name.endswith((OPEN, COMPLETE)))
        for name in names:
            path = self._folder / name
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat().st_size


def read_segment(path: Path) -> list[bytes]:
    """Return the lines of a segment. A kill may have cut the last one; such a line is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    return [line for line in lines[:-1] if line]


def _join(events: Sequence[EncodedEvent], room: int) -> tuple[bytes, int]:
    """Return as many lines as there is room for, at least one, and their number."""
    lines: list[bytes] = []
    size = 0
    for event in events:
        size += len(event.line) + 1
        if lines and size > room:
            break
        lines.append(event.line + b"\n")
    return b"".join(lines), len(lines)


SIGNATURE = "Gatepost-Signature"
# A batch is one segment at most; this is for answers, of which nothing is needed.
MAX_ANSWER = 64 << 10
_ERROR_NUMBER = re.compile(r"\[Errno -?\d{1,5}\] ")


def sign(secret: str, body: bytes, seconds: int) -> str:
    """Return the value of the signature header for a body that is sent at this time."""
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


class WebhookCaller:
    """Makes signed calls to one address; with `public_only`, not to a host of a private network, whatever its name
    resolves to."""

    def __init__(self, target: WebhookSettings, *, public_only: bool = False) -> None:
        self.address = hide_path(target.url)
        self._url, self._secret, self._seconds = target.url, target.secret, target.timeout / 1000
        self._public_only = public_only
        import httpx

        tls = ssl.create_default_context(cafile=target.ca)
        self._client = httpx.Client(verify=tls, timeout=self._seconds, follow_redirects=False, trust_env=False)

    def send(self, events: Sequence[EncodedEvent]) -> None:
        self.call([event.line for event in events])

    def call(self, lines: Sequence[bytes]) -> None:
        """Make one call with the lines of events; raises `DeliveryError` unless the server takes it."""
        import httpx

        body = build_body(lines)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"gatepost/{__version__}",
            SIGNATURE: sign(self._secret, body, int(time.time())),
        }
        try:
            url, extensions = self._pin(headers) if self._public_only else (httpx.URL(self._url), {})
            with self._client.stream(
                "POST", url, content=body, headers=headers, extensions=extensions, timeout=self._seconds
            ) as answer:
                status = answer.status_code
                self._skip_body(answer)
        except (httpx.HTTPError, OSError, ssl.SSLError) as fault:
            raise DeliveryError(_describe(fault)) from None
        if not 200 <= status < 300:
            raise DeliveryError(f"answered {status}")

    def close(self) -> None:
        self._client.close()

    def _pin(self, headers: dict[str, str]) -> "tuple[httpx.URL, dict[str, str]]":
        """Return the URL with a public address in place of the name, which stays in Host and in the TLS handshake:
        asked again, DNS could name another one."""
        import httpx

        url = httpx.URL(self._url)
        # As it is written: `host` is decoded from IDNA, which a label that is none does not survive.
        host = url.raw_host.decode("ascii")
        found = socket.getaddrinfo(host, url.port or 443, type=socket.SOCK_STREAM)
        addresses = dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found)
        public = [each for each in addresses if is_public_address(ipaddress.ip_address(each))]
        if not public:
            raise DeliveryError("has an address in a private network")
        headers["Host"] = url.netloc.decode("ascii")
        return url.copy_with(host=public[0]), {"sni_hostname": host}

    def _skip_body(self, answer: "httpx.Response") -> None:
        """Read a short answer, so that the connection can be used again; a long or slow one is cut off with it."""
        size, end = 0, output.until(self._seconds)
        for piece in answer.iter_raw():
            size += len(piece)
            if size > MAX_ANSWER or not output.time_left(end):
                return


class WebhookOutput:
    """One webhook with its spool. Without a thread it only writes the spool, for a service to send."""

    def __init__(self, name: str, settings: WebhookSettings, folder: Path, *, sends: bool = True) -> None:
        self.name, self.address = name, hide_path(settings.url)
        self._batch = settings.batch
        self._spool = EventSpool(folder / spool_name(settings.url), settings.max_spool)
        self._caller = WebhookCaller(settings)
        self._deliveries = output.DeliveryCounter(self.name)
        self._unwritten = output.WaitingEvents()
        self._part: tuple[Path, list[bytes]] | None = None
        self._thread = output.SendingThread(name, self.send_some, self._deliveries) if sends else None

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Put a batch on disk, and wake the thread that sends."""
        dropped = self._unwritten.add(events)
        batch = self._unwritten.take(len(events) + 1_000)
        try:
            dropped += self._spool.append(batch)
        except OSError as fault:
            self._deliveries.fail(f"has a spool that cannot be written: {output.describe_error(fault)}")
            dropped += self._unwritten.put_back(batch)
        self._deliveries.drop(dropped)
        if self._thread and batch:
            self._thread.wake()

    def send_some(self) -> bool:
        """Send the next batch of the oldest segment."""
        if not self._spool.take_over():
            self._spool.complete_segment()
            return False
        segment, lines = self._part or self._next_part()
        if segment is None:
            return False
        if lines:
            self._send(segment, lines)
        if self._part is None:
            self._spool.delete(segment)
        return True

    def close(self, seconds: float) -> None:
        """Send what can be sent in time; the rest stays on disk for the next start."""
        self.write(())
        if self._thread:
            self._thread.stop(seconds)
        self._spool.close()
        self._caller.close()

    def test(self, event: EncodedEvent) -> str:
        """Call the server with one event, past the spool."""
        self._spool.close()
        return output.try_sender(self._caller, event)

    def counters(self) -> OutputCounters:
        return self._deliveries.counters(self._spool.bytes + self._unwritten.bytes)

    def _next_part(self) -> tuple[Path | None, list[bytes]]:
        segment = self._spool.next_segment()
        return segment, read_segment(segment) if segment else []

    def _send(self, segment: Path, lines: list[bytes]) -> None:
        """Send the first lines of a segment; what is left of it is the next part."""
        self._part = segment, lines
        batch = lines[: self._batch]
        try:
            self._caller.call(batch)
        except DeliveryError:
            if not segment.exists():
                self._part = None  # it was dropped meanwhile, to make room
            raise
        self._deliveries.succeed(len(batch))
        self._part = (segment, lines[len(batch) :]) if len(batch) < len(lines) else None


def build_body(lines: Sequence[bytes]) -> bytes:
    """Return the body of a call with the lines of these events."""
    first = output.read_event(lines[0])
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    text = msgspec.json.encode(f"{output.describe_event(first)}{more} ({first.get('node', '')})")
    return b'{"text":' + text + b',"events":[' + b",".join(lines) + b"]}"


def spool_name(url: str) -> str:
    """Return the name of the folder in which events for an address wait."""
    return f"webhook-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


def _describe(fault: Exception) -> str:
    import httpx

    if isinstance(fault, httpx.TimeoutException):
        return "did not answer in time"
    if isinstance(fault, httpx.ConnectError):
        return f"cannot be reached: {_ERROR_NUMBER.sub('', str(fault)).lower() or 'no connection'}"
    return f"broke off: {str(fault).lower() or type(fault).__name__}"
