"""Run a feed: lock it, read its source, compare it with its own entries, change them, and look back.

Changes are made in calls of 500 entries, each of them atomic and safe to repeat. New entries are added before old ones
go, and what is remembered of the source is written last: a run that is killed leaves a usable list, and the next one
goes on. A source that answers with something implausible changes nothing: too many entries, too many that the list
refuses, or too few of those that it had.

A source is fetched or opened here, and read by a sealed process (`feeds.sealed_reading`), which has the time of the
feed and no more.

HTTP requests go only to the host that the operator named, and are bounded in bytes and time. The host is resolved
first, its addresses are checked, and the connection goes to an address that was checked; so a name cannot lead into a
private network, not even one that answers differently the second time it is asked. Redirects are followed on the same
host and never to plain http. Proxies of the environment are not used. Compressed answers are decompressed in small
steps and count by what they become.
"""

import asyncio
import ipaddress
import random
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import msgspec
from msgspec.structs import replace

from gatepost import __version__
from gatepost.api.lists import split_calls
from gatepost.feeds.sealed_reading import FeedCount, FeedFault, FeedPlan, ReadingFailed, RejectedValue, read_sealed
from gatepost.lists.catalogue import ListDefinition
from gatepost.names import is_public_address
from gatepost.policy.layers import Policies
from gatepost.rejudge.try_change import can_look_back, look_back
from gatepost.settings.feeds import FeedSettings, is_private_host
from gatepost.store.audit import Actor
from gatepost.store.errors import ListFull, NotFound
from gatepost.store.feeds import FEED, FeedCounts, FeedRecord, FeedResult, FeedState, feed_state
from gatepost.store.jobs import HeldJob
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LookBack
from gatepost.store.store import Store
from gatepost.times import DAY, now

MAX_REDIRECTS = 5
MAX_ADDRESSES = 4
CONNECT_SECONDS = 10.0
# A source that sends nothing for so long is given up, however much of its time is left.
STALL_SECONDS = 30.0
# Each member of a gzip file costs a copy of what follows it.
MAX_MEMBERS = 100
_STEP = 256 << 10
_GZIP = b"\x1f\x8b"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"https": 443, "http": 80}


class Fetched(msgspec.Struct, frozen=True):
    """An answer: its body, decompressed, and its header fields in lower case. Without a body: it has not changed."""

    body: bytes | None
    headers: dict[str, str]


