"""OpenPGP messages that are not encrypted (RFC 9580, RFC 4880): the files and texts that stand in them in the clear.

`-----BEGIN PGP MESSAGE-----` looks encrypted and need not be: a literal data packet holds its file as it is, a
compressed one holds packets that any program unpacks, and a signed message is both with a signature around it. Mail
programs and `gpg` open all of these without a key. Packets are walked in the old and the new form, with lengths that
are stated, left open or given piece by piece, in armour or not. Depth, number of packets and pieces, and what comes out
of compression are limited. A message is encrypted only where a packet of encrypted data says so.
"""

import bz2
import re
import zlib
from collections.abc import Iterator
from itertools import chain

import msgspec

from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.transfer import decode_base64

MARK = b"-----BEGIN PGP "
_SIGNED = b"-----BEGIN PGP SIGNED MESSAGE-----"
_DASH = re.compile(rb"^- (?=-|From )", re.MULTILINE)
MAX_RATIO = 250
RATIO_FREE = 4 << 20
_MAX_BLOCKS = 50
_MAX_DEPTH = 10
_MAX_PACKETS = 2_000
_MAX_PIECES = 100_000
_MAX_FILES = 50
_ENDS = re.compile(rb"-----END PGP |-----BEGIN PGP ")
# Fields of armour ("Version: …") and the empty line that ends them; a body without either begins at once.
_ARMOUR_HEAD = re.compile(rb"[^\n]{0,200}\n(?:[ \t>]{0,9}[A-Za-z]{1,40}:[^\n]{0,1000}\n){0,50}(?:[ \t\r>]{0,9}\n)?")
_CHECKSUM = re.compile(rb"\n[ \t>]{0,9}=[A-Za-z0-9+/]{4}[ \t\r]{0,9}(?:\n|\Z)")
_COMPRESSED, _MARKER, _LITERAL = 8, 10, 11
_ENCRYPTED = frozenset({9, 18, 20})
_KNOWN = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21})
_PUBLIC_KEY_ALGORITHMS = frozenset({1, 2, 3, 16, 17, 18, 19, 20, 22, 25, 26, 27, 28})
_CIPHERS = frozenset(range(1, 14))
# By tag and version, where the algorithm stands in the body, and which ones there are.
_ALGORITHM_PLACES: dict[tuple[int, int], tuple[int, frozenset[int]]] = {
    (1, 3): (9, _PUBLIC_KEY_ALGORITHMS),
    (1, 6): (0, frozenset({6})),
    (2, 3): (15, _PUBLIC_KEY_ALGORITHMS),
    **dict.fromkeys(((2, 4), (2, 5), (2, 6)), (2, _PUBLIC_KEY_ALGORITHMS)),
    **dict.fromkeys(((3, 4), (3, 5), (18, 2), (20, 1)), (1, _CIPHERS)),
    (3, 6): (2, _CIPHERS),
    **dict.fromkeys(((4, 3), (4, 6)), (3, _PUBLIC_KEY_ALGORITHMS)),
    **dict.fromkeys(((5, 4), (5, 6), (6, 4), (6, 6)), (5, _PUBLIC_KEY_ALGORITHMS)),
    (6, 3): (7, _PUBLIC_KEY_ALGORITHMS),
    (18, 1): (0, frozenset({1})),
}
_FEWEST_IN_PIECES = 512
_FORMATS = frozenset(b"btulm1")
_STEP = 4096
_CONTROL = re.compile(rb"[\0-\x1f\x7f]")
_BIG_STEP, _SMALL_STEP = 1 << 18, 64
_FOR_EYES_ONLY = "_CONSOLE"
_SUFFIXES = (".gpg", ".pgp", ".asc", ".sig", ".sign")
_MIME_START = re.compile(
    rb"(?:[!-9;-~]{1,60}:[^\n]{0,1000}\n(?:[ \t][^\n]{0,1000}\n){0,9}){0,9}content-type[ \t]{0,9}:", re.IGNORECASE
)


class LiteralFile(msgspec.Struct, frozen=True):
    """One literal data packet: the name that it gives its file, "" for none, and the bytes."""

    name: str
    content: bytes


