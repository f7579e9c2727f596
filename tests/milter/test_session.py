"""Conversations with mail servers over real sockets: what is agreed on, what comes together, what is answered."""

import asyncio
import random
import socket
import stat
from pathlib import Path

import pytest
from tests.milter.conftest import (
    ALL_ACTIONS,
    ALL_STEPS,
    OLD_ACTIONS,
    OLD_STEPS,
    Frames,
    House,
    pack,
)
from tests.smtp.conftest import StrawHolding

from gatepost.analysis.report import Report
from gatepost.mail.message import Envelope
from gatepost.milter import session
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.service.health import MIN_DEFERRED, DeferralWatch, count_source
from gatepost.service.plan import bind, close_sockets
from gatepost.smtp.commands import SmtpLimits
from gatepost.store.errors import StorageError

FIELDS = [
    (b"Received", b" from a.example\n\tby b.example; Tue, 10 Nov 2026 09:12:00 +0000"),
    (b"From", b" Ann <a@x.example>"),
    (b"Subject", b"Minutes"),
    (b"X-Empty", b""),
]
BODY = b".\r\nHello\r\n..\r\n\r\n"
RAW = (
    b"Received: from a.example\r\n\tby b.example; Tue, 10 Nov 2026 09:12:00 +0000\r\n"
    b"From: Ann <a@x.example>\r\nSubject:Minutes\r\nX-Empty:\r\n\r\n" + BODY
)


def insertions(frames: Frames) -> dict[str, str]:
    """The fields that are inserted at the top, from top to bottom."""
    added = {}
    for letter, data in reversed(frames):
        if letter == b"i":
            assert data[:4] == bytes(4)
            name, value, rest = data[4:].split(b"\0")
            assert rest == b""
            added[name.decode()] = value.decode()
    return added


def removals(frames: Frames) -> list[tuple[str, int]]:
    return [(data[4:].split(b"\0")[0].decode(), int.from_bytes(data[:4])) for letter, data in frames if letter == b"m"]


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
async def test_a_message_comes_together_byte_for_byte_and_is_accepted_with_fields(house: House, unix: bool) -> None:
    async with house(unix=unix) as milter:
        server = await milter.connect()
        assert (server.version, server.actions) == (6, 0x11)
        server.send(b"D", b"Mi\0004F1\0{auth_type}\0x\0{mail_addr}\0a@x.example\0")
        await server.envelope(b"<a@x.example>", b"<b@y.example>", b"c@y.example")
        await server.content(FIELDS, BODY, piece=4)
        frames = await server.end()
        assert frames[-1] == (b"a", b"")
        added = insertions(frames)
        names = ["Authentication-Results", "X-Gatepost-Id", "X-Gatepost-Verdict", "X-Gatepost-Decision"]
        assert list(added) == [*names, "X-Gatepost-Tags"]
        assert added["X-Gatepost-Verdict"] == " clean"
        assert added["Authentication-Results"].startswith(" gate.example;")
        (request,), (raw,) = milter.guard.scanned, milter.guard.raw
        assert raw == RAW
        assert (request.source, request.envelope.sender) == ("milter", "a@x.example")
        assert request.envelope.recipients == ("b@y.example", "c@y.example")
        assert (request.envelope.remote_address, request.envelope.helo) == ("192.0.2.7", "mail.sender.example")
        assert milter.intake.services.answers == {"accept": 1}
        server.send(b"Q")
        assert await server.read() == (b"", b"")
        assert milter.intake.services.space.used == 0


async def test_an_old_mail_server_gets_an_answer_to_everything(house: House) -> None:
    """Version 2 has no steps without an answer, and no spaces before values."""
    async with house() as milter:
        server = await milter.connect(agreed=False)
        await server.negotiate(2, OLD_ACTIONS, OLD_STEPS)
        assert (server.version, server.actions, server.steps) == (2, 0x11, 0)
        await server.greet("2001:db8::1")
        assert await server.ask(b"T") == (b"c", b"")
        assert await server.ask(b"U", b"XYZ\0") == (b"c", b"")
        frames = await server.message([(b"Subject", b" Minutes"), (b"From", b" a@x.example")])
        assert insertions(frames)["X-Gatepost-Verdict"] == "clean"
        assert milter.guard.raw == [b"Subject: Minutes\r\nFrom: a@x.example\r\n\r\nHello\r\n"]
        assert milter.guard.scanned[0].envelope.remote_address == "2001:db8::1"


