"""Any bytes as a `View`: what the reader of the mail would see, and beside it what he would not.

The message is read by the same reader as everywhere (`mail`), so the view shows what was judged. No markup passes: HTML
has become text, links are strings, pictures are a list.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from gatepost.files.pictures import read_dimensions
from gatepost.kinds import TITLES
from gatepost.mail.message import Field, Link, Message, Part, Text
from gatepost.mail.reader import read
from gatepost.view import values
from gatepost.view.picture import find_pictures, find_refusal
from gatepost.view.values import HeaderLine, LinkLine, PartLine, Passage, PictureLine, TextBudget, View

T = TypeVar("T")
S = TypeVar("S")

KNOWN_FIELDS = ("from", "sender", "reply-to", "to", "cc", "date", "subject", "message-id")
# Fetched without a click, or not at all: they come after what a person can follow.
_EMBEDDED = frozenset({"image", "css", "script"})


def build_view(raw: bytes) -> View:
    """Read a message and return its view. It takes any bytes."""
    message = read(raw)
    left_out: list[str] = []
    return View(
        headers=_list_known_fields(message.headers.fields),
        fields=_list_fields(message.headers.fields, left_out),
        parts=_list_parts(message.parts, left_out),
        passages=_list_passages(message.texts, left_out),
        links=_list_links(message.links, left_out),
        pictures=_list_pictures(message, left_out),
        left_out=tuple(islice((*left_out, *_list_unread(message)), values.MAX_NOTES)),
    )


def _list_known_fields(fields: Iterable[Field]) -> tuple[HeaderLine, ...]:
    """Return the fields that people know, each as often as it is there: a second From is the whole trick."""
    budget = TextBudget(values.ALL_FIELDS)
    found = [field for name in KNOWN_FIELDS for field in fields if field.name == name]
    return tuple(_show_field(field, budget) for field in found[: values.MAX_KNOWN_FIELDS])


def _list_fields(fields: Sequence[Field], left_out: list[str]) -> tuple[HeaderLine, ...]:
    return _list_within(
        fields, _show_field, TextBudget(values.ALL_FIELDS), values.MAX_FIELDS, "header fields", left_out
    )


def _show_field(field: Field, budget: TextBudget) -> HeaderLine:
    spelled = field.raw[: len(field.name)].decode("ascii", "replace") if field.name else ""
    return HeaderLine(budget.line(spelled, values.MAX_NAME), budget.line(field.value, values.MAX_VALUE))


def _list_parts(parts: Sequence[Part], left_out: list[str]) -> tuple[PartLine, ...]:
    return _list_within(parts, _show_part, TextBudget(values.ALL_PARTS), values.MAX_PARTS, "parts", left_out)


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


def _list_links(links: Sequence[Link], left_out: list[str]) -> tuple[LinkLine, ...]:
    ordered = sorted(links, key=lambda link: link.source in _EMBEDDED)
    return _list_within(ordered, _show_link, TextBudget(values.ALL_LINKS), values.MAX_LINKS, "links", left_out)


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
    budget: TextBudget,
    most: int,
    what: str,
    left_out: list[str],
) -> tuple[S, ...]:
    found = tuple(show(thing, budget) for thing in things[:most] if budget.has_room())
    if missing := len(things) - len(found):
        left_out.append(f"{missing:,} more {what}")
    return found


def _list_unread(message: Message) -> Iterator[str]:
    """Return what the reader itself had no budget for."""
    kinds = dict.fromkeys(defect.kind for defect in message.defects if defect.kind.startswith("limit:"))
    return (TITLES.get(kind, kind)[: values.MAX_NAME] for kind in kinds)
