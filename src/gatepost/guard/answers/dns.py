"""DNS for analyses: messages on the wire, their way to name servers, and a resolver with a cache.

Names come out of hostile mail, and answers are hostile as well: whoever owns a domain writes them. guard, which holds
secrets, reads them itself, so they are read in Python and not by a native library.

**Messages** (RFC 1035 section 4, RFC 6891): questions of five types, and the answers to them. Every read is within the
message. A name has at most 255 octets (RFC 1035 section 3.1) and few pointers, which lead only backwards, to a place
before all places that the name has been at. Of more records than `MAX_RECORDS` the rest is left out: no standard that
asks looks at so many.

**Transport**: UDP, and TCP where an answer does not fit (RFC 7766). What makes an answer hard to forge for who does not
see the question (RFC 5452): a random number for each query, and a random one of several ports for each server, which
are given up after some use; an answer must come from the server and port that were asked, and repeat the question. A
question is sent up to `TRIES` times, to one server after the other. None has a timer of its own: `sweep` ends the
attempts whose time is over.

**Resolver**: answers are cached for as long as they hold (RFC 1035 section 3.2.1, RFC 2308). A name that DNS cannot
hold is answered without asking; a question that is under way is shared by all who ask it; the cache and the number of
questions in flight are bounded; and "no such name", "no such record" and "no answer" stay three different answers.
"""

import asyncio
import ipaddress
import os
import re
import socket
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from gatepost.questions import Dns, DnsAnswer

TYPES: Final = {"A": 1, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28}
MAX_UDP = 1_232
MAX_NAME = 255
MAX_POINTERS = 16
MAX_RECORDS: Final = {"A": 500, "AAAA": 500, "TXT": 500, "MX": 100, "PTR": 100}

_HEADER = struct.Struct(">HHHHHH")
_HEADER_SIZE = _HEADER.size
_RECORD = struct.Struct(">HHIH")
_IN = 1
_RECURSION_DESIRED = 0x0100
_ANSWER, _OPCODE, _TRUNCATED, _CODE = 0x8000, 0x7800, 0x0200, 0x000F
_POINTER = 0xC0
# The root as owner, the type OPT, and how much we take over UDP; no flags, no options.
_EDNS = b"\0" + struct.pack(">HHIH", 41, MAX_UDP, 0, 0)
_MAX_TTL = 0x7FFFFFFF
# What is put before each label of a name, and after the last: the root, the type and the class.
_LENGTHS = [bytes((length,)) for length in range(64)]
_QUESTION_ENDS = {name: struct.pack(">xHH", number, _IN) for name, number in TYPES.items()}

Status = Literal["found", "no-data", "no-name", "failed", "truncated", "no-edns", "malformed"]


class Reply(NamedTuple):
    """What a message says; `seconds` is how long its records hold."""

    status: Status
    records: tuple[str, ...] = ()
    seconds: int = 0


class _MalformedError(ValueError):
    """The message breaks the rules of its format."""


def build_question(question: Dns) -> bytes:
    """Return the question section; its name must be one that DNS can hold."""
    labels = question.name.encode("ascii").split(b".")
    name = b"".join(chain.from_iterable(zip(map(_LENGTHS.__getitem__, map(len, labels)), labels, strict=True)))
    return name + _QUESTION_ENDS[question.type]


def build_query(number: int, section: bytes, *, edns: bool = True) -> bytes:
    """Return a query with this question section. EDNS gets long answers in one datagram."""
    return _HEADER.pack(number, _RECURSION_DESIRED, 1, 0, 0, edns) + section + (_EDNS if edns else b"")


def is_reply(data: bytes, number: int, section: bytes) -> bool:
    """Whether this is an answer to that query, and not a stray or forged one (RFC 5452 section 9.1)."""
    if len(data) < _HEADER_SIZE:
        return False
    got, flags, questions, _, _, _ = _HEADER.unpack_from(data)
    mine = data[_HEADER_SIZE : _HEADER_SIZE + len(section)]
    same = mine == section or mine.lower() == section.lower()
    return got == number and flags & (_ANSWER | _OPCODE) == _ANSWER and questions == 1 and same


_NO_SUCH_NAME = Reply("no-name")


