"""Statuses to the letter, few questions, bounds on everything: against a name server of our own on loopback."""

import asyncio
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, cast, get_args

import pytest
from bench.ports import bind_datagrams
from tests.cancelling import cancel_everywhere, count_sockets, settle
from tests.own_names import replace_in

from gatepost.guard.answers import dns
from gatepost.guard.answers.dns import TYPES as TYPES_ON_THE_WIRE
from gatepost.guard.answers.dns import AnswerCache, Resolver
from gatepost.questions import Dns, DnsAnswer, RecordType

Fault = Literal["silent", "servfail", "refused", "truncated", "garbage"]
TYPES = {"A": 1, "CNAME": 5, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28}
NUMBERS = {number: name for name, number in TYPES.items()}

Zone = dict[str, dict[str, list[str | bytes]] | Fault]
ZONE: Zone = {
    "host.test": {"A": ["192.0.2.1", "192.0.2.2"], "AAAA": ["2001:db8::1"], "MX": ["10 mx.test", "20 mx2.test"]},
    "alias.test": {"CNAME": ["host.test"], "A": ["192.0.2.1"]},
    "dangling.test": {"CNAME": ["nowhere.test"]},
    "nomail.test": {"MX": ["0 ."]},
    "txt.test": {"TXT": [b"\x06v=spf1\x05 -all", b"\x03\xe9\x00\xff"]},
    "1.2.0.192.in-addr.arpa": {"PTR": ["Host.Test"]},
    "_dmarc.txt.test": {"TXT": [b"\x08v=DMARC1"]},
    "long.test": {"TXT": [bytes([250]) + b"x" * 250] * 10},
    "silent.test": "silent",
    "servfail.test": "servfail",
    "refused.test": "refused",
    "garbage.test": "garbage",
    "truncated.test": "truncated",
}


