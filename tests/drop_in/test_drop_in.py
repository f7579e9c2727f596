"""The protocols of spamd and rspamd over a loopback port, with a core of straw that decides as it is told."""

import asyncio
import contextlib
import itertools
import json
import re
import types
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.smtp.conftest import SourceParts

from gatepost.analysis.report import Line, ListNote, Report
from gatepost.drop_in import session
from gatepost.drop_in.protocols import DECISION, REQUIRED, Rspamd, Spamd, read_scores
from gatepost.drop_in.requests import Head, Received, Refusal, find_envelope
from gatepost.drop_in.session import DropInPart, DropInSession, build_protocol
from gatepost.scanning.spool import Spool
from gatepost.service.plan import bind, port_of
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.intake import AskerIntake
from gatepost.store.errors import StorageError

MESSAGE = (
    b"Return-Path: <ann@x.example>\r\nFrom: Ann <ann@x.example>\r\nX-Spam-Flag: NO\r\n forged\r\nSubject: a\r\n\r\n"
    b"Hello\r\n"
)
# The expressions by which Exim 4.96 reads answers (src/spam.c), as Python writes them.
EXIM_SPAMD = re.compile(rb"SPAMD/(\S{1,7}) 0 EX_OK\r\nSpam: \S+ ; ([\d.]+) / ([\d.]+)\r\n\r\n")
EXIM_RSPAMD = re.compile(
    rb"RSPAMD/(\S{1,7}) 0 EX_OK\r\nMetric: default; (\S{1,7}) ([\d.]+) / ([\d.]+) / ([\d.]+)\r\nAction: ([a-z ]+)\r\n"
)


class DropInHouse(SourceParts):
    """A source and what is behind it."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder)
        self.port = port
        self.intake: AskerIntake[DropInPart]

    def part(self, name: str, held_as: str = "", limits: SmtpLimits | None = None, tenant: str = "") -> DropInPart:
        services = self.make_services(limits or SmtpLimits())
        return DropInPart(services, 20, protocol=build_protocol(name, held_as), tenant=tenant or None)

    async def send(self, data: bytes, *, ends: bool = False) -> bytes:
        """Send a request; `ends` ends the client's half of the connection behind it. Returns the whole answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        if ends:
            writer.write_eof()
        async with asyncio.timeout(180):
            answer = await reader.read()
        writer.close()
        return answer

    async def ask_spamd(self, command: str, message: bytes = MESSAGE, **fields: str) -> bytes:
        named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        head = f"{command} SPAMC/1.5\r\nContent-length: {len(message)}\r\n{named}\r\n"
        return await self.send(head.encode() + message)

    async def ask_rspamd(self, message: bytes = MESSAGE, *fields: tuple[str, str], path: str = "/checkv2") -> Any:
        named = "".join(f"{name}: {value}\r\n" for name, value in fields)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(message)}\r\n{named}\r\n"
        answer = await self.send(head.encode() + message)
        top, _, body = answer.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in top
        return int(top.split()[1]), json.loads(body)


@contextlib.asynccontextmanager
async def housed(folder: Path, name: str, **options: Any) -> AsyncIterator[DropInHouse]:
    sockets = bind(("127.0.0.1",), 0, "test")
    house = DropInHouse(folder, port_of(sockets))
    house.intake = AskerIntake(name, house.part(name, **options), DropInSession, sockets)
    async with house.serving(house.intake):
        yield house
        assert house.intake.services.space.used == 0


async def test_spamd_tells_the_decision_and_keeps_nothing(tmp_path: Path) -> None:
    async with housed(tmp_path, "spamd") as house:
        house.domains.of["y.example"] = "t-1"
        answer = await house.ask_spamd("CHECK", User="bob@y.example")
        assert answer == b"SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: False ; 0.0 / 5.0\r\n\r\n"
        (request,) = house.guard.scanned
        assert (request.source, request.envelope.sender) == ("spamd", "ann@x.example")
        assert (request.envelope.recipients, request.envelope.tenant) == (("bob@y.example",), "t-1")
        assert request.envelope.remote_address is None
        assert house.guard.raw == [MESSAGE]
        house.guard.decision = "quarantine"
        assert b"Spam: True ; 5.0 / 5.0\r\n" in await house.ask_spamd("CHECK")
        assert (await house.ask_spamd("SYMBOLS")).endswith(b"\r\n\r\nGATEPOST_DECISION\r\n")
        report = await house.ask_spamd("REPORT")
        assert b"(5.0 points, 5.0 required)" in report
        assert b" 5.0 GATEPOST_DECISION      clean: why" in report
        assert house.intake.services.answers == {"deliver": 1, "quarantine": 3}
        assert (house.holding.kept, house.holding.begun) == ([], set())