def read_reply(data: bytes, question: Dns, section: bytes) -> Reply:
    """Read a message of which `is_reply` holds."""
    _number, flags, _questions, answers, _authority, _more = _HEADER.unpack_from(data)
    if flags & _TRUNCATED:
        return Reply("truncated")
    match flags & _CODE:
        case 3:
            return _NO_SUCH_NAME
        case 1 | 4:
            return Reply("no-edns")
        case 0:
            try:
                return _read_records(data, _HEADER.size + len(section), answers, question)
            except (ValueError, IndexError, struct.error):
                return Reply("malformed")
    return Reply("failed")


def _read_records(data: bytes, place: int, count: int, question: Dns) -> Reply:
    wanted, most = TYPES[question.type], MAX_RECORDS[question.type]
    records: list[str] = []
    seconds = _MAX_TTL
    for _ in range(count):
        place = _skip_name(data, place)
        kind, network, ttl, length = _RECORD.unpack_from(data, place)
        place += _RECORD.size
        if place + length > len(data):
            raise _MalformedError
        # An alias on the way expires like the record that it leads to. A TTL over 31 bits is none (RFC 2181 section 8).
        seconds = min(seconds, ttl if ttl <= _MAX_TTL else 0)
        if kind == wanted and network == _IN and len(records) < most:
            records.append(_read_data(data, place, length, question))
        place += length
    return Reply("found", tuple(records), seconds) if records else Reply("no-data")


def _read_data(data: bytes, place: int, length: int, question: Dns) -> str:
    """One record as text (see `DnsAnswer`)."""
    end = place + length
    match question.type:
        case "A" if length == 4:
            return socket.inet_ntop(socket.AF_INET, data[place:end])
        case "AAAA" if length == 16:
            return socket.inet_ntop(socket.AF_INET6, data[place:end])
        case "TXT":
            return _read_strings(data, place, end)
        case "PTR":
            return _read_name(data, place, end)
        case "MX" if length > 2:
            # The root stands for "no mail here" (RFC 7505); it is the one name that needs its dot.
            return f"{int.from_bytes(data[place : place + 2])} {_read_name(data, place + 2, end) or '.'}"
    raise _MalformedError


def _read_strings(data: bytes, place: int, end: int) -> str:
    pieces = []
    while place < end:
        after = place + 1 + data[place]
        if after > end:
            raise _MalformedError
        pieces.append(data[place + 1 : after])
        place = after
    return b"".join(pieces).decode("latin-1")


def _skip_name(data: bytes, place: int) -> int:
    """The place after a name."""
    while size := data[place]:
        if size >= _POINTER:
            return place + 2
        if size > 63:
            raise _MalformedError
        place += size + 1
    return place + 1


def _read_name(data: bytes, place: int, end: int) -> str:
    """A name without a trailing dot. It starts in a record that ends at `end`; pointers lead out of that, backwards."""
    labels: list[str] = []
    octets, pointers, lowest, limit = 1, 0, place, end
    while size := data[place]:
        if size >= _POINTER:
            place = (size & ~_POINTER) << 8 | data[place + 1]
            pointers += 1
            if place >= lowest or pointers > MAX_POINTERS:
                raise _MalformedError
            limit, lowest = lowest, place
            continue
        after = place + 1 + size
        octets += size + 1
        if size > 63 or octets > MAX_NAME or after >= limit:
            raise _MalformedError
        labels.append(_escape(data[place + 1 : after]))
        place = after
    return ".".join(labels)


def _escape(label: bytes) -> str:
    """A label as text; what is not a plain character of a name is written as in master files (RFC 1035 section 5.1)."""
    if label.isalnum():
        return label.decode("ascii")
    return "".join([chr(each) if 0x21 <= each <= 0x7E and each not in b".\\" else f"\\{each:03d}" for each in label])


TRIES = 3
PORTS = 8
QUERIES_PER_PORT = 500
PORT = 53
MAX_TCP = 20
_MAX_SERVERS = 3
_READ_SIZE = 4_096
# Answers that are read before other callbacks get their turn.
_MAX_READ = 4
_RESOLV_CONF = Path("/etc/resolv.conf")
_NO_REPLY = Reply("failed")
_ANSWERED = ("found", "no-data", "no-name")
# Of each question, one byte for the port and two for its number; so many questions share a system call.
_CHANCE, _CHANCES = struct.Struct(">BH"), 256

OnReply = Callable[[Dns, Reply], None]
# Takes a question as it was asked, and its answer.
TakesAnswer = Callable[[Dns, DnsAnswer], None]


