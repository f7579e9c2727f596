r"""The values of a view: what is shown of a message, as plain text that cannot act.

Characters that would act on a page or a terminal, or would not show, are written out. A direction override (UAX 9
section 2.2) makes `exe.fdp` read `pdf.exe`; it is shown as `\u202e`. The same goes for control characters, zero-width
ones, and halves of characters. The page that shows the text escapes it like any other.

Each field has its maximum length, which is part of its type. So a decoder refuses a longer value, wherever it comes
from: the process that made it has read hostile bytes and is not trusted.
"""

import re
from base64 import b64encode
from html import escape
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
        room = max(0, min(most, self._left))
        shown = escape_line(text[:most])
        if len(text) > most or len(shown) > room:
            shown = shown[: max(0, room - 1)] + ELLIPSIS if room else ""
        self._left -= len(shown)
        return shown

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
# Of HTML as the reader would have seen it.
MAX_PAGES = 3
MAX_PIECES = 20_000
MAX_LOOK = 800
MAX_MARKS = 12
ALL_PAGE = 300_000
ALL_LOOKS = 600_000
MAX_PAGE_PICTURES = 20
ALL_PAGE_PICTURES = 3_000_000
MAX_DOCUMENT = 8_000_000

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
    `pages` says how many parts can be shown as HTML; `left_out` says in sentences what is not shown or was not read."""

    headers: Annotated[tuple[HeaderLine, ...], msgspec.Meta(max_length=MAX_KNOWN_FIELDS)] = ()
    fields: Annotated[tuple[HeaderLine, ...], msgspec.Meta(max_length=MAX_FIELDS)] = ()
    parts: Annotated[tuple[PartLine, ...], msgspec.Meta(max_length=MAX_PARTS)] = ()
    passages: Annotated[tuple[Passage, ...], msgspec.Meta(max_length=MAX_PASSAGES)] = ()
    links: Annotated[tuple[LinkLine, ...], msgspec.Meta(max_length=MAX_LINKS)] = ()
    pictures: Annotated[tuple[PictureLine, ...], msgspec.Meta(max_length=MAX_PICTURES)] = ()
    pages: Annotated[int, msgspec.Meta(ge=0, le=MAX_PAGES)] = 0
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


# What a page may consist of. Names that HTML does not have are written as spans: `link`, `push` and `field`.
PAGE_ELEMENTS = frozenset(
    "address b big blockquote br caption center code col colgroup dd div dl dt em fieldset font h1 h2 h3 h4 h5 h6 hr i "
    "legend li ol p pre q s small span strong sub sup table tbody td tfoot th thead tr u ul link push field".split()
)
_EMPTY = frozenset({"br", "hr", "col"})
_SPANS = frozenset({"link", "push", "field"})
PAGE_MARKS = frozenset(
    "align valign width height border cellpadding cellspacing colspan rowspan bgcolor color size face dir".split()
)
_MARK = re.compile(r"[\w#%.,+ -]{1,80}\Z")
# What decides how text looks and stands; nothing that fetches, moves, covers other things or runs.
_PROPERTIES = frozenset(
    "color background-color font font-family font-size font-weight font-style text-align text-decoration "
    "text-transform line-height letter-spacing white-space direction vertical-align width max-width min-width height "
    "max-height min-height margin margin-top margin-right margin-bottom margin-left padding padding-top padding-right "
    "padding-bottom padding-left border border-top border-right border-bottom border-left border-color border-style "
    "border-width border-radius border-collapse border-spacing list-style-type text-indent table-layout box-sizing "
    "float clear display overflow word-break".split()
)
_COLOUR = r"#[0-9a-f]{3,8}\b|(?:rgb|hsl)a?\([0-9., %/]{1,60}\)"
# Functions are those of colours; every other parenthesis, quote, escape or scheme makes a value unfit.
_LOOK_VALUE = re.compile(rf"(?:{_COLOUR}|'[\w -]{{1,40}}'|[a-z0-9%.,/ +-])+\Z")
_FOUND_COLOUR = re.compile(rf"{_COLOUR}|\b[a-z]{{3,20}}\b")
_LARGE = re.compile(r"\d{5}")
_NO_COLOUR = frozenset(
    {"url", "none", "repeat", "scroll", "center", "top", "left", "right", "bottom", "fixed", "cover"}
)


def filter_look(declarations: str) -> str:
    """Return those of some declarations that a page may have, written in one way: the same text is filtered by the
    process that read the message, and again by the one that writes the page."""
    kept: dict[str, str] = {}
    for declaration in declarations.lower().split(";", 200)[:200]:
        name, colon, value = declaration.partition(":")
        name, value = name.strip(), " ".join(value.partition("!")[0].replace('"', "'").split())
        if name == "background" and colon:
            colours = _FOUND_COLOUR.findall(value.partition("url(")[0])
            name, value = "background-color", next((each for each in colours if each not in _NO_COLOUR), "")
        if name in _PROPERTIES and _LOOK_VALUE.match(value) and not _LARGE.search(value):
            kept.pop(name, None)
            kept[name] = value
    look = ""
    for name, value in kept.items():
        if len(look) + len(name) + len(value) + 2 <= MAX_LOOK:
            look += f"{name}:{value};"
    return look


_Look = Annotated[str, msgspec.Meta(max_length=MAX_LOOK)]
_Mark = Annotated[str, msgspec.Meta(max_length=80)]
_Piece = Annotated[str, msgspec.Meta(max_length=ALL_PAGE)]


class Opened(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """An element begins: one of `PAGE_ELEMENTS`, with the declarations and the attributes of old HTML that it may have.
    `hint` is what is said of it beside it, such as the target of a link."""

    name: _Name
    look: _Look = ""
    marks: Annotated[tuple[tuple[_Mark, _Mark], ...], msgspec.Meta(max_length=MAX_MARKS)] = ()
    hint: _Label = ""


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """The element that began last ends."""


class Spot(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """The place of a picture: the drawn one with that `index`, or with -1 what is `said` of one that is not shown."""

    index: Annotated[int, msgspec.Meta(ge=-1, lt=MAX_PAGE_PICTURES)] = -1
    width: _Count = 0
    height: _Count = 0
    alt: _Label = ""
    said: _Label = ""


class HtmlView(msgspec.Struct, frozen=True, tag="htmlView"):
    """The HTML of a message as pieces that cannot act: texts, elements and places of pictures, which are PNG. It is no
    markup, so that whoever writes the page writes all of its markup."""

    pieces: Annotated[tuple[_Piece | Opened | Ended | Spot, ...], msgspec.Meta(max_length=MAX_PIECES)] = ()
    pictures: Annotated[
        tuple[Annotated[bytes, msgspec.Meta(max_length=MAX_PNG)], ...], msgspec.Meta(max_length=MAX_PAGE_PICTURES)
    ] = ()
    left_out: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_NOTES)] = ()


_PAGE_STYLE = (
    "html{background:#fff;color:#000;color-scheme:light}body{margin:8px;font:16px/1.4 system-ui,sans-serif;"
    "overflow-wrap:anywhere}.link{color:#0000ee;text-decoration:underline;cursor:help}.push,.field,.spot"
    "{display:inline-block;border:1px solid #777;padding:2px 8px;max-width:100%;box-sizing:border-box}"
    ".push{background:#eee;border-radius:3px}.field{min-width:10em;min-height:1.5em;color:#555}"
    ".spot{border:1px dashed #999;color:#555;background:#f4f4f4;font:12px system-ui,sans-serif;overflow:hidden}"
    "img{max-width:100%}table{max-width:100%}"
)


def write_page(view: HtmlView, title: str) -> str:
    """Return a document of the pieces. Every tag, attribute and style in it is written here: names are from the sets
    above, texts are escaped, and the pictures are in it, so that it asks for nothing."""
    head = f'<head><meta charset="utf-8"><title>{escape(title)}</title><style>{_PAGE_STYLE}</style></head>'
    parts = [f'<!doctype html><html lang="en">{head}<body>']
    room, open_names = MAX_DOCUMENT, list[str]()
    for piece in view.pieces:
        if isinstance(piece, str):
            written = escape(_NOT_IN_HTML.sub("\ufffd", piece), quote=False)
        elif isinstance(piece, Spot):
            written = _write_spot(piece, view.pictures, room)
        elif isinstance(piece, Ended):
            written = f"</{open_names.pop()}>" if open_names else ""
        else:
            written = _write_start(piece)
            name = "span" if piece.name in _SPANS else piece.name
            if written and name not in _EMPTY:
                open_names.append(name)
        room -= len(written)
        if room < 0:
            break
        parts.append(written)
    parts += [f"</{name}>" for name in reversed(open_names)]
    return "".join(parts) + "</body></html>"


_NOT_IN_HTML = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def _write_start(piece: Opened) -> str:
    if piece.name not in PAGE_ELEMENTS:
        return "<span>"
    look = filter_look(piece.look)
    marks = "".join(f' {name}="{value}"' for name, value in piece.marks if name in PAGE_MARKS and _MARK.match(value))
    kind = f' class="{piece.name}"' if piece.name in _SPANS else ""
    style = f' style="{look}"' if look else ""
    hint = f' title="{escape(piece.hint)}"' if piece.hint else ""
    return f"<{'span' if kind else piece.name}{kind}{marks}{style}{hint}>"


def _write_spot(spot: Spot, pictures: tuple[bytes, ...], room: int) -> str:
    size = "".join(f' {name}="{number}"' for name, number in (("width", spot.width), ("height", spot.height)) if number)
    if 0 <= spot.index < len(pictures):
        packed = b64encode(pictures[spot.index]).decode()
        if len(packed) < room:
            return f'<img src="data:image/png;base64,{packed}" alt="{escape(spot.alt)}"{size}>'
    wide = (
        f' style="width:{min(spot.width, 2000)}px;height:{min(spot.height, 2000)}px;"'
        if spot.width * spot.height
        else ""
    )
    return f'<span class="spot" title="{escape(spot.said)}"{wide}>{escape(spot.alt or spot.said, quote=False)}</span>'