async def test_spamd_processes_with_the_line_ends_of_the_message(tmp_path: Path) -> None:
    async with housed(tmp_path, "spamd") as house:
        house.guard.decision = "quarantine"
        lf = b"From ann@m.example Tue Nov 17 13:59:08 2026\n" + MESSAGE.replace(b"\r\n", b"\n") + b"x" * 600_000
        for message in (MESSAGE, lf):
            answer = await house.ask_spamd("PROCESS", message)
            head, _, content = answer.partition(b"\r\n\r\n")
            assert f"Content-length: {len(content)}\r\n".encode() in head
            assert (b"\r\n" in content) == (message is MESSAGE)
            lines = content.replace(b"\r\n", b"\n")
            assert b"X-Spam-Flag: YES\n" in lines
            assert b"forged" not in lines
            assert b"X-Spam-Status: Yes, score=5.0 required=5.0 tests=GATEPOST_DECISION\n" in lines
            assert b"X-Gatepost-Decision: quarantine\n" in lines
            assert lines.endswith(message.replace(b"\r\n", b"\n").partition(b"\n\n")[2])
            assert lines.startswith(b"From ann@m" if message is lf else b"X-Spam-Checker-Version: Gatepost ")
            header = (await house.ask_spamd("HEADERS", message)).partition(b"\r\n\r\n")[2]
            assert re.findall(rb"(?m)^[A-Z][A-Za-z-]+(?=:)", header) == re.findall(
                rb"(?m)^[A-Z][A-Za-z-]+(?=:)", content.partition(b"Hello")[0]
            )
            assert header.replace(b"\r\n", b"\n").endswith(b"Subject: a\n\n")
        # The line of a mailbox file is no part of the message; Return-Path says more than it.
        assert house.guard.raw[2] == lf.partition(b"\n")[2]
        assert house.guard.scanned[2].envelope.sender == "ann@x.example"


async def test_what_exim_sends_and_reads(tmp_path: Path) -> None:
    """Exim speaks version 1.2 to spamd, and its own form of rspamd's first protocol; it ends its half behind both."""
    message = b"From MAILER-DAEMON Tue Nov 17 2026\nX-Envelope-From: <a@b.example>\n"
    message += b"X-Envelope-To: c@y.example, d@y.example\n"
    message += MESSAGE.replace(b"\r\n", b"\n").partition(b"\n")[2]
    async with housed(tmp_path, "spamd") as house:
        house.guard.decision = "quarantine"
        head = b"REPORT SPAMC/1.2\r\nUser: nobody\r\nContent-length: %d\r\n\r\n" % len(message)
        found = EXIM_SPAMD.match(await house.send(head + message, ends=True))
        assert found
        assert found.groups()[1:] == (b"5.0", b"5.0")
        (request,) = house.guard.scanned
        assert request.envelope.sender == "a@b.example"
        assert request.envelope.recipients == ("c@y.example", "d@y.example")
    async with housed(tmp_path, "rspamd") as house:
        house.guard.decision = "bounce"
        head = b"CHECK RSPAMC/1.3\r\nContent-length: %d\r\nQueue-Id: 1xTJh4\r\nFrom: <a@b.example>\r\n" % len(message)
        head += b"Recipient-Number: 1\r\nRcpt: <c@y.example>\r\nHelo: x.example\r\nIP: 192.0.2.9\r\n\r\n"
        found = EXIM_RSPAMD.match(await house.send(head + message, ends=True))
        assert found
        assert (found[2], found[3], found[4], found[6]) == (b"True;", b"5.00", b"5.00", b"reject")
        (request,) = house.guard.scanned
        assert (request.queue_id, request.client) == ("1xTJh4", "192.0.2.9")
        assert (request.envelope.remote_address, request.envelope.helo) == ("192.0.2.9", "x.example")