async def test_forged_fields_are_removed_by_their_numbers(house: House) -> None:
    async with house() as milter:
        server = await milter.connect()
        forged = [
            (b"Authentication-Results", b" other.example; spf=pass"),
            (b"X-Gatepost-Verdict", b" clean"),
            (b"authentication-results", b" gate.example;\n\tdmarc=pass"),
            (b"x-gatepost-verdict", b" clean"),
            (b"X-Gatepost-Other", b" 1"),
            (b"X-Other", b" 1"),
        ]
        frames = await server.message(forged)
        gone = [("x-gatepost-other", 1), ("x-gatepost-verdict", 2), ("authentication-results", 2)]
        assert removals(frames) == [*gone, ("x-gatepost-verdict", 1)]
        # Removed before ours are added: a number would mean another field otherwise.
        letters = b"".join(letter for letter, _ in frames)
        assert letters == b"mmmmiiiiia"


@pytest.mark.parametrize(
    ("decision", "answer", "kept", "counted"),
    [
        ("quarantine", b"d", 1, "discard"),
        ("drop", b"d", 0, "discard"),
        ("bounce", b"y", 0, "reject"),
        ("undecided", b"y", 0, "tempfail"),
    ],
)
async def test_decisions(house: House, decision: str, answer: bytes, kept: int, counted: str) -> None:
    async with house() as milter:
        milter.guard.decision = decision
        frames = await (await milter.connect()).message(FIELDS, BODY)
        assert [letter for letter, _ in frames] == [answer]
        assert [raw for _, raw in milter.holding.kept] == [RAW] * kept
        assert milter.intake.services.answers == {counted: 1}
        if decision == "bounce":
            assert frames[0][1].startswith(b"550 5.7.1 Message refused, reference ")
        if decision == "undecided":
            assert frames[0][1] == b"451 4.7.0 Try again later\0"


async def test_what_would_have_to_be_changed_is_held(tmp_path: Path) -> None:
    """A handler that wants to deliver a message in another form must not have it delivered as it came."""
    body = Spool(tmp_path).new()
    request = ScanRequest("g", 1, Envelope(), "milter")
    for decision, kept in (("deliver", 0), ("quarantine", 1)):
        holding = StrawHolding()
        outcome = session.MilterOutcome(request, body, holding, in_queue=False)
        report = Report("spam", decision, (), 0, "why")  # type: ignore[arg-type]
        assert (await outcome.deliver(ScanResult("g", 1, 1, report))).positive
        assert (len(holding.kept), outcome.delivered is None) == (kept, bool(kept))


async def test_a_message_that_stays_undecided_is_held(house: House) -> None:
    async with house() as milter:
        milter.guard.decision = "undecided"
        server = await milter.connect()
        assert [(await server.message(FIELDS))[0][0] for _ in range(3)] == [b"y", b"y", b"d"]
        assert len(milter.holding.kept) == 1


@pytest.mark.parametrize("actions", [ALL_ACTIONS, 0x11], ids=["offered", "not offered"])
async def test_a_mail_server_holds_messages_itself_if_it_can(house: House, actions: int) -> None:
    async with house(in_queue=True) as milter:
        milter.guard.decision = "quarantine"
        server = await milter.connect(agreed=False)
        await server.negotiate(6, actions, ALL_STEPS)
        await server.greet()
        frames = await server.message([(b"X-Gatepost-Verdict", b" clean")])
        if actions == 0x11:
            assert (frames, len(milter.holding.kept)) == ([(b"d", b"")], 1)
            return
        # What leaves the hold queue is not shown again, so it has its fields now.
        assert removals(frames) == [("x-gatepost-verdict", 1)]
        assert [letter for letter, _ in frames[-2:]] == [b"q", b"a"]
        assert frames[-2][1].startswith(b"clean, reference ")
        assert insertions(frames)["X-Gatepost-Decision"] == " quarantine"
        assert milter.holding.kept == []
        milter.guard.decision = "drop"
        assert await server.message(FIELDS) == [(b"d", b"")]