class OpenPgpContent(msgspec.Struct, frozen=True):
    """What an OpenPGP message holds: its literal files; whether there is encrypted data in it; whether there was more
    than the limits allow to unpack (`is_cut`), or what is compressed is broken (`is_damaged`)."""

    files: tuple[LiteralFile, ...] = ()
    encrypted: bool = False
    is_cut: bool = False
    is_damaged: bool = False


class _BrokenError(ValueError):
    """The bytes are no packets."""


def find_openpgp(content: bytes, limit: int, names: tuple[str, ...] = ()) -> Iterator[OpenPgpContent]:
    """Yield what OpenPGP messages in bytes with these names hold, in armour or as they are, up to `limit` bytes."""
    if is_openpgp(content) or (content[:1] >= b"\x80" and is_named_openpgp(names)):
        yield _open(content, limit)
        return
    if names and (texts := _find_signed_texts(content)):
        yield OpenPgpContent(texts)
    for place in _list_blocks(content):
        opened = _open(_remove_armour(content, place), limit)
        limit -= sum(len(each.content) for each in opened.files)
        yield opened


def _find_signed_texts(content: bytes) -> tuple[LiteralFile, ...]:
    """Return the texts that are signed in the clear (RFC 9580 section 7), as `gpg` writes them to a file: without the
    fields before and the signature behind, and without the dash and space before lines that begin with a dash."""
    found: list[LiteralFile] = []
    place = content.find(_SIGNED)
    while place >= 0 and len(found) < _MAX_BLOCKS:
        head = _ARMOUR_HEAD.match(content, place)
        start = head.end() if head else place + len(_SIGNED)
        end = content.find(b"\n-----BEGIN PGP SIGNATURE", start - 1)
        text = content[start : end if end >= 0 else len(content)]
        found.append(LiteralFile("", _DASH.sub(b"", text).rstrip(b"\r")))
        place = content.find(_SIGNED, start + len(text))
    return tuple(found)


def has_openpgp(content: bytes, names: tuple[str, ...]) -> bool:
    """Return whether there is an OpenPGP message in some bytes with these names."""
    return MARK in content or is_openpgp(content) or is_named_openpgp(names)


def is_named_openpgp(names: tuple[str, ...]) -> bool:
    """Return whether a file has a name under which it is opened as OpenPGP."""
    return any(name.lower().rstrip(". ").endswith(_SUFFIXES) for name in names)


def is_openpgp(content: bytes) -> bool:
    """Return whether bytes begin with an OpenPGP packet: two bytes of head, and a body that begins as it must."""
    if len(content) < 4 or content[0] < 0x80:
        return False
    try:
        tag, size, start = _PacketReader(content[:_STEP], _Limits(0)).read_head(0)
    except _BrokenError:
        return False
    body = content[start : start + 512]
    if not body or (size is not None and -_FEWEST_IN_PIECES < size < 0):
        return False
    if size is not None and size > 0 and not _is_followed(content, start + size, tag):
        return False
    return _is_body(tag, body, size)


def _is_followed(content: bytes, end: int, tag: int) -> bool:
    """Return whether a packet ends with the bytes or where another may begin; one with a file may be cut short."""
    if end >= len(content):
        return end == len(content) or tag in (_COMPRESSED, _LITERAL)
    return content[end] & 0x80 != 0 or tag == _LITERAL


def _is_body(tag: int, body: bytes, size: int | None) -> bool:
    if tag == _MARKER:
        return body[:3] == b"PGP" and size == 3
    if tag == _LITERAL:
        return len(body) > 6 and body[0] in _FORMATS and _CONTROL.search(body, 2, 2 + body[1]) is None
    if tag == _COMPRESSED:
        return (body[:1] == b"\x02" and _is_zlib(body[1:3])) or body[:4] == b"\x03BZh" or _is_deflate(body)
    place, known = _ALGORITHM_PLACES.get((tag, body[0]), (0, frozenset()))
    return len(body) > place and body[place] in known


def _is_zlib(head: bytes) -> bool:
    return len(head) == 2 and head[0] & 15 == 8 and int.from_bytes(head, "big") % 31 == 0