@pytest.mark.parametrize(
    ("decision", "held_as", "action"),
    [
        ("deliver", "add header", "no action"),
        ("quarantine", "add header", "add header"),
        ("quarantine", "reject", "reject"),
        ("bounce", "add header", "reject"),
        ("drop", "add header", "discard"),
        ("undecided", "add header", "soft reject"),
    ],
)
async def test_actions_of_rspamd(tmp_path: Path, decision: str, held_as: str, action: str) -> None:
    async with housed(tmp_path, "rspamd", held_as=held_as) as house:
        house.guard.decision = decision
        envelope = (("From", "<a@b.example>"), ("Rcpt", "c@y.example"), ("Rcpt", "<d@y.example>"))
        status, said = await house.ask_rspamd(MESSAGE, *envelope, ("IP", "192.0.2.9"), ("Helo", "x.example"))
        assert (status, said["action"], said["is_skipped"]) == (200, action, False)
        assert (said["score"] >= said["required_score"]) == (decision != "deliver")
        assert said["milter"]["add_headers"]["X-Gatepost-Decision"] == {"value": decision, "order": 0}
        assert said["milter"]["remove_headers"]["X-Gatepost-Verdict"] == 0
        assert ("smtp_message" in said["messages"]) == (action in ("reject", "soft reject"))
        (request,) = house.guard.scanned
        assert request.envelope.recipients == ("c@y.example", "d@y.example")
        assert (request.source, request.envelope.remote_address) == ("rspamd", "192.0.2.9")
        assert (await house.ask_rspamd(path="/check"))[0] == 404


async def test_a_user_is_no_sending_host_and_tenants_need_one_name(tmp_path: Path) -> None:
    async with housed(tmp_path, "rspamd", tenant="t-rest") as house:
        house.domains.of.update({"y.example": "t-1", "z.example": "t-2"})
        known = (("User", "ann"), ("IP", "192.0.2.9"), ("Helo", "laptop"))
        for recipients in (["a@y.example", "b@y.example"], ["a@y.example", "b@z.example"], ["a@other.example"], []):
            await house.ask_rspamd(MESSAGE, *known, *(("Rcpt", each) for each in recipients))
        envelopes = [each.envelope for each in house.guard.scanned]
        assert [each.tenant for each in envelopes] == ["t-1", None, "t-rest", "t-rest"]
        assert {(each.remote_address, each.helo) for each in envelopes} == {(None, None)}


CHECK = b"CHECK SPAMC/1.5\r\n"
ZLIB = CHECK + b"Compress: zlib\r\n\r\n"
SPAMD_FAULTS = {
    b"CHECK\r\n\r\n": b"76 EX_PROTOCOL: no command such as CHECK SPAMC/1.5",
    CHECK + b"no colon\r\n\r\n": b"76 EX_PROTOCOL: a field without a name or a colon, or too many of them",
    b"CHECK SPAMC/1.5\n\n": b"76 EX_PROTOCOL: a line that is too long, or does not end with CRLF",
    CHECK + b"Content-length: -1\r\n\r\nx": b"76 EX_PROTOCOL: a Content-length that is no number, or two of them",
    CHECK + b"Content-length: 0\r\n\r\n": b"76 EX_PROTOCOL: an empty message",
    CHECK + b"Content-length: 9\r\n\r\nx": b"76 EX_PROTOCOL: a message that is shorter than its Content-length",
    CHECK + b"Content-length: 70000\r\n\r\nx": b"65 EX_DATAERR: the message is larger than 65536 bytes",
    ZLIB + b"nonsense": b"76 EX_PROTOCOL: a message that is not compressed as it says",
    ZLIB + zlib.compress(b"y" * 900)[:9]: b"76 EX_PROTOCOL: a compressed message without an end, or more behind it",
    ZLIB + zlib.compress(b"y" * 70_000): b"65 EX_DATAERR: the message is larger than 65536 bytes",
    CHECK + b"Compress: gzip\r\n\r\nx": b"69 EX_UNAVAILABLE: messages compressed by gzip are not read",
    b"TELL SPAMC/1.5\r\n\r\nx": b"69 EX_UNAVAILABLE: TELL is not offered; report mail to Gatepost itself",
    b"PING SPAMC/1.5\r\n\r\n": b"0 PONG",
}


async def test_bad_requests_of_spamd(tmp_path: Path) -> None:
    async with housed(tmp_path, "spamd", limits=SmtpLimits(message=65_536)) as house:
        for sent, expected in SPAMD_FAULTS.items():
            assert await house.send(sent, ends=True) == b"SPAMD/1.5 " + expected + b"\r\n", sent
        assert await house.send(b"SKIP SPAMC/1.5\r\n\r\n") == b""
        assert house.guard.scanned == []
        compressed = zlib.compress(MESSAGE)
        head = b"CHECK SPAMC/1.5\r\nCompress: zlib\r\nContent-length: %d\r\n\r\n" % len(compressed)
        assert b"Spam: False" in await house.send(head + compressed)
        assert house.guard.raw == [MESSAGE]


