"""ClamAV through its daemon: what it says, what goes over the wire, and what happens when it does not answer."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.guard.conftest import job

from gatepost.guard.answers import clamd
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.clamd import ClamdClient, parse_reply
from gatepost.guard.answers.dns import Resolver, TakesAnswer
from gatepost.questions import Antivirus, AskAntivirus, Dns, DnsAnswer, Lookup, LookupAnswer
from gatepost.scanning.spool import BytesBody, MessageBody


class Daemon:
    """A clamd that finds "bad", keeps what it was sent, and answers as it is told."""

    def __init__(self, reply: bytes | None = None, *, hangs: bool = False) -> None:
        self._reply = reply
        self._hangs = hangs
        self.seen = b""
        self.served: list[asyncio.Task[None]] = []

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.append(asyncio.create_task(self._served(reader, writer)))

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await (reader.read() if self._hangs else self._answer(reader, writer))
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        command = await reader.readuntil(b"\0")
        if command == b"zINSTREAM\0":
            while size := int.from_bytes(await reader.readexactly(4), "big"):
                self.seen += await reader.readexactly(size)
        reply = b"PONG\0" if command == b"zPING\0" else self._reply
        if reply is None:
            reply = b"stream: Test.Bad FOUND\0" if b"bad" in self.seen else b"stream: OK\0"
        writer.write(reply)
        await writer.drain()


@asynccontextmanager
async def running(daemon: Daemon, socket: Path) -> AsyncIterator[str]:
    server = await asyncio.start_unix_server(daemon.serve, str(socket))
    async with server:
        yield str(socket)
        await asyncio.gather(*daemon.served)


def scanned(raw: bytes, socket: Path, daemon: Daemon) -> Antivirus:
    async def main() -> Antivirus:
        async with running(daemon, socket) as address:
            return await ClamdClient(address).scan(BytesBody(raw))

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"a good message", Antivirus("clean")),
        (b"a bad message", Antivirus("found", "Test.Bad")),
        (b"", Antivirus("clean")),
        (b"x" * 3_000_000 + b"bad", Antivirus("found", "Test.Bad")),
    ],
)
def test_the_whole_message_is_sent(tmp_path: Path, raw: bytes, said: Antivirus) -> None:
    daemon = Daemon()
    assert scanned(raw, tmp_path / "clamd", daemon) == said
    assert daemon.seen == raw


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("stream: OK", Antivirus("clean")),
        ("stream: Win.Test.EICAR_HDB-1 FOUND", Antivirus("found", "Win.Test.EICAR_HDB-1")),
        ("INSTREAM size limit exceeded. ERROR", Antivirus("failed", "INSTREAM size limit exceeded. ERROR")),
        ("", Antivirus("failed")),
        ("nonsense OK", Antivirus("failed", "nonsense OK")),
    ],
)
def test_replies(reply: str, said: Antivirus) -> None:
    assert parse_reply(reply) == said


@pytest.mark.parametrize("reply", [b"", b"no end", b"x" * 10_000 + b"\0"])
def test_a_daemon_that_breaks_off_has_not_answered(tmp_path: Path, reply: bytes) -> None:
    assert scanned(b"x", tmp_path / "clamd", Daemon(reply)) == Antivirus("failed", "clamd did not answer")


@pytest.mark.parametrize("address", ["/nowhere/clamd", "127.0.0.1:1", "not an address:x"])
def test_no_daemon_is_said_and_not_raised(address: str) -> None:
    assert asyncio.run(ClamdClient(address).scan(BytesBody(b"x"))) == Antivirus("failed", "clamd did not answer")
    assert not asyncio.run(ClamdClient(address).ping())


async def test_a_daemon_that_hangs_is_left_behind(tmp_path: Path) -> None:
    async with running(Daemon(hangs=True), tmp_path / "clamd") as address:
        answer = await ClamdClient(address, seconds=0.05).scan(BytesBody(b"x"))
    assert answer.status == "failed"


async def test_ping_over_tcp() -> None:
    daemon = Daemon()
    server = await asyncio.start_server(daemon.serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        answered = await ClamdClient(f"{host}:{port}").ping()
        await asyncio.gather(*daemon.served)
        answer = answered
    assert answer


class Names(Resolver):
    """Nobody."""

    def recall(self, _questions: Iterable[Dns]) -> dict[Dns, DnsAnswer]:
        return {}

    def start(self, _question: Dns, _take: TakesAnswer) -> None:
        raise AssertionError("nothing is asked")


class Scanner(clamd.ClamdClient):
    async def scan(self, body: MessageBody) -> Antivirus:
        return Antivirus("found", body.read().decode())


@pytest.mark.parametrize(("scanner", "said"), [(Scanner("/nobody"), Antivirus("found", "raw")), (None, Antivirus())])
def test_guard_answers_with_the_messages_own_bytes(scanner: Scanner | None, said: Antivirus) -> None:
    answerer = Answerer(Names(), antivirus=scanner)
    answers = asyncio.run(answerer.answer(job(raw=b"raw"), (Lookup(()), AskAntivirus())))
    assert answers == (LookupAnswer(), said)
