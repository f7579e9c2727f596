"""Any bytes as a `View`: what the reader of the mail would see, and beside it what he would not.

The message is read by the same reader as everywhere (`mail`), so the view shows what was judged. No markup passes: HTML
has become text, links are strings, pictures are a list.

One picture of the message is drawn anew on request: decoded, pasted on white, made small enough, written as PNG. No
byte of the original reaches the person who looks at it, no colour profile, no comment, no data after the end; a file
that is a picture and a page at once is only a picture afterwards. The claimed size is checked before anything is
decoded.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from math import sqrt
from typing import TypeVar

from PIL import Image

from gatepost.files.file_types import identify
from gatepost.files.pictures import is_image_type, is_too_large, open_image, read_dimensions
from gatepost.findings.kinds import TITLES
from gatepost.mail.message import Field, Link, Message, Part, Text
from gatepost.mail.reader import read
from gatepost.view import values
from gatepost.view.values import (
    MAX_PICTURES,
    MAX_PNG,
    HeaderLine,
    LinkLine,
    NotShown,
    PartLine,
    Passage,
    Picture,
    PictureLine,
    TextBudget,
    View,
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
        left_out=tuple(islice((*left_out, *_list_unread(message)), values.MAX_NOTES)),
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
    things: Sequence[T],
    show: Callable[[T, TextBudget], S],
    chars: int,
    most: int,
    what: str,
    left_out: list[str],
) -> tuple[S, ...]:
    """Show at most so many things, of so many characters in all; say how many were left out."""
    budget = TextBudget(chars)
    found = tuple(show(thing, budget) for thing in things[:most] if budget.has_room)
    if missing := len(things) - len(found):
        left_out.append(f"{missing:,} more {what}")
    return found


def _list_unread(message: Message) -> Iterator[str]:
    """Return what the reader itself had no budget for."""
    kinds = dict.fromkeys(defect.kind for defect in message.defects if defect.kind.startswith("limit:"))
    return (TITLES.get(kind, kind)[: values.MAX_NAME] for kind in kinds)


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