def wire(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def rdata(kind: str, value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    if kind in {"A", "AAAA"}:
        return socket.inet_pton(socket.AF_INET if kind == "A" else socket.AF_INET6, value)
    if kind == "MX":
        preference, name = value.split()
        return struct.pack(">H", int(preference)) + wire(name)
    return wire(value)


class NameServer(asyncio.DatagramProtocol):
    """Answers from a zone over UDP and TCP, with a TTL, and counts."""

    def __init__(self, ttl: int, zone: Zone) -> None:
        self.ttl, self.zone = ttl, zone
        self.asked: Counter[tuple[str, str]] = Counter()
        self.by_tcp = 0
        self.open = asyncio.Event()
        self.open.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        asyncio.get_running_loop().create_task(self._reply(data, addr))

    async def _reply(self, data: bytes, addr: tuple[str, int]) -> None:
        await self.open.wait()
        answer = self.answer(data, tcp=False)
        if answer:
            self.transport.sendto(answer, addr)

    async def tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">H", await reader.readexactly(2))
                answer = self.answer(await reader.readexactly(length), tcp=True)
                self.by_tcp += 1
                writer.write(struct.pack(">H", len(answer)) + answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def answer(self, data: bytes, *, tcp: bool) -> bytes:
        end, labels = 12, []
        while data[end]:
            labels.append(data[end + 1 : end + 1 + data[end]].decode())
            end += data[end] + 1
        name, kind = ".".join(labels).lower(), NUMBERS[struct.unpack(">H", data[end + 1 : end + 3])[0]]
        self.asked[name, kind] += 1
        question, entry = data[12 : end + 5], self.zone.get(name)
        match entry:
            case "silent":
                return b""
            case "garbage":
                return data[:2] + b"\x81\x80\0\1\0\xff\0\0\0\0" + question + b"\xc0"
            case "servfail" | "refused":
                return data[:2] + bytes([0x81, 0x82 if entry == "servfail" else 0x85]) + b"\0\1\0\0\0\0\0\0" + question
            case "truncated" if not tcp:
                return data[:2] + b"\x83\x80\0\1\0\0\0\0\0\0" + question
            case "truncated":
                return self._found(data[:2], question, "TXT", {"TXT": [b"\x04long"]})
            case dict():
                return self._found(data[:2], question, kind, entry)
        return data[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question

    def _found(self, head: bytes, question: bytes, kind: str, entry: dict[str, list[str | bytes]]) -> bytes:
        answers = [(k, v) for k in ("CNAME", kind) for v in entry.get(k, [])]
        body = b""
        for k, v in answers:
            data = rdata(k, v)
            owner = wire("host.test") if "CNAME" in entry and k != "CNAME" else b"\xc0\x0c"
            body += owner + struct.pack(">HHIH", TYPES[k], 1, self.ttl, len(data)) + data
        code = 0x83 if entry.get("CNAME") == ["nowhere.test"] else 0x80
        return head + bytes([0x81, code]) + struct.pack(">HHHH", 1, len(answers), 0, 0) + question + body


@asynccontextmanager
async def resolving(
    ttl: int = 300, seconds: float = 5.0, clock: Callable[[], float] = time.monotonic, zone: Zone = ZONE
) -> AsyncIterator[tuple[Resolver, NameServer]]:
    loop, server = asyncio.get_running_loop(), NameServer(ttl, zone)
    async with AsyncExitStack() as stack:
        datagrams = stack.enter_context(bind_datagrams())
        port = datagrams.getsockname()[1]
        listener = await asyncio.start_server(server.tcp, "127.0.0.1", port)
        stack.callback(listener.close)
        datagrams.setblocking(False)
        transport, _ = await loop.create_datagram_endpoint(lambda: server, sock=datagrams)
        stack.callback(transport.close)
        resolver = Resolver([f"127.0.0.1:{port}"], seconds, clock=clock)
        stack.push_async_callback(resolver.close)
        yield resolver, server


CASES: list[tuple[str, RecordType, DnsAnswer]] = [
    ("host.test", "A", DnsAnswer("found", ("192.0.2.1", "192.0.2.2"))),
    ("HOST.Test.", "AAAA", DnsAnswer("found", ("2001:db8::1",))),
    ("host.test", "MX", DnsAnswer("found", ("10 mx.test", "20 mx2.test"))),
    ("host.test", "TXT", DnsAnswer("no-data")),
    ("alias.test", "A", DnsAnswer("found", ("192.0.2.1",))),
    ("alias.test", "TXT", DnsAnswer("no-data")),  # an alias alone is no record
    ("dangling.test", "A", DnsAnswer("no-name")),
    ("nomail.test", "MX", DnsAnswer("found", ("0 .",))),  # RFC 7505
    ("txt.test", "TXT", DnsAnswer("found", ("v=spf1 -all", "\xe9\x00\xff"))),
    ("_dmarc.txt.test", "TXT", DnsAnswer("found", ("v=DMARC1",))),
    ("long.test", "TXT", DnsAnswer("found", ("x" * 250,) * 10)),
    ("1.2.0.192.in-addr.arpa", "PTR", DnsAnswer("found", ("Host.Test",))),
    ("nowhere.test", "A", DnsAnswer("no-name")),
    ("servfail.test", "A", DnsAnswer("failed")),
    ("refused.test", "A", DnsAnswer("failed")),
    ("truncated.test", "TXT", DnsAnswer("found", ("long",))),
]


async def test_statuses_and_records() -> None:
    async with resolving(seconds=10.0) as (resolver, server):
        answers = await asyncio.gather(*(resolver.ask(Dns(name, kind)) for name, kind, _ in CASES))
        for (name, kind, expected), answer in zip(CASES, answers, strict=True):
            assert answer == expected, (name, kind)
        assert server.by_tcp == 1


async def test_an_answer_that_cannot_be_read_is_a_failure() -> None:
    async with resolving(seconds=10.0) as (resolver, _):
        assert await resolver.ask(Dns("garbage.test", "A")) == DnsAnswer("failed")
        assert (await resolver.ask(Dns("host.test", "A"))).status == "found"


def test_every_type_can_be_asked() -> None:
    assert set(get_args(RecordType)) == set(TYPES_ON_THE_WIRE)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a..test",
        ".test",
        "x" * 64 + ".test",
        ".".join(["x" * 63] * 4),
        "bücher.test",
        "a b.test",
        "a\0.test",
        "a\n.test",
        "a\\.test",
        "a\\046test",
        "a.test\n",
        "a.test..",
        "\ud800.test",
    ],
)
async def test_names_that_dns_cannot_hold_are_not_asked(name: str) -> None:
    async with resolving() as (resolver, server):
        assert await resolver.ask(Dns(name, "A")) == DnsAnswer("no-name")
        assert not server.asked
        assert resolver.counters().queries == 0


@pytest.mark.parametrize(
    "name", ["x" * 63 + ".test", "*.test", "a_b.test", "-.test", "a/b.test", "a@b.test", "a+b.test", '"']
)
async def test_odd_names_end_as_no_name(name: str) -> None:
    async with resolving() as (resolver, _):
        assert await resolver.ask(Dns(name, "A")) == DnsAnswer("no-name")


async def test_silence_is_a_failure_within_the_time() -> None:
    async with resolving(seconds=0.2) as (resolver, _):
        assert await resolver.ask(Dns("silent.test", "A")) == DnsAnswer("failed")
        assert resolver.counters().failures == 1
        assert await resolver.ask(Dns("silent.test", "A")) == DnsAnswer("failed")
        assert resolver.counters().queries == 1, "a failure is remembered for a moment"


@pytest.mark.parametrize("nameserver", ["127.0.0.1:9", "[::1]:9", "::1", "nonsense"])
async def test_a_name_server_that_is_not_there_is_a_failure(nameserver: str) -> None:
    resolver = Resolver([nameserver], 0.3)
    assert await resolver.ask(Dns("host.test", "A")) == DnsAnswer("failed")
    await resolver.close()


async def test_identical_questions_are_asked_once() -> None:
    async with resolving() as (resolver, server):
        server.open.clear()
        asking = [asyncio.ensure_future(resolver.ask(Dns("host.test", "A"))) for _ in range(20)]
        await asyncio.sleep(0)
        asking[0].cancel()  # the one who asked first leaves; the others still get their answer
        server.open.set()
        answers = await asyncio.gather(*asking[1:])
        assert {answer.records for answer in answers} == {("192.0.2.1", "192.0.2.2")}
        assert await resolver.ask(Dns("Host.TEST", "A")) == answers[0]
        assert resolver.recall([Dns("host.test", "A")]) == {Dns("host.test", "A"): answers[0]}
        assert sum(server.asked.values()) == 1
        counters = resolver.counters()
        assert (counters.queries, counters.hits, counters.failures) == (1, 21, 0)


async def test_a_look_up_that_is_cancelled_leaves_no_socket() -> None:
    zone: Zone = {f"{number}.test": "truncated" for number in range(1_000)}
    before = count_sockets()
    async with resolving(zone=zone) as (shared, server):
        names = iter(zone)
        nameserver = f"127.0.0.1:{server.transport.get_extra_info('sockname')[1]}"

        async def look_up() -> None:
            """Ask the one that others ask, too, and one that is closed at once."""
            question = Dns(next(names), "TXT")
            await shared.ask(question)
            resolver = Resolver([nameserver])
            try:
                assert await resolver.ask(question) == DnsAnswer("found", ("long",))
            finally:
                await resolver.close()

        cancelled = 0
        while cancelled < 100:
            cancelled += await cancel_everywhere(look_up)
        assert server.by_tcp
        assert shared.counters().failures == 0
    # One holds the name server's port, so that no other test gets it.
    await settle(lambda: count_sockets() <= before + 1)


@pytest.mark.parametrize(
    ("name", "ttl", "life"),
    [
        ("host.test", 300, 300.0),
        ("host.test", 0, dns.MIN_TTL),
        ("host.test", 2**30, dns.MAX_TTL),
        ("nowhere.test", 300, dns.NEGATIVE_TTL),
        ("txt.test", 300, dns.NEGATIVE_TTL),
        ("servfail.test", 300, dns.FAILURE_TTL),
    ],
)
async def test_an_answer_holds_as_long_as_it_says_within_bounds(name: str, ttl: int, life: float) -> None:
    now = [1_000.0]
    async with resolving(ttl=ttl, clock=lambda: now[0]) as (resolver, _):
        question = Dns(name, "A")
        await resolver.ask(question)
        now[0] += life - 0.01
        assert resolver.recall([question])
        now[0] += 0.02
        assert not resolver.recall([question])
        await resolver.ask(question)
        assert resolver.counters().queries == 2


async def test_questions_in_flight_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "MAX_WAITING", 10)
    monkeypatch.setattr(dns, "MAX_ASKING", 3)
    async with resolving() as (resolver, server):
        server.open.clear()
        asking = [asyncio.ensure_future(resolver.ask(Dns(f"n{number}.test", "A"))) for number in range(15)]
        async with asyncio.timeout(180):
            while resolver.counters().queries < 3 or not any(task.done() for task in asking):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert resolver.counters().queries == 3
        assert [task.result() for task in asking if task.done()] == [DnsAnswer("failed")] * 5
        server.open.set()
        assert await asyncio.gather(*asking[:10]) == [DnsAnswer("no-name")] * 10