async def test_faults_are_temporary(house: House) -> None:
    async with house() as milter:
        server = await milter.connect()
        milter.guard.is_full = True
        assert (await server.message(FIELDS))[0][1].startswith(b"451 4.3.2")
        milter.guard.is_full, milter.guard.decision, milter.holding.broken = False, "quarantine", True
        assert (await server.message(FIELDS))[0][1].startswith(b"451 4.3.0")
        milter.guard.fault = StorageError("gone")
        assert (await server.message(FIELDS))[0][1].startswith(b"451 4.3.0")
        milter.domains.broken = True
        await server.ask(b"M", b"<a@x.example>\0")
        assert (await server.ask(b"R", b"<b@y.example>\0"))[1].startswith(b"451 4.3.0")
        # What nobody thought of: a temporary failure, and the connection ends.
        milter.domains.broken, milter.guard.fault = False, ZeroDivisionError("secret")
        server.send(b"A")
        assert await server.message(FIELDS) == [(b"t", b"")]
        assert await server.read() == (b"", b"")
        assert milter.holding.kept == []


async def test_limits_of_a_message(house: House) -> None:
    limits = SmtpLimits(message=70_000, recipients=2, path=64)
    async with house(limits=limits) as milter:
        server = await milter.connect()
        assert (await server.ask(b"M", b"<" + b"a" * 65 + b">\0"))[1].startswith(b"501 5.1.7")
        assert (await server.ask(b"M", b"<a\x01@x.example>\0"))[1].startswith(b"501 5.1.7")
        assert (await server.ask(b"M", b"\xff@x.example\0"))[1].startswith(b"501 5.1.7")
        await server.envelope(b"<>", b"<@r.example:b@y.example>", b"<c@y.example>")
        assert (await server.ask(b"R", b"<d@y.example>\0"))[1].startswith(b"452 4.5.3 Too many")
        await server.content(FIELDS, b"x" * 70_000)
        assert (await server.end())[0][1].startswith(b"552 5.3.4")
        await server.envelope()
        await server.content([(b"X-Gatepost-%d" % number, b" x") for number in range(2_001)], b"")
        assert (await server.end())[0][1].startswith(b"554 5.6.0 Header")
        assert milter.intake.services.space.used == 0
        # The connection goes on.
        assert (await server.message(FIELDS))[-1] == (b"a", b"")
        assert milter.guard.scanned[0].envelope.sender == "a@x.example"
        assert milter.intake.services.answers == {"reject": 2, "accept": 1}


async def test_a_message_has_one_tenant(house: House) -> None:
    async with house() as milter:
        milter.domains.of = {"y.example": "one", "z.example": "two"}
        server = await milter.connect()
        await server.envelope(b"<a@x.example>", b"<b@Y.example>")
        assert (await server.ask(b"R", b"<c@z.example>\0"))[1].startswith(b"452 4.5.3 Send to this recipient")
        assert (await server.ask(b"R", b"<d@y.example>\0"))[0] == b"c"
        await server.content(FIELDS, BODY)
        await server.end()
        assert milter.guard.scanned[0].envelope.tenant == "one"
        assert milter.guard.scanned[0].envelope.recipients == ("b@Y.example", "d@y.example")


async def test_a_recipient_that_reads_in_two_ways_is_refused(house: House) -> None:
    """Postfix shows RCPT as it came, and delivers to what is left of it without comments and quotes."""
    async with house() as milter:
        server = await milter.connect()
        await server.envelope(b"<a@x.example>", b"<b@y.example>")
        for path in (
            b"<b@y.example(c)>",
            b"<b@(c)y.example>",
            b'<b@"y.example">',
            b'<b\\"@y.example>',
            b"<b@x@y.example>",
        ):
            assert (await server.ask(b"R", path + b"\0"))[1].startswith(b"501 5.1.3"), path
        for path in (b'<"b c"@y.example>', b"<@x.example:d@y.example>", b"<root>", b"<b@[192.0.2.1]>"):
            assert (await server.ask(b"R", path + b"\0"))[0] == b"c", path


