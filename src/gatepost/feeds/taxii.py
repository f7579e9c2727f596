"""TAXII 2.1 collections: the indicators of a collection, page by page, all of them or those that were added lately.

OASIS TAXII 2.1, sections 3.4 (filtering), 3.5 (pagination) and 5.4 (get objects). Pages come in the order in which
objects were added, so the last date of the last page is where the next run goes on.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import msgspec

from gatepost.feeds.items import FeedFault, FeedItems
from gatepost.feeds.stix import read_objects
from gatepost.times import milliseconds

MEDIA_TYPE = "application/taxii+json;version=2.1"
PAGE = 1_000
MAX_PAGES = 10_000
_LAST = "x-taxii-date-added-last"


class TaxiiPage(msgspec.Struct, frozen=True):
    """A page as it was fetched: its bytes, and the date up to which it reaches."""

    body: bytes
    last: str = ""


GetPage = Callable[[str], Awaitable[TaxiiPage]]


class _Envelope(msgspec.Struct, frozen=True):
    more: bool = False
    next: str | None = None
    objects: list[msgspec.Raw] = []


_envelopes = msgspec.json.Decoder(_Envelope)


def date_header(headers: dict[str, str]) -> str:
    """The date up to which a page reaches, if its header has one that is a date."""
    stated = headers.get(_LAST, "").strip().strip('"')
    return stated if milliseconds(stated) is not None else ""


async def read_taxii(url: str, get: GetPage, items: FeedItems, since: str) -> str:
    """Read what was added after a date ("" for all); returns the date up to which the collection was read.

    `url` is that of the collection. Raises `FeedFault` where a page is none, or where the pages have no end.
    """
    objects = f"{url.partition('?')[0].rstrip('/')}/objects/"
    asked = {"match[type]": "indicator", "limit": str(PAGE), **({"added_after": since} if since else {})}
    position, seen = since, set[tuple[str, str]]()
    for _ in range(MAX_PAGES):
        page = await get(f"{objects}?{urlencode(asked)}")
        envelope = _decode(page.body)
        read_objects(envelope.objects, items)
        position = page.last or position
        if not envelope.more:
            return position
        # A server that has no cursor is asked for what follows the last date of the page (section 3.5).
        step = ("next", envelope.next) if envelope.next else ("added_after", page.last)
        if not step[1] or step in seen:
            raise FeedFault("the collection says that there is more, and does not say how to get it", refused=True)
        seen.add(step)
        asked.pop("next", None)
        asked[step[0]] = step[1]
    raise FeedFault(f"the collection has more than {MAX_PAGES:,} pages", refused=True)


def _decode(body: bytes) -> _Envelope:
    try:
        return _envelopes.decode(body) if body.strip() else _Envelope()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise FeedFault("the collection answered with something that is no TAXII envelope", refused=True) from None