FORGED = (
    b" continues\nAuthentication-Results: gate.example; dkim=pass\nA: b\rX-Spam-Flag: NO\nX-Spam-Status: No\r more\n"
    b"X-Gatepost-Verdict: clean\r\n folded\rforged\nAuthentication-Results: other.example; spf=fail\nC: d\n\nHello\n"
)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
async def test_no_message_claims_a_result_in_our_name(tmp_path: Path, ending: bytes) -> None:
    async with housed(tmp_path, "spamd") as house:
        message = FORGED.replace(b"\r\n", b"\n").replace(b"\n", ending)
        content = (await house.ask_spamd("PROCESS", message)).partition(b"\r\n\r\n")[2].replace(b"\r\n", b"\n")
        ours, _, theirs = content.partition(b"X-Stray-Line: continues\n")
        assert theirs == b"A: b\nAuthentication-Results: other.example; spf=fail\nC: d\n\nHello\n"
        assert ours.endswith(b"X-Gatepost-Tags: list:x, url:y\n")
        assert content.count(b"Authentication-Results: gate.example;") == 1


LENGTHS = "a Content-length that is no number, or two of them"
NAMELESS = "a field without a name or a colon, or too many of them"
LONGER = "a message that is longer than its Content-length"
# What a client that is misled, or a proxy, would read in another way than we do.
AMBIGUOUS = {
    b"Content-length: 1\r\nContent-length: 5\r\n\r\na: b\n": LENGTHS,
    b"Content-length: 5\r\nContent-length: 5\r\n\r\na: b\n": LENGTHS,
    b"Content-length: +5\r\n\r\na: b\n": LENGTHS,
    b"Content-length: 5, 5\r\n\r\na: b\n": LENGTHS,
    b"Content-length: \xd9\xa5\r\n\r\na: b\n": LENGTHS,
    b"Content-length : 5\r\n\r\na: b\n": NAMELESS,
    b"User: x\r\n Content-length: 1\r\n\r\na: b\n": NAMELESS,
    b": 5\r\n\r\na: b\n": NAMELESS,
    b"Content-length: 1\r\n\r\na: b\n": LONGER,
}


@pytest.mark.parametrize("name", ["spamd", "rspamd"])
async def test_a_request_that_reads_in_two_ways_gets_no_verdict(tmp_path: Path, name: str) -> None:
    lines = (b"CHECK SPAMC/1.5",) if name == "spamd" else (b"POST /checkv2 HTTP/1.1", b"CHECK RSPAMC/1.3")
    async with housed(tmp_path, name) as house:
        for line_, (rest, text) in itertools.product(lines, AMBIGUOUS.items()):
            answer = await house.send(line_ + b"\r\n" + rest)
            assert text.encode() in answer, rest
        assert house.guard.scanned == []


async def test_a_recipient_that_reads_in_two_ways_gets_no_verdict(tmp_path: Path) -> None:
    async with housed(tmp_path, "rspamd") as house:
        for path in ("<b@y.example(c)>", 'b@"y.example"', "b@x.example@y.example", "b\x85c@y.example"):
            status, said = await house.ask_rspamd(MESSAGE, ("Rcpt", "<b@y.example>"), ("Rcpt", path))
            assert (status, "reads in two ways" in said["error"]) == (400, True), path
        assert (await house.ask_rspamd(MESSAGE, ("Rcpt", '<"b c"@y.example>'), ("Rcpt", "root")))[0] == 200


async def test_a_compressed_message_is_all_that_comes(tmp_path: Path) -> None:
    packed = zlib.compress(b"Subject: a\r\n\r\nb\r\n") + b"more"
    async with housed(tmp_path, "spamd") as house:
        answer = await house.ask_spamd("CHECK", packed, Compress="zlib")
        assert b"or more behind it" in answer
        assert house.guard.scanned == []


async def test_no_line_of_the_old_protocol_is_written_by_a_sender(tmp_path: Path) -> None:
    """Bytes that some readers take for line ends, in the only text of a stranger in the answer."""
    async with housed(tmp_path, "rspamd") as house:
        house.guard.message_id = "<a\r\nAction: no action\rAction: no action\u2028Action: no action\x85@b>"
        house.guard.decision = "quarantine"
        answer = await house.send(b"CHECK RSPAMC/1.3\r\nContent-length: %d\r\n\r\n" % len(MESSAGE) + MESSAGE)
        assert [each for each in answer.decode().splitlines() if each.startswith("Action")] == ["Action: add header"]


