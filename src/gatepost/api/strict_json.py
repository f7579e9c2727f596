"""JSON of callers, read so that every reader finds the same in it: no key twice in one object.

Decoders hold the interpreter to the end of a text, and a text of some megabytes can consist of millions of values:
other work would wait for seconds. So a text with more values than any call has is refused before it is decoded.
"""

import json
import re
from itertools import pairwise
from typing import Any

import msgspec

from gatepost.api.errors import MALFORMED_REQUEST, Failure


class _RepeatedKey(Exception):  # noqa: N818  an outcome, not a fault
    """Ends the decoding of an object that has a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key or '""'


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = sorted(key for key, _ in pairs)
        raise _RepeatedKey(next(key for key, following in pairwise(names) if key == following))


MAX_VALUES = 100_000
# Texts up to this size have too few values to be counted.
_SMALL = 64 << 10
# A string without escapes, or whatever stands between two strings.
_STRUCTURE = re.compile(rb'"[^"]*+"?|[^"]++')
_MAX_OPENED = 100

# Numbers are not converted: an integer of thousands of digits is no reason to stop here.
_KEYS = json.JSONDecoder(object_pairs_hook=_refuse_repeats, parse_int=len, parse_float=len)


def _has_plain_strings_once(text: str) -> bool:
    """Whether no string of a JSON text, be it a key or a value, stands there twice: as in most calls, and found out in
    a fifth of the time that decoding takes. Only for texts that are nested no deeper than calls are, and in which a
    string is what stands between two quotes."""
    if "\\" in text or not text.isascii() or not text.isprintable() or text.count("{") + text.count("[") > _MAX_OPENED:
        return False
    strings = text.split('"')[1::2]
    return len(set(strings)) == len(strings)


def find_repeated_key(data: bytes | bytearray) -> str:
    """Return a key that stands twice in one object of a JSON text, "" where there is none.

    RFC 8259 section 4 leaves open which of the two counts, and readers differ: what a proxy or a log took for a
    tenant's call could be a global one here. For JSON that msgspec has decoded; raises `RecursionError` where it is
    nested too deeply.
    """
    # The codec "utf-8-sig" is written in Python.
    text = data.decode().removeprefix("\ufeff")
    try:
        if not _has_plain_strings_once(text):
            _KEYS.decode(text)
    except _RepeatedKey as found:
        return found.key
    return ""


def has_too_many_values(data: bytes | bytearray) -> bool:
    """Whether a JSON text has more than `MAX_VALUES` values, as far as it is JSON. Commas and brackets say how many
    there are at most; only where that is too many, those inside of strings are told apart."""
    if len(data) <= _SMALL:
        return False
    most = 0
    for start in range(0, len(data), _SMALL):
        piece = data[start : start + _SMALL]
        most += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if most > MAX_VALUES:
            break
    else:
        return False
    # Backslashes come in runs, and are paired from the first one on; then none escapes a quote.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    count = 0
    for number, match in enumerate(_STRUCTURE.finditer(plain)):
        piece = match.group()
        if not piece.startswith(b'"'):
            count += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        # A value has a string for itself and one for its key, with something between them.
        if count > MAX_VALUES or number > 5 * MAX_VALUES:
            return True
    return False


def refuse_many_values(what: str, data: bytes | bytearray) -> Failure | None:
    """Return the failure of a JSON text with more values than any call has; `what` begins the sentence."""
    if has_too_many_values(data):
        return Failure(MALFORMED_REQUEST, f"{what} has more than {MAX_VALUES:,} values, which no call has")
    return None


def decode_json(what: str, data: bytes | bytearray) -> Any:
    """Return the values of a JSON text, or the failure that says why it cannot be read; `what` begins the sentence."""
    return refuse_many_values(what, data) or decode_counted(what, data)


def decode_counted(what: str, data: bytes | bytearray) -> Any:
    """The same of a text that was found to have few enough values."""
    try:
        found = msgspec.json.decode(data)
        repeated = find_repeated_key(data)
    except RecursionError:
        return Failure(MALFORMED_REQUEST, f"{what} is nested too deeply")
    except ValueError:
        return Failure(MALFORMED_REQUEST, f"{what} is not valid JSON in UTF-8")
    return Failure(MALFORMED_REQUEST, f"{what} has the key {repeated[:100]} twice in one object") if repeated else found
