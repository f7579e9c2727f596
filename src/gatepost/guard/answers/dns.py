"""DNS for analyses, with a cache that honours how long an answer holds (RFC 1035 section 3.2.1, RFC 2308).

Names come out of hostile mail. One that DNS cannot hold is answered without asking; a question that is under way is
shared by all who ask it; the cache and the number of questions in flight are bounded; and "no such name",
"no such record" and "no answer" stay three different answers.
"""

import asyncio
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from gatepost.guard.answers.dns_message import Reply
from gatepost.guard.answers.dns_transport import DnsTransport, parse_servers
from gatepost.questions import Dns, DnsAnswer

# Seconds. Negative answers have a fixed life, which is shorter than the usual SOA minimum.
MIN_TTL, MAX_TTL = 5.0, 86_400.0
NEGATIVE_TTL, FAILURE_TTL = 60.0, 5.0
# An answer may have 64 KiB, and hostile ones will: the cache is bounded in bytes, an entry taken as this and its text.
MAX_CACHED_BYTES = 64 << 20
ENTRY_BYTES = 500
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

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, question: Dns) -> DnsAnswer | None:
        entry = self._entries.get(question)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            self._drop(question)
            return None
        self._entries.move_to_end(question)
        return entry[1]

    def put(self, question: Dns, answer: DnsAnswer, seconds: float) -> None:
        self._drop(question)
        self._entries[question] = (self._clock() + seconds, answer)
        self._bytes += _cost(answer)
        while self._bytes > self._size:
            self._drop(next(iter(self._entries)))

    def _drop(self, question: Dns) -> None:
        entry = self._entries.pop(question, None)
        if entry:
            self._bytes -= _cost(entry[1])


def _cost(answer: DnsAnswer) -> int:
    return ENTRY_BYTES + sum(map(len, answer.records))


class _UnderWay(NamedTuple):
    """A question that was sent or waits for its turn: who asked it waits for `answer`."""

    answer: asyncio.Future[DnsAnswer]
    deadline: float


class Resolver:
    """Looks names up. `nameservers` are `address` or `address:port`, the system's if none; `timeout` is in seconds.

    Every message asks several questions, so none of them has a task or a timer of its own: the transport's callback
    ends a question, and one timer for all of them ends those whose time is over.
    """

    def __init__(
        self,
        nameservers: Sequence[str] = (),
        timeout: float = 2.0,
        *,
        cache_bytes: int = MAX_CACHED_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nameservers, self._timeout = tuple(nameservers), timeout
        self._cache = AnswerCache(cache_bytes, clock)
        self._under_way: dict[Dns, _UnderWay] = {}
        self._waiting: deque[Dns] = deque()
        self._sent = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._transport: DnsTransport | None = None
        self._queries = self._hits = self._failures = 0

    def known(self, question: Dns) -> DnsAnswer | None:
        """The answer, if it takes no waiting."""
        normal = _normalise(question)
        if normal is None:
            return NO_NAME
        answer = self._cache.get(normal)
        self._hits += answer is not None
        return answer

    def start(self, question: Dns) -> asyncio.Future[DnsAnswer]:
        """Ask one question, or share the answer of one that is under way. The future is shared: nobody cancels it."""
        question = _normalise(question) or question
        if under_way := self._under_way.get(question):
            self._hits += 1
            return under_way.answer
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        if len(self._under_way) >= MAX_WAITING:
            answer.set_result(FAILED)
            return answer
        self._under_way[question] = _UnderWay(answer, loop.time() + self._timeout)
        if self._sent < MAX_ASKING:
            self._send(question)
        else:
            self._waiting.append(question)
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_SECONDS, self._end_overdue)
        return answer

    async def ask(self, question: Dns) -> DnsAnswer:
        """The answer to one question; never raises but for cancellation, which does not disturb others who ask it."""
        known = self.known(question)
        return await asyncio.shield(self.start(question)) if known is None else known

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

    def _send(self, question: Dns) -> None:
        self._queries += 1
        self._sent += 1
        self._open().ask(question)

    def _on_reply(self, question: Dns, reply: Reply) -> None:
        self._sent -= 1
        self._end(question, *_read_reply(reply))
        while self._waiting and self._sent < MAX_ASKING:
            if (following := self._waiting.popleft()) in self._under_way:
                self._send(following)

    def _end(self, question: Dns, answer: DnsAnswer, seconds: float) -> None:
        """Keep an answer and hand it to all who wait for it. One that comes too late changes nothing."""
        if under_way := self._under_way.pop(question, None):
            self._failures += answer.status == "failed"
            self._cache.put(question, answer, seconds)
            if not under_way.answer.done():
                under_way.answer.set_result(answer)

    def _end_overdue(self) -> None:
        """End the questions whose time is over, also those that waited; the transport's limit is for one attempt."""
        loop = asyncio.get_running_loop()
        if self._transport:
            self._transport.sweep()
        for question, (_, deadline) in list(self._under_way.items()):
            if deadline > loop.time():
                break  # they stand in the order in which they were asked
            self._end(question, FAILED, FAILURE_TTL)
        self._sweep = loop.call_later(SWEEP_SECONDS, self._end_overdue) if self._under_way else None

    def _open(self) -> DnsTransport:
        if self._transport is None:
            self._transport = DnsTransport(parse_servers(self._nameservers), self._timeout / 4, self._on_reply)
        return self._transport


def _read_reply(reply: Reply) -> tuple[DnsAnswer, float]:
    match reply.status:
        case "found":
            return DnsAnswer("found", reply.records), min(max(float(reply.seconds), MIN_TTL), MAX_TTL)
        case "no-name":
            return NO_NAME, NEGATIVE_TTL
        case "no-data":
            return NO_DATA, NEGATIVE_TTL
    return FAILED, FAILURE_TTL


def _normalise(question: Dns) -> Dns | None:
    """The question with its name in normal form, or None for a name that DNS cannot hold (RFC 1035 section 2.3.4)."""
    name = question.name
    if not _NAME.fullmatch(name):
        return None
    normal = name.removesuffix(".").lower()
    if len(normal) > 253:
        return None
    return question if normal == name else Dns(normal, question.type)