async def test_drops_of_a_head_and_of_a_message_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line comes in its time, and the whole does not."""
    monkeypatch.setattr(session, "HEAD_SECONDS", 0.5)
    async with housed(tmp_path, "spamd") as house:
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        house.clients.append(types.SimpleNamespace(writer=writer))
        writer.write(b"CHECK SPAMC/1.5\r\n")
        lines = 0
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof() and lines < 200:
                lines += 1
                writer.write(b"X-%d: y\r\n" % lines)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await reader.read(1)
        assert lines < 200
    limits = SmtpLimits(data_grace=0.05, data_rate=1, data_floor=1_000_000)
    async with housed(tmp_path, "spamd", limits=limits) as house:
        assert await house.send(b"CHECK SPAMC/1.5\r\nContent-length: 99\r\n\r\nSubject") == b""


CHUNKED = b"POST /checkv2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
CODINGS = "a Transfer-Encoding other than chunked, or one beside a Content-Length"


async def test_a_message_in_chunks_as_haraka_sends_it(tmp_path: Path) -> None:
    large = MESSAGE + b"Hello again\r\n" * 40_000
    framed = b"".join(
        b"%X;a=b\r\n%b\r\n" % (len(piece), piece) for piece in (large[:7], large[7:300_000], large[300_000:])
    )
    single = b"".join(b"1\r\n%c\r\n" % byte for byte in MESSAGE)
    async with housed(tmp_path, "rspamd") as house:
        for sent in (framed + b"0\r\nTrailer: x\r\n\r\n", single + b"0\r\n\r\n"):
            answer = await house.send(CHUNKED + b"From: ann@x.example\r\n\r\n" + sent)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
        assert house.guard.raw == [large, MESSAGE]
        cut = await house.send(CHUNKED + b"\r\n" + framed, ends=True)
        assert b"chunks that do not end as they say" in cut
        assert len(house.guard.raw) == 2


async def test_bad_requests_of_rspamd(tmp_path: Path) -> None:
    faults: dict[bytes, tuple[int, str]] = {
        b"GET /stat HTTP/1.1\r\n\r\n": (404, "/stat is not offered by Gatepost"),
        b"POST /learnspam HTTP/1.1\r\n\r\n": (404, "/learnspam is not offered by Gatepost"),
        b"POST /checkv2 HTTP/1.1\r\nFile: /etc/passwd\r\n\r\n": (404, "File is not read: send the message itself"),
        b"POST /checkv2 HTTP/1.1\r\n\r\n": (400, "the message needs a Content-Length, or must come in chunks"),
        b"POST /checkv2 HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n": (400, CODINGS),
        CHUNKED + b"Content-Length: 1\r\n\r\n1\r\nx\r\n0\r\n\r\n": (400, CODINGS),
        CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n": (400, CODINGS),
        CHUNKED + b"\r\n0\r\n\r\n": (400, "an empty message"),
        CHUNKED + b"\r\nz\r\nx\r\n0\r\n\r\n": (400, "a chunk without its length"),
        CHUNKED + b"\r\n1\r\nxy\r\n0\r\n\r\n": (400, "chunks that do not end as they say"),
        CHUNKED + b"\r\n11170\r\n" + b"x" * 70_000 + b"\r\n0\r\n\r\n": (413, "the message is larger than 65536 bytes"),
        b"POST /checkv2 HTTP/1.1\r\nCompression: zstd\r\n\r\n": (
            404,
            "messages that are compressed or encrypted are not read: send them as they are",
        ),
        b"nonsense\r\n\r\n": (400, "neither a request of HTTP/1.1 nor one of RSPAMC/1.3"),
        b"POST /checkv2 HTTP/1.1\r\nContent-Length: 70000\r\n\r\n": (413, "the message is larger than 65536 bytes"),
        b"POST /checkv2 HTTP/1.1\r\nContent-Length: 1\r\nFrom: \xff\r\n\r\nx": (
            400,
            "an address of the envelope that is too long, or reads in two ways",
        ),
    }
    async with housed(tmp_path, "rspamd", limits=SmtpLimits(message=65_536, path=2)) as house:
        for sent, (status, text) in faults.items():
            answer = await house.send(sent)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), sent
            assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": text}
        assert (await house.send(b"GET /ping HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\npong\r\n")
        assert house.guard.scanned == []


@pytest.mark.parametrize("trouble", ["full", "no session", "no room", "storage", "tenants", "broken"])
async def test_trouble_is_a_failure_for_now(tmp_path: Path, trouble: str) -> None:
    for name in ("spamd", "rspamd"):
        async with housed(tmp_path, name) as house:
            services = house.intake.services
            services.sessions.maximum *= trouble != "no session"
            services.space.maximum *= trouble != "no room"
            house.guard.is_full = trouble == "full"
            house.domains.broken = trouble == "tenants"
            faults = {"storage": StorageError("no disk, secret"), "broken": RuntimeError("a bug, secret")}
            house.guard.fault = faults.get(trouble)
            if name == "spamd":
                answer = await house.ask_spamd("CHECK", User="bob@y.example")
                assert answer.startswith(b"SPAMD/1.5 75 EX_TEMPFAIL: ")
                assert b"secret" not in answer
            else:
                status, said = await house.ask_rspamd(MESSAGE, ("Rcpt", "bob@y.example"))
                assert status == 503
                assert "secret" not in said["error"]


async def test_an_undecided_message_is_a_failure_for_spamd(tmp_path: Path) -> None:
    async with housed(tmp_path, "spamd") as house:
        house.guard.decision = "undecided"
        assert await house.ask_spamd("CHECK") == b"SPAMD/1.5 75 EX_TEMPFAIL: why\r\n"


def line(kind: str, counted: int, **facts: str) -> Line:
    return Line(kind, f"title of {kind}", "text", facts, counted, counted, "spam")


def test_symbols_add_up_to_a_score_that_agrees_with_the_decision() -> None:
    lines = (line("url:a-b", 310, host="x.example"), line("url:a-b", 50, host="y.example"), line("text:c", 200))
    scores = read_scores(Report("spam", "quarantine", (), 560, "why", lines))
    assert [(each.name, each.score) for each in scores.symbols] == [("URL_A_B", 3.6), ("TEXT_C", 2.0)]
    assert (scores.is_spam, scores.score, scores.symbols[0].options) == (
        True,
        5.6,
        ("host=x.example", "host=y.example"),
    )
    allowed = ListNote("allowed-senders", "tenant", "a@b.example", "allowed", "envelope")
    for report, expected in (
        (Report("spam", "deliver", (), 560, "allowed", lines, lists=(allowed,)), REQUIRED - 0.1),
        (Report("malware", "quarantine", (), 0, "a virus"), REQUIRED),
    ):
        scores = read_scores(report)
        assert scores.score == expected
        assert scores.symbols[-1].name == DECISION
        assert round(sum(each.score for each in scores.symbols), 2) == expected


@pytest.mark.parametrize(
    ("header", "mailbox", "sender"),
    [
        (b"Return-Path: <>\nFrom: a@x.example\n", b"", ""),
        (b"Return-Path: <b@x.example>\r\nFrom: a@x.example\r\n", b"From c@x.example now\n", "b@x.example"),
        (b"From: a@x.example\n", b"From c@x.example now\n", "c@x.example"),
        (b'From: "b@y.example"\n <a@x.example>\n', b"From MAILER-DAEMON now\n", "a@x.example"),
        (b"Subject: x\n\nReturn-Path: <b@x.example>\n", b"", ""),
        (b"Return-Path: <\xff@x.example>\n", b"", ""),
    ],
)
def test_the_envelope_in_the_header(tmp_path: Path, header: bytes, mailbox: bytes, sender: str) -> None:
    with Spool(tmp_path).new() as body:
        body.write(header + b"\nFrom: other@z.example\n")
        assert find_envelope(Received(body, mailbox)) == (sender, ())


@given(
    st.text(max_size=60),
    st.lists(st.tuples(st.sampled_from(["user", "content-length", "from", "rcpt", "ip"]), st.text())),
)
def test_any_head_is_read(text: str, fields: list[tuple[str, str]]) -> None:
    for protocol in (Spamd(), Rspamd()):
        for start in ("", "CHECK SPAMC/1.5", "POST /checkv2 HTTP/1.1", "CHECK RSPAMC/1.3"):
            asked = protocol.read(Head(start + text, tuple(fields)))
            assert not isinstance(asked, Refusal) or protocol.refuse(asked)