class Server(NamedTuple):
    """Address and port of a name server."""

    host: str
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET


class _Query:
    """A question on its way."""

    __slots__ = ("attempt", "deadline", "edns", "number", "question", "section")

    def __init__(self, question: Dns) -> None:
        self.question, self.section = question, build_question(question)
        self.attempt, self.deadline, self.number, self.edns = 0, 0.0, 0, True


class _UdpPort:
    """A connected socket: the system gives it a random port, and only the server's datagrams."""

    def __init__(self, server: Server) -> None:
        self.sock = socket.socket(server.family, socket.SOCK_DGRAM)
        self.pending: dict[int, _Query] = {}
        self.uses = 0
        self.sock.setblocking(False)
        try:
            self.sock.connect(server)
        except OSError:
            self.sock.close()
            raise


class DnsTransport:
    """Asks name servers. `on_reply` is called once for each question, with "found", "no-data", "no-name" or "failed";
    never from within `ask`. `seconds` is the time of one attempt."""

    def __init__(self, servers: Sequence[Server], seconds: float, on_reply: OnReply) -> None:
        self._servers, self._seconds, self._on_reply = tuple(servers), seconds, on_reply
        self._loop = asyncio.get_running_loop()
        self._ports: list[list[_UdpPort]] = [[] for _ in self._servers]
        self._over_tcp: set[asyncio.Task[None]] = set()
        self._tcp_room = asyncio.Semaphore(MAX_TCP)
        self._closed = False
        # Random bytes that were not used yet: one system call for many questions.
        self._chances: Iterator[Any] = iter(())

    def ask(self, question: Dns) -> None:
        """Send a question whose name DNS can hold."""
        self._send(_Query(question))

    def sweep(self) -> None:
        """Send again, or give up, what was not answered in time."""
        now = self._loop.time()
        for ports in self._ports:
            for port in list(ports):
                # They stand in the order in which they were sent.
                late = []
                for query in port.pending.values():
                    if query.deadline > now:
                        break
                    late.append(query)
                for query in late:
                    # Sending another one may have shown that the port is lost, and all of its questions with it.
                    if port.pending.pop(query.number, None):
                        self._send_again(query)
                if port.uses >= QUERIES_PER_PORT:
                    self._close_if_answered(ports, port)

    async def close(self) -> None:
        """Close all sockets; what was asked is not answered any more."""
        self._closed = True
        for ports in self._ports:
            for port in ports:
                self._close_port(port)
            ports.clear()
        for task in self._over_tcp:
            task.cancel()
        await asyncio.gather(*self._over_tcp, return_exceptions=True)

    def _send(self, query: _Query) -> None:
        if not self._servers:
            self._loop.call_soon(self._end, query, _NO_REPLY)
            return
        chance = next(self._chances, None) or self._renew_chances()
        server = query.attempt % len(self._servers)
        ports = self._ports[server]
        port = ports[chance[0] % PORTS] if len(ports) == PORTS else None
        if port is None or port.uses >= QUERIES_PER_PORT:
            try:
                port = self._choose_port(server, chance[0])
            except OSError:
                self._loop.call_soon(self._send_again, query)
                return
        number = chance[1]
        while number in port.pending:
            number = int.from_bytes(os.urandom(2))
        query.number = number
        query.deadline = self._loop.time() + self._seconds
        port.uses += 1
        port.pending[number] = query
        try:
            port.sock.send(build_query(number, query.section, edns=query.edns))
        except BlockingIOError:
            pass  # there is no room for it now: as if it were lost on the way
        except OSError:
            self._give_up(server, port)

    def _renew_chances(self) -> tuple[int, int]:
        """Return random numbers that nobody else gets, of one byte and of two, and keep more of them."""
        self._chances = _CHANCE.iter_unpack(os.urandom(_CHANCES * _CHANCE.size))
        return next(self._chances)

    def _send_again(self, query: _Query) -> None:
        query.attempt += 1
        if query.attempt < TRIES and not self._closed:
            self._send(query)
        else:
            self._end(query, _NO_REPLY)

    def _end(self, query: _Query, reply: Reply) -> None:
        if not self._closed:
            self._on_reply(query.question, reply)

    def _choose_port(self, server: int, chance: int) -> _UdpPort:
        ports = self._ports[server]
        fresh = [port for port in ports if port.uses < QUERIES_PER_PORT]
        if len(fresh) < PORTS:
            port = _UdpPort(self._servers[server])
            ports.append(port)
            self._loop.add_reader(port.sock.fileno(), self._read, server, port)
            return port
        return fresh[chance % len(fresh)]

    def _close_if_answered(self, ports: list[_UdpPort], port: _UdpPort) -> None:
        if not port.pending and port in ports:
            ports.remove(port)
            self._close_port(port)

    def _close_port(self, port: _UdpPort) -> None:
        self._loop.remove_reader(port.sock.fileno())
        port.sock.close()

    def _read(self, server: int, port: _UdpPort) -> None:
        try:
            for _ in range(_MAX_READ):
                self._take(port, port.sock.recv(_READ_SIZE))
                if not port.pending:
                    break  # nothing else is expected, and what comes all the same calls this again
        except BlockingIOError:
            pass
        except OSError:
            self._give_up(server, port)
            return
        if port.uses >= QUERIES_PER_PORT:
            self._close_if_answered(self._ports[server], port)

    def _give_up(self, server: int, port: _UdpPort) -> None:
        """Send again, from other ports, what was sent from this one: the server's machine says that nobody listens.

        The system tells this once, to whatever uses the socket next, which may be another question than the one that
        was lost. uvloop never looks at the socket again after it. So the port goes, and nothing waits on it.
        """
        if port not in self._ports[server]:
            return
        self._ports[server].remove(port)
        self._close_port(port)
        for query in port.pending.values():
            self._loop.call_soon(self._send_again, query)
        port.pending.clear()

    def _take(self, port: _UdpPort, data: bytes) -> None:
        number = int.from_bytes(data[:2])
        query = port.pending.get(number)
        if query is None or not is_reply(data, number, query.section):
            return
        del port.pending[number]
        reply = read_reply(data, query.question, query.section)
        if reply.status in _ANSWERED and len(data) < _READ_SIZE:  # as a rule
            if not self._closed:
                self._on_reply(query.question, reply)
        elif reply.status == "truncated" or len(data) == _READ_SIZE:
            task = self._loop.create_task(self._ask_over_tcp(query))
            self._over_tcp.add(task)
            task.add_done_callback(self._over_tcp.discard)
        elif reply.status == "no-edns" and query.edns:
            query.edns = False
            self._send(query)
        else:
            self._finish(query, reply)

    def _finish(self, query: _Query, reply: Reply) -> None:
        """End a question, or ask the next server what this one could not tell."""
        if reply.status in _ANSWERED:
            self._end(query, reply)
        elif query.attempt + 1 < min(TRIES, len(self._servers)):
            self._send_again(query)
        else:
            self._end(query, _NO_REPLY)

    async def _ask_over_tcp(self, query: _Query) -> None:
        server = self._servers[query.attempt % len(self._servers)]
        try:
            async with self._tcp_room, asyncio.timeout(2 * self._seconds):
                reply = await _exchange_over_tcp(server, query)
        except (OSError, EOFError):
            reply = _NO_REPLY
        self._finish(query, reply)


