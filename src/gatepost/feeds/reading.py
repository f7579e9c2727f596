"""Read the source of a feed: fetch it or open it, and hand it to the reader of its format.

Network and disk are waited for; what was read is parsed in a thread, so that a lock can be renewed meanwhile.
"""

import asyncio
from pathlib import Path
from typing import BinaryIO

import msgspec

from gatepost.feeds.fetch import FeedClient, open_client
from gatepost.feeds.items import FeedFault, FeedItems
from gatepost.feeds.misp import read_misp
from gatepost.feeds.stix import read_bundle
from gatepost.feeds.taxii import MEDIA_TYPE, TaxiiPage, date_header, read_taxii
from gatepost.feeds.text_formats import read_csv, read_json_lines, read_plain
from gatepost.lists.catalogue import ListDefinition
from gatepost.settings.feeds import PARTWISE, FeedSettings
from gatepost.store.feeds import FeedRecord

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