def test_the_cache_forgets_what_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most names of mail are asked for once: what nobody asks for again must not stay until the cache is full."""
    now, sweeps = [0.0], list[int]()
    cache = AnswerCache(64 << 20, lambda: now[0])
    sweep = AnswerCache._sweep

    def note_sweep(self: AnswerCache, at: float) -> None:
        sweeps.append(len(self))
        sweep(self, at)

    monkeypatch.setattr(AnswerCache, "_sweep", note_sweep)
    lasting = Dns("lasting.test", "A")
    cache.put(lasting, DnsAnswer("found", ("192.0.2.1",)), 86_400)
    most = 0
    for number in range(40_000):
        now[0] += 0.1
        cache.put(Dns(f"n{number}.test", "A"), DnsAnswer("no-name"), dns.NEGATIVE_TTL)
        most = max(most, len(cache))
    assert most <= dns.SWEEP_FROM, "600 of them hold at any time"
    assert sum(sweeps) < 2 * 40_000, "entries that were looked at"
    assert cache.get(lasting, now[0]) is not None


async def test_numbers_and_ports_of_many_questions_take_one_system_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def note(size: int) -> bytes:
        asked.append(size)
        return random.randbytes(size)

    replace_in(monkeypatch, dns, "os", urandom=note)
    async with resolving() as (resolver, _server):
        names = [Dns(f"n{number}.test", "A") for number in range(200)]
        answers = await asyncio.gather(*map(resolver.ask, names))
    assert {answer.status for answer in answers} == {"no-name"}
    # Besides the block, a number that is in use already is chosen again.
    assert [size for size in asked if size != 2] == [256 * 3]


def test_the_cache_is_bounded_in_bytes_and_forgets_the_least_used() -> None:
    cache = AnswerCache(3 * dns.ENTRY_BYTES + 100, lambda: 0.0)
    first, second, third, fourth = (Dns(name, "A") for name in "abcd")
    for question in (first, second, third):
        cache.put(question, DnsAnswer("found", ("x" * 10,)), 60)
    assert cache.get(first, 0.0)
    cache.put(fourth, DnsAnswer("found", ("x" * 10,)), 60)
    assert cache.get(second, 0.0) is None, "the one not used for longest"
    assert all(cache.get(question, 0.0) for question in (first, third, fourth))
    for _ in range(100):
        cache.put(first, DnsAnswer("found", ("x" * 10,)), 60)
    assert len(cache) == 3, "an update is not counted twice"
    cache.put(first, DnsAnswer("found", ("y" * 10_000,)), 60)
    assert len(cache) == 0, "what is larger than the whole cache is not kept"
