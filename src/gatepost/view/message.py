"""Any bytes as a `View`: what the reader of the mail would see, and beside it what he would not.

The message is read by the same reader as everywhere (`mail`), so what is shown here is what was judged. No markup
passes: HTML has become text, links are strings, pictures are a list. Total, like the reader.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from gatepost.files.pictures import read_dimensions
from gatepost.kinds import TITLES
from gatepost.mail.message import Field, Link, Message, Part, Text
from gatepost.mail.reader import read
from gatepost.view import values
from gatepost.view.picture import pictures, refusal
from gatepost.view.values import Allowance, HeaderLine, LinkLine, PartLine, Passage, PictureLine, View

T = TypeVar("T")
S = TypeVar("S")

KNOWN_FIELDS = ("from", "sender", "reply-to", "to", "cc", "date", "subject", "message-id")
# Fetched without a click, or not at all: they come after what a person can follow.
_EMBEDDED = frozenset({"image", "css", "script"})


def view(raw: bytes) -> View:
    """A message to look at. Total: no input raises."""
    message = read(raw)
    left_out: list[str] = []
    return View(
        headers=_headers(message.headers.fields),
        fields=_fields(message.headers.fields, left_out),
        parts=_parts(message.parts, left_out),
        passages=_passages(message.texts, left_out),
        links=_links(message.links, left_out),
        pictures=_pictures(message, left_out),
        left_out=tuple(islice((*left_out, *_unread(message)), values.MAX_NOTES)),
    )


def _headers(fields: Iterable[Field]) -> tuple[HeaderLine, ...]:
    """The fields that people know, each as often as it is there: a second From is the whole trick."""
    allowance = Allowance(values.ALL_FIELDS)
    found = [field for name in KNOWN_FIELDS for field in fields if field.name == name]
    return tuple(_field(field, allowance) for field in found[: values.MAX_KNOWN_FIELDS])


def _fields(fields: Sequence[Field], left_out: list[str]) -> tuple[HeaderLine, ...]:
    return _listed(fields, _field, Allowance(values.ALL_FIELDS), values.MAX_FIELDS, "header fields", left_out)


def _field(field: Field, allowance: Allowance) -> HeaderLine:
    spelled = field.raw[: len(field.name)].decode("ascii", "replace") if field.name else ""
    return HeaderLine(allowance.line(spelled, values.MAX_NAME), allowance.line(field.value, values.MAX_VALUE))


def _parts(parts: Sequence[Part], left_out: list[str]) -> tuple[PartLine, ...]:
    return _listed(parts, _part, Allowance(values.ALL_PARTS), values.MAX_PARTS, "parts", left_out)


def _part(part: Part, allowance: Allowance) -> PartLine:
    place, beside, _ = part.path.partition("~")
    encoding = part.headers.first("content-transfer-encoding") or ""
    return PartLine(
        path=allowance.line(part.path, values.MAX_NAME),
        type=allowance.line(part.content_type, values.MAX_NAME),
        depth=place.count(".") + bool(beside),
        size=len(part.content),
        disposition=allowance.line(part.disposition, values.MAX_NAME),
        encoding=allowance.line(encoding.lower(), values.MAX_NAME),
        names=tuple(allowance.line(name, values.MAX_NAME) for name in part.names[: values.MAX_FILE_NAMES]),
    )


def _passages(texts: Sequence[Text], left_out: list[str]) -> tuple[Passage, ...]:
    """What shows first comes first; other readings and files must not use up the room of the message's own text."""
    visible, hidden = Allowance(values.ALL_VISIBLE), Allowance(values.ALL_HIDDEN)
    ordered = sorted(texts, key=lambda text: ("~" in text.where, text.attached))
    found = tuple(_passage(text, visible, hidden) for text in ordered[: values.MAX_PASSAGES])
    if len(texts) > len(found):
        left_out.append(f"{len(texts) - len(found):,} more texts")
    if missing := sum(passage.more + passage.more_hidden for passage in found):
        left_out.append(f"{missing:,} more characters of text")
    return found


def _passage(text: Text, visible: Allowance, hidden: Allowance) -> Passage:
    where = Allowance(values.MAX_NAME).line(text.where, values.MAX_NAME)
    seen, more = visible.block(text.visible)
    unseen, more_hidden = hidden.block(text.hidden)
    return Passage(where, text.form, seen, unseen, text.attached, more, more_hidden)


def _links(links: Sequence[Link], left_out: list[str]) -> tuple[LinkLine, ...]:
    ordered = sorted(links, key=lambda link: link.source in _EMBEDDED)
    return _listed(ordered, _link, Allowance(values.ALL_LINKS), values.MAX_LINKS, "links", left_out)


def _link(link: Link, allowance: Allowance) -> LinkLine:
    return LinkLine(
        shown=allowance.line(" ".join(link.shown.split()), values.MAX_LABEL),
        target=allowance.line(link.url or link.target, values.MAX_TARGET),
        host=allowance.line(link.host, values.MAX_LABEL),
        where=allowance.line(link.where, values.MAX_NAME),
        source=link.source,
        hidden=link.hidden,
        wrapped=allowance.line(", ".join(link.wrapped), values.MAX_LABEL),
    )


def _pictures(message: Message, left_out: list[str]) -> tuple[PictureLine, ...]:
    found = list(pictures(message))
    allowance = Allowance(values.ALL_PICTURES)
    if len(found) > values.MAX_PICTURES:
        left_out.append(f"{len(found) - values.MAX_PICTURES:,} more pictures")
    return tuple(
        _picture(index, part, kind, allowance) for index, (part, kind) in enumerate(found[: values.MAX_PICTURES])
    )


def _picture(index: int, part: Part, kind: str, allowance: Allowance) -> PictureLine:
    width, height = read_dimensions(part.content, kind)
    return PictureLine(
        index=index,
        where=allowance.line(part.path, values.MAX_NAME),
        name=allowance.line(part.names[0] if part.names else "", values.MAX_NAME),
        type=kind,
        size=len(part.content),
        width=width,
        height=height,
        refusal=refusal(part.content, kind),
    )


def _listed(
    things: Sequence[T],
    shown_as: Callable[[T, Allowance], S],
    allowance: Allowance,
    most: int,
    what: str,
    left_out: list[str],
) -> tuple[S, ...]:
    found = tuple(shown_as(thing, allowance) for thing in things[:most] if allowance.another())
    if missing := len(things) - len(found):
        left_out.append(f"{missing:,} more {what}")
    return found


def _unread(message: Message) -> Iterator[str]:
    """What the reader itself had no budget for."""
    kinds = dict.fromkeys(defect.kind for defect in message.defects if defect.kind.startswith("limit:"))
    return (TITLES.get(kind, kind)[: values.MAX_NAME] for kind in kinds)
