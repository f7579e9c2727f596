r"""The values of a view: what is shown of a message, as plain text that cannot act.

Characters that would act on a page or a terminal, or would not show, are written out. A direction override (UAX 9
section 2.2) makes `exe.fdp` read `pdf.exe`; it is shown as `\u202e`. The same goes for control characters, zero-width
ones, and halves of characters. The page that shows the text escapes it like any other.

Each field has its maximum length, which is part of its type. So a decoder refuses a longer value, wherever it comes
from: the process that made it has read hostile bytes and is not trusted.
"""

import re
from typing import Annotated, Literal

import msgspec

ELLIPSIS = "…"

_FORMATTING = "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_ACTS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMATTING}\ud800-\udfff]")
_IN_A_LINE = re.compile(f"[\x00-\x1f\x7f-\x9f{_FORMATTING}\ud800-\udfff]")
_LINE_END = re.compile("\r\n?")


def escape_line(text: str) -> str:
    """Return text for one line, with control and formatting characters written out."""
    return _IN_A_LINE.sub(_escape, text)


def escape_block(text: str) -> str:
    """Return text with lines and tabs of its own, with other control and formatting characters written out."""
    return _ACTS.sub(_escape, _LINE_END.sub("\n", text))


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class TextBudget:
    """How many characters may still be shown of one kind of thing."""

    def __init__(self, chars: int) -> None:
        self._left = chars

    def line(self, text: str, most: int) -> str:
        """Return one line of at most so many characters; one that is cut ends in an ellipsis."""
        return self._cut(escape_line(text[:most]), len(text) > most, most)

    def block(self, text: str) -> tuple[str, int]:
        """Return as much of a text as there is room for, and how many of its characters are missing."""
        start = text[: self._left]
        shown = escape_block(start)
        kept = shown[: self._left]
        self._left -= len(kept)
        return kept, len(text) - len(start) + len(shown) - len(kept)

    @property
    def has_room(self) -> bool:
        """Whether anything more can be shown."""
        return self._left > 0

    def _cut(self, text: str, is_cut: bool, most: int) -> str:
        room = max(0, min(most, self._left))
        if is_cut or len(text) > room:
            text = text[: max(0, room - 1)] + ELLIPSIS if room else ""
        self._left -= len(text)
        return text


MAX_NAME = 200
MAX_VALUE = 2_000
MAX_TARGET = 2_000
MAX_LABEL = 300
MAX_FIELDS = 500
MAX_KNOWN_FIELDS = 40
MAX_PARTS = 500
MAX_FILE_NAMES = 4
MAX_PASSAGES = 50
MAX_LINKS = 500
MAX_PICTURES = 100
MAX_NOTES = 60
# Characters of all fields of a kind together. At four bytes each a whole view stays below 3 MB.
ALL_FIELDS = 64_000
ALL_PARTS = 100_000
ALL_VISIBLE = 200_000
ALL_HIDDEN = 50_000
ALL_LINKS = 200_000
ALL_PICTURES = 40_000
MAX_PNG = 4_000_000

_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
_Value = Annotated[str, msgspec.Meta(max_length=MAX_VALUE)]
_Target = Annotated[str, msgspec.Meta(max_length=MAX_TARGET)]
_Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL)]
_Visible = Annotated[str, msgspec.Meta(max_length=ALL_VISIBLE)]
_Hidden = Annotated[str, msgspec.Meta(max_length=ALL_HIDDEN)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
_Names = Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_FILE_NAMES)]


class HeaderLine(msgspec.Struct, frozen=True):
    """One header field, decoded; `name` as it is spelled in the message, "" for a line that is no field."""

    name: _Name
    value: _Value


class PartLine(msgspec.Struct, frozen=True):
    """One part in the tree. `path` is its place ("1.2"; "1.2~base64" is another reading of the same bytes), `depth` how
    far it is indented, `size` its decoded bytes, 0 for one that only holds others."""

    path: _Name
    type: _Name
    depth: _Count
    size: _Count
    disposition: _Name = ""
    encoding: _Name = ""
    names: _Names = ()


class Passage(msgspec.Struct, frozen=True):
    """The text of one part as a person reads it. `hidden` is there but does not show to the reader; `attached` text
    shows only once a file is opened. `more` and `more_hidden` count the characters that were cut off."""

    where: _Name
    form: Literal["plain", "html"]
    visible: _Visible
    hidden: _Hidden = ""
    attached: bool = False
    more: _Count = 0
    more_hidden: _Count = 0


class LinkLine(msgspec.Struct, frozen=True):
    """One link: what a person sees of it and where it really leads. `hidden` ones stand where no reader sees them;
    `wrapped` names the redirectors on the way, outermost first."""

    shown: _Label
    target: _Target
    host: _Label
    where: _Name
    source: _Name
    hidden: bool = False
    wrapped: _Label = ""


class PictureLine(msgspec.Struct, frozen=True):
    """One picture, which `draw_picture` shows by its `index` unless there is a `refusal`; sizes as in its header."""

    index: _Count
    where: _Name
    name: _Name
    type: _Name
    size: _Count
    width: _Count
    height: _Count
    refusal: _Name = ""


class View(msgspec.Struct, frozen=True, tag="view"):
    """A whole message to look at. `headers` are the fields that people know, `fields` all of them in their order;
    `left_out` says in sentences what is not shown or was not read."""

    headers: Annotated[tuple[HeaderLine, ...], msgspec.Meta(max_length=MAX_KNOWN_FIELDS)] = ()
    fields: Annotated[tuple[HeaderLine, ...], msgspec.Meta(max_length=MAX_FIELDS)] = ()
    parts: Annotated[tuple[PartLine, ...], msgspec.Meta(max_length=MAX_PARTS)] = ()
    passages: Annotated[tuple[Passage, ...], msgspec.Meta(max_length=MAX_PASSAGES)] = ()
    links: Annotated[tuple[LinkLine, ...], msgspec.Meta(max_length=MAX_LINKS)] = ()
    pictures: Annotated[tuple[PictureLine, ...], msgspec.Meta(max_length=MAX_PICTURES)] = ()
    left_out: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_NOTES)] = ()


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """A picture drawn anew as PNG; `reduced` from a larger one, `moving` if it is the first of several."""

    png: Annotated[bytes, msgspec.Meta(max_length=MAX_PNG)]
    width: _Count
    height: _Count
    reduced: bool = False
    moving: bool = False


class NotShown(msgspec.Struct, frozen=True, tag="notShown"):
    """It could not be shown; `reason` is the end of a sentence."""

    reason: _Name
