"""Hostile answers: read or refused, never more, and in bounded work."""

import asyncio
import struct
import sys
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from bench.ports import bind_datagrams, free_port
from hypothesis import given
from hypothesis import strategies as st

from gatepost.guard.answers import dns
from gatepost.guard.answers.dns import (
    MAX_RECORDS,
    TYPES,
    DnsTransport,
    Reply,
    Server,
    build_query,
    build_question,
    is_reply,
    parse_servers,
    read_reply,
)
from gatepost.questions import Dns, RecordType

MX = Dns("host.test", "MX")


def reply(question: Dns, *records: bytes, flags: int = 0x8180, number: int = 7, count: int | None = None) -> bytes:
    head = struct.pack(">HHHHHH", number, flags, 1, len(records) if count is None else count, 0, 0)
    return head + build_question(question) + b"".join(records)


def record(kind: RecordType, data: bytes, owner: bytes = b"\xc0\x0c", ttl: int = 60, network: int = 1) -> bytes:
    return owner + struct.pack(">HHIH", TYPES[kind], network, ttl, len(data)) + data


def read(question: Dns, data: bytes) -> Reply:
    section = build_question(question)
    assert is_reply(data, 7, section)
    return read_reply(data, question, section)


def test_a_query_on_the_wire() -> None:
    query = build_query(0x1234, build_question(Dns("a.bc", "TXT")))
    assert query.hex(" ", -2) == ("1234 0100 0001 0000 0000 0001 0161 0262 6300 0010 0001 0000 2904 d000 0000 0000 00")
    assert build_query(1, b"", edns=False) == b"\0\1\1\0\0\1\0\0\0\0\0\0"


def test_only_an_answer_to_the_question_is_one() -> None:
    section = build_question(MX)
    sound = reply(MX)
    assert is_reply(sound, 7, section)
    assert is_reply(sound.replace(b"host", b"HOST"), 7, section)
    for other in (
        sound[:20],
        b"",
        reply(MX, number=8),
        reply(MX, flags=0x0100),
        reply(MX, flags=0x8980),
        reply(Dns("host.test", "A")),
        reply(Dns("hose.test", "MX")),
        sound[:4] + b"\0\2" + sound[6:],
    ):
        assert not is_reply(other, 7, section)


def test_names_are_written_so_that_they_are_unambiguous() -> None:
    data = reply(MX, record("MX", b"\0\x0a\x03a.b\x02\xe9\\\x04Mx_1\xc0\x11"))
    assert read(MX, data) == Reply("found", ("10 a\\046b.\\233\\092.Mx_1.test",), 60)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\x0a\xc0\xff",  # a pointer out of the message
        b"\0\x0a\xc0\x29",  # to itself
        b"\0\x0a\x40xx",  # a label of a reserved kind
        b"\0\x0a\x05host",  # longer than its record
        b"\0\x0a\x04host",  # without an end
        b"\0\x0a",
        b"\0",
        b"",
        b"\0\x0a" + b"\x3f" + b"x" * 63 + (b"\x3f" + b"x" * 63) * 3 + b"\0",  # 257 octets
    ],
)
def test_names_that_are_none(data: bytes) -> None:
    assert read(MX, reply(MX, record("MX", data))) == Reply("malformed")


@pytest.mark.parametrize(
    ("kind", "data"),
    [("A", b"\1\2\3"), ("AAAA", b"\1\2\3\4"), ("TXT", b"\5four"), ("PTR", b""), ("A", b"")],
)
def test_records_that_are_none(kind: RecordType, data: bytes) -> None:
    question = Dns("host.test", kind)
    assert read(question, reply(question, record(kind, data))).status == "malformed"


def test_records_are_counted_within_the_message() -> None:
    assert read(MX, reply(MX, count=3)).status == "malformed"
    assert read(MX, reply(MX, record("MX", b"\0\1\0")[:-1])).status == "malformed"
    assert read(MX, reply(MX, record("MX", b"\0\1\0", network=3))).status == "no-data"