class FeedClient:
    """Fetches what belongs to one run of one feed. `received` counts its bytes, which all requests share."""

    def __init__(self, settings: FeedSettings, client: httpx.AsyncClient) -> None:
        self._settings, self._client = settings, client
        self._credentials = _credentials(settings)
        self.received = 0
        self.requests = 0

    async def get(self, url: str, *, accept: str = "*/*", conditions: dict[str, str] | None = None) -> Fetched:
        """Fetch a URL, over redirects on the same host; raises `FeedFault`."""
        headers = {"accept": accept, "accept-encoding": "gzip", **self._credentials, **(conditions or {})}
        for _ in range(MAX_REDIRECTS + 1):
            outcome = await self._request(url, headers)
            if isinstance(outcome, Fetched):
                return outcome
            url = _follow(url, outcome)
        raise FeedFault(f"{_host(url)} redirects more than {MAX_REDIRECTS} times")

    async def _request(self, url: str, headers: dict[str, str]) -> Fetched | str:
        """The answer, or where it redirects to."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or _PORTS[parts.scheme]
        fault = ""
        for address in await self._find_addresses(host, port):
            request = self._build(url, address, {**headers, "host": parts.netloc}, host)
            self.requests += 1
            try:
                response = await self._client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as wrong:
                fault = _explain(wrong)
                continue
            except httpx.HTTPError as wrong:
                raise FeedFault(f"{_host(url)} does not answer as it should: {_explain(wrong)}") from None
            try:
                return await self._read_answer(url, response, is_conditional=_is_conditional(headers))
            except httpx.HTTPError as wrong:
                raise FeedFault(f"the answer of {_host(url)} broke off: {_explain(wrong)}") from None
            finally:
                await response.aclose()
        raise FeedFault(f"{_host(url)} cannot be reached: {fault}")

    def _build(self, url: str, address: str, headers: dict[str, str], host: str) -> httpx.Request:
        """A request to an address. The name stays in Host and in the TLS handshake, and the certificate must be its."""
        try:
            target = httpx.URL(url).copy_with(host=address)
            return self._client.build_request("GET", target, headers=headers, extensions={"sni_hostname": host})
        except (httpx.InvalidURL, ValueError):
            raise FeedFault(f"{_host(url)} redirects to something that is no URL") from None

    async def _find_addresses(self, host: str, port: int) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise FeedFault(f"{host} has no address") from None
        addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
        named = urlsplit(self._settings.url or "").hostname or ""
        if self._settings.private_network or is_private_host(named):
            return addresses[:MAX_ADDRESSES]
        public = [each for each in addresses if is_public_address(ipaddress.ip_address(each))]
        if not public:
            raise FeedFault(f"{host} has an address in a private network; if that is right, set privateNetwork")
        return public[:MAX_ADDRESSES]

    async def _read_answer(self, url: str, response: httpx.Response, *, is_conditional: bool) -> Fetched | str:
        status = response.status_code
        headers = {name.lower(): value for name, value in response.headers.items()}
        if status in _REDIRECTS and "location" in headers:
            return headers["location"]
        if status == 304 and is_conditional:
            return Fetched(None, headers)
        if status in (401, 403):
            raise FeedFault(f"{_host(url)} answered {status}: it does not accept the credentials")
        if status != 200:
            raise FeedFault(f"{_host(url)} answered {status}")
        return Fetched(await self._read_body(response, headers), headers)

    async def _read_body(self, response: httpx.Response, headers: dict[str, str]) -> bytes:
        coding = headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            raise FeedFault(f"the answer is compressed as {coding[:50]!r}, which was not asked for", refused=True)
        inflate = _Inflate() if coding.endswith("gzip") else None
        body = bytearray()
        async for chunk in response.aiter_raw(_STEP):
            for piece in inflate.feed(chunk) if inflate else (chunk,):
                self._count(len(piece))
                body += piece
        if inflate and not inflate.is_whole:
            raise FeedFault("the answer is damaged: its compressed data have no end")
        return self.unpack(bytes(body)) if body.startswith(_GZIP) else bytes(body)

    def unpack(self, body: bytes) -> bytes:
        """A body that is a gzip file by itself, decompressed within the same budget; any other as it is."""
        if not body.startswith(_GZIP):
            return body
        inflate, plain = _Inflate(), bytearray()
        for piece in inflate.feed(body):
            self._count(len(piece))
            plain += piece
        if not inflate.is_whole:
            raise FeedFault("the feed is a damaged gzip file", refused=True)
        return bytes(plain)

    def _count(self, number: int) -> None:
        self.received += number
        if self.received > self._settings.max_size:
            raise FeedFault(f"the feed is larger than {self._settings.max_size:,} bytes (maxSize)", refused=True)


class _Inflate:
    """Decompresses gzip (RFC 1952), several members one after the other, in steps of bounded size."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self._members = 1
        self.is_whole = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that a chunk becomes, one at a time, so that the caller can stop between two of them."""
        piece, rest = self._step(data)
        yield piece
        while rest or len(piece) == _STEP:
            piece, rest = self._step(rest)
            yield piece

    def _step(self, data: bytes) -> tuple[bytes, bytes]:
        """A piece of what the data become, and the data that are left."""
        try:
            piece = self._inflate.decompress(data, _STEP)
        except zlib.error:
            raise FeedFault("the compressed data are damaged", refused=True) from None
        self.is_whole = self._inflate.eof
        rest = self._inflate.unconsumed_tail
        if self.is_whole and (rest := self._inflate.unused_data.lstrip(b"\0")):
            self._members += 1
            if self._members > MAX_MEMBERS:
                raise FeedFault("the compressed data consist of too many parts", refused=True)
            self._inflate = zlib.decompressobj(31)
            self.is_whole = False
        return piece, rest


@asynccontextmanager
async def open_client(settings: FeedSettings) -> AsyncIterator[FeedClient]:
    """Open a client for one run, and close its connections in the end; raises `FeedFault`."""
    timeout = httpx.Timeout(STALL_SECONDS, connect=CONNECT_SECONDS)
    headers = {"user-agent": f"gatepost/{__version__}"}
    async with httpx.AsyncClient(
        verify=_tls_context(settings.ca), trust_env=False, timeout=timeout, follow_redirects=False, headers=headers
    ) as client:
        yield FeedClient(settings, client)


def _tls_context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca if ca is None else str(Path(ca)))
    except (OSError, ssl.SSLError):
        raise FeedFault(f"{ca} has no certificate that could be read") from None


def _credentials(settings: FeedSettings) -> dict[str, str]:
    given = settings.credentials
    if given is None:
        return {}
    if given.user is not None and given.password is not None:
        basic = httpx.BasicAuth(given.user, given.password)
        request = next(basic.auth_flow(httpx.Request("GET", "https://feed.invalid/")))
        return {"authorization": request.headers["authorization"]}
    return {given.header.lower(): given.secret or ""}


def _is_conditional(headers: dict[str, str]) -> bool:
    return "if-none-match" in headers or "if-modified-since" in headers


def _follow(url: str, location: str) -> str:
    """Where a redirect leads; raises `FeedFault` if that is another host, or from https to http."""
    try:
        there = urljoin(url, location)
        old, new = urlsplit(url), urlsplit(there)
        is_same = (old.hostname, _port(old)) == (new.hostname, _port(new)) and old.scheme == new.scheme
        is_upgrade = (old.hostname, old.scheme, new.scheme) == (new.hostname, "http", "https") and new.port is None
    except ValueError:
        raise FeedFault(f"{_host(url)} redirects to something that is no URL") from None
    if "@" in new.netloc or not (is_same or is_upgrade):
        shown = f"{new.scheme}://{new.hostname}"[:300]
        raise FeedFault(f"{_host(url)} redirects to {shown}; if that is right, name it as the url of the feed")
    return there


def _port(parts: Any) -> int | None:
    return parts.port or _PORTS.get(parts.scheme)


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the host"


def _explain(fault: Exception) -> str:
    return (str(fault) or type(fault).__name__)[:200]


class Reading(msgspec.Struct, frozen=True):
    """What a run read. `is_unchanged`: the source says that nothing has changed since the last run."""

    count: FeedCount = FeedCount()
    entries: dict[str, NewEntry] = {}
    is_unchanged: bool = False
    etag: str = ""
    last_modified: str = ""


async def read_source(
    settings: FeedSettings, definition: ListDefinition, known: FeedRecord, stream: BinaryIO | None = None
) -> Reading:
    """Read a feed: a stream where one is given, else its URL or file. `known` is what is remembered of its last run;
    raises `FeedFault`."""
    plan = FeedPlan(
        definition,
        settings.name,
        max_entries=settings.max_entries,
        format=settings.format,
        column=settings.column,
        delimiter=settings.delimiter,
        header=settings.header,
        field=settings.field,
    )
    seconds = settings.timeout / 1000
    try:
        async with (
            asyncio.timeout(seconds),
            open_client(settings) as client,
            read_sealed(plan, settings.max_size, seconds) as reader,
        ):
            fetched = await _fetch(settings, client, known, stream)
            if fetched.body is None:
                return Reading(is_unchanged=True)
            count = await reader.read_feed(fetched.body)
            return Reading(
                count,
                await reader.feed_entries(),
                etag=fetched.headers.get("etag", "")[:500],
                last_modified=fetched.headers.get("last-modified", "")[:100],
            )
    except TimeoutError:
        raise FeedFault(f"reading took longer than {settings.timeout:,} ms (timeout)") from None
    except ReadingFailed as fault:
        raise FeedFault(f"the feed {fault}", refused=True) from None


async def _fetch(settings: FeedSettings, client: FeedClient, known: FeedRecord, stream: BinaryIO | None) -> Fetched:
    """Return what the source says now; without a body where that is what it said last."""
    if stream is not None:
        return Fetched(client.unpack(await asyncio.to_thread(_read_stream, stream, settings.max_size)), {})
    if settings.url:
        return await client.get(settings.url, conditions=_conditions(known))
    if not settings.file:
        raise FeedFault("the feed has neither url nor file: hand it over at standard input")
    path = Path(settings.file)
    state = _file_state(path)
    if state and state == known.etag:
        return Fetched(None, {})
    return Fetched(client.unpack(await _read_file(path, settings.max_size)), {"etag": state})


def _conditions(known: FeedRecord) -> dict[str, str]:
    """Ask only for what has changed (RFC 9110 section 13.1)."""
    if known.etag and known.etag.isascii() and known.etag.isprintable():
        return {"if-none-match": known.etag}
    if known.last_modified and known.last_modified.isascii() and known.last_modified.isprintable():
        return {"if-modified-since": known.last_modified}
    return {}


async def _read_file(path: Path, limit: int) -> bytes:
    def read() -> bytes:
        with path.open("rb") as stream:
            return _read_stream(stream, limit)

    try:
        return await asyncio.to_thread(read)
    except OSError as fault:
        raise FeedFault(f"{path} cannot be read: {(fault.strerror or 'unknown error').lower()}") from None


def _read_stream(stream: BinaryIO, limit: int) -> bytes:
    body = stream.read(limit + 1)
    if len(body) > limit:
        raise FeedFault(f"the feed is larger than {limit:,} bytes (maxSize)", refused=True)
    return body


def _file_state(path: Path) -> str:
    """What tells one version of a file from another; "" where there is no file, and reading it says why."""
    try:
        state = path.stat()
    except OSError:
        return ""
    return f"{state.st_ino}-{state.st_mtime_ns}-{state.st_size}"


MINUTE = 60_000
# How long a killed run blocks its feed, and how often a living one says that it lives.
LEASE_SECONDS = 120.0
JITTER = 0.05
FIRST_RETRY_MINUTES = 5

T = TypeVar("T")
Advance = Callable[[int, int], None]


class RunOptions(msgspec.Struct, frozen=True):
    """How a run differs from an ordinary one. `days` is how far to look back, None for what the feed says."""

    dry_run: bool = False
    force: bool = False
    only_due: bool = False
    days: int | None = None


ORDINARY = RunOptions()


class FeedOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """What a run did, or with `dry_run` would do. `look_back_id` is the number of the stored look back."""

    feed: str
    result: FeedResult
    message: str = ""
    counts: FeedCounts = FeedCounts()
    rejected: tuple[RejectedValue, ...] = ()
    look_back: LookBack | None = None
    look_back_id: int | None = None
    dry_run: bool = False


class FeedBusy(msgspec.Struct, frozen=True):
    """Another process runs the feed, until that time at most; or it is not due."""

    holder: str
    until: int


class _Changes(msgspec.Struct, frozen=True):
    """What a run has to do: entries to add or update, and keys that vanished. `fresh` are the keys that are new."""

    put: tuple[NewEntry, ...] = ()
    fresh: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()


class FeedRunner:
    """Runs feeds on one storage. `advance` is told how many entries of how many are done."""

    def __init__(self, store: Store, policies: Policies, advance: Advance = lambda _done, _total: None) -> None:
        self.store, self.policies, self.advance = store, policies, advance

    async def run(
        self, settings: FeedSettings, options: RunOptions = ORDINARY, stream: BinaryIO | None = None
    ) -> FeedOutcome | FeedBusy:
        """Run one feed. What goes wrong with its source is an outcome; storage that fails raises."""
        run = _Run(self, settings, options, stream)
        if options.dry_run:
            return await run.try_out(await self.store.feeds.state(settings.name))
        async with self.store.jobs.take(FEED, settings.name, seconds=LEASE_SECONDS, only_due=options.only_due) as job:
            if job is None:
                other = await self.store.jobs.find(FEED, settings.name)
                return FeedBusy(other.holder, other.locked_until)
            return await run.carry_out(job)

    async def clear(self, name: str, scope: str | None, list_name: str) -> int:
        """Delete all entries of a feed from a list; returns how many."""
        return await _clear(self.store, Actor("feed", name), scope, list_name)


class _Run:
    """One run of one feed."""

    def __init__(
        self, runner: FeedRunner, settings: FeedSettings, options: RunOptions, stream: BinaryIO | None
    ) -> None:
        self._store, self._policies, self._advance = runner.store, runner.policies, runner.advance
        self._settings, self._options, self._stream = settings, options, stream
        self._by = Actor("feed", settings.name)
        self._held: HeldJob | None = None

    async def carry_out(self, held: HeldJob) -> FeedOutcome:
        """Read the source, change what differs, and remember what came of it."""
        self._held = held
        settings, before, started = self._settings, feed_state(held.job).record, now()
        try:
            outcome, record = await self._apply(before, replace(_forget_other(before, settings), started=started))
        except FeedFault as fault:
            outcome = self._describe_fault(fault)
            # What was remembered stays: also the list that a feed had before its settings were changed.
            record = replace(before, started=started, failures=before.failures + 1)
        moment = now()
        is_good = outcome.result in ("changed", "unchanged")
        record = replace(record, finished=moment, result=outcome.result, message=outcome.message)
        if is_good:
            record = replace(record, counts=outcome.counts, succeeded=moment, failures=0)
        audited = outcome.result == "changed" or (not is_good and outcome.message != before.message)
        next_run = moment + _pause(settings, record.failures)
        if not await self._store.feeds.finish(held.job, record, next_run, audited=audited):
            return replace(outcome, message="another process took the feed over meanwhile")
        return outcome

    async def _apply(self, before: FeedRecord, known: FeedRecord) -> tuple[FeedOutcome, FeedRecord]:
        settings, definition = self._settings, await self._find_list()
        reading = await read_source(settings, definition, known, self._stream)
        if reading.is_unchanged:
            counts = replace(known.counts, added=0, updated=0, removed=0, expiring=0)
            return FeedOutcome(settings.name, "unchanged", counts=counts), known
        changes = await self._compare(reading, known)
        moved = 0
        if before.list_name and (before.scope, before.list_name) != (settings.tenant, settings.list_name):
            # The feed filled another list before its settings were changed.
            moved = await _clear(self._store, self._by, before.scope, before.list_name)
        counts = _count(reading, await self._change(definition, changes), moved)
        found = await self._look_back(definition, changes.fresh)
        number = None
        if found and found.found:
            number = await self._store.look_backs.record(settings.tenant, definition.name, found)
        is_changed = counts.added + counts.updated + counts.removed + counts.expiring
        record = replace(
            known, etag=reading.etag, last_modified=reading.last_modified, present=len(reading.entries) - counts.kept
        )
        rejected, result = reading.count.rejected, _name_result(bool(is_changed))
        return FeedOutcome(settings.name, result, "", counts, rejected, found, number), record

    async def try_out(self, state: FeedState) -> FeedOutcome:
        """Do everything but change anything. The source is read whole, whatever is remembered of it."""
        settings = self._settings
        try:
            definition = await self._find_list()
            reading = await read_source(settings, definition, FeedRecord(), self._stream)
            changes = await self._compare(reading, _forget_other(state.record, settings))
        except FeedFault as fault:
            return replace(self._describe_fault(fault), dry_run=True)
        gone = len(changes.vanished)
        would = FeedCounts(
            added=len(changes.fresh),
            updated=len(changes.put) - len(changes.fresh),
            removed=0 if settings.keep_vanished else gone,
            expiring=gone if settings.keep_vanished else 0,
        )
        found = await self._look_back(definition, changes.fresh)
        rejected, result = reading.count.rejected, _name_result(changes != _Changes())
        counts = _count(reading, would, 0)
        return FeedOutcome(settings.name, result, "", counts, rejected, found, dry_run=True)

    def _describe_fault(self, fault: FeedFault) -> FeedOutcome:
        return FeedOutcome(self._settings.name, "refused" if fault.refused else "failed", str(fault))

    async def _find_list(self) -> ListDefinition:
        settings = self._settings
        if settings.tenant and await self._store.tenants.find(settings.tenant) is None:
            raise FeedFault(f"there is no tenant {settings.tenant}")
        definition = await self._store.lists.definition(settings.tenant, settings.list_name)
        if definition is None:
            raise FeedFault(f"there is no list {settings.list_name} in its scope; gatepost lists create makes one")
        return definition

    async def _compare(self, reading: Reading, known: FeedRecord) -> "_Changes":
        """Compare what was read with the feed's own entries."""
        own: dict[str, int | None] = {}
        after, moment, settings = "", now(), self._settings
        while rows := await self._store.feeds.entries(settings.tenant, settings.list_name, self._by, after):
            own.update((key, expires) for key, expires in rows if expires is None or expires > moment)
            after = rows[-1][0]
        return _compare(reading, own, settings, known, force=self._options.force)

    async def _change(self, definition: ListDefinition, changes: "_Changes") -> FeedCounts:
        settings, feeds, by = self._settings, self._store.feeds, self._by
        total = len(changes.put) + len(changes.vanished)
        done = put = removed = expiring = 0
        for entries in split_calls(changes.put):
            put += _require(await feeds.put_entries(settings.tenant, definition, entries, by))
            done = self._note_progress(done + len(entries), total)
        for keys in split_calls(() if settings.keep_vanished else changes.vanished):
            removed += await feeds.delete_entries(settings.tenant, definition.name, keys, by)
            done = self._note_progress(done + len(keys), total)
        until = now() + settings.keep_vanished * DAY
        for keys in split_calls(changes.vanished if settings.keep_vanished else ()):
            expiring += await feeds.expire_entries(settings.tenant, definition.name, keys, by, until)
            done = self._note_progress(done + len(keys), total)
        updated = len(changes.put) - len(changes.fresh)
        kept = len(changes.put) - put
        return FeedCounts(
            added=max(0, put - updated), updated=min(put, updated), removed=removed, expiring=expiring, kept=kept
        )

    def _note_progress(self, done: int, total: int) -> int:
        """Tell how far the run is, and end it where the feed was taken over."""
        self._advance(done, total)
        if self._held and self._held.is_lost:
            raise FeedFault("another process took the feed over meanwhile")
        return done

    async def _look_back(self, definition: ListDefinition, keys: Sequence[str]) -> LookBack | None:
        days = self._settings.look_back if self._options.days is None else self._options.days
        if not days or not can_look_back(definition) or not (keys or self._options.dry_run):
            return None
        return await look_back(self._store, self._policies, self._settings.tenant, definition, keys, days, self._by)


