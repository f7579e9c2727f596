r"""The rich text of Outlook's messages: compressed RTF (MS-OXRTFCP), and the HTML inside it (MS-OXRTFEX).

Outlook keeps the text of a message as RTF in a compression of its own ("LZFu": a ring of 4 KB that starts with the
words which most RTF begins with), in winmail.dat as in .msg files. Where the message was written in HTML, the RTF holds
it: the tags stand in groups `{\*\htmltag…}`, and what only RTF needs stands between `\htmlrtf` and `\htmlrtf0`.
"""

import re
from itertools import islice

MAX_TEXT = 1 << 20  # about half a second
_RING = 4096
_HEADER = 16
_COMPRESSED, _PLAIN = b"LZFu", b"MELA"
_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


def decompress_rtf(data: bytes, limit: int = MAX_TEXT) -> tuple[bytes, bool]:
    """Return the RTF in the clear, and whether it is whole. What is not compressed is returned as it stands."""
    kind = data[8:12]
    if kind == _PLAIN:
        return data[_HEADER : _HEADER + limit], True
    if kind != _COMPRESSED:
        return data[:limit], data.startswith(b"{\\rtf")
    size = min(int.from_bytes(data[4:8], "little"), limit)
    ring = bytearray(_START.ljust(_RING, b" "))
    write, place = len(_START), _HEADER
    out = bytearray()
    while place < len(data) and len(out) < size:
        flags = data[place]
        place += 1
        for bit in range(8):
            if not flags >> bit & 1:
                run = data[place : place + 1]
                place += 1
            else:
                pair = int.from_bytes(data[place : place + 2], "big")
                place += 2
                start, count = pair >> 4, (pair & 15) + 2
                if start == write or place > len(data):  # the end is a reference to the place of writing
                    return bytes(out), place <= len(data)
                run = bytes(_read_ring(ring, start, write, count))
            for byte in run:
                ring[write] = byte
                write = (write + 1) % _RING
            out += run
    return bytes(out[:size]), len(out) >= size


def _read_ring(ring: bytearray, start: int, write: int, count: int) -> bytearray:
    """Return a run of the ring, which may reach into what it writes."""
    run = bytearray()
    distance = (write - start) % _RING
    for step in range(count):
        run.append(run[step - distance] if step >= distance else ring[(start + step) % _RING])
    return run


_TOKEN = re.compile(
    rb"\\\*|\\'([0-9a-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\(.)|([{}])|([^\\{}\r\n]+)|[\r\n]+", re.DOTALL
)
_MAX_TOKENS = 200_000
_CHARACTERS = {b"par": b"\r\n", b"line": b"\r\n", b"tab": b"\t", b"lquote": b"'", b"rquote": b"'", b"bullet": b"*"}
_CHARACTERS |= {b"ldblquote": b'"', b"rdblquote": b'"', b"emdash": b"-", b"endash": b"-"}
_NOT_SHOWN = frozenset({b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"mhtmltag", b"listtable"})


def extract_html(rtf: bytes) -> bytes:
    """Return the HTML that the RTF was made from; b"" where it was not made from HTML."""
    if b"\\fromhtml" not in rtf[:4096]:
        return b""
    out: list[bytes] = []
    stack: list[tuple[bool, bool]] = []  # whether a group is shown, and whether it is part of a tag
    shown, tag, hidden, starred = True, False, False, False
    for token in islice(_TOKEN.finditer(rtf), _MAX_TOKENS):
        word, number, brace = token[2], token[3], token[5]
        if brace == b"{":
            stack.append((shown, tag))
        elif brace:
            shown, tag = stack.pop() if stack else (True, False)
        elif word == b"htmltag":
            shown, tag = True, True
        elif word == b"htmlrtf":
            hidden = number != b"0"
        elif word in _NOT_SHOWN or (word and starred):
            shown = False
        elif shown and (tag or not hidden):
            out.append(_show(token))
        starred = token[0] == b"\\*"
    return b"".join(out)[:MAX_TEXT]


def _show(token: "re.Match[bytes]") -> bytes:
    """Return what one token shows: text, a character by its number, or a control word that stands for one."""
    escaped, word, number, symbol, _, text = token.groups()
    if escaped:
        return bytes.fromhex(escaped.decode())
    if word == b"u" and number:
        return b"&#%d;" % (int(number) & 0xFFFF)
    return text or _CHARACTERS.get(word or b"", b"") or (symbol if symbol in (b"\\", b"{", b"}") else b"")
