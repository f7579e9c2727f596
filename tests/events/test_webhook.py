"""Webhooks: signed, at least once, on disk within a bound, and past a kill."""

import fcntl
import hashlib
import hmac
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.cancelling import count_sockets
from tests.events.receivers import Receiver, eventually, make_events, make_server_context
from tests.own_names import replace_in

from gatepost.events import webhook
from gatepost.events.output import DeliveryError, next_wait
from gatepost.events.webhook import SIGNATURE, EventSpool, WebhookCaller, WebhookOutput, read_segment, spool_name
from gatepost.process import logs
from gatepost.settings.events import WebhookSettings

SECRET = "0123456789abcdef" * 4


def settings(url: str, **more: object) -> WebhookSettings:
    return WebhookSettings.model_validate({"url": url, "secret": SECRET, **more})


def test_a_receiver_that_fails_half_of_the_time_loses_nothing(tmp_path: Path, receiver: Receiver) -> None:
    # Every second call fails, in turn by an error, a refusal and a connection that breaks.
    receiver.answer = lambda number: 200 if number % 2 else (500, 429, 0)[number // 2 % 3]
    hook, events = WebhookOutput("webhook-1", settings(receiver.url, batch=7), tmp_path), make_events(500)
    for start in range(0, 500, 25):
        hook.write(events[start : start + 25])
    eventually(lambda: len(set(receiver.ids)) == 500)
    hook.close(10)
    assert receiver.ids == [event.id for event in events]
    assert hook.counters().delivered == 500
    assert hook.counters().failures >= len(receiver.taken)
    assert hook.counters().dropped == hook.counters().waiting_bytes == 0


def test_calls_are_signed(tmp_path: Path, receiver: Receiver) -> None:
    hook = WebhookOutput("webhook-1", settings(receiver.url), tmp_path)
    hook.write(make_events(2))
    eventually(lambda: len(receiver.taken) == 1)
    hook.close(10)
    headers, body = receiver.calls[0]
    fields = dict(part.split("=") for part in headers[SIGNATURE].split(","))
    right = hmac.new(SECRET.encode(), fields["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert fields["v1"] == right
    assert headers["Content-Type"] == "application/json"


def test_redirects_are_not_followed(tmp_path: Path, receiver: Receiver) -> None:
    receiver.location = f"http://127.0.0.1:{receiver.server_port}/elsewhere"
    receiver.answer = lambda number: 307 if number < 3 else 204
    hook = WebhookOutput("webhook-1", settings(receiver.url), tmp_path)
    hook.write(make_events(1))
    eventually(lambda: len(receiver.taken) == 1)
    hook.close(10)
    assert hook.counters().failures == 3
    assert len(receiver.calls) == 4


def test_what_waits_is_bounded_and_the_oldest_goes_first(tmp_path: Path) -> None:
    limit = 1 << 16
    hook = WebhookOutput("webhook-1", settings("http://127.0.0.1:9/", maxSpool=limit), tmp_path, sends=False)
    events = make_events(1_000)
    for start in range(0, 1_000, 10):
        hook.write(events[start : start + 10])
    folder = tmp_path / spool_name("http://127.0.0.1:9/")
    assert sum(path.stat().st_size for path in folder.iterdir()) <= limit
    hook.close(1)
    spool, left = EventSpool(folder, limit), []
    while segment := spool.next_segment():
        left += read_segment(segment)
        spool.delete(segment)
    spool.close()
    assert left == [event.line for event in events[-len(left) :]]
    assert hook.counters().dropped == 1_000 - len(left) > 0


def test_what_was_on_disk_at_a_kill_is_sent_after_it(tmp_path: Path, receiver: Receiver) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.events.receivers import make_events\n"
        "from gatepost.settings.events import WebhookSettings\n"
        "from gatepost.events.webhook import WebhookOutput\n"
        "settings = lambda url: WebhookSettings(url=url, secret='x')\n"
        "hook = WebhookOutput('webhook-1', settings(sys.argv[1]), Path(sys.argv[2]), sends=False)\n"
        "events = make_events(50); hook.write(events)\n"
        "print(*[event.id for event in events], flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, receiver.url, str(tmp_path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        ids = process.stdout.readline().split()
        hook = WebhookOutput("webhook-1", settings(receiver.url), tmp_path)
        # A process that lives still writes its segment; nobody takes it away.
        hook.write([])
        assert len(list((tmp_path / spool_name(receiver.url)).glob("*.open"))) == 1
        process.send_signal(signal.SIGKILL)
    eventually(lambda: receiver.ids == ids)
    hook.close(10)
    assert len(ids) == 50


def test_a_command_leaves_its_events_to_the_service(tmp_path: Path, receiver: Receiver) -> None:
    service = WebhookOutput("webhook-1", settings(receiver.url), tmp_path)
    command, events = WebhookOutput("webhook-1", settings(receiver.url), tmp_path, sends=False), make_events(3)
    command.write(events)
    command.close(1)
    eventually(lambda: receiver.ids == [event.id for event in events])
    service.close(10)


def test_a_segment_that_is_taken_before_it_is_locked_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moment when a segment is created and the one when it is locked, another process may look."""
    writer, sender = EventSpool(tmp_path, 1 << 20), EventSpool(tmp_path, 1 << 20)
    looked: list[Path | None] = []

    def look_first(file: int, operation: int) -> None:
        if not looked:
            looked.append(sender.next_segment())
            assert looked[0]
            sender.delete(looked[0])
        fcntl.flock(file, operation)

    replace_in(monkeypatch, webhook, "fcntl", flock=look_first)
    (event,) = make_events(1)
    writer.append([event])
    writer.close()
    left = sender.next_segment()
    assert left
    assert read_segment(left) == [event.line]


def test_one_process_sends_and_the_next_takes_over(tmp_path: Path) -> None:
    first, second = EventSpool(tmp_path, 1 << 20), EventSpool(tmp_path, 1 << 20)
    assert first.take_over()
    assert first.take_over()
    assert not second.take_over()
    first.close()
    assert second.take_over()
    second.close()


def test_a_stop_leaves_the_rest_on_disk(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answer = lambda _number: 503
    hook, events = WebhookOutput("webhook-1", settings(receiver.url), tmp_path), make_events(5)
    hook.write(events)
    hook.close(10)
    receiver.answer = lambda _number: 200
    again = WebhookOutput("webhook-1", settings(receiver.url), tmp_path)
    eventually(lambda: receiver.ids == [event.id for event in events])
    again.close(10)


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"id":1}\n{"id":2}\n{"id"')
    assert read_segment(tmp_path / "x.jsonl") == [b'{"id":1}', b'{"id":2}']
    assert read_segment(tmp_path / "absent") == []


@pytest.fixture
def secured(receiver: Receiver, tmp_path: Path) -> Path:
    """The receiver with TLS; the value is the certificate to trust."""
    context = make_server_context(tmp_path)
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
    return tmp_path / "c.pem"


def test_https_is_verified(tmp_path: Path, receiver: Receiver, secured: Path) -> None:
    url = f"https://localhost:{receiver.server_port}/hook"
    event = make_events(1)[0]
    trusting = WebhookOutput("webhook-1", settings(url, ca=str(secured)), tmp_path, sends=False)
    assert trusting.test(event) == ""
    strange = WebhookOutput("webhook-1", settings(url), tmp_path, sends=False)
    assert "certificate" in strange.test(event)
    assert len(receiver.taken) == 1


def test_a_test_says_what_is_wrong(tmp_path: Path) -> None:
    hook = WebhookOutput("webhook-1", settings("http://127.0.0.1:9/"), tmp_path, sends=False)
    assert hook.test(make_events(1)[0]) == "cannot be reached: connection refused"


def test_the_path_is_not_shown(tmp_path: Path) -> None:
    hook = WebhookOutput("webhook-1", settings("https://hooks.example/T0/secret?key=1"), tmp_path, sends=False)
    assert hook.address == "https://hooks.example/(hidden)"
    hook.close(1)


def test_waits_grow_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    waits = [next_wait(failed) for failed in range(1, 30)]
    assert waits[0] <= 1.0
    assert all(0.7 * min(300, 2**number) <= wait <= 300 for number, wait in enumerate(waits))


def test_no_thread_is_left(tmp_path: Path, receiver: Receiver) -> None:
    hook = WebhookOutput("webhook-1", settings(receiver.url), tmp_path)
    hook.close(10)
    assert not [thread for thread in threading.enumerate() if thread.name == "events-webhook-1"]


def test_a_process_that_does_not_send_leaves_nothing_open(tmp_path: Path, receiver: Receiver) -> None:
    """guard and abby with one webhook: what the second writes is sent by the first, at once."""
    other = EventSpool(tmp_path / spool_name(receiver.url), 1 << 20)
    assert other.take_over()
    hook, events = WebhookOutput("webhook-1", settings(receiver.url), tmp_path), make_events(2)
    hook.write(events)
    eventually(lambda: other.next_segment() is not None)
    segment = other.next_segment()
    assert segment
    assert read_segment(segment) == [event.line for event in events]
    assert not receiver.calls
    hook.close(10)
    other.close()


def test_processes_share_one_bound(tmp_path: Path) -> None:
    limit = 1 << 16
    first, second = EventSpool(tmp_path, limit), EventSpool(tmp_path, limit)
    events = make_events(600)
    for start in range(0, 600, 10):
        first.append(events[start : start + 10])
        second.append(events[start : start + 10])
    # Each process knows of what the others wrote when it completes a segment: an eighth of the limit at most.
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= limit * 5 // 4
    first.close()
    second.close()


def test_an_address_is_not_logged(tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", "json")
    hook = WebhookOutput("webhook-1", settings(f"{receiver.url}/T0SECRET"), tmp_path)
    hook.write(make_events(1))
    eventually(lambda: len(receiver.taken) == 1)
    hook.close(10)
    assert "T0SECRET" not in capsys.readouterr().err


def test_calls_that_fail_leave_no_connection(tmp_path: Path, receiver: Receiver) -> None:
    before = count_sockets()
    # An error, a connection that breaks, and a certificate that nobody can show on a port without TLS.
    receiver.answer = lambda number: (500, 0)[number % 2]
    urls = (receiver.url, receiver.url, receiver.url.replace("http:", "https:"))
    callers = [WebhookCaller(settings(url)) for url in urls]
    for number in range(300):
        with pytest.raises(DeliveryError):
            callers[number % 3].call([b"{}"])
    for caller in callers:
        caller.close()
    eventually(lambda: count_sockets() <= before)
