r"""Rich text (RTF 1.9): objects in hexadecimal, templates from elsewhere, fields, and the text that a person reads.

`\objdata` holds a whole OLE object in digits, and Word is patient with what stands between them: blanks, other control
words, groups, `\'41`, `\bin`. So digits are gathered with nested groups left out, and with them, and what gives an
object is taken. Only the groups of interest are read: a text of a million groups costs one search.

For the text, control words are dropped and characters decoded. Groups that show nothing are passed over: tables of
fonts and colours, pictures, objects, instructions of fields, and whatever begins with `\*`. Characters are bytes in the
document's code page (`\ansicpg`), or numbers (`\u228`), behind which as many characters for older programs are left out
as `\uc` says.
"""

import re
from collections.abc import Iterator

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import tidy_text
from gatepost.files.documents.office_xml import add_field
from gatepost.files.documents.ole import read_package
from gatepost.files.documents.script_strings import find_addresses
from gatepost.mail.encodings.charset import decode_charset, find_charset
from gatepost.mail.text import strip_rtf

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


MAX_FIELDS = 1 << 20  # characters of fields and templates in all
MAX_FIELD = 8_192

_PIECE = re.compile(
    rb"\\bin(\d{1,10}) ?|\\'([0-9A-Fa-f]{2})|\\[a-zA-Z]{1,250}+(?:-?\d{1,20}+)? ?|\\.|([{}])|[^\\{}]++", re.DOTALL
)
_BRACE = re.compile(rb"\\.|[{}]", re.DOTALL)
_NOT_HEX = bytes(set(range(256)) - set(b"0123456789abcdefABCDEF"))
_CLASS = re.compile(rb"\\objclass\s{0,20}([^\\{}]{1,100})")
_EQUATION = bytes.fromhex("02ce020000000000c000000000000046")
_HEADERS = (b"\x01\x05\0\0\x02\0\0\0", b"\x01\x05\0\0\x01\0\0\0")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ELSEWHERE = re.compile(r"\s*(?:https?:|ftp:|file:|\\\\)", re.IGNORECASE)


def inspect(builder: ContentsBuilder) -> None:
    """Add the objects of a document as files, its remote templates and fields, and its text."""
    content = builder.file.content
    _RtfInspector(content, builder).read()
    if not builder.file.shown:
        builder.add_text(tidy_text(read_rtf_text(builder.take_source(content))))


