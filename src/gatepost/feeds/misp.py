"""MISP feeds: a folder with `manifest.json`, which names events and when each changed, and a file for each event.

A run reads the manifest, and of the events all or those that changed since the last run, the newest first. Only
attributes that are marked for detection (`to_ids`) and not deleted are taken.
"""

from collections.abc import Awaitable, Callable

import msgspec

from gatepost.feeds.items import FeedFault, FeedItems, ValueKind
from gatepost.ids import canonical

MAX_EVENTS = 20_000

# MISP's types, with the part of a composite value (`a|b`) that is meant.
_TYPES: dict[str, tuple[tuple[ValueKind, int], ...]] = {
    "url": (("url", 0),),
    "domain": (("host", 0),),
    "hostname": (("host", 0),),
    "hostname|port": (("host", 0),),
    "domain|ip": (("host", 0), ("address", 1)),
    "ip-src": (("address", 0),),
    "ip-dst": (("address", 0),),
    "ip-src|port": (("address", 0),),
    "ip-dst|port": (("address", 0),),
    "email": (("email", 0),),
    "email-src": (("email", 0),),
    "email-reply-to": (("email", 0),),
    "sha256": (("sha256", 0),),
    "filename|sha256": (("sha256", 1),),
}

Part = Callable[[str], Awaitable[bytes]]


class _Attribute(msgspec.Struct, frozen=True):
    type: str
    value: str
    to_ids: bool = False
    deleted: bool = False


class _Object(msgspec.Struct, frozen=True):
    attributes: list[msgspec.Raw] = msgspec.field(default_factory=list, name="Attribute")


class _Event(msgspec.Struct, frozen=True):
    info: str = ""
    attributes: list[msgspec.Raw] = msgspec.field(default_factory=list, name="Attribute")
    objects: list[_Object] = msgspec.field(default_factory=list, name="Object")


class _Document(msgspec.Struct, frozen=True):
    event: _Event = msgspec.field(name="Event")


class _ManifestLine(msgspec.Struct, frozen=True):
    timestamp: int | str = 0


_manifests = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lines = msgspec.json.Decoder(_ManifestLine, strict=False)
_documents = msgspec.json.Decoder(_Document)
# Numbers and booleans stand in quotes in the files of some programs.
_attributes = msgspec.json.Decoder(_Attribute, strict=False)
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


async def read_misp(part: Part, items: FeedItems, since: int) -> int:
    """Read the events that changed after a time (0 for all); returns the time of the newest, in Unix seconds.

    `part` fetches a file of the folder. Raises `FeedFault` where the manifest or an event is none.
    """
    manifest = _read_manifest(await part("manifest.json"), items)
    wanted = sorted(((time, uid) for uid, time in manifest.items() if time > since), reverse=True)
    if len(wanted) > MAX_EVENTS:
        raise FeedFault(f"the feed has more than {MAX_EVENTS:,} events to read", refused=True)
    for _, uid in wanted:
        read_event(await part(f"{uid}.json"), items)
    return max([since, *manifest.values()])


def read_event(body: bytes, items: FeedItems) -> None:
    """Read the file of one event."""
    try:
        event = _documents.decode(body).event
    except _WRONG:
        raise FeedFault("an event of the feed is no MISP event", refused=True) from None
    for raw in (*event.attributes, *(raw for each in event.objects for raw in each.attributes)):
        try:
            attribute = _attributes.decode(raw)
        except _WRONG:
            items.reject(bytes(raw)[:200].decode("utf-8", "replace"), "is no attribute of a MISP event")
            continue
        _read_attribute(attribute, event.info, items)


def _read_attribute(attribute: _Attribute, info: str, items: FeedItems) -> None:
    known = _TYPES.get(attribute.type)
    if known is None or not attribute.to_ids:
        items.count_other()
        return
    parts = attribute.value.split("|")
    for kind, place in known:
        if not items.uses(kind):
            continue
        value = parts[place] if place < len(parts) else ""
        if attribute.deleted:
            items.revoke(value)
        else:
            items.add(value, info)


def _read_manifest(body: bytes, items: FeedItems) -> dict[str, int]:
    """The events by their uuid, which is a part of a path and therefore must be one."""
    try:
        lines = _manifests.decode(body)
    except _WRONG:
        raise FeedFault("the feed has no MISP manifest", refused=True) from None
    found: dict[str, int] = {}
    for name, raw in lines.items():
        uid = canonical(name)
        try:
            time = int(_lines.decode(raw).timestamp)
        except (*_WRONG, ValueError):
            uid = None
        if uid is None:
            items.reject(name, "is no event of a MISP manifest")
        else:
            found[uid] = time
    return found
