"""STIX 2.1 bundles: the indicators in them, and of their patterns those that only compare one value.

Patterns (section 9 of the standard) can say much more than a list can hold: that two things were seen together, in an
order, within a time. Such a pattern is counted and passed over, for each part of it by itself may be innocent. What is
understood is one comparison, or several of which any one is enough: `[url:value = 'http://a.example/']`,
`[domain-name:value = 'a.example' OR domain-name:value = 'b.example']`, `[ipv4-addr:value IN ('192.0.2.1')]`.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from gatepost.feeds.items import MAX_VALUE, FeedFault, FeedItems, ValueKind
from gatepost.times import milliseconds

_STRING = r"'(?:[^'\\]|\\.)*+'"
_TOKEN = re.compile(
    rf"""\s*+(?:(?P<string>{_STRING})|(?P<path>[a-z0-9-]++:[A-Za-z0-9_.'"\[\]*-]++)|(?P<sign>[\[\](),=])
    |(?P<word>[A-Za-z_]++))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PATHS: dict[str, ValueKind] = {
    "domain-name:value": "host",
    "url:value": "url",
    "ipv4-addr:value": "address",
    "ipv6-addr:value": "address",
    "email-addr:value": "email",
    "email-message:from_ref.value": "email",
    "email-message:sender_ref.value": "email",
    "file:hashes.'SHA-256'": "sha256",
    'file:hashes."SHA-256"': "sha256",
}


class _Bundle(msgspec.Struct, frozen=True):
    type: str
    objects: list[msgspec.Raw] = []


class _Indicator(msgspec.Struct, frozen=True):
    type: str
    pattern: str = ""
    pattern_type: str = "stix"
    valid_until: str | None = None
    revoked: bool = False
    modified: str = ""
    name: str | None = None


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


_bundles = msgspec.json.Decoder(_Bundle)
_indicators = msgspec.json.Decoder(_Indicator)
_types = msgspec.json.Decoder(_Typed)


def read_bundle(body: bytes, items: FeedItems) -> None:
    """Read a bundle; raises `FeedFault` where it is none."""
    try:
        bundle = _bundles.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise FeedFault("the feed is no STIX bundle", refused=True) from None
    if bundle.type != "bundle":
        raise FeedFault(f"the feed is no STIX bundle but {bundle.type[:100]!r}", refused=True)
    read_objects(bundle.objects, items)


def read_objects(objects: Sequence[msgspec.Raw], items: FeedItems) -> None:
    """Read objects; of several versions of one thing the last counts. Objects that are no indicators say nothing."""
    found = []
    for raw in objects:
        try:
            if _types.decode(raw).type != "indicator":
                continue
            found.append(_indicators.decode(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            items.reject(bytes(raw)[:200].decode("utf-8", "replace"), "is no indicator of STIX 2.1")
    for indicator in sorted(found, key=lambda each: each.modified):
        _read_indicator(indicator, items)


def _read_indicator(indicator: _Indicator, items: FeedItems) -> None:
    values = parse_pattern(indicator.pattern) if indicator.pattern_type == "stix" else None
    if values is None:
        items.count_other()
        return
    until = milliseconds(indicator.valid_until) if indicator.valid_until else None
    for kind, value in values:
        if not items.uses(kind):
            continue
        if indicator.valid_until and until is None:
            items.reject(value, "has an end that is no date-time")
            continue
        if indicator.revoked:
            items.revoke(value)
        else:
            items.add(value, indicator.name or "", until)


def parse_pattern(pattern: str) -> tuple[tuple[ValueKind, str], ...] | None:
    """The values of which any one makes the pattern match; None for a pattern that says more or something else.

    A pattern with a comparison that no list can make (`file:name = …`) is None as well, unless another one is enough.
    """
    if len(pattern) > 100 * MAX_VALUE:
        return None
    tokens = list(_tokens(pattern))
    if not tokens or tokens[-1][0] == "fault":
        return None
    found: list[tuple[ValueKind, str]] = []
    place, is_inside = 0, False
    while True:
        if not is_inside:
            if _at(tokens, place) != ("sign", "["):
                return None
            place, is_inside = place + 1, True
        place = _read_comparison(tokens, place, found)
        if place < 0:
            return None
        if _at(tokens, place) == ("sign", "]"):
            place, is_inside = place + 1, False
            if place == len(tokens):
                return tuple(found) or None
        if _at(tokens, place) != ("word", "OR"):
            return None
        place += 1


def _read_comparison(tokens: list[tuple[str, str]], place: int, found: list[tuple[ValueKind, str]]) -> int:
    """Read `path = 'text'` or `path IN ('text', …)`; returns the place behind it, -1 where it is something else."""
    kind, path = _at(tokens, place)
    if kind != "path":
        return -1
    values: list[str] = []
    if _at(tokens, place + 1) == ("sign", "=") and _at(tokens, place + 2)[0] == "string":
        values, place = [tokens[place + 2][1]], place + 3
    elif _at(tokens, place + 1) == ("word", "IN") and _at(tokens, place + 2) == ("sign", "("):
        place += 3
        while _at(tokens, place)[0] == "string":
            values.append(tokens[place][1])
            place += 1
            if _at(tokens, place) != ("sign", ","):
                break
            place += 1
        if _at(tokens, place) != ("sign", ")"):
            return -1
        place += 1
    else:
        return -1
    if path in _PATHS:
        found += [(_PATHS[path], value) for value in values]
    return place


def _at(tokens: list[tuple[str, str]], place: int) -> tuple[str, str]:
    return tokens[place] if place < len(tokens) else ("end", "")


def _tokens(pattern: str) -> Iterator[tuple[str, str]]:
    place, end = 0, len(pattern.rstrip())
    while place < end:
        match = _TOKEN.match(pattern, place)
        if match is None:
            yield "fault", ""
            return
        kind = str(match.lastgroup)
        text = match.group(kind)
        yield kind, _ESCAPE.sub(r"\1", text[1:-1]) if kind == "string" else text
        place = match.end()
