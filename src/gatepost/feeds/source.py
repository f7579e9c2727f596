"""Read the source of a feed: fetch it or open it, and hand it to the reader of its format.

Network and disk are waited for; what was read is parsed in a thread, so that a lock can be renewed meanwhile.

HTTP requests go only to the host that the operator named, and are bounded in bytes and time. The host is resolved
first, its addresses are checked, and the connection goes to an address that was checked; so a name cannot lead into a
private network, not even one that answers differently the second time it is asked. Redirects are followed on the same
host and never to plain http. Proxies of the environment are not used. Compressed answers are decompressed in small
steps and count by what they become.
"""

import asyncio
import ipaddress
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

import httpx
import msgspec

from gatepost import __version__
from gatepost.feeds.indicators import MEDIA_TYPE, TaxiiPage, date_header, read_bundle, read_misp, read_taxii
from gatepost.feeds.items import FeedFault, FeedItems, read_csv, read_json_lines, read_plain
from gatepost.lists.catalogue import ListDefinition
from gatepost.settings.feeds import PARTWISE, FeedSettings, is_private_host, is_public_address
from gatepost.store.feeds import FeedRecord

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


DAY = 86_400_000


class Reading(msgspec.Struct, frozen=True):
    """What a run read. `is_full` is False where the source told only what is new; then nothing that is absent has
    vanished. `is_unchanged`: the source says that nothing has changed since the last run."""

    items: FeedItems
    is_full: bool = True
    is_unchanged: bool = False
    etag: str = ""
    last_modified: str = ""
    position: str = ""


async def read_source(
    settings: FeedSettings, definition: ListDefinition, known: FeedRecord, moment: int, stream: BinaryIO | None = None
) -> Reading:
    """Read a feed: a stream where one is given, else its URL or file. `known` is what is remembered of its last run;
    raises `FeedFault`."""
    items = FeedItems(definition, settings.name, settings.max_entries)
    try:
        async with asyncio.timeout(settings.timeout / 1000):
            async with open_client(settings) as client:
                if settings.format in PARTWISE:
                    return await _read_parts(settings, client, items, known, moment)
                return await _read_whole(settings, client, items, known, stream)
    except TimeoutError:
        raise FeedFault(f"reading took longer than {settings.timeout:,} ms (timeout)") from None


async def _read_whole(
    settings: FeedSettings, client: FeedClient, items: FeedItems, known: FeedRecord, stream: BinaryIO | None
) -> Reading:
    headers: dict[str, str] = {}
    if stream is not None:
        body: bytes | None = client.unpack(await asyncio.to_thread(_read_stream, stream, settings.max_size))
    elif settings.url:
        fetched = await client.get(settings.url, conditions=_conditions(known))
        body, headers = fetched.body, fetched.headers
    elif settings.file:
        state = _file_state(Path(settings.file))
        if state and state == known.etag:
            return Reading(items, is_unchanged=True)
        body, headers = client.unpack(await _read_file(Path(settings.file), settings.max_size)), {"etag": state}
    else:
        raise FeedFault("the feed has neither url nor file: hand it over at standard input")
    if body is None:
        return Reading(items, is_unchanged=True)
    await asyncio.to_thread(_parse, settings, items, body)
    return Reading(items, etag=headers.get("etag", "")[:500], last_modified=headers.get("last-modified", "")[:100])


def _parse(settings: FeedSettings, items: FeedItems, body: bytes) -> None:
    match settings.format:
        case "csv":
            read_csv(body, items, settings)
        case "jsonl":
            read_json_lines(body, items, settings.field)
        case "stix":
            read_bundle(body, items)
        case _:
            read_plain(body, items, items.kind)


async def _read_parts(
    settings: FeedSettings, client: FeedClient, items: FeedItems, known: FeedRecord, moment: int
) -> Reading:
    """Read a source of many parts: all of it once in a while, else what is new."""
    is_full = not known.position or moment - known.full_read >= settings.full_every * DAY
    if settings.format == "taxii":

        async def get(url: str) -> TaxiiPage:
            fetched = await client.get(url, accept=MEDIA_TYPE)
            return TaxiiPage(fetched.body or b"", date_header(fetched.headers))

        position = await read_taxii(settings.url or "", get, items, "" if is_full else known.position)
        return Reading(items, is_full=is_full, position=position)

    async def part(name: str) -> bytes:
        if settings.file:
            return await _read_file(Path(settings.file, name), settings.max_size)
        base = (settings.url or "").removesuffix("manifest.json").rstrip("/")
        return (await client.get(f"{base}/{name}")).body or b""

    since = int(known.position) if known.position.isdigit() and not is_full else 0
    return Reading(items, is_full=is_full, position=str(await read_misp(part, items, since)))


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
