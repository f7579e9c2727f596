"""DNS for analyses: aiodns behind a cache that honours how long an answer holds (RFC 1035 section 3.2.1, RFC 2308).

Names come out of hostile mail. One that DNS cannot hold is answered without asking; a question that is under way is
shared by all who ask it; the cache and the number of questions in flight are bounded; and "no such name",
"no such record" and "no answer" stay three different answers.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import aiodns
import msgspec
import pycares
from aiodns.error import ARES_EBADNAME, ARES_ENODATA, ARES_ENONAME, ARES_ENOTFOUND, DNSError

from gatepost.questions import Dns, DnsAnswer

# Seconds. The resolver library does not hand out the SOA record of a negative answer, so those have a fixed life here;
# it is shorter than the usual SOA minimum, and the library's own cache honours the real one.
MIN_TTL, MAX_TTL = 5.0, 86_400.0
NEGATIVE_TTL, FAILURE_TTL = 60.0, 5.0
# An answer may have 64 KiB, and hostile ones will: the cache is bounded in bytes, an entry taken as this and its text.
MAX_CACHED_BYTES = 64 << 20
ENTRY_BYTES = 500
MAX_ASKING = 400
MAX_WAITING = 4_000

FAILED = DnsAnswer("failed")
NO_NAME = DnsAnswer("no-name")
NO_DATA = DnsAnswer("no-data")

# Labels of 1 to 63 visible ASCII characters. A backslash would start an escape (RFC 1035 section 5.1), and no name
# that is worth asking for has one.
_NAME = re.compile(r"[!-\-/-\[\]-~]{1,63}(?:\.[!-\-/-\[\]-~]{1,63})*\.?")
_TYPES = {
    "A": pycares.QUERY_TYPE_A,
    "AAAA": pycares.QUERY_TYPE_AAAA,
    "MX": pycares.QUERY_TYPE_MX,
    "PTR": pycares.QUERY_TYPE_PTR,
    "TXT": pycares.QUERY_TYPE_TXT,
}


class DnsCounters(msgspec.Struct, frozen=True):
    """Questions sent to name servers, answered from the cache or by one under way, and failed."""

    queries: int
    hits: int
    failures: int


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


class Resolver:
    """Looks names up. `nameservers` are `address` or `address:port`, the system's if none; `timeout` is in seconds."""

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
        self._asking: dict[Dns, asyncio.Task[DnsAnswer]] = {}
        self._turns = asyncio.Semaphore(MAX_ASKING)
        self._library: aiodns.DNSResolver | None = None
        self._queries = self._hits = self._failures = 0

    def known(self, question: Dns) -> DnsAnswer | None:
        """The answer, if it takes no waiting."""
        normal = _normalise(question)
        if normal is None:
            return NO_NAME
        answer = self._cache.get(normal)
        self._hits += answer is not None
        return answer

    async def ask(self, question: Dns) -> DnsAnswer:
        """The answer to one question; never raises but for cancellation, which does not disturb others who ask it."""
        known = self.known(question)
        if known:
            return known
        question = _normalise(question) or question
        task = self._asking.get(question)
        if task:
            self._hits += 1
        elif len(self._asking) >= MAX_WAITING:
            return FAILED
        else:
            task = self._asking[question] = asyncio.ensure_future(self._look_up(question))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel the questions under way and close the resolver library."""
        under_way = list(self._asking.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._library:
            await self._library.close()
            self._library = None

    def counters(self) -> DnsCounters:
        """Counts since the start, for metrics."""
        return DnsCounters(self._queries, self._hits, self._failures)

    async def _look_up(self, question: Dns) -> DnsAnswer:
        try:
            async with self._turns:
                answer, seconds = await self._query(question)
            self._failures += answer.status == "failed"
            self._cache.put(question, answer, seconds)
            return answer
        finally:
            del self._asking[question]

    async def _query(self, question: Dns) -> tuple[DnsAnswer, float]:
        self._queries += 1
        try:
            # The library's own limit is for one attempt at one server, and it grows; this one is for all.
            async with asyncio.timeout(self._timeout):
                result = await self._open().query_dns(question.name, question.type)
        except DNSError as fault:
            return _read_error(fault.args[0])
        except (TimeoutError, pycares.AresError, RuntimeError):
            # No answer in time, name servers that the library does not take, or a resolver that is being closed.
            return FAILED, FAILURE_TTL
        return _read_answer(question, result)

    def _open(self) -> aiodns.DNSResolver:
        if self._library is None:
            # A resolver that asks for EDNS gets long TXT records in one datagram; a truncated answer is asked by TCP.
            self._library = aiodns.DNSResolver(
                self._nameservers or None, timeout=self._timeout / 4, tries=3, flags=pycares.ARES_FLAG_EDNS
            )
        return self._library


def _read_answer(question: Dns, result: pycares.DNSResult) -> tuple[DnsAnswer, float]:
    wanted = _TYPES[question.type]
    matching = [record for record in result.answer if record.type == wanted]
    if not matching:
        return NO_DATA, NEGATIVE_TTL
    # An alias on the way expires like the record that it leads to.
    seconds = min(record.ttl for record in result.answer)
    records = tuple(_record_text(record.data) for record in matching)
    return DnsAnswer("found", records), min(max(float(seconds), MIN_TTL), MAX_TTL)


def _read_error(code: int) -> tuple[DnsAnswer, float]:
    if code in {ARES_ENOTFOUND, ARES_ENONAME, ARES_EBADNAME}:
        return NO_NAME, NEGATIVE_TTL
    if code == ARES_ENODATA:
        return NO_DATA, NEGATIVE_TTL
    return FAILED, FAILURE_TTL


def _record_text(data: object) -> str:
    match data:
        case pycares.ARecordData(addr=address) | pycares.AAAARecordData(addr=address):
            return address
        case pycares.MXRecordData(priority=priority, exchange=exchange):
            # The root stands for "no mail here" (RFC 7505); it is the one name that needs its dot.
            return f"{priority} {_name(exchange) or '.'}"
        case pycares.PTRRecordData(dname=name):
            return _name(name)
        case pycares.TXTRecordData(data=octets):
            return octets.decode("latin-1")
    return ""


def _name(name: str | bytes) -> str:
    return (name.decode("latin-1") if isinstance(name, bytes) else name).removesuffix(".")


def _normalise(question: Dns) -> Dns | None:
    """The question with its name in normal form, or None for a name that DNS cannot hold (RFC 1035 section 2.3.4)."""
    name = question.name
    if not _NAME.fullmatch(name):
        return None
    normal = name.removesuffix(".").lower()
    if len(normal) > 253:
        return None
    return question if normal == name else Dns(normal, question.type)