class _RtfInspector:
    """Reads one document. What it may still cost is limited, since groups may overlap without end."""

    def __init__(self, content: bytes, builder: ContentsBuilder) -> None:
        self._content = content
        self._builder = builder
        self._tokens = MAX_TOKENS
        self._chars = MAX_FIELDS

    def read(self) -> None:
        for place in _find_word(self._content, b"\\objdata"):
            if not self._read_object(place):
                self._builder.add_unread("count")
                break
        for match in _CLASS.finditer(self._content):
            _add_class(match.group(1).decode("latin-1"), self._builder)
        for target in self._read_groups(b"\\*\\template"):
            if _ELSEWHERE.match(target):
                self._builder.add_trait("remote-template", target)
                self._builder.add_link(target)
        for instruction in self._read_groups(b"\\fldinst"):
            add_field(instruction, self._builder)

    def _read_groups(self, word: bytes) -> Iterator[str]:
        """Yield the words of each group that a control word begins, as long as the limit has room."""
        for place in _find_word(self._content, word):
            if self._chars <= 0:
                self._builder.add_unread("count")
                return
            yield self._read_words(place)

    def _read_words(self, place: int) -> str:
        """Return the words from here to the end of the group."""
        depth = 0
        end = min(len(self._content), place + min(MAX_FIELD, self._chars))
        for match in _BRACE.finditer(self._content, place, end):
            brace = match.group()
            if brace == b"{":
                depth += 1
            elif brace == b"}":
                depth -= 1
                if depth < 0:
                    end = match.start()
                    break
        self._chars -= end - place
        # A backslash that is written twice is one; it must not begin a control word.
        text = self._content[place:end].decode("latin-1").replace("\\\\", "\1")
        return strip_rtf(text).replace("\1", "\\").strip()

    def _read_object(self, place: int) -> bool:
        """Read one object; return False where the budget is used up."""
        outer, whole = self._collect_digits(place)
        for digits in (outer, outer[1:], whole, whole[1:]):
            if _take_object(bytes.fromhex(digits[: len(digits) // 2 * 2]), self._builder):
                return True
        if whole:
            self._builder.add_trait("embedded-object", "unreadable")
            self._builder.add_member("embedded object", bytes.fromhex(whole[: len(whole) // 2 * 2]))
        return self._tokens > 0

    def _collect_digits(self, place: int) -> tuple[str, str]:
        """Return the digits up to the end of the group: those directly in it, and all."""
        outer: list[bytes] = []
        whole: list[bytes] = []
        depth, used = 0, 0
        room = self._builder.allowance(len(self._content))
        for match in _PIECE.finditer(self._content, place):
            self._tokens -= 1
            raw, escaped, brace = match.groups()
            if brace:
                depth += 1 if brace == b"{" else -1
                if depth < 0:
                    break
                continue
            piece = b"" if raw is not None else escaped or match.group()
            if not piece or piece[:1] == b"\\":
                continue
            piece = piece.translate(None, _NOT_HEX)
            used += len(piece)
            if used > room or self._tokens <= 0:
                self._builder.add_unread("size")
                break
            whole.append(piece)
            if not depth and not escaped:
                outer.append(piece)
        self._builder.budget.pay(2 * used, 0)
        return b"".join(outer).decode("ascii"), b"".join(whole).decode("ascii")


def _find_word(content: bytes, word: bytes) -> Iterator[int]:
    """Yield the places behind each occurrence of a control word."""
    place = content.find(word)
    while place >= 0:
        place += len(word)
        if not content[place : place + 1].isalpha():
            yield place
        place = content.find(word, place)


def _add_class(name: str, builder: ContentsBuilder) -> None:
    if name.strip().lower().startswith("equation."):
        builder.add_trait("equation-editor", name.strip())


def _take_object(data: bytes, builder: ContentsBuilder) -> bool:
    """Take an object in OLE's first form (MS-OLEDS section 2.2): class, topic, item, data; say whether there is one."""
    start = min((at for header in _HEADERS if (at := data.find(header, 0, 64)) >= 0), default=-1)
    ole = data.find(_OLE, 0, 4096)
    if start < 0 and ole < 0:
        return False
    name, place = _read_counted(data, start + 8) if start >= 0 else ("", 0)
    _, place = _read_counted(data, place)
    _, place = _read_counted(data, place)
    native = data[place + 4 :] if ole < 0 else data[ole:]
    builder.add_trait("embedded-object", name or "object")
    _add_class(name, builder)
    if _EQUATION in native[:8192] or b"E\0q\0u\0a\0t\0i\0o\0n\0 \0N\0a\0t\0i\0v\0e" in native[:16_384]:
        builder.add_trait("equation-editor", name)
    package = read_package(native)
    if package.content:
        builder.add_member(package.names, package.content)
    else:
        builder.add_member(f"object {name}".strip(), native)
    if data[start + 4 : start + 5] == b"\x01":  # a linked object: the topic says to what
        for address in find_addresses(data[:4096]):
            builder.add_trait("remote-object", address)
            builder.add_link(address)
    return True


def _read_counted(data: bytes, place: int) -> tuple[str, int]:
    size = int.from_bytes(data[place : place + 4], "little")
    if size > 1_000:
        return "", place + 4
    return data[place + 4 : place + 4 + size].rstrip(b"\0").decode("latin-1"), place + 4 + size
