"""The recipes of docs/postfix.md, as they stand there, with a real Postfix before and behind guard."""

import asyncio
import contextlib
import smtplib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.gateway import Gateway, Sink, postfix, postfix_missing, recipe
from bench.ports import free_port

from gatepost.store import open_store
from gatepost.store.message_evidence import Evidence
from gatepost.store.message_plans import MessageFilter

pytestmark = pytest.mark.skipif(postfix_missing() is not None, reason=f"not run: {postfix_missing()}")

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


def message(identity: str, text: str = "Hello Bob", subject: str = "Minutes") -> bytes:
    return (
        f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: {subject}\r\n"
        f"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <{identity}>\r\n\r\n{text}\r\n"
    ).encode()


Chain = tuple[int, Sink, Gateway, Path]


@pytest.fixture(scope="module")
def before() -> Iterator[Chain]:
    with chain("before") as made:
        yield made


@pytest.fixture(scope="module")
def after() -> Iterator[Chain]:
    with chain("after") as made:
        yield made


@contextlib.contextmanager
def chain(kind: str) -> Iterator[Chain]:
    """Postfix → guard → Postfix → sink; the port of the first, and the rest."""
    outer, inner = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="gatepost-postfix-") as name, contextlib.ExitStack() as stack:
        folder, sink = Path(name), Sink()
        stack.callback(sink.close)
        smtp = ", xclientHosts: ['127.0.0.1'], hostname: gate.example"
        smtp += ", afterQueue: true" if kind == "after" else ""
        (folder / "gate").mkdir()
        gateway = stack.enter_context(Gateway(folder / "gate", inner, smtp=smtp))

        def placed(text: str) -> str:
            text = text.replace("10025", str(gateway.port)).replace("127.0.0.1:10026", f"127.0.0.1:{inner}")
            return text.replace("smtp      inet", f"127.0.0.1:{outer} inet")

        main = f"default_transport = smtp:[127.0.0.1]:{sink.port}\nrelay_transport = smtp:[127.0.0.1]:{sink.port}\n"
        main += placed(recipe("main.cf", "after")) if kind == "after" else ""
        log = stack.enter_context(postfix(folder / "postfix", main, placed(recipe("master.cf", kind)), outer))
        yield outer, sink, gateway, log


def arrived(sink: Sink, identity: str, seconds: float = 60.0) -> bytes:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for raw in list(sink.messages):
            if f"<{identity}>".encode() in raw:
                return raw
        time.sleep(0.02)
    raise AssertionError(f"{identity} did not arrive")


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_recipe_delivers_holds_and_tells_the_border_data(kind: str, request: pytest.FixtureRequest) -> None:
    port, sink, gateway, log = request.getfixturevalue(kind)
    with smtplib.SMTP("127.0.0.1", port, local_hostname="client.example") as client:
        client.sendmail("ann@example.org", ["bob@example.com", "eve@example.com"], message("one@x"))
        raw = arrived(sink, "one@x")
        assert b"X-Gatepost-Verdict: clean" in raw, log.read_text()
        assert raw.count(b"X-Gatepost-Id:") == 1
        # XFORWARD told who the client was: without it, the sending host would not be known.
        assert b"sending host unknown" not in raw
        client.sendmail("ann@example.org", ["bob@example.com"], message("virus@x", EICAR))
        client.sendmail("", ["bob@example.com"], message("bounce@x"))
        client.sendmail("ann@example.org", ["bob@example.com"], message("dots@x", ".\r\n..\r\n.x"))
    arrived(sink, "bounce@x")
    assert b"\r\n..\r\n...\r\n..x\r\n" in arrived(sink, "dots@x")
    end = time.monotonic() + 60
    while time.monotonic() < end and not _held(gateway, b"<virus@x>"):
        time.sleep(0.02)
    assert _held(gateway, b"<virus@x>")
    assert sink.taken["virus@x"] == 0
    received, given = asyncio.run(_find_queue_ids(gateway, "one@x"))
    assert f"{given}: " in log.read_text()
    if kind == "after":  # before the queue, a message has no id yet
        assert f"{received}: " in log.read_text()


async def _find_queue_ids(gateway: Gateway, identity: str) -> tuple[str, str]:
    """The queue id that a message had before guard, and the one that the next hop gave it, which is written soon."""
    store = open_store("sqlite:gatepost.db", gateway.folder)
    try:
        async with asyncio.timeout(60):
            while True:
                wanted = MessageFilter(evidence=Evidence(message_id=identity))
                for row in (await store.search_messages(wanted)).rows:
                    found = await store.message_timeline(row.ggrid)
                    if found and found.deliveries:
                        return found.record.queue_id, found.deliveries[0].queue_id
                await asyncio.sleep(0.1)
    finally:
        await store.close()


def test_while_guard_is_away_senders_are_told_to_try_again_before_the_queue(before: Chain) -> None:
    port, sink, gateway, _ = before
    gateway.kill()
    with smtplib.SMTP("127.0.0.1", port) as client, pytest.raises(smtplib.SMTPException):
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    gateway.start()
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    arrived(sink, "away@x")
    assert sink.taken["away@x"] == 1


def test_while_guard_is_away_the_queue_keeps_the_mail(after: Chain) -> None:
    port, sink, gateway, log = after
    gateway.kill()
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("ann@example.org", ["bob@example.com"], message("away@x"))
    end = time.monotonic() + 60
    while "status=deferred" not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    assert sink.taken["away@x"] == 0
    gateway.start()
    arrived(sink, "away@x")
    assert sink.taken["away@x"] == 1


def _held(gateway: Gateway, identity: bytes) -> bool:
    folder = gateway.folder / "quarantine"
    return any(identity in file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_nothing_that_is_refused_after_the_queue_becomes_a_bounce(after: Chain) -> None:
    port, sink, gateway, log = after
    gtube = "XJS*C4JDBQADN1.NSBN3*2IDNEN*" + "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.sendmail("forged@victim.example", ["bob@example.com"], message("nul@x", "a\0b"))
        client.sendmail("forged@victim.example", ["bob@example.com"], message("gtube@x", gtube))
    end = time.monotonic() + 60
    while not (_held(gateway, b"<nul@x>") and _held(gateway, b"<gtube@x>")):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)
    assert "non-delivery notification" not in log.read_text()
    assert sink.taken["nul@x"] == sink.taken["gtube@x"] == 0