async def _exchange_over_tcp(server: Server, query: _Query) -> Reply:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    with closing(writer):
        data = build_query(query.number, query.section, edns=query.edns)
        writer.write(len(data).to_bytes(2) + data)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
    is_ours = is_reply(answer, query.number, query.section)
    return read_reply(answer, query.question, query.section) if is_ours else _NO_REPLY


def parse_servers(texts: Sequence[str]) -> list[Server]:
    """The servers that `address` or `address:port` name; without any, those of the system. Others are left out."""
    found = [_parse_server(text) for text in texts or _read_system_servers()]
    return [server for server in found if server is not None]


def _parse_server(text: str) -> Server | None:
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].rpartition("]:")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        return Server(str(ipaddress.ip_address(host)), int(port or PORT))
    except ValueError:
        return None


def _read_system_servers() -> list[str]:
    """resolv.conf(5): the first three name servers, or the one on this machine."""
    try:
        lines = _RESOLV_CONF.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    fields = [line.split() for line in lines]
    found = [each[1] for each in fields if len(each) > 1 and each[0] == "nameserver"]
    return found[:_MAX_SERVERS] or ["127.0.0.1"]


# Seconds. Negative answers have a fixed life, which is shorter than the usual SOA minimum.
MIN_TTL, MAX_TTL = 5.0, 86_400.0
NEGATIVE_TTL, FAILURE_TTL = 60.0, 5.0
# An answer may have 64 KiB, and hostile ones will: the cache is bounded in bytes, an entry taken as this and its text.
MAX_CACHED_BYTES = 64 << 20
ENTRY_BYTES = 500
# Fewer entries than this are not looked through for expired ones.
SWEEP_FROM = 2_000
MAX_ASKING = 400
MAX_WAITING = 4_000
SWEEP_SECONDS = 0.1