async def _clear(store: Store, by: Actor, scope: str | None, list_name: str) -> int:
    done = 0
    while rows := await store.feeds.entries(scope, list_name, by):
        for keys in split_calls([key for key, _ in rows]):
            done += await store.feeds.delete_entries(scope, list_name, keys, by)
    return done


def _name_result(is_changed: bool) -> FeedResult:
    return "changed" if is_changed else "unchanged"


def _compare(
    reading: Reading, own: dict[str, int | None], settings: FeedSettings, known: FeedRecord, *, force: bool
) -> _Changes:
    """What there is to do; raises `FeedFault` where what was read is not plausible, unless that is forced."""
    items, entries = reading.count, reading.entries
    if not force and items.read and items.invalid * 100 > items.read * settings.max_invalid:
        first = items.rejected[0]
        raise FeedFault(
            f"{items.invalid:,} of {items.read:,} values are no entries of {settings.list_name}, so this is not taken"
            f" for the feed (maxInvalid); the first is {first.value[:80]!r}: it {first.reason}",
            refused=True,
        )
    base = min(known.present, len(own))
    lost = base - sum(1 for key in entries if key in own)
    if not force and base and lost * 100 > base * settings.max_loss:
        raise FeedFault(
            f"the feed has lost {lost:,} of its {base:,} entries, more than {settings.max_loss} % (maxLoss);"
            " gatepost feeds run --force accepts that once",
            refused=True,
        )
    put = tuple(entry for key, entry in entries.items() if key not in own or own[key] != entry.expires)
    vanished = tuple(sorted(own.keys() - entries.keys()))
    return _Changes(put, tuple(entry.key for entry in put if entry.key not in own), vanished)


def _count(reading: Reading, done: FeedCounts, moved: int) -> FeedCounts:
    items = reading.count
    return replace(
        done,
        read=items.read,
        entries=len(reading.entries),
        invalid=items.invalid,
        repeated=items.repeated,
        removed=done.removed + moved,
    )


def _forget_other(record: FeedRecord, settings: FeedSettings) -> FeedRecord:
    """What is remembered, as far as it is about the feed as it is defined now."""
    if record.fingerprint == settings.fingerprint:
        return record
    return FeedRecord(settings.tenant, settings.list_name, settings.fingerprint, failures=record.failures)


def _pause(settings: FeedSettings, failures: int) -> int:
    """Milliseconds to the next run, a little more or less, so that feeds and nodes do not all run at once."""
    minutes = settings.every
    if failures:
        minutes = min(minutes, FIRST_RETRY_MINUTES << min(failures - 1, 10))
    return int(minutes * MINUTE * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311  not a secret


def _require(outcome: int | ListFull | NotFound) -> int:
    if isinstance(outcome, ListFull):
        raise FeedFault(f"{outcome.explanation}, and the feed does not fit", refused=True)
    if isinstance(outcome, NotFound):
        raise FeedFault(f"the {outcome.what} was deleted meanwhile")
    return outcome