def _is_deflate(body: bytes) -> bool:
    """Return whether a body says "zip" and its raw deflate stream unpacks to packets, or to nothing yet."""
    if body[:1] not in (b"\x01", b"\x00"):
        return False
    if body[0] == 0:
        return len(body) > 2 and body[1] & 0x80 != 0
    try:
        first = zlib.decompressobj(-15).decompress(body[1:], 2)
    except zlib.error:
        return False
    return bool(first) and first[0] & 0x80 != 0


def name_literal(file: LiteralFile, outer: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that programs give to the file of a message: the one in it, and the message's without suffix."""
    stems = (name.rpartition(".")[0] for name in outer if name.lower().rstrip(". ").endswith(_SUFFIXES))
    return tuple(dict.fromkeys(name for name in (file.name, *stems) if name))


def is_mime(file: LiteralFile) -> bool:
    """Return whether the file of a message is an entity with header fields, as in PGP/MIME (RFC 3156)."""
    return _MIME_START.match(file.content) is not None


def _list_blocks(content: bytes) -> Iterator[int]:
    place = -1
    for _ in range(_MAX_BLOCKS):
        place = content.find(MARK, place + 1)
        if place < 0:
            return
        if not content.startswith(b"SIGNED MESSAGE", place + len(MARK)):
            yield place


def _remove_armour(content: bytes, place: int) -> bytes:
    head = _ARMOUR_HEAD.match(content, place)
    start = head.end() if head else place + len(MARK)
    end = _ENDS.search(content, start)
    body = content[start : end.start() if end else len(content)]
    if last := _CHECKSUM.search(body, max(0, len(body) - 200)):
        body = body[: last.start()]
    return decode_base64(body).content


class _Limits:
    """What may still be walked and unpacked of one message."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.packets = _MAX_PACKETS
        self.pieces = _MAX_PIECES


class _PacketReader:
    """Reads the packets of one run of bytes one after the other (RFC 9580 section 4.2)."""

    def __init__(self, data: bytes, limits: _Limits) -> None:
        self._data = data
        self._limits = limits

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        place = 0
        while place < len(self._data):
            self._limits.packets -= 1
            if self._limits.packets < 0:
                return
            try:
                tag, size, start = self.read_head(place)
                body, place = self._read_body(size, start)
            except _BrokenError:
                return
            yield tag, body

    def read_head(self, place: int) -> tuple[int, int | None, int]:
        """Return the tag, the length and where the body begins; the length is None where it goes to the end, and
        negative for the first of several pieces."""
        data = self._data
        first = data[place]
        size: int | None
        if not first & 0x80:
            raise _BrokenError
        if first & 0x40:
            tag = first & 0x3F
            size, start = self._read_new_length(place + 1)
        else:
            tag, form = first >> 2 & 15, first & 3
            width = (1, 2, 4, 0)[form]
            start = place + 1 + width
            if start > len(data):
                raise _BrokenError
            size = int.from_bytes(data[place + 1 : start], "big") if width else None
        if tag not in _KNOWN:
            raise _BrokenError
        return tag, size, start

    def _read_new_length(self, place: int) -> tuple[int, int]:
        data = self._data
        if place >= len(data):
            raise _BrokenError
        first = data[place]
        if first < 192:
            return first, place + 1
        if first < 224:
            if place + 1 >= len(data):
                raise _BrokenError
            return ((first - 192) << 8) + data[place + 1] + 192, place + 2
        if first < 255:
            return -(1 << (first & 31)), place + 1
        if place + 5 > len(data):
            raise _BrokenError
        return int.from_bytes(data[place + 1 : place + 5], "big"), place + 5

    def _read_body(self, size: int | None, start: int) -> tuple[bytes, int]:
        if size is None:
            return self._data[start:], len(self._data)
        if size >= 0:
            return self._take(start, size)
        pieces: list[bytes] = []
        while size < 0:
            piece, start = self._take(start, -size)
            pieces.append(piece)
            self._limits.pieces -= 1
            if start >= len(self._data) or self._limits.pieces < 0:
                return b"".join(pieces), len(self._data)
            size, start = self._read_new_length(start)
        piece, start = self._take(start, size)
        pieces.append(piece)
        return b"".join(pieces), start

    def _take(self, start: int, size: int) -> tuple[bytes, int]:
        """Return the next bytes, as many as there are."""
        end = min(start + size, len(self._data))
        return self._data[start:end], end


def _open(data: bytes, limit: int) -> OpenPgpContent:
    """Walk packets and what is compressed in them; nothing recurses."""
    limits = _Limits(min(limit, max(RATIO_FREE, len(data) * MAX_RATIO)))
    files: list[LiteralFile] = []
    encrypted = is_cut = is_damaged = False
    waiting = [data]
    for _ in range(_MAX_DEPTH):
        deeper: list[bytes] = []
        for tag, body in chain.from_iterable(_PacketReader(run, limits) for run in waiting):
            if tag in _ENCRYPTED:
                encrypted = True
            elif tag == _LITERAL and (file := _read_literal(body)):
                is_cut = is_cut or len(files) >= _MAX_FILES
                files.append(file)
            elif tag == _COMPRESSED:
                content, is_over, is_whole = _decompress(body, limits)
                is_cut, is_damaged = is_cut or is_over, is_damaged or not is_whole
                deeper.extend((content,) if content else ())
        waiting = deeper
        if not waiting:
            break
    is_cut = is_cut or bool(waiting) or limits.packets < 0 or limits.pieces < 0
    return OpenPgpContent(tuple(files[:_MAX_FILES]), encrypted, is_cut, is_damaged)


def _read_literal(body: bytes) -> LiteralFile | None:
    """Return the file of a literal data packet: a letter for its form, its name, a time, the bytes."""
    if len(body) < 2 or len(body) < body[1] + 6:
        return None
    end = 2 + body[1]
    name = decode_charset(body[2:end], None)[0]
    return LiteralFile("" if name == _FOR_EYES_ONLY else name, body[end + 4 :])


def _decompress(body: bytes, limits: _Limits) -> tuple[bytes, bool, bool]:
    """Return what a compressed packet holds, whether there was more than the limits allow, and whether it was whole."""
    if not body:
        return b"", False, False
    form, data, room = body[0], body[1:], max(0, limits.room)
    if form == 0:
        content, is_whole = data[: room + 1], True
    elif form in (1, 2):
        content, is_whole = _inflate(data, -15 if form == 1 else 15, room + 1)
    elif form == 3:
        content, is_whole = _unpack_bzip2(data, room + 1)
    else:
        return b"", False, False
    is_over = len(content) > room
    limits.room -= len(content)
    return content[:room], is_over, is_whole or is_over


def _inflate(data: bytes, window: int, most: int) -> tuple[bytes, bool]:
    """Decompress deflate, at most so many bytes of it; return whether it was whole. Broken data, and data whose
    checksum is wrong, gives what stands before the fault, as it does in other programs."""
    stream, out, left = zlib.decompressobj(window), bytearray(), most
    for start in range(0, len(data), _STEP):
        chunk = data[start : start + _STEP]
        saved = stream.copy()
        try:
            out += stream.decompress(chunk, left)
        except zlib.error:
            out += _inflate_bytes(saved, chunk, left)
            return bytes(out), False
        left = most - len(out)
        if not left or stream.eof:
            break
    return bytes(out), stream.eof


def _inflate_bytes(stream: "zlib._Decompress", chunk: bytes, left: int) -> bytes:
    out = bytearray()
    for place in range(len(chunk)):
        try:
            out += stream.decompress(chunk[place : place + 1])
        except zlib.error:
            break
        if len(out) >= left:
            break
    return bytes(out[:left])


def _unpack_bzip2(data: bytes, most: int) -> tuple[bytes, bool]:
    content, is_whole = _unpack_bzip2_by(_BIG_STEP, data, most)
    return (content, True) if is_whole else _unpack_bzip2_by(_SMALL_STEP, data, min(most, RATIO_FREE))


def _unpack_bzip2_by(step: int, data: bytes, most: int) -> tuple[bytes, bool]:
    """Decompress bzip2 so many bytes at a time: those of the last step before a fault are lost."""
    stream, out, fed = bz2.BZ2Decompressor(), bytearray(), data
    try:
        while len(out) < most and not stream.eof:
            piece = stream.decompress(fed, min(step, most - len(out)))
            fed = b""
            if not piece and stream.needs_input:
                break
            out += piece
    except (OSError, ValueError, EOFError):
        return bytes(out), False
    return bytes(out), stream.eof or len(out) >= most
