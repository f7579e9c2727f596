r"""The text that a person reads in rich text (RTF 1.9): control words are dropped, characters decoded.

Groups that show nothing are passed over: tables of fonts and colours, pictures, objects, instructions of fields, and
whatever begins with `\*`. Characters are bytes in the document's code page (`\ansicpg`), or numbers (`\u228`), behind
which as many characters for older programs are left out as `\uc` says.
"""

import re

from gatepost.mail.encodings.charset import decode_charset, find_charset

MAX_SOURCE = 1 << 20
MAX_TOKENS = 200_000
MAX_DEPTH = 1_000
_TOKEN = re.compile(
    rb"\\'([0-9A-Fa-f]{2})|\\u(-?[0-9]{1,6}) ?|\\([a-zA-Z]{1,32}+)(-?[0-9]{1,10}+)? ?|\\([^a-zA-Z])|([{}])"
    rb"|([^\\{}\r\n]++)|[\r\n\\]++"
)
_SILENT = frozenset(
    b"fonttbl colortbl stylesheet info pict object objdata fldinst themedata datastore latentstyles listtable "
    b"listoverridetable rsidtbl generator xmlnstbl header headerl headerr headerf footer footerl footerr "
    b"footerf".split()
)
_BREAKS = {b"par": "\n", b"line": "\n", b"row": "\n", b"sect": "\n", b"page": "\n", b"cell": " ", b"tab": " "}
_SIGNS = {b"~": b" ", b"_": b"-", b"\\": b"\\", b"{": b"{", b"}": b"}", b"\n": b"\n", b"\r": b"\n"}


def read_rtf_text(content: bytes) -> str:
    """Return the text of a document, as far as the first megabyte goes."""
    reader = _RtfReader()
    source = content[:MAX_SOURCE]
    place = 0
    for _ in range(MAX_TOKENS):
        match = _TOKEN.match(source, place)
        if match is None:
            break
        place = match.end()
        if match.group(3) == b"bin" and match.group(4):
            place += max(0, int(match.group(4)))  # so many bytes of something else
        else:
            reader.add(match)
    return reader.finish()


class _RtfReader:
    """Takes one token after the other."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._bytes = bytearray()
        self._charset = "windows-1252"
        self._silent = False
        self._replaced = 1
        self._left_out = 0
        self._groups: list[tuple[bool, int]] = []
        self._deep = 0

    def add(self, match: "re.Match[bytes]") -> None:
        code, number, word, value, sign, brace, text = match.groups()
        if brace:
            self._enter() if brace == b"{" else self._leave()
        elif word or sign == b"*":
            self._read_word(word or b"*", value)
        elif not self._silent:
            if number:
                self._add_number(int(number))
            elif code:
                self._add_bytes(bytes.fromhex(code.decode("ascii")))
            else:
                self._add_bytes(text or _SIGNS.get(sign, b""))

    def finish(self) -> str:
        self._flush()
        return "".join(self._pieces)

    def _enter(self) -> None:
        if len(self._groups) < MAX_DEPTH:
            self._groups.append((self._silent, self._replaced))
        else:
            self._deep += 1

    def _leave(self) -> None:
        if self._deep:
            self._deep -= 1
        elif self._groups:
            self._silent, self._replaced = self._groups.pop()
        self._left_out = 0

    def _read_word(self, word: bytes, value: bytes | None) -> None:
        if word == b"*" or word in _SILENT:
            self._silent = True
        elif word == b"ansicpg" and value and (found := find_charset(f"windows-{int(value)}")):
            self._flush()
            self._charset = found
        elif word == b"uc" and value:
            self._replaced = min(max(0, int(value)), 100)
        elif word in _BREAKS and not self._silent:
            self._flush()
            self._pieces.append(_BREAKS[word])

    def _add_bytes(self, data: bytes) -> None:
        left_out = min(self._left_out, len(data))
        self._left_out -= left_out
        self._bytes += data[left_out:]

    def _add_number(self, number: int) -> None:
        self._flush()
        number &= 0xFFFF
        self._pieces.append(chr(number) if not 0xD800 <= number <= 0xDFFF else "\ufffd")
        self._left_out = self._replaced

    def _flush(self) -> None:
        if self._bytes:
            self._pieces.append(decode_charset(bytes(self._bytes), self._charset)[0])
            self._bytes.clear()