@pytest.mark.parametrize(("ttl", "seconds"), [(0, 0), (2**31 - 1, 2**31 - 1), (2**31, 0)])
def test_how_long_an_answer_holds(ttl: int, seconds: int) -> None:
    assert read(MX, reply(MX, record("MX", b"\0\1\0", ttl=ttl))).seconds == seconds


@pytest.mark.parametrize(
    ("flags", "status"),
    [(0x8380, "truncated"), (0x8183, "no-name"), (0x8181, "no-edns"), (0x8184, "no-edns"), (0x8182, "failed")],
)
def test_codes(flags: int, status: str) -> None:
    assert read(MX, reply(MX, flags=flags)).status == status


def steps(work: Callable[[], Any]) -> int:
    """How many lines of the reader are executed."""
    count = 0

    def trace(frame: Any, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace if frame.f_globals["__name__"] == dns.__name__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_work_for_a_message_is_bounded() -> None:
    """64 KiB of records whose names are as long, and lead as far, as they may."""
    name = b"\1x" * 100 + b"\0"
    first = record("MX", b"\0\1" + name)
    place = len(reply(MX)) + 2 + 10 + 2
    many = [record("MX", struct.pack(">HH", 1, 0xC000 | place)) for _ in range(4_000)]
    data = reply(MX, first, *many)
    assert len(data) < 65_536
    assert len(read(MX, data).records) == MAX_RECORDS["MX"]
    assert steps(lambda: read(MX, data)) < 400_000
    pointers = b"".join(struct.pack(">H", 0xC000 | max(12, place + 2 * each - 2)) for each in range(4_000))
    chained = reply(MX, record("MX", b"\0\1" + pointers), record("MX", struct.pack(">HH", 1, 0xC000 | place + 7_000)))
    assert read(MX, chained).status in ("malformed", "found")
    assert steps(lambda: read(MX, chained)) < 2_000


@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=200), st.integers(0, 0xFFFF), st.integers(0, 50))
def test_any_bytes_are_read_or_refused(kind: RecordType, data: bytes, flags: int, count: int) -> None:
    question = Dns("host.test", kind)
    got = read_reply(reply(question, data, flags=flags | 0x8000, count=count), question, build_question(question))
    assert got.status == "found" or not got.records


@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=60), st.binary(max_size=20))
def test_any_record_is_read_or_refused(kind: RecordType, data: bytes, more: bytes) -> None:
    question = Dns("host.test", kind)
    got = read(question, reply(question, record(kind, data), more, count=1))
    assert got.status in ("found", "malformed")
    assert len(got.records) == (got.status == "found")


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("192.0.2.1", Server("192.0.2.1", 53)),
        ("192.0.2.1:5353", Server("192.0.2.1", 5353)),
        ("::1", Server("::1", 53)),
        ("[2001:db8::1]:54", Server("2001:db8::1", 54)),
    ],
)
def test_servers(text: str, server: Server) -> None:
    assert parse_servers([text]) == [server]
    assert parse_servers(["nonsense", "192.0.2.1:x", text]) == [server]


def test_servers_of_the_system(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "resolv.conf"
    monkeypatch.setattr(dns, "_RESOLV_CONF", file)
    assert parse_servers([]) == [Server("127.0.0.1", 53)]
    file.write_text("# x\nsearch a.example\nnameserver 192.0.2.7\nnameserver\n nameserver ::1\n")
    assert parse_servers([]) == [Server("192.0.2.7", 53), Server("::1", 53)]


class NameServer:
    """A name server whose answers a test makes by hand. What comes is (query, address); ports that asked are kept."""

    def __init__(self, respond: Callable[[bytes, int], list[bytes]], port: int = 0) -> None:
        self.sock = bind_datagrams(port)
        self.sock.setblocking(False)
        self.respond = respond
        self.ports: list[int] = []
        self.numbers: list[int] = []
        asyncio.get_running_loop().add_reader(self.sock.fileno(), self._read)

    def _read(self) -> None:
        query, address = self.sock.recvfrom(4096)
        self.ports.append(address[1])
        self.numbers.append(int.from_bytes(query[:2]))
        for answer in self.respond(query, len(self.ports)):
            self.sock.sendto(answer, address)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.sock.fileno())
        self.sock.close()

    @property
    def server(self) -> Server:
        return Server(*self.sock.getsockname())


