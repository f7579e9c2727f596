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
_STRUCTURE = re.compile(rb"\\.|[\"\[{,]", re.DOTALL)
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
    text = data.decode("utf-8-sig")
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
    count, is_in_string = 0, False
    for match in _STRUCTURE.finditer(data):
        sign = data[match.start()]
        if sign == 0x22:  # a quote
            is_in_string = not is_in_string
        elif not is_in_string and sign != 0x5C:  # a backslash
            count += 1
            if count > MAX_VALUES:
                return True
    return False


def decode_json(what: str, data: bytes | bytearray) -> Any:
    """Return the values of a JSON text, or the failure that says why it cannot be read; `what` begins the sentence."""
    if has_too_many_values(data):
        return Failure(MALFORMED_REQUEST, f"{what} has more than {MAX_VALUES:,} values, which no call has")
    try:
        found = msgspec.json.decode(data)
        repeated = find_repeated_key(data)
    except RecursionError:
        return Failure(MALFORMED_REQUEST, f"{what} is nested too deeply")
    except ValueError:
        return Failure(MALFORMED_REQUEST, f"{what} is not valid JSON in UTF-8")
    return Failure(MALFORMED_REQUEST, f"{what} has the key {repeated[:100]} twice in one object") if repeated else found