FAILED = DnsAnswer("failed")
NO_NAME = DnsAnswer("no-name")
NO_DATA = DnsAnswer("no-data")

# Labels of 1 to 63 visible ASCII characters. A backslash would start an escape (RFC 1035 section 5.1), and no name
# that is worth asking for has one.
_NAME = re.compile(r"[!-\-/-\[\]-~]{1,63}(?:\.[!-\-/-\[\]-~]{1,63})*\.?")


class DnsCounters(msgspec.Struct, frozen=True):
    """Questions sent to name servers, answered from the cache or by one under way, and failed."""

    queries: int = 0
    hits: int = 0
    failures: int = 0


class AnswerCache:
    """Answers until they expire; at most `size` bytes, the least recently used go first."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size, self._clock = size, clock
        self._entries: OrderedDict[Dns, tuple[float, DnsAnswer]] = OrderedDict()
        self._bytes = 0
        self._sweep_at = SWEEP_FROM

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, question: Dns, now: float) -> DnsAnswer | None:
        return self.get_all((question,), now).get(question)

    def get_all(self, questions: Iterable[Dns], now: float) -> dict[Dns, DnsAnswer]:
        """The answers that are here, by their questions."""
        found: dict[Dns, DnsAnswer] = {}
        entries = self._entries
        for question in questions:
            entry = entries.get(question)
            if entry is None:
                continue
            if entry[0] > now:
                entries.move_to_end(question)
                found[question] = entry[1]
            else:
                self._drop(question)
        return found

    def put(self, question: Dns, answer: DnsAnswer, seconds: float) -> None:
        now = self._clock()
        if question in self._entries:
            self._drop(question)
        self._entries[question] = (now + seconds, answer)
        self._bytes += _cost(answer) if answer.records else ENTRY_BYTES
        while self._bytes > self._size:
            self._drop(next(iter(self._entries)))
        if len(self._entries) >= self._sweep_at:
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        """Drop what has expired: most names of mail are asked for once, and nobody would ever find them expired. The
        next sweep comes when there are twice as many as are left, so that an entry is looked at twice as a mean."""
        for question in [question for question, (until, _) in self._entries.items() if until <= now]:
            self._drop(question)
        self._sweep_at = max(SWEEP_FROM, 2 * len(self._entries))

    def _drop(self, question: Dns) -> None:
        entry = self._entries.pop(question, None)
        if entry:
            self._bytes -= _cost(entry[1])


def _cost(answer: DnsAnswer) -> int:
    return ENTRY_BYTES + sum(map(len, answer.records)) if answer.records else ENTRY_BYTES


class _UnderWay(NamedTuple):
    """A question that was sent or waits for its turn: those who asked it, each with the question as they asked it."""

    deadline: float
    askers: list[tuple[Dns, TakesAnswer]]


class Resolver:
    """Looks names up. `nameservers` are `address` or `address:port`, the system's if none; `timeout` is in seconds.

    Every message asks several questions, so none of them has a task or a timer of its own: the transport's callback
    ends a question, and one timer for all of them ends those whose time is over.
    """

    def __init__(
        self, nameservers: Sequence[str] = (), timeout: float = 2.0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._nameservers, self._timeout, self._clock = tuple(nameservers), timeout, clock
        self._cache = AnswerCache(MAX_CACHED_BYTES, clock)
        self._under_way: dict[Dns, _UnderWay] = {}
        self._waiting: deque[Dns] = deque()
        self._sent = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._transport: DnsTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queries = self._hits = self._failures = 0

    def recall(self, questions: Collection[Dns]) -> dict[Dns, DnsAnswer]:
        """The answers that take no waiting."""
        now = self._clock()
        # What the cache has is in normal form.
        found = self._cache.get_all(questions, now)
        self._hits += len(found)
        for question in questions:
            if question in found:
                continue
            normal = _normalise(question)
            if normal is None:
                found[question] = NO_NAME
            elif normal is not question and (answer := self._cache.get(normal, now)) is not None:
                self._hits += 1
                found[question] = answer
        return found

    def start(self, question: Dns, take: TakesAnswer) -> None:
        """Ask one question, or share the answer of one that is under way; `take` is called once, after this returns.
        It raises nothing: others wait behind it."""
        normal = _normalise(question) or question
        if under_way := self._under_way.get(normal):
            self._hits += 1
            under_way.askers.append((question, take))
            return
        loop = self._loop = self._loop or asyncio.get_running_loop()
        if len(self._under_way) >= MAX_WAITING:
            loop.call_soon(take, question, FAILED)
            return
        self._under_way[normal] = _UnderWay(loop.time() + self._timeout, [(question, take)])
        if self._sent < MAX_ASKING:
            self._queries += 1
            self._sent += 1
            (self._transport or self._open()).ask(normal)
        else:
            self._waiting.append(normal)
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_SECONDS, self._end_overdue)

    async def ask(self, question: Dns) -> DnsAnswer:
        """The answer to one question; never raises but for cancellation, which does not disturb others who ask it."""
        known = self.recall((question,)).get(question)
        if known is not None:
            return known
        answer: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()

        def take(_question: Dns, found: DnsAnswer) -> None:
            if not answer.done():
                answer.set_result(found)

        self.start(question, take)
        return await answer

    async def close(self) -> None:
        """End the questions under way and close the sockets."""
        for question in list(self._under_way):
            self._end(question, FAILED, FAILURE_TTL)
        if self._sweep:
            self._sweep.cancel()
        if self._transport:
            await self._transport.close()
            self._transport = None

    def counters(self) -> DnsCounters:
        """Counts since the start, for metrics."""
        return DnsCounters(self._queries, self._hits, self._failures)

    def _on_reply(self, question: Dns, reply: Reply) -> None:
        self._sent -= 1
        self._end(question, *(_NEGATIVE.get(reply.status) or _make_answer(reply)))
        while self._waiting and self._sent < MAX_ASKING:
            if (following := self._waiting.popleft()) in self._under_way:
                self._queries += 1
                self._sent += 1
                (self._transport or self._open()).ask(following)

    def _end(self, question: Dns, answer: DnsAnswer, seconds: float) -> None:
        """Keep an answer and hand it to all who wait for it. One that comes too late changes nothing."""
        if under_way := self._under_way.pop(question, None):
            self._failures += answer.status == "failed"
            self._cache.put(question, answer, seconds)
            for asked, take in under_way.askers:
                take(asked, answer)

    def _end_overdue(self) -> None:
        """End the questions whose time is over, also those that waited; the transport's limit is for one attempt."""
        loop = asyncio.get_running_loop()
        if self._transport:
            self._transport.sweep()
        for question, under_way in list(self._under_way.items()):
            if under_way.deadline > loop.time():
                break  # they stand in the order in which they were asked
            self._end(question, FAILED, FAILURE_TTL)
        self._sweep = loop.call_later(SWEEP_SECONDS, self._end_overdue) if self._under_way else None

    def _open(self) -> DnsTransport:
        self._transport = DnsTransport(parse_servers(self._nameservers), self._timeout / 4, self._on_reply)
        return self._transport


# What replies without records say, and for how many seconds it is kept.
_NEGATIVE = {"no-name": (NO_NAME, NEGATIVE_TTL), "no-data": (NO_DATA, NEGATIVE_TTL)}


def _make_answer(reply: Reply) -> tuple[DnsAnswer, float]:
    """Return what any other reply says, and for how many seconds it is kept."""
    if reply.status == "found":
        return DnsAnswer("found", reply.records), min(max(float(reply.seconds), MIN_TTL), MAX_TTL)
    return FAILED, FAILURE_TTL


def _normalise(question: Dns) -> Dns | None:
    """The question with its name in normal form, or None for a name that DNS cannot hold (RFC 1035 section 2.3.4)."""
    name = question.name
    normal = _normalise_name(name) if len(name) <= MAX_NAME else None
    if normal is None:
        return None
    return question if normal == name else Dns(normal, question.type)


# A name is asked for by several types, and looked for in the cache before it is asked for.
@lru_cache(1024)
def _normalise_name(name: str) -> str | None:
    normal = name.removesuffix(".").lower()
    return normal if _NAME.fullmatch(name) and len(normal) <= 253 else None
