"""Any bytes as a `View`: what the reader of the mail would see, and beside it what he would not.

The message is read by the same reader as everywhere (`mail`), so the view shows what was judged. No markup passes: HTML
has become text, links are strings, pictures are a list.

One picture of the message is drawn anew on request: decoded, pasted on white, made small enough, written as PNG. No
byte of the original reaches the person who looks at it, no colour profile, no comment, no data after the end; a file
that is a picture and a page at once is only a picture afterwards. The claimed size is checked before anything is
decoded.

The HTML part is not cleaned, it is written anew. The tree that lexbor makes of it is walked once, and of what is known
to be harmless (text, tables, colours, sizes) pieces are made (`values.HtmlView`). What is not known leaves no trace but
its text: scripts, styles with addresses, forms, frames, drawings. So no trick of a parser that reads the same text in
two ways (mutation XSS) matters: no markup of the message passes, and the page is made of pieces by another process.

A link is its text with the target beside it. A picture that came with the message is drawn anew; one from elsewhere is
an empty place that names its host. What a style hides from the reader is left out, by the same rules that the analysis
has for hidden text; style sheets are applied as far as those rules read them (selectors of one element, class or id).
"""

import re
import warnings
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from math import sqrt
from typing import Any, TypeVar

from PIL import Image
from selectolax.lexbor import LexborHTMLParser, LexborNode

from gatepost.files.file_types import identify
from gatepost.files.pictures import is_image_type, is_too_large, open_image, read_dimensions
from gatepost.findings.kinds import TITLES
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.html.limits import limit_html
from gatepost.mail.html.style import Appearance, StyleSheets, parse_style, unescape_css
from gatepost.mail.links import parse_url
from gatepost.mail.message import Field, Link, Message, Part, Text
from gatepost.mail.reader import read
from gatepost.view import values
from gatepost.view.values import (
    MAX_PICTURES,
    MAX_PNG,
    Ended,
    HeaderLine,
    HtmlView,
    LinkLine,
    NotShown,
    Opened,
    PartLine,
    Passage,
    Picture,
    PictureLine,
    Spot,
    TextBudget,
    View,
    filter_look,
)

T = TypeVar("T")
S = TypeVar("S")

KNOWN_FIELDS = ("from", "sender", "reply-to", "to", "cc", "date", "subject", "message-id")
# Fetched without a click, or not at all: they come after what a person can follow.
_EMBEDDED = frozenset({"image", "css", "script"})


def build_view(raw: bytes) -> View:
    """Read a message and return its view. It takes any bytes."""
    message = read(raw)
    left_out: list[str] = []
    # What the reader itself had no budget for.
    unread = dict.fromkeys(defect.kind for defect in message.defects if defect.kind.startswith("limit:"))
    unread_titles = (TITLES.get(kind, kind)[: values.MAX_NAME] for kind in unread)
    links = sorted(message.links, key=lambda link: link.source in _EMBEDDED)
    return View(
        headers=_list_known_fields(message.headers.fields),
        fields=_list_within(
            message.headers.fields, _show_field, values.ALL_FIELDS, values.MAX_FIELDS, "header fields", left_out
        ),
        parts=_list_within(message.parts, _show_part, values.ALL_PARTS, values.MAX_PARTS, "parts", left_out),
        passages=_list_passages(message.texts, left_out),
        links=_list_within(links, _show_link, values.ALL_LINKS, values.MAX_LINKS, "links", left_out),
        pictures=_list_pictures(message, left_out),
        pages=len(find_html(message)),
        left_out=tuple(islice((*left_out, *unread_titles), values.MAX_NOTES)),
    )


def find_html(message: Message) -> tuple[Part, ...]:
    """Return the parts that a mail program shows as HTML, without other readings of their bytes and without files."""
    shown = {
        text.where for text in message.texts if text.form == "html" and not text.attached and "~" not in text.where
    }
    return tuple(part for part in message.parts if part.path in shown)[: values.MAX_PAGES]


def _list_known_fields(fields: Iterable[Field]) -> tuple[HeaderLine, ...]:
    """Return the fields that people know, each as often as it is there: a second From is the whole trick."""
    budget = TextBudget(values.ALL_FIELDS)
    found = [field for name in KNOWN_FIELDS for field in fields if field.name == name]
    return tuple(_show_field(field, budget) for field in found[: values.MAX_KNOWN_FIELDS])


def _show_field(field: Field, budget: TextBudget) -> HeaderLine:
    spelled = field.raw[: len(field.name)].decode("ascii", "replace") if field.name else ""
    return HeaderLine(budget.line(spelled, values.MAX_NAME), budget.line(field.value, values.MAX_VALUE))