@pytest.mark.parametrize(
    ("address", "macros", "expected"),
    [
        ("192.0.2.7", b"", ("192.0.2.7", "mail.sender.example")),
        ("127.0.0.1", b"", (None, None)),
        ("192.0.2.7", b"{auth_authen}\0ann\0", (None, None)),
        ("::ffff:192.0.2.7", b"", ("192.0.2.7", "mail.sender.example")),
        ("IPv6:2001:db8::7", b"", ("2001:db8::7", "mail.sender.example")),
        ("999.1.1.1", b"", (None, "mail.sender.example")),
    ],
    ids=["stranger", "this machine", "user", "mapped", "prefixed", "no address"],
)
async def test_the_sending_host(
    house: House, address: str, macros: bytes, expected: tuple[str | None, str | None]
) -> None:
    async with house() as milter:
        server = await milter.connect(agreed=False)
        await server.negotiate()
        await server.greet(address)
        server.send(b"D", b"M" + macros)
        await server.message(FIELDS)
        # The user of one message is not that of the next.
        await server.message(FIELDS)
        first, second = (request.envelope for request in milter.guard.scanned)
        assert (first.remote_address, first.helo) == expected
        assert second.remote_address == ("192.0.2.7" if macros else expected[0])


async def test_a_client_without_an_address_is_known_by_its_macro(house: House) -> None:
    async with house() as milter:
        server = await milter.connect(agreed=False)
        await server.negotiate()
        server.send(b"D", b"C{client_addr}\x00192.0.2.9\0j\0mx.example\0")
        await server.ask(b"C", b"unknown\0U")
        await server.ask(b"H", b"odd\x07name\0")
        await server.message(FIELDS)
        envelope = milter.guard.scanned[0].envelope
        assert (envelope.remote_address, envelope.helo) == ("192.0.2.9", "odd?name")


async def test_abort_quit_and_the_next_session_on_the_same_connection(house: House) -> None:
    async with house() as milter:
        server = await milter.connect()
        await server.envelope()
        await server.content(FIELDS, BODY)
        server.send(b"A")
        assert (await server.message(FIELDS))[-1][0] == b"a"
        assert len(milter.guard.scanned) == 1
        server.send(b"K")
        await server.greet("192.0.2.8", b"other.example")
        await server.message(FIELDS)
        assert milter.guard.scanned[1].envelope.remote_address == "192.0.2.8"
        assert milter.intake.open == 1
        server.send(b"Q")
        assert await server.read() == (b"", b"")