def answered(query: bytes, code: int = 3) -> bytes:
    return query[:2] + bytes([0x81, 0x80 | code]) + b"\0\1" + bytes(6) + query[12:-11]


async def ask(servers: list[NameServer], count: int = 1, seconds: float = 5.0) -> list[str]:
    got: list[str] = []
    done = asyncio.Event()

    def on_reply(_question: Dns, said: Reply) -> None:
        got.append(said.status)
        if len(got) == count:
            done.set()

    transport = DnsTransport([each.server for each in servers], seconds, on_reply)
    try:
        for number in range(count):
            transport.ask(Dns(f"n{number}.test", "A"))
        async with asyncio.timeout(180):
            while not done.is_set():
                await asyncio.sleep(0.01)
                transport.sweep()
    finally:
        await transport.close()
        for each in servers:
            each.close()
    return got


async def test_numbers_and_ports_cannot_be_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "QUERIES_PER_PORT", 5)
    server = NameServer(lambda query, _: [answered(query)])
    assert await ask([server], 200) == ["no-name"] * 200
    assert len(set(server.numbers)) > 190
    assert len(set(server.ports)) >= 40


async def test_forged_answers_are_ignored() -> None:
    """Wrong number, another name, a question: the right answer, which comes last, is the one that counts."""

    def respond(query: bytes, _count: int) -> list[bytes]:
        sound = answered(query, 3)
        bad = bytes([query[0] ^ 1]) + sound[1:]
        return [bad, sound.replace(b"n0", b"x0"), query, b"", sound[:12], sound]

    assert await ask([NameServer(respond)]) == ["no-name"]


async def test_a_server_that_fails_is_followed_by_the_next() -> None:
    failing, sound = (
        NameServer(lambda query, _: [answered(query, 2)]),
        NameServer(lambda query, _: [answered(query)]),
    )
    assert await ask([failing, sound]) == ["no-name"]
    failing = NameServer(lambda query, _: [answered(query, 2)])
    assert await ask([failing]) == ["failed"]
    assert len(failing.ports) == 1, "a server that said no is not asked again"


async def test_silence_is_followed_by_another_attempt() -> None:
    deaf = NameServer(lambda query, count: [answered(query)] if count == 3 else [])
    assert await ask([deaf], seconds=0.05) == ["no-name"]
    assert await ask([NameServer(lambda query, _: [])], seconds=0.05) == ["failed"]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_server_that_was_away_is_heard_again(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The system tells a socket that nobody listens there. uvloop does not look at such a socket again, so that none
    may be used after it: each would cost the time of an attempt, which is longer than this test may take."""

    async def main() -> None:
        got: list[str] = []
        heard = asyncio.Event()

        def on_reply(_question: Dns, said: Reply) -> None:
            got.append(said.status)
            heard.set()

        async def ask_many(count: int) -> list[str]:
            got.clear()
            for number in range(count):
                transport.ask(Dns(f"n{number}.test", "A"))
            while len(got) < count:
                heard.clear()
                await heard.wait()
            return got

        place = Server("127.0.0.1", free_port())
        transport = DnsTransport([place], 3_600, on_reply)
        async with asyncio.timeout(180):
            for _ in range(2):
                assert await ask_many(50) == ["failed"] * 50
                server = NameServer(lambda query, _: [answered(query)], place.port)
                assert await ask_many(50) == ["no-name"] * 50
                assert len(server.ports) == 50, "each was asked once"
                server.close()
        await transport.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


async def test_a_server_that_knows_no_edns_is_asked_without() -> None:
    def respond(query: bytes, _count: int) -> list[bytes]:
        if query[11]:
            return [answered(query, 1)]
        return [query[:2] + b"\x81\x83\0\1" + bytes(6) + query[12:]]

    assert await ask([NameServer(respond)]) == ["no-name"]