def _show_part(part: Part, budget: TextBudget) -> PartLine:
    place, beside, _ = part.path.partition("~")
    encoding = part.headers.first("content-transfer-encoding") or ""
    return PartLine(
        path=budget.line(part.path, values.MAX_NAME),
        type=budget.line(part.content_type, values.MAX_NAME),
        depth=place.count(".") + bool(beside),
        size=len(part.content),
        disposition=budget.line(part.disposition, values.MAX_NAME),
        encoding=budget.line(encoding.lower(), values.MAX_NAME),
        names=tuple(budget.line(name, values.MAX_NAME) for name in part.names[: values.MAX_FILE_NAMES]),
    )


def _list_passages(texts: Sequence[Text], left_out: list[str]) -> tuple[Passage, ...]:
    """Return the texts, visible ones first: other readings and files must not use up the room of the message's own
    text."""
    visible, hidden = TextBudget(values.ALL_VISIBLE), TextBudget(values.ALL_HIDDEN)
    ordered = sorted(texts, key=lambda text: ("~" in text.where, text.attached))
    found = tuple(_show_passage(text, visible, hidden) for text in ordered[: values.MAX_PASSAGES])
    if len(texts) > len(found):
        left_out.append(f"{len(texts) - len(found):,} more texts")
    if missing := sum(passage.more + passage.more_hidden for passage in found):
        left_out.append(f"{missing:,} more characters of text")
    return found


def _show_passage(text: Text, visible: TextBudget, hidden: TextBudget) -> Passage:
    where = TextBudget(values.MAX_NAME).line(text.where, values.MAX_NAME)
    seen, more = visible.block(text.visible)
    unseen, more_hidden = hidden.block(text.hidden)
    return Passage(where, "html" if text.form == "html" else "plain", seen, unseen, text.attached, more, more_hidden)


def _show_link(link: Link, budget: TextBudget) -> LinkLine:
    return LinkLine(
        shown=budget.line(" ".join(link.shown.split()), values.MAX_LABEL),
        target=budget.line(link.url or link.target, values.MAX_TARGET),
        host=budget.line(link.host, values.MAX_LABEL),
        where=budget.line(link.where, values.MAX_NAME),
        source=link.source,
        hidden=link.hidden,
        wrapped=budget.line(", ".join(link.wrapped), values.MAX_LABEL),
    )


def _list_pictures(message: Message, left_out: list[str]) -> tuple[PictureLine, ...]:
    found = list(find_pictures(message))
    budget = TextBudget(values.ALL_PICTURES)
    if len(found) > values.MAX_PICTURES:
        left_out.append(f"{len(found) - values.MAX_PICTURES:,} more pictures")
    return tuple(
        _show_picture(index, part, kind, budget) for index, (part, kind) in enumerate(found[: values.MAX_PICTURES])
    )


def _show_picture(index: int, part: Part, kind: str, budget: TextBudget) -> PictureLine:
    width, height = read_dimensions(part.content, kind)
    return PictureLine(
        index=index,
        where=budget.line(part.path, values.MAX_NAME),
        name=budget.line(part.names[0] if part.names else "", values.MAX_NAME),
        type=kind,
        size=len(part.content),
        width=width,
        height=height,
        refusal=find_refusal(part.content, kind),
    )


def _list_within(
    things: Sequence[T], show: Callable[[T, TextBudget], S], chars: int, most: int, what: str, left_out: list[str]
) -> tuple[S, ...]:
    """Show at most so many things, of so many characters in all; say how many were left out."""
    budget = TextBudget(chars)
    found = tuple(show(thing, budget) for thing in things[:most] if budget.has_room)
    if missing := len(things) - len(found):
        left_out.append(f"{missing:,} more {what}")
    return found


# At three bytes each the PNG stays below its most, whatever the picture shows.
MAX_SHOWN_PIXELS = 1_000_000
MAX_SHOWN_SIDE = 8_000
UNKNOWN = "not a kind of picture that can be shown"
TOO_LARGE = "more pixels than are decoded"


def find_pictures(message: Message) -> Iterator[tuple[Part, str]]:
    """Yield every part that is a picture or says so, with what it is; the same bytes once."""
    seen: set[bytes] = set()
    for part in message.files:
        kind = identify(part.content)
        if (is_image_type(kind) or part.content_type.startswith("image/")) and part.content not in seen:
            seen.add(part.content)
            yield part, kind


