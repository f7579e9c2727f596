"""DNS messages on the wire (RFC 1035 section 4, RFC 6891): questions of five types, and the answers to them.

Answers are hostile: whoever owns a domain writes them. guard, which holds secrets, reads them itself, so they are read
in Python and not by a native library. Every read is within the message. A name has at most 255 octets (RFC 1035 section
3.1) and few pointers, which lead only backwards, to a place before all places that the name has been at. Of more
records than `MAX_RECORDS` the rest is left out: no standard that asks looks at so many.
"""

import socket
import struct
from typing import Final, Literal, NamedTuple

from gatepost.questions import Dns

TYPES: Final = {"A": 1, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28}
MAX_UDP = 1_232
MAX_NAME = 255
MAX_POINTERS = 16
MAX_RECORDS: Final = {"A": 500, "AAAA": 500, "TXT": 500, "MX": 100, "PTR": 100}

_HEADER = struct.Struct(">HHHHHH")
_RECORD = struct.Struct(">HHIH")
_IN = 1
_RECURSION_DESIRED = 0x0100
_ANSWER, _OPCODE, _TRUNCATED, _CODE = 0x8000, 0x7800, 0x0200, 0x000F
_POINTER = 0xC0
# The root as owner, the type OPT, and how much we take over UDP; no flags, no options.
_EDNS = b"\0" + struct.pack(">HHIH", 41, MAX_UDP, 0, 0)
_MAX_TTL = 0x7FFFFFFF

Status = Literal["found", "no-data", "no-name", "failed", "truncated", "no-edns", "malformed"]


class Reply(NamedTuple):
    """What a message says; `seconds` is how long its records hold."""

    status: Status
    records: tuple[str, ...] = ()
    seconds: int = 0


class _MalformedError(ValueError):
    """The message breaks the rules of its format."""


def build_question(question: Dns) -> bytes:
    """Return the question section; its name must be one that DNS can hold."""
    labels = question.name.encode("ascii").split(b".")
    name = b"".join([bytes((len(label),)) + label for label in labels])
    return name + struct.pack(">xHH", TYPES[question.type], _IN)


def build_query(number: int, section: bytes, *, edns: bool = True) -> bytes:
    """Return a query with this question section. EDNS gets long answers in one datagram."""
    return _HEADER.pack(number, _RECURSION_DESIRED, 1, 0, 0, edns) + section + (_EDNS if edns else b"")


def is_reply(data: bytes, number: int, section: bytes) -> bool:
    """Whether this is an answer to that query, and not a stray or forged one (RFC 5452 section 9.1)."""
    if len(data) < _HEADER.size + len(section):
        return False
    got, flags, questions, *_ = _HEADER.unpack_from(data)
    mine = data[_HEADER.size : _HEADER.size + len(section)]
    same = mine == section or mine.lower() == section.lower()
    return got == number and flags & (_ANSWER | _OPCODE) == _ANSWER and questions == 1 and same


def read_reply(data: bytes, question: Dns, section: bytes) -> Reply:
    """Read a message of which `is_reply` holds."""
    _number, flags, _questions, answers, _authority, _more = _HEADER.unpack_from(data)
    if flags & _TRUNCATED:
        return Reply("truncated")
    match flags & _CODE:
        case 3:
            return Reply("no-name")
        case 1 | 4:
            return Reply("no-edns")
        case 0:
            try:
                return _read_records(data, _HEADER.size + len(section), answers, question)
            except (_MalformedError, IndexError, struct.error, ValueError):
                return Reply("malformed")
    return Reply("failed")


def _read_records(data: bytes, place: int, count: int, question: Dns) -> Reply:
    wanted, most = TYPES[question.type], MAX_RECORDS[question.type]
    records: list[str] = []
    seconds = _MAX_TTL
    for _ in range(count):
        place = _skip_name(data, place)
        kind, network, ttl, length = _RECORD.unpack_from(data, place)
        place += _RECORD.size
        if place + length > len(data):
            raise _MalformedError
        # An alias on the way expires like the record that it leads to. A TTL over 31 bits is none (RFC 2181 section 8).
        seconds = min(seconds, ttl if ttl <= _MAX_TTL else 0)
        if kind == wanted and network == _IN and len(records) < most:
            records.append(_read_data(data, place, length, question))
        place += length
    return Reply("found", tuple(records), seconds) if records else Reply("no-data")


def _read_data(data: bytes, place: int, length: int, question: Dns) -> str:
    """One record as text (see `DnsAnswer`)."""
    end = place + length
    match question.type:
        case "A" if length == 4:
            return socket.inet_ntop(socket.AF_INET, data[place:end])
        case "AAAA" if length == 16:
            return socket.inet_ntop(socket.AF_INET6, data[place:end])
        case "TXT":
            return _read_strings(data, place, end)
        case "PTR":
            return _read_name(data, place, end)
        case "MX" if length > 2:
            # The root stands for "no mail here" (RFC 7505); it is the one name that needs its dot.
            return f"{int.from_bytes(data[place : place + 2])} {_read_name(data, place + 2, end) or '.'}"
    raise _MalformedError


def _read_strings(data: bytes, place: int, end: int) -> str:
    """The strings of a TXT record, joined."""
    pieces = []
    while place < end:
        after = place + 1 + data[place]
        if after > end:
            raise _MalformedError
        pieces.append(data[place + 1 : after])
        place = after
    return b"".join(pieces).decode("latin-1")


def _skip_name(data: bytes, place: int) -> int:
    """The place after a name."""
    while size := data[place]:
        if size >= _POINTER:
            return place + 2
        if size > 63:
            raise _MalformedError
        place += size + 1
    return place + 1


def _read_name(data: bytes, place: int, end: int) -> str:
    """A name without a trailing dot. It starts in a record that ends at `end`; pointers lead out of that, backwards."""
    labels: list[str] = []
    octets, pointers, lowest, limit = 1, 0, place, end
    while size := data[place]:
        if size >= _POINTER:
            place = (size & ~_POINTER) << 8 | data[place + 1]
            pointers += 1
            if place >= lowest or pointers > MAX_POINTERS:
                raise _MalformedError
            limit, lowest = lowest, place
            continue
        after = place + 1 + size
        octets += size + 1
        if size > 63 or octets > MAX_NAME or after >= limit:
            raise _MalformedError
        labels.append(_escape(data[place + 1 : after]))
        place = after
    return ".".join(labels)


def _escape(label: bytes) -> str:
    """A label as text; what is not a plain character of a name is written as in master files (RFC 1035 section 5.1)."""
    if label.isalnum():
        return label.decode("ascii")
    return "".join([chr(each) if 0x21 <= each <= 0x7E and each not in b".\\" else f"\\{each:03d}" for each in label])