async def test_a_long_analysis_is_no_silence(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PROGRESS_SECONDS", 0.01)
    async with house() as milter:
        milter.guard.may_end.clear()
        server = await milter.connect()
        await server.envelope()
        await server.content(FIELDS, BODY)
        server.send(b"E")
        for _ in range(3):
            assert await server.read() == (b"p", b"")
        milter.guard.may_end.set()
        frames = []
        while (frame := await server.read())[0] != b"a":
            frames.append(frame[0])
        assert set(frames) <= {b"p", b"i"}
        assert frames.count(b"i") == 5


@pytest.mark.parametrize(
    "data",
    [
        bytes(4),
        b"\xff\xff\xff\xff",
        (1 << 21).to_bytes(4) + b"B",
        pack(b"Z"),
        pack(b"M", b"<a@x.example>\0"),
        pack(b"O", b"\0\0\0\6"),
        pack(b"O", b"\0\0\0\1" + b"\0\0\1\xff" * 2),
        pack(b"O", b"\0\0\0\6" + bytes(8)),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["empty", "endless", "long", "unknown", "no offer", "short offer", "version 1", "no actions", "browser"],
)
async def test_what_is_no_milter_protocol_ends_the_connection(house: House, data: bytes) -> None:
    async with house() as milter:
        server = await milter.connect(agreed=False)
        server.writer.write(data)
        assert await server.read() == (b"", b"")
        await milter.until(lambda: milter.intake.open == 0)


@pytest.mark.parametrize(
    "frames",
    [
        [(b"O", bytes(12))],
        [(b"R", b"<b@y.example>\0")],
        [(b"L", b"Subject\0x\0")],
        [(b"N", b"")],
        [(b"B", b"x")],
        [(b"E", b"")],
        [(b"M", b"<a@x.example>\0"), (b"L", b"Subject\0x\0")],
        [(b"M", b"no end")],
        [(b"M", b"<a@x.example>\0"), (b"R", b"<b@y.example>\0"), (b"B", b"x")],
        [(b"M", b"<a@x.example>\0"), (b"R", b"<b@y.example>\0"), (b"N", b""), (b"L", b"Subject\0x\0")],
        [(b"M", b"<a@x.example>\0"), (b"R", b"<b@y.example>\0"), (b"N", b""), (b"N", b"")],
        [(b"M", b"<a@x.example>\0"), (b"R", b"<b@y.example>\0"), (b"N", b""), (b"R", b"<b@y.example>\0")],
        [(b"M", b"<a@x.example>\0"), (b"R", b"<b@y.example>\0"), (b"L", b"Subject\0")],
        [(b"C", b"no family\0")],
    ],
)
async def test_commands_out_of_order_end_the_connection(house: House, frames: Frames) -> None:
    async with house() as milter:
        server = await milter.connect()
        for letter, data in frames:
            server.send(letter, data)
        while (await server.read())[0]:
            pass
        await milter.until(lambda: milter.intake.open == 0)
        assert (milter.guard.scanned, milter.intake.services.space.used) == ([], 0)


async def test_a_frame_may_come_byte_by_byte_and_many_at_once(house: House) -> None:
    async with house() as milter:
        server = await milter.connect()
        for byte in pack(b"M", b"<a@x.example>\0"):
            server.writer.write(bytes([byte]))
            await server.writer.drain()
            await asyncio.sleep(0)
        assert await server.read() == (b"c", b"")
        frames = pack(b"R", b"<b@y.example>\0") + pack(b"D", b"Ri\0x\0") * 5_000 + pack(b"L", b"Subject\0 x\0")
        server.writer.write(frames + pack(b"N") + pack(b"B", b"y\r\n") * 1_000 + pack(b"E"))
        assert await server.read() == (b"c", b"")
        while (frame := await server.read())[0] not in (b"a", b""):
            assert frame[0] in (b"i", b"p")
        assert milter.guard.raw == [b"Subject: x\r\n\r\n" + b"y\r\n" * 1_000]


async def test_time_outs(house: House) -> None:
    async with house(limits=SmtpLimits(command_wait=0.05)) as milter:
        server = await milter.connect(agreed=False)
        assert await server.read() == (b"", b"")
    async with house(limits=SmtpLimits(data_most=0.05)) as milter:
        server = await milter.connect()
        await server.envelope()
        await server.content(FIELDS, BODY)
        assert await server.read() == (b"", b"")
        assert milter.intake.services.space.used == 0


async def test_hanging_up_before_the_answer_leaves_the_message_with_its_sender(house: House) -> None:
    async with house() as milter:
        milter.guard.decision = "quarantine"
        milter.guard.may_end.clear()
        server = await milter.connect()
        await server.envelope()
        await server.content(FIELDS, BODY)
        server.send(b"E")
        await milter.until(lambda: len(milter.guard.scanned) == 1)
        server.writer.close()
        await milter.until(lambda: milter.intake.open == 0)
        milter.guard.may_end.set()
        await asyncio.sleep(0)
        assert (milter.holding.kept, milter.intake.services.space.used) == ([], 0)


async def test_who_may_connect_and_how_many(house: House) -> None:
    async with house(most=2) as milter:
        first, second = await milter.connect(), await milter.connect()
        third = await milter.connect(agreed=False)
        assert await third.read() == (b"", b"")
        assert (milter.intake.open, milter.intake.turned_away) == (2, 1)
        first.send(b"Q")
        await milter.until(lambda: milter.intake.open == 1)
        await milter.connect()
        assert (await second.message(FIELDS))[-1][0] == b"a"


async def test_a_stop_lets_a_message_end_and_no_other_begin(house: House) -> None:
    async with house() as milter:
        milter.guard.may_end.clear()
        idle, busy = await milter.connect(), await milter.connect()
        await busy.envelope()
        await busy.content(FIELDS, BODY)
        busy.send(b"E")
        await milter.until(lambda: len(milter.guard.scanned) == 1)
        milter.intake.should_exit = True
        assert await idle.read() == (b"", b"")
        milter.guard.may_end.set()
        while (frame := await busy.read())[0] == b"i":
            pass
        assert frame == (b"a", b"")
        assert await busy.read() == (b"", b"")


def test_the_file_of_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "milter"
    first = bind((f"unix:{path}",), 0, "scanSources.milter.listen")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first[0].listen()
    with pytest.raises(Exception, match="another program uses it"):
        bind((f"unix:{path}",), 0, "scanSources.milter.listen")
    close_sockets(first)
    # What a service left behind that has ended does not keep the next one from starting; other files do.
    close_sockets(bind((f"unix:{path}",), 0, "x"))
    path.unlink()
    path.write_text("a letter")
    with pytest.raises(Exception, match="another program uses it"):
        bind((f"unix:{path}",), 0, "x")
    assert path.read_text() == "a letter"
    with pytest.raises(Exception, match="no such file"):
        bind((f"unix:{tmp_path}/none/milter",), 0, "x")
    inherited = socket.socket(socket.AF_UNIX)
    inherited.bind(str(tmp_path / "given"))
    known = {(int(socket.AF_UNIX), (str(tmp_path / "given"), 0)): inherited}
    assert bind((f"unix:{tmp_path}/given",), 0, "x", known) == (inherited,)
    inherited.close()


async def test_no_conversation_breaks_a_session(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in any order with any data: the connection goes on or ends, and nothing is left behind."""
    broken: list[object] = []
    monkeypatch.setattr(session.log, "error", lambda *words, **values: broken.append((words, values)), raising=False)
    dice = random.Random(20_261_116)
    data = [
        b"",
        b"x",
        b"\0",
        b"\0\0\0",
        b"<a@x.example>\0",
        b"Subject\0 x\0",
        b"x\0004\0\0001.2.3.4\0",
        b"x\0U",
        b"\xff\0",
    ]
    async with house() as milter:
        for number in range(60):
            server = await milter.connect()
            if number % 2:
                server.send(b"M", b"<a@x.example>\0")
                server.send(b"R", b"<b@y.example>\0")
            for _ in range(dice.randrange(1, 20)):
                server.send(bytes([dice.choice(b"ABCDEHKLMNOQRTU")]), dice.choice(data))
            server.send(b"Q")
            while (await server.read())[0]:
                pass
        await milter.until(lambda: milter.intake.open == 0)
        assert (broken, milter.intake.services.space.used) == ([], 0)


async def test_mail_that_is_put_off_is_told(house: House) -> None:
    async with house() as milter:
        services = milter.intake.services
        server = await milter.connect()
        await server.message(FIELDS)
        milter.guard.is_full = True
        for _ in range(MIN_DEFERRED):
            assert await server.message(FIELDS) == [(b"y", b"451 4.3.2 Busy, try again later\0")]
        milter.guard.is_full = False
        said = DeferralWatch("The milter source").warn(count_source(milter.intake, services))
        assert said == (
            "The milter source puts mail off: 5 of 6 messages of the last minutes,"
            " because no slot was free (maxGuardRequestsInProcessing)"
        )
        assert (await server.ask(b"M", b"<" + b"a" * 1_000 + b"@x.example>\0"))[1].startswith(b"501")
        assert services.deferred == {"slots": MIN_DEFERRED}, "what the sender did wrong is not ours"


async def test_a_full_port_ends_a_connection_whose_tenant_has_its_share(house: House) -> None:
    async with house(limits=SmtpLimits(sessions=4, place_wait=0.05), most=4) as milter:
        milter.domains.of = {"flood.example": "f", "quiet.example": "q"}
        flood = [await milter.connect() for _ in range(4)]
        for server in flood[:3]:
            await server.envelope(b"<a@x.example>", b"<b@flood.example>")
        late = flood[3]
        assert await late.ask(b"M", b"<a@x.example>\0") == (b"c", b"")
        busy = (b"y", b"451 4.3.2 Too many sessions, try again later\0")
        assert await late.ask(b"R", b"<b@flood.example>\0") == busy
        quiet = await milter.connect()
        assert await late.read() == (b"", b"")
        await quiet.envelope(b"<a@x.example>", b"<b@quiet.example>")
        await quiet.content(FIELDS, b"Hello\r\n")
        assert (await quiet.end())[-1][0] == b"a"
        assert (milter.intake.gave_way, milter.intake.turned_away) == (1, 0)
        for server in flood[:3]:
            assert await server.ask(b"R", b"<c@flood.example>\0") == (b"c", b"")
        services = milter.intake.services
        assert (services.sessions.used, services.deferred) == (3, {"sessions": 1})
