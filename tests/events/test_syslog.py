"""Syslog over UDP, TCP, TLS and Unix sockets, as a server reads it, with text that tries to forge messages."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.events.receivers import eventually, listen_on_loopback, make_events, make_server_context

from gatepost.events.output import QueuedOutput, SyslogSender, format_syslog
from gatepost.events.schema import EncodedEvent, HealthChanged, UserSignInFailed, bound, encode_event
from gatepost.events.stream import SYSLOG_BATCH
from gatepost.settings.events import SyslogSettings

# RFC 5424 section 6, with nil structured data.
MESSAGE = re.compile(
    rb"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([!-~]{1,255}) (gatepost) (\d+) ([!-~]{1,32}) - (\{.*\})\Z"
)
HOSTILE = bound("<34>1 2030-01-01T00:00:00Z x y - - - forged\n12 <34>1 z\x00\u2028\u202e")


def syslog_output(address: str, *, sends: bool = True, **more: object) -> QueuedOutput:
    stated = SyslogSettings.model_validate({"address": address, **more})
    return QueuedOutput("syslog", SyslogSender(stated, "n"), batch=SYSLOG_BATCH, sends=sends)


def hostile_events() -> list[EncodedEvent]:
    failed = UserSignInFailed(user=HOSTILE, address=HOSTILE, reason="locked")
    return [encode_event(failed, "n"), *make_events(3)]


def read_frames(stream: bytes) -> list[bytes]:
    """What RFC 6587 section 3.4.1 says of a stream: length, space, so many bytes."""
    frames = []
    while stream:
        length, _, rest = stream.partition(b" ")
        frames.append(rest[: int(length)])
        stream = rest[int(length) :]
    return frames


def ids_of(messages: list[bytes]) -> list[str]:
    found = [MESSAGE.match(message) for message in messages]
    return [json.loads(match.group(7))["id"] for match in found if match]


def test_a_message_is_what_the_standard_says() -> None:
    event = encode_event(HealthChanged(component="storage", before="ok", after="failed", reason=HOSTILE), "n")
    found = MESSAGE.match(format_syslog(event, "local0", "mx1.example"))
    assert found
    assert found.group(1, 3, 6) == (b"131", b"mx1.example", b"health.changed")
    assert json.loads(found.group(7))["reason"] == HOSTILE


def test_udp_has_an_event_in_each_datagram() -> None:
    events = hostile_events()
    with listen_on_loopback(socket.SOCK_DGRAM) as server:
        output = syslog_output(f"udp://127.0.0.1:{server.getsockname()[1]}", facility="mail")
        output.write(events)
        messages = [server.recv(1 << 16) for _ in events]
        output.close(10)
    assert ids_of(messages) == [event.id for event in events]
    assert messages[0].startswith(b"<20>1 ")


class StreamServer:
    """Takes connections one after the other and keeps what each sent; `secure` wraps one."""

    def __init__(self, listening: socket.socket, secure: Callable[[socket.socket], socket.socket]) -> None:
        self.received = b""
        self.open: list[socket.socket] = []
        self._listening, self._secure = listening, secure
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection = self._secure(self._listening.accept()[0])
            except OSError:
                return
            self.open.append(connection)
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(1 << 16):
                self.received += data
        except OSError:
            pass


@contextmanager
def serving(
    listening: socket.socket, secure: Callable[[socket.socket], socket.socket] = lambda each: each
) -> Iterator[StreamServer]:
    with listening:
        server = StreamServer(listening, secure)
        yield server
        for connection in server.open:
            connection.close()


def complete(server: StreamServer, events: list[EncodedEvent]) -> Callable[[], bool]:
    def is_complete() -> bool:
        try:
            return ids_of(read_frames(server.received))[-1:] == [events[-1].id]
        except (ValueError, IndexError):
            return False

    return is_complete


def test_tcp_has_the_length_of_each_event_in_front() -> None:
    events = hostile_events()
    listening = listen_on_loopback(socket.SOCK_STREAM)
    with serving(listening) as server:
        output = syslog_output(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        output.write(events)
        eventually(complete(server, events))
        output.close(10)
    assert ids_of(read_frames(server.received)) == [event.id for event in events]


def test_a_connection_that_was_closed_is_opened_again() -> None:
    events = make_events(4)
    listening = listen_on_loopback(socket.SOCK_STREAM)
    with serving(listening) as server:
        output = syslog_output(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        output.write(events[:2])
        eventually(complete(server, events[:2]))
        server.open[0].shutdown(socket.SHUT_RDWR)
        server.open[0].close()
        output.write(events[2:])
        eventually(complete(server, events))
        output.close(10)
        assert len(server.open) == 2
    assert ids_of(read_frames(server.received)) == [event.id for event in events]


def test_events_wait_for_a_server_that_is_away() -> None:
    events = make_events(3)
    port = listen_on_loopback(socket.SOCK_STREAM)
    number = port.getsockname()[1]
    port.close()
    output = syslog_output(f"tcp://127.0.0.1:{number}")
    output.write(events)
    eventually(lambda: output.counters().failures > 1)
    listening = socket.create_server(("127.0.0.1", number))
    with serving(listening) as server:
        eventually(complete(server, events))
        output.close(10)
    assert output.counters().delivered == 3
    assert output.counters().waiting_bytes == 0


def test_tls_is_verified(tmp_path: Path) -> None:
    context = make_server_context(tmp_path)
    listening, events = listen_on_loopback(socket.SOCK_STREAM), hostile_events()
    address = f"tls://localhost:{listening.getsockname()[1]}"
    with serving(listening, lambda each: context.wrap_socket(each, server_side=True)) as server:
        output = syslog_output(address, ca=str(tmp_path / "c.pem"))
        output.write(events)
        eventually(complete(server, events))
        output.close(10)
    assert ids_of(read_frames(server.received)) == [event.id for event in events]


def test_a_strange_certificate_is_refused(tmp_path: Path) -> None:
    context, listening = make_server_context(tmp_path), listen_on_loopback(socket.SOCK_STREAM)
    with serving(listening, lambda each: context.wrap_socket(each, server_side=True)):
        output = syslog_output(f"tls://localhost:{listening.getsockname()[1]}", sends=False)
        assert "certificate" in output.test(make_events(1)[0])


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_unix_sockets_of_both_types(tmp_path: Path, kind: socket.SocketKind) -> None:
    events = hostile_events()
    listening = socket.socket(socket.AF_UNIX, kind)
    listening.bind(str(tmp_path / "log"))
    output = syslog_output(f"unix:{tmp_path / 'log'}", sends=False)
    if kind == socket.SOCK_DGRAM:
        with listening:
            output.write(events)
            output.close(10)
            assert ids_of([listening.recv(1 << 16) for _ in events]) == [event.id for event in events]
        return
    listening.listen()
    with serving(listening) as server:
        output.write(events)
        output.close(10)
        eventually(complete(server, events))


def test_a_test_says_what_is_wrong(tmp_path: Path) -> None:
    output = syslog_output(f"unix:{tmp_path / 'absent'}", sends=False)
    assert output.test(make_events(1)[0]) == "cannot be reached: no such file or directory"