def find_refusal(content: bytes, kind: str) -> str:
    """Return why a picture is not shown; "" if it is."""
    if not is_image_type(kind):
        return UNKNOWN
    return TOO_LARGE if is_too_large(content, kind) else ""


def draw_picture(raw: bytes, index: int) -> Picture | NotShown:
    """Return the picture with this index in the view of the same message, drawn anew. It takes any bytes."""
    listed = islice(find_pictures(read(raw)), MAX_PICTURES)
    found = next(islice(listed, index, None), None) if index >= 0 else None
    if found is None:
        return NotShown("there is no such picture")
    return draw_anew(*found)


def draw_anew(part: Part, kind: str, pixels: int = MAX_SHOWN_PIXELS) -> Picture | NotShown:
    """Return one picture drawn anew, of at most so many pixels."""
    if reason := find_refusal(part.content, kind):
        return NotShown(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _redraw(part.content, kind, pixels)
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  a decoder may stumble over a broken picture in any way it likes
            return NotShown(f"the picture is broken ({type(fault).__name__})")


def _redraw(content: bytes, kind: str, pixels: int) -> Picture | NotShown:
    with open_image(content, kind) as image:
        size = image.size
        # What the decoder reads may be larger than what the header said to us.
        if is_too_large(content, kind, size):
            return NotShown(TOO_LARGE)
        if kind == "jpeg":
            image.draft("RGB", _compute_target_size(size, pixels))
        is_moving = bool(getattr(image, "is_animated", False))
        paper = _paste_on_white(image, pixels)
        # A new picture of nothing but pixels: what Pillow knows of the old one, it would write into the new.
        bare = Image.frombytes("RGB", paper.size, paper.tobytes())
    packed = BytesIO()
    bare.save(packed, "PNG", compress_level=3)
    png = packed.getvalue()
    if len(png) > MAX_PNG:
        return NotShown("the picture is too large")
    return Picture(png, *bare.size, reduced=bare.size != size, moving=is_moving)


def _paste_on_white(image: Image.Image, pixels: int) -> Image.Image:
    """Return the picture on white, not larger than is shown."""
    if "A" in image.getbands() or "transparency" in image.info:
        full = _reduce(image.convert("RGBA"), pixels)
        paper = Image.new("RGB", full.size, "white")
        paper.paste(full, mask=full.getchannel("A"))
        return paper
    return _reduce(image if image.mode == "RGB" else image.convert("RGB"), pixels)


def _reduce(image: Image.Image, pixels: int) -> Image.Image:
    goal = _compute_target_size(image.size, pixels)
    return image if goal == image.size else image.resize(goal, Image.Resampling.BOX)


def _compute_target_size(size: tuple[int, int], pixels: int) -> tuple[int, int]:
    width, height = size
    factor = max(sqrt(width * height / pixels), max(size) / MAX_SHOWN_SIDE, 1.0)
    return max(1, min(width, int(width / factor))), max(1, min(height, int(height / factor)))


MAX_HTML = 1_000_000
MAX_TAGS = 15_000
MAX_NODES = 60_000
MAX_DEPTH = 120
PICTURE_PIXELS = 300_000
# Pixels that are decoded for one page, however small they are drawn.
DECODED_PIXELS = 40_000_000
NO_PARTS = "the message has no HTML part"

_RENAMED = {
    **dict.fromkeys("article aside body details dir figure footer form header main menu nav section".split(), "div"),
    **dict.fromkeys(
        "figcaption summary label cite dfn kbd samp tt var mark ins acronym abbr bdi time nobr".split(), "span"
    ),
    "strike": "s",
    "del": "s",
    "listing": "pre",
    "xmp": "pre",
    "button": "push",
    "a": "link",
    "area": "link",
}
# Nothing inside these is text that a mail program shows.
_UNREAD = frozenset(
    "script style title head template noframes noembed object applet audio video canvas datalist map".split()
)
_PLACES = {
    "iframe": "a frame",
    "frame": "a frame",
    "embed": "an embedded file",
    "svg": "a drawing",
    "math": "a formula",
}
_SENT = {"submit": "Submit", "button": "", "reset": "Reset", "image": "Submit"}
_NUMBER = re.compile(r"\s{0,9}(\d{1,4})(?:px)?\s{0,9}\Z")
_DATA = re.compile(r"data:image/[\w.+-]{1,20};base64,", re.IGNORECASE)
_BLANKS = re.compile(r"[\t\n\f\r ]+")

Attributes = dict[str, str | None]


def build_page(raw: bytes) -> HtmlView | NotShown:
    """Read a message and return its HTML as pieces. It takes any bytes."""
    message = read(raw)
    parts = find_html(message)
    if not parts:
        return NotShown(NO_PARTS)
    page = _Page(message)
    for number, part in enumerate(parts):
        if number:
            page.add(Opened("hr"))
        page.read(decode_charset(part.content[:MAX_HTML], part.charset)[0])
        if len(part.content) > MAX_HTML:
            page.note("the rest of a long HTML part")
    return HtmlView(tuple(page.pieces), tuple(page.pictures.drawn), tuple(page.left_out)[: values.MAX_NOTES])


class _Pictures:
    """The pictures of a message by their names (RFC 2392), drawn as they are met, within a budget."""

    def __init__(self, message: Message) -> None:
        self.drawn: list[bytes] = []
        self._named = {
            name.strip().strip("<>"): part for part in message.files if (name := part.headers.first("content-id"))
        }
        self._known: dict[str, int] = {}
        self._bytes, self._pixels = values.ALL_PAGE_PICTURES, DECODED_PIXELS

    def find(self, source: str) -> int:
        """Return the index of a picture that came with the message; -1 for one that cannot be shown."""
        key = source[:200] + str(len(source)) if len(source) > 200 else source
        if key not in self._known:
            self._known[key] = self._draw(source)
        return self._known[key]

    def _draw(self, source: str) -> int:
        part = self._open(source)
        if part is None or len(self.drawn) >= values.MAX_PAGE_PICTURES:
            return -1
        kind = identify(part.content)
        width, height = read_dimensions(part.content, kind)
        self._pixels -= max(1, width * height)
        drawn = draw_anew(part, kind, PICTURE_PIXELS) if self._pixels > 0 else NotShown("")
        if not isinstance(drawn, Picture) or len(drawn.png) > self._bytes:
            return -1
        self._bytes -= len(drawn.png)
        self.drawn.append(drawn.png)
        return len(self.drawn) - 1

    def _open(self, source: str) -> Part | None:
        if source[:4].lower() == "cid:":
            return self._named.get(source[4:].strip())
        if found := _DATA.match(source):
            try:
                return Part("data", content=b64decode(source[found.end() :]))
            except (Base64Error, ValueError):
                return None
        return None


class _Page:
    """The pieces so far. An element that is not written as one is `None` on the way back up."""

    def __init__(self, message: Message) -> None:
        self.pieces: list[Any] = []
        self.left_out: dict[str, None] = {}
        self.pictures = _Pictures(message)
        self._text, self._looks = values.ALL_PAGE, values.ALL_LOOKS
        self._labels = TextBudget(values.ALL_LINKS)
        self._nodes = 0
        self._depth = 0
        self._sheet = StyleSheets(keeps_all=True)
        self._appearance = Appearance()

    def note(self, what: str) -> None:
        """Say once that something is not on the page."""
        self.left_out[what] = None

    def add(self, piece: str | Opened | Ended | Spot) -> bool:
        """Add a piece where there is room; each element that begins keeps a place for its end."""
        if len(self.pieces) + self._depth >= values.MAX_PIECES - 10 and not isinstance(piece, Ended):
            self.note("the rest of a large page")
            return False
        self.pieces.append(piece)
        return True

    def read(self, html: str) -> None:
        """Add one document."""
        parser = LexborHTMLParser(limit_html(html, MAX_TAGS, is_strict=True).html)
        self._sheet = StyleSheets(keeps_all=True)
        self._appearance = Appearance()
        for node in parser.tags("style"):
            self._sheet.read(node.text())
        if parser.body is not None:
            self._walk(parser.body)

    def _walk(self, root: LexborNode) -> None:
        """Walk the tree below an element without recursion: nesting is the sender's to choose."""
        node: LexborNode | None = root
        above: list[tuple[LexborNode, bool, Appearance]] = []
        while node is not None and self._nodes < MAX_NODES:
            self._nodes += 1
            before, opened, enters = self._appearance, False, False
            if node.tag == "-text":
                self._add_text(node.text_content or "")
            elif node.tag and not node.tag.startswith("-"):
                opened, enters = self._enter(node.tag, node)
            child = node.first_child if enters else None
            if child is not None:
                above.append((node, opened, before))
                node = child
                continue
            self._leave(opened, before)
            following = None if node is root else node.next
            while following is None and above:
                node, opened, before = above.pop()
                self._leave(opened, before)
                following = None if node is root else node.next
            node = following
        if node is not None:
            self.note("the rest of a large page")
        while above:
            _, opened, before = above.pop()
            self._leave(opened, before)

    def _leave(self, opened: bool, before: Appearance) -> None:
        self._appearance = before
        if opened:
            self._depth -= 1
            self.add(Ended())

    def _add_text(self, text: str) -> None:
        # What has the colour of its background is there for who selects it, and looks here as it did there.
        if self._appearance.unseen not in ("", "colour"):
            if text.strip():
                self.note("text that the reader could not see")
            return
        kept = text[: max(0, self._text)]
        self._text -= len(kept)
        if len(kept) < len(text):
            self.note("the rest of a long text")
        if kept:
            self.add(kept)

    def _enter(self, tag: str, node: LexborNode) -> tuple[bool, bool]:
        """Read one element; return whether it was written as one, and whether what is in it is read."""
        if tag in _UNREAD:
            return False, False
        attributes = node.attributes
        sheet = self._sheet
        classes, identity = (attributes.get("class") or "").lower(), (attributes.get("id") or "").lower()
        declared = sheet.find_declarations(tag, classes, identity) if sheet.rules else ""
        look = unescape_css(f"{declared};{(attributes.get('style') or '')[:4_000]}")
        own = parse_style(look)
        if own.hides or "hidden" in attributes:
            self.note("text that the reader could not see")
            return False, False
        self._appearance = self._appearance.with_style(own)
        if tag == "img" or tag in _PLACES:
            self._add_place(tag, attributes)
            return False, False
        if tag in ("input", "select", "textarea"):
            self._add_control(tag, attributes, node)
            return False, False
        name = _RENAMED.get(tag, tag)
        if name not in values.PAGE_ELEMENTS or tag in ("link", "push", "field"):
            return False, True
        return self._open(name, look, attributes)

    def _open(self, name: str, look: str, attributes: Attributes) -> tuple[bool, bool]:
        kept = filter_look(look)
        self._looks -= len(kept)
        target = (attributes.get("href") or "").strip() if name == "link" else ""
        if name == "link" and not target:
            name = "span"
        marks = tuple(
            (mark, value.strip()[:80])
            for mark, value in attributes.items()
            if value and mark in values.PAGE_MARKS and name not in ("link", "push")
        )[: values.MAX_MARKS]
        hint = self._labels.line(f"Leads to {parse_url(target).href or target}", values.MAX_LABEL) if target else ""
        is_void = name in ("br", "hr", "col")
        if not is_void and self._depth >= MAX_DEPTH:
            return False, True
        if not self.add(Opened(name, kept if self._looks > 0 else "", marks, hint)) or is_void:
            return False, True
        self._depth += 1
        return True, True

    def _add_place(self, tag: str, attributes: Attributes) -> None:
        if tag != "img":
            self.add(Spot(said=f"Here is {_PLACES[tag]}, which is not shown"))
            return
        source = (attributes.get("src") or "").strip()
        width, height = (_read_number(attributes.get(name)) for name in ("width", "height"))
        alt = self._labels.line(_BLANKS.sub(" ", attributes.get("alt") or ""), values.MAX_LABEL)
        index = self.pictures.find(source)
        if index >= 0:
            self.add(Spot(index, width, height, alt))
        elif source[:4].lower() == "cid:" or source[:5].lower() == "data:":
            self.add(Spot(-1, width, height, alt, "A picture of the message that cannot be shown"))
        elif 0 < width <= 2 or 0 < height <= 2:
            self.note("dots from elsewhere that count readers")
        else:
            host = self._labels.line(parse_url(source).host or "elsewhere", values.MAX_LABEL)
            self.note("pictures from elsewhere")
            self.add(Spot(-1, width, height, alt, f"A picture from {host[:200]}, which is not loaded"))

    def _add_control(self, tag: str, attributes: Attributes, node: LexborNode) -> None:
        kind = (attributes.get("type") or "text").strip().lower()
        if tag == "input" and kind == "hidden":
            return
        if tag == "input" and kind in ("checkbox", "radio"):
            self._add_text("☐ " if kind == "checkbox" else "○ ")
            return
        if tag == "select":
            option = node.css_first("option")
            said = option.text() if option else ""
        elif tag == "textarea":
            said = node.text() or attributes.get("placeholder") or ""
        else:
            said = attributes.get("value") or attributes.get("placeholder") or _SENT.get(kind, "")
            if kind == "password":
                said = attributes.get("placeholder") or "••••••"
        if self.add(Opened("push" if tag == "input" and kind in _SENT else "field")):
            self._add_text(_BLANKS.sub(" ", said)[:300])
            self.add(Ended())


def _read_number(text: str | None) -> int:
    found = _NUMBER.match(text or "")
    return min(2_000, int(found.group(1))) if found else 0
