"""What is sent together: replies to a client, commands to a next hop, and the pieces of a message."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.smtp import connection, trace
from gatepost.smtp.connection import Connection
from gatepost.smtp.next_hop import NextHop
from gatepost.smtp.trace import read_header

PIPELINED = b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nDATA\r\n"
MESSAGE = b"Subject: x\r\n\r\ny\r\n.\r\n"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was written to clients, write by write."""
    writes: list[bytes] = []
    write = Connection.write

    def note(self: Connection, data: bytes) -> None:
        writes.append(data)
        write(self, data)

    monkeypatch.setattr(Connection, "write", note)
    return writes


async def test_replies_to_pipelined_commands_are_one_write(deployment: Any, hop: Any, written: list[bytes]) -> None:
    async with deployment(hop()) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        written.clear()
        client.send(PIPELINED)
        assert [(await client.reply())[:3] for _ in range(3)] == ["250", "250", "354"]
        assert (await client.say(MESSAGE)).startswith("250")
        assert [data.count(b"\r\n") for data in written] == [3, 1]


@pytest.mark.parametrize(
    ("says", "codes"),
    [
        ({"RCPT": "550 5.1.1 nobody"}, ["250", "550", "554"]),
        ({"MAIL": "550 5.7.1 not you"}, ["550", "250", "503"]),
        ({"RCPT": None}, ["250", "451", "451"]),
    ],
)
async def test_what_is_due_comes_before_a_refusal_of_data(
    deployment: Any, hop: Any, says: dict[str, str | None], codes: list[str]
) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        next_hop.says = says
        client.send(PIPELINED)
        assert [(await client.reply())[:3] for _ in range(3)] == codes
        assert (await client.say("RSET"))[:3] == "250"
        # What comes behind DATA without an invitation ends the session, after all that is due.
        next_hop.says = {}
        client.send(PIPELINED + b"NOOP\r\n")
        assert [(await client.reply())[:3] for _ in range(3)] == ["250", "250", "503"]
        assert await client.closed()


async def test_a_transaction_that_is_given_up_ends_with_the_next_one(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.smtp.routing.UNFINISHED_SECONDS", 3_600.0)
    next_hop = hop()
    async with deployment(next_hop) as gate:
        await gate.until(lambda: gate.relay._idle)
        client = await gate.connect()
        gate.guard.decision = "drop"
        await client.up_to_data()
        await client.say(MESSAGE)
        assert "RSET" not in next_hop.lines
        gate.guard.decision = "deliver"
        await client.up_to_data("other@x.example")
        assert (await client.say(MESSAGE)).startswith("250")
        assert next_hop.lines[-4:] == ["RSET", "MAIL FROM:<other@x.example>", "RCPT TO:<b@y.example>", "DATA"]
        assert next_hop.connections == 1


async def test_a_transaction_that_is_given_up_ends_soon_where_none_follows(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        await gate.until(lambda: gate.relay._idle)
        client = await gate.connect()
        gate.guard.decision = "drop"
        await client.up_to_data()
        await client.say(MESSAGE)
        await gate.until(lambda: "RSET" in next_hop.lines)
        await gate.until(lambda: gate.relay._idle)
        assert next_hop.lines.count("RSET") == 1


@pytest.mark.parametrize("said", ["503 5.5.1 no", "421 4.3.2 bye", "250-half"])
async def test_a_next_hop_that_does_not_reset_refuses_nothing_for_good(
    deployment: Any, hop: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MAIL within a transaction is out of order there, and that is no fault of this client's."""
    monkeypatch.setattr("gatepost.smtp.routing.UNFINISHED_SECONDS", 3_600.0)
    next_hop = hop()
    async with deployment(next_hop) as gate:
        await gate.until(lambda: gate.relay._idle)
        client = await gate.connect()
        gate.guard.decision = "drop"
        await client.up_to_data()
        await client.say(MESSAGE)
        gate.guard.decision = "deliver"
        next_hop.says = {"RSET": said, "MAIL": "503 5.5.1 nested MAIL command"}
        assert (await client.say("MAIL FROM:<a@x.example>")).startswith("451 4.4.2")
        next_hop.says = {}
        await client.up_to_data()
        assert (await client.say(MESSAGE)).startswith("250")
        assert next_hop.connections == 2


@pytest.mark.parametrize("sizes", [(100,), (200, 9_000), (200, 70_000, 3), (65_536, 65_536)])
async def test_small_pieces_of_a_message_are_one_write(
    deployment: Any, hop: Any, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_early(each: tuple[int, ...]) -> int:
        early = together = 0
        for size in each:
            together += size
            if together >= 65_536:
                early, together = early + 1, 0
        return early

    next_hop = hop()
    async with deployment(next_hop) as gate:
        await gate.until(lambda: gate.relay._idle)
        link = await gate.relay.borrow()
        writes: list[int] = []
        write = NextHop._write

        async def note(self: NextHop, data: bytes, final: Any) -> None:
            writes.append(len(data))
            await write(self, data, final)

        monkeypatch.setattr(NextHop, "_write", note)
        await asyncio.gather(link.ask(b"MAIL FROM:<>"), link.ask(b"RCPT TO:<b@y.example>"))
        pieces = [b"." * size for size in sizes]
        assert (await link.send_message(iter(pieces))).positive
        whole = b"".join(pieces)
        assert next_hop.messages == [b"." + whole + b"\r\n"]
        assert len(writes) == 1 + count_early(sizes)
        gate.relay.give_back(link)


async def test_a_client_that_says_nothing_is_cut_off_in_time_and_not_before(
    deployment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gatepost.smtp.commands import SmtpLimits

    made: list[Any] = []

    class Timer:
        """What is called back when its deadline has passed, and the deadlines that were set."""

        def __init__(self, passed: Callable[[], None]) -> None:
            self.passed, self.deadlines = passed, list[float]()
            made.append(self)

        def set(self, deadline: float) -> None:
            self.deadlines.append(deadline)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(connection, "DeadlineTimer", Timer)
    loop = asyncio.get_running_loop()
    async with deployment(limits=SmtpLimits(greeting_pause=0.0, command_wait=300.0)) as gate:
        client = await gate.connect()
        for _ in range(5):
            before = loop.time()
            assert (await client.say("NOOP")).startswith("250")
            await gate.until(lambda before=before: made[0].deadlines[-1] >= before + 300.0)
            assert made[0].deadlines[-1] <= loop.time() + 300.0
        made[0].passed()
        assert (await client.reply()).startswith("421 4.4.2")


LINES = (
    *(b"Received: from a by b id 4Xy", b"received :x", b"RECEIVED", b"Subject: s", b"subject\t: t", b"X: y", b""),
    *(b"X-Gatepost-Id: 1", b"x-gatepost-: 2", b"X-Gatepost: 3", b"x-gatepost-a b: 4", b"\tfolded", b" f", b":"),
    *(b"Authentication-Results: gate.example; spf=pass", b"authentication-results: other.example", b"\xff"),
)
ENDS = (*(b"\r\n",) * 8, b"\n", b"\r")


@given(
    st.lists(st.tuples(st.sampled_from(LINES) | st.binary(max_size=6), st.sampled_from(ENDS)), max_size=12),
    st.binary(max_size=4),
)
def test_a_header_is_read_the_same_way_at_both_speeds(lines: list[tuple[bytes, bytes]], rest: bytes) -> None:
    raw = b"".join(line + end for line, end in lines) + rest
    with mock.patch.object(trace, "_find_relevant", trace.find_relevant_slowly):
        expected = read_header(raw, "gate.example")
    assert read_header(raw, "gate.example") == expected
