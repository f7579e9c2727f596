"""HTML as a person sees it: one walk over lexbor's tree gives visible and hidden text, links, and active content.

The walk is iterative, because nesting is the attacker's to choose, and happens once. The appearance (colour, size,
hiding) is inherited on the way down; an element that says nothing about it costs nothing. `<!--[if mso]>` is a comment
to all programs but Outlook, so its content is read as a further document, as are `srcdoc`, `<template>` and
`data:text/html`.

`describe_hidden` decides how much hidden text is worth a finding. Newsletters open with a hidden preview line and hold
a second layout for telephones that repeats the first; both are ordinary. Filler for filters is long and says what the
visible text does not, so only words count that are hidden and nowhere visible. `remove_invisible` takes out characters
that have no width: inside a Latin word they only serve to break it up for filters.

A walk over the tree makes several Python objects for every node, and that was the largest part of reading a newsletter.
So ordinary pages are read in the text that lexbor writes out, by one native pass (`read_page` in `_speedups.c`). Its
own serialisation of its tree (HTML section 13.3) is made in one call: every element has its end tag, every attribute
stands in double quotes, and `<` and `>` occur only where a tag or a comment begins and ends. Of pages with what acts
(scripts, forms, frames) the tree is walked, as of those with foreign content (SVG, MathML), whose text says less.

The tables `ELEMENTS` and `ATTRIBUTES` say what single elements and attributes add to a page: links, forms, frames,
scripts, pictures. An attribute counts on any element: `<x href>` is a link in some program (VML buttons, SVG), and a
list of pairs would have holes.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser, LexborNode

from gatepost.findings import kinds
from gatepost.mail.html.active import HtmlNotes, has_hidden_handler, has_latent_script
from gatepost.mail.html.script import read_scripts
from gatepost.mail.html.style import (
    COLOUR_NAMES,
    PLAIN,
    REASONS,
    UNKNOWN,
    Appearance,
    PackedStyle,
    Style,
    StyleSheets,
    pack_style,
    parse_colour,
    parse_packed_style,
)
from gatepost.mail.links import MAX_SHOWN, NO_URL, Event, Links, Source, Url, decode_base64_text, parse_url
from gatepost.speedups import native

MAX_NESTED_CHARS = 500_000
MAX_CANDIDATES = 20
BREAK = "\x1e"

_REFRESH = re.compile(r"[\s\d.]{0,40}[;,]?\s{0,20}(?:url\s{0,9}=)?\s{0,9}[\"']?(.*)", re.IGNORECASE | re.DOTALL)
_DATA_PAGE = re.compile(
    r"data:\s?(?:text/html|image/svg\+xml|application/xhtml\+xml|text/xml)([^,]{0,100}),", re.IGNORECASE
)
_ORDINARY = frozenset({"", "http", "https", "mailto", "tel", "cid"})
_PICTURES = frozenset({"image", "css"})
_FRAMES = frozenset({"iframe", "frame", "embed", "object", "applet"})
_ANIMATIONS = frozenset({"animate", "set", "animateTransform", "animateMotion"})

Attributes = dict[str, str | None]
Closing = Callable[[], None]


def join_chunks(chunks: list[str]) -> str:
    """Join pieces of text as a page shows them: runs of blanks are one, blocks stand on their own lines."""
    if native:
        joined: str = native.squeeze("".join(chunks), True)
        return joined
    return "\n".join([" ".join(words) for line in "".join(chunks).split(BREAK) if (words := line.split())])


class PageBuilder:
    """The content of one document so far. `visible` and `hidden` are pieces of text, `loose` those outside links,
    `unseen` counts hidden characters by reason, `nested` are documents inside this one."""

    def __init__(self, where: str, links: Links, notes: HtmlNotes) -> None:
        self.visible: list[str] = []
        self.hidden: list[str] = []
        self.loose: list[str] = []
        self.unseen: Counter[str] = Counter()
        self.nested: list[str] = []
        self.is_whole = True
        self.notes = notes
        self.appearance = Appearance()
        self.base: Url = NO_URL
        self.alt = ""
        self.vectors = 0
        self.anchors = 0
        self._nested_chars = 0
        self._links = links
        self._where = where

    def add_text(self, text: str) -> None:
        """Add a piece of text, visible or hidden by the current appearance."""
        appearance = self.appearance
        if not appearance.unseen:
            if appearance.reversed:
                self.notes.note(kinds.TEXT_BIDI_OVERRIDE, "style")
                text = text[::-1]
            self.visible.append(text)
            if not self.anchors and ("." in text or ":" in text):
                self.loose.append(text)
        elif text.strip():
            self.hidden.append(text)
            self.unseen[appearance.unseen] += len(text)

    def add_document(self, html: str) -> None:
        """Add a document inside this one, to be read after it."""
        if self._nested_chars + len(html) <= MAX_NESTED_CHARS:
            self._nested_chars += len(html)
            self.nested.append(html)
        else:
            self.is_whole = False

    def add_css(self, text: str) -> None:
        for target in self.notes.note_css(text):
            self.add_link(target, "css")

    def add_link(self, target: str, source: Source, shown: str = "") -> None:
        hidden = bool(self.appearance.unseen)
        url = self._links.add(target, self._where, source, shown=shown, base=self.base, hidden=hidden)
        if url.scheme in _ORDINARY:
            return
        if source not in _PICTURES or url.scheme not in {"data", "blob"}:
            self.notes.note_link(url.scheme, target, in_svg=self.vectors > 0)
            if url.scheme == "javascript":
                self.add_script(unquote(target.partition(":")[2]))
        if source != "css" and (match := _DATA_PAGE.match(target)):
            html = _decode_data_page(target[match.end() :], match.group(1))
            if source not in _PICTURES and "<script" in html.lower():
                self.notes.note(kinds.HTML_WEBMAIL_ATTACK, target)
            self.add_document(html)

    def add_script(self, source: str) -> None:
        """Add where a script leads, and the pages that it writes."""
        self.notes.note_code(source)
        found = read_scripts(source, self.notes.scripts)
        for target in found.navigations:
            self.add_link(target, "refresh")
        for target in found.addresses:
            self.add_link(target, "script")
        for html in found.pages:
            self.add_document(html)

    def add_handler(self, name: str, source: str) -> None:
        """Add an event handler attribute."""
        self.notes.note_handler(name, source, in_svg=self.vectors > 0)
        self.add_script(source)

    def open_anchor(self, target: str) -> Closing | None:
        """Begin a link whose text comes after it; return what to call at its end, None where it leads nowhere."""
        if target.lstrip()[:1] in {"", "#"}:
            return None
        start = len(self.visible)
        self.alt = ""
        self.anchors += 1

        def closing() -> None:
            self.anchors -= 1
            self.add_link(target, "html", join_chunks(self.visible[start:])[:MAX_SHOWN] or self.alt)

        return closing


def _decode_data_page(text: str, parameters: str) -> str:
    text = unquote(text[:MAX_NESTED_CHARS])
    return decode_base64_text(text) if "base64" in parameters.lower() else text


def _read_href(page: PageBuilder, tag: str, value: str, attributes: Attributes) -> Closing | None:
    if tag == "base":
        if page.base is NO_URL and (base := parse_url(value)) is not NO_URL:
            page.base = base
            page.notes.note(kinds.HTML_BASE, value)
    elif tag == "link":
        page.add_link(value, "css")
        if "import" in (attributes.get("rel") or "").lower():
            page.notes.note(kinds.HTML_FRAME, value)
            page.notes.note(kinds.HTML_WEBMAIL_ATTACK, f"import {value}")
    elif tag in {"image", "use", "feImage"}:
        page.add_link(value, "image")
    elif tag == "area":
        page.add_link(value, "html", attributes.get("alt") or "")
    else:
        return page.open_anchor(value)
    return None


def _read_source(page: PageBuilder, tag: str, value: str, _: Attributes) -> None:
    if value:
        page.add_link(value, "script" if tag == "script" else "html" if tag in _FRAMES else "image")


def _read_srcset(page: PageBuilder, _tag: str, value: str, _: Attributes) -> None:
    for candidate in value.split(",", MAX_CANDIDATES)[:MAX_CANDIDATES]:
        if words := candidate.split(None, 1):
            page.add_link(words[0], "image")


def _read_action(page: PageBuilder, _tag: str, value: str, _: Attributes) -> None:
    if value.strip():
        page.add_link(value, "form")


def _read_content(page: PageBuilder, _tag: str, value: str, attributes: Attributes) -> None:
    if (attributes.get("http-equiv") or "").strip().lower() != "refresh":
        return
    if (match := _REFRESH.match(value)) and (target := match.group(1).rstrip("\"' ")):
        page.notes.note(kinds.HTML_META_REFRESH, target)
        page.add_link(target, "refresh")


def _read_animation(page: PageBuilder, tag: str, value: str, _: Attributes) -> None:
    """`<animate attributeName=href values="javascript:…">` writes a link while the page is shown."""
    if tag in _ANIMATIONS:
        for text in value.split(";", MAX_CANDIDATES)[:MAX_CANDIDATES]:
            if ":" in text:
                page.add_link(text, "html")


def _read_script(page: PageBuilder, attributes: Attributes, node: LexborNode) -> None:
    inside = node.text()
    kind = attributes.get("type") or ""
    page.notes.note_script(kind, attributes.get("src") or inside.strip(), in_svg=page.vectors > 0)
    if "json" not in kind.lower():
        page.add_script(inside)


def _read_picture(page: PageBuilder, attributes: Attributes, _: LexborNode) -> None:
    page.alt = page.alt or attributes.get("alt") or ""


def _read_input(page: PageBuilder, attributes: Attributes, _: LexborNode) -> None:
    kind = (attributes.get("type") or "").strip().lower()
    if kind == "password":
        page.notes.note(kinds.HTML_PASSWORD_FIELD, attributes.get("name") or "")
    elif kind in {"submit", "button", "reset"}:
        page.add_text(attributes.get("value") or "")


def _read_frame(page: PageBuilder, attributes: Attributes, _: LexborNode) -> None:
    page.notes.note(kinds.HTML_FRAME, attributes.get("src") or "")


def _read_object(page: PageBuilder, attributes: Attributes, _: LexborNode) -> None:
    page.notes.note(kinds.HTML_OBJECT, attributes.get("data") or attributes.get("src") or "")


def _enter_svg(page: PageBuilder, _: Attributes, __: LexborNode) -> Closing:
    page.vectors += 1

    def closing() -> None:
        page.vectors -= 1

    return closing


def _read_template(page: PageBuilder, _: Attributes, node: LexborNode) -> None:
    html = node.html or ""
    page.add_document(html[html.find(">") + 1 :].removesuffix("</template>"))


Element = Callable[[PageBuilder, Attributes, LexborNode], Closing | None]
ELEMENTS: dict[str, Element] = {
    "script": _read_script,
    "img": _read_picture,
    "input": _read_input,
    "form": lambda page, given, _: page.notes.note(kinds.HTML_FORM, f"action={given.get('action') or ''}"),
    **dict.fromkeys(("iframe", "frame"), _read_frame),
    **dict.fromkeys(("object", "embed", "applet"), _read_object),
    "svg": _enter_svg,
    "template": _read_template,
}
ATTRIBUTES: dict[str, Callable[[PageBuilder, str, str, Attributes], Closing | None]] = {
    **dict.fromkeys(("href", "xlink:href"), _read_href),
    "srcset": _read_srcset,
    **dict.fromkeys(("action", "formaction"), _read_action),
    "content": _read_content,
    **dict.fromkeys(("values", "to", "from"), _read_animation),
    "srcdoc": lambda page, _tag, value, _: page.add_document(value),
    **dict.fromkeys("src lowsrc dynsrc poster background data code codebase".split(), _read_source),
}


# Elements that the serialisation gives no end tag.
VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr".split()
)


def _is_reliable() -> bool:
    """Return whether this lexbor writes documents out as described above; old versions escaped less."""
    page = "<body><a b='<>\"'>" + "".join(f"<{name}>" for name in sorted(VOID - {"frame"}))
    written = LexborHTMLParser(page).html or ""
    return 'b="&lt;&gt;&quot;"' in written and not any(f"</{name}>" in written for name in VOID)


_IS_RELIABLE = _is_reliable()


MIN_CHARS = 400
MIN_SHARE = 0.15
MIN_BROKEN_WORDS = 5

_ZERO_WIDTH = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2060-\u2064\ufeff"
_INVISIBLE = re.compile(f"[{_ZERO_WIDTH}\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]+")
# What is ever used of them: looking for each is many times faster than for the class of all.
_COMMON = "\u00ad\u034f\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff\u202a\u202b\u202c\u202d\u202e"
_COMMON += "\u2066\u2067\u2068\u2069\u180e\u061c\u115f\u1160\u17b4\u17b5\U000e0001"
_OVERRIDES = frozenset("\u202d\u202e")


class VisibleText(msgspec.Struct, frozen=True):
    """Text without characters that do not show, the number of words they broke, and overridden direction."""

    text: str
    broken_words: int = 0
    is_overridden: bool = False


def describe_hidden(visible: str, hidden: str, reasons: Counter[str]) -> str:
    """Return how much is hidden, as the detail of a defect; "" where it is little or only repeats what shows."""
    if len(hidden) < MIN_CHARS:
        return ""
    shown = set(visible.split())
    chars = sum(len(word) + 1 for word in hidden.split() if word not in shown)
    share = chars / (chars + len(visible) or 1)
    if chars < MIN_CHARS or share < MIN_SHARE:
        return ""
    how = ",".join(reason for reason, _ in reasons.most_common(4))
    return f"chars={chars} share={share:.2f} how={how}"


def remove_invisible(text: str) -> VisibleText:
    """Return the text without the characters that do not show, and what they did to it.

    Inside a Latin word they only serve to break it up for filters; a few come from hyphenation. A direction override
    (UAX 9 section 2.2) makes text read backwards.
    """
    if text.isascii() or not (native.has_invisible(text) if native else has_invisible(text)):
        return VisibleText(text)
    broken = 0
    overridden = False
    for match in _INVISIBLE.finditer(text):
        start, end = match.span()
        broken += start > 0 and end < len(text) and _is_latin(text[start - 1]) and _is_latin(text[end])
        overridden = overridden or not _OVERRIDES.isdisjoint(match.group())
    return VisibleText(_INVISIBLE.sub("", text), broken if broken >= MIN_BROKEN_WORDS else 0, overridden)


def has_invisible(text: str) -> bool:
    """Return whether a character that does not show is in a text: the twin of `has_invisible` in `_speedups.c`."""
    return any(char in text for char in _COMMON)


def _is_latin(char: str) -> bool:
    return char.isalpha() and char < "\u0250"


MAX_NODES = 500_000

_BLOCKS = frozenset(
    "address article aside blockquote body br center dd details div dl dt fieldset figcaption figure footer form h1 h2 "
    "h3 h4 h5 h6 header hr li main nav ol p pre section table tbody tfoot thead tr ul caption legend summary option "
    "select textarea xmp marquee".split()
)
_SPACING = dict.fromkeys(_BLOCKS, BREAK) | dict.fromkeys(("td", "th", "button", "input", "label"), " ")
_INERT = frozenset(
    "style class id width height align valign border cellpadding cellspacing bgcolor color face size alt title target "
    "dir lang role nowrap colspan rowspan rel name type hspace vspace".split()
)
_LEGACY = frozenset({"hidden", "bgcolor", "background", "color", "text"})
_LOOKS = _LEGACY | {"style", "class", "id"}
_UNREAD = frozenset({"script", "style", "title", "noframes", "noembed", "iframe", "template"})
# What is to be known of a tag, in one place: the space that it makes, what it adds, and whether its inside is read.
_TAGS = {
    tag: (_SPACING.get(tag, ""), ELEMENTS.get(tag), tag not in _UNREAD) for tag in {*_SPACING, *ELEMENTS, *_UNREAD}
}
_OTHER_TAG = ("", None, True)
_WORTH_READING = ("href", "src=", "action", "url(", "<script", "onload", "onerror")
_TEXT = re.compile(r">\s*+[^<\s]")

# What is to be done at the end of an element: the appearance before it, what it began, and whether it is a block.
Opened = tuple[Appearance, Closing | None, bool]


# Attributes that say something, each with its value and with what reads it; None for those of events.
Takers = tuple[tuple[Callable[[PageBuilder, str, str, Attributes], Closing | None] | None, str, str], ...]

_SEEN, _UNSEEN = Appearance(), Appearance(unseen="ordinary")


class HtmlPage(PageBuilder):
    """One document, read by a walk over its tree. `nodes` counts the work."""

    def __init__(self, html: str, where: str, links: Links, notes: HtmlNotes) -> None:
        super().__init__(where, links, notes)
        self.nodes = 0
        self._sheet = StyleSheets()
        self._planned = 0
        # The whole texts, where native code has joined them.
        self._shown: str | None = None
        self._unshown: str | None = None
        parser = LexborHTMLParser(html)
        for node in parser.tags("style"):
            text = node.text()
            self._sheet.read(text)
            self.add_css(text)
        written = parser.html or "" if native and _IS_RELIABLE else ""
        if not (written and self._read_ordinary(written)) and parser.root is not None:
            self._walk_tree(_find_first(parser.root))
        if not notes.is_active() and has_latent_script(html, "".join(self.visible)):
            notes.note(kinds.HTML_LATENT_SCRIPT)
            if has_hidden_handler(html):
                notes.note(kinds.HTML_WEBMAIL_ATTACK, "a script inside another attribute")
        self.is_whole = self.is_whole and self._sheet.is_whole

    def _read_ordinary(self, source: str) -> bool:
        """Read the document as lexbor writes it out in one native pass; False where it is not ordinary."""
        found = native.read_page(
            source, self._sheet.rules, COLOUR_NAMES, parse_packed_style, self._resolve_packed, parse_colour
        )
        if found is None:
            return False
        self._shown, pieces, self._unshown, self.loose, reasons, events, self.nodes = found
        self.visible = [pieces]
        self.unseen = Counter({REASONS[reason]: count for reason, count in reasons})
        self._links.add_items(events, self._where, self._read_event)
        return True

    def _read_event(self, event: Event) -> None:
        kind, value, shown, is_hidden = event
        self.appearance = _UNSEEN if is_hidden else _SEEN
        if kind == "comment":
            self.read_comment(value)
        elif kind == "style":
            self.add_css(value)
        elif kind == "srcset":
            _read_srcset(self, "", value, {})
        else:
            self.add_link(value, kind, shown)

    def _resolve_packed(self, tag: str, classes: str, identity: str, inline: str) -> PackedStyle | None:
        return pack_style(self._sheet.style(tag, classes, identity, inline))

    @property
    def is_ordinary(self) -> bool:
        """Whether native code has read the page in one pass."""
        return self._shown is not None

    def join_visible(self) -> str:
        """Return the text that shows."""
        return join_chunks(self.visible) if self._shown is None else self._shown

    def join_hidden(self) -> str:
        """Return the text that does not show."""
        return join_chunks(self.hidden) if self._unshown is None else self._unshown

    def _take_attributes(self, tag: str, attributes: Attributes, takers: Takers) -> Closing | None:
        closing: Closing | None = None
        for take, key, value in takers:
            if take is None:
                self.add_handler(key, value)
            else:
                closing = take(self, tag, value, attributes) or closing
        return closing

    def _walk_tree(self, root: LexborNode) -> None:
        node: LexborNode | None = root
        # Climbing by `parent` would make each node anew.
        above: list[tuple[LexborNode, Opened | None]] = []
        nodes = 0
        while node is not None:
            nodes += 1
            tag = node.tag
            entry = None
            if tag == "-text":
                self.add_text(node.text_content or "")
            elif tag == "-comment":
                self.read_comment(node.comment_content or "")
            elif tag:
                entry, is_read = self._enter(tag, node.attributes, node)
                if is_read and (child := node.first_child) is not None:
                    above.append((node, entry))
                    node = child
                    continue
            while True:
                if entry:
                    self.leave(entry)
                if (following := node.next) is not None or not above:
                    break
                node, entry = above.pop()
            node = following
            if nodes > MAX_NODES:
                self.is_whole = False
                break
        self.nodes = nodes

    def _enter(self, tag: str, attributes: Attributes, node: LexborNode) -> tuple[Opened | None, bool]:
        """Read one element by itself; return what is to be done at its end, and whether what is inside it is read."""
        before = appearance = self.appearance
        closing: Closing | None = None
        spacing, element, is_read = _TAGS.get(tag, _OTHER_TAG)
        if not _LOOKS.isdisjoint(attributes) if attributes else tag in self._sheet.rules:
            own = _resolve_style(tag, attributes, self._sheet)
            if own is not PLAIN:
                appearance = self.appearance = before.with_style(own)
                if own.active:
                    self.add_css(own.active)
        if spacing:
            (self.hidden if appearance.unseen else self.visible).append(spacing)
        if element:
            closing = element(self, attributes, node)
        if attributes and not _INERT.issuperset(attributes):
            closing = _chain_closings(self._take_attributes(tag, attributes, _find_takers(attributes)), closing)
        if closing or spacing is BREAK or appearance is not before:
            return (before, closing, spacing is BREAK), is_read
        return None, is_read

    def leave(self, opened: Opened) -> None:
        appearance, closing, is_block = opened
        if is_block:
            (self.hidden if self.appearance.unseen else self.visible).append(BREAK)
        if closing:
            closing()
        self.appearance = appearance

    def read_comment(self, text: str) -> None:
        if "[if" not in text[:24].lower():
            return
        _, _, inner = text.partition("]>")
        low = inner.lower()
        if any(mark in low for mark in _WORTH_READING) or _TEXT.search(inner):
            self.add_document(inner.removesuffix("<![endif]"))


def _find_takers(attributes: Attributes) -> Takers:
    return tuple(
        [
            (take, key, value or "")
            for key, value in attributes.items()
            if (take := ATTRIBUTES.get(key)) or (key[:2] == "on" and len(key) > 4)
        ]
    )


def _resolve_style(tag: str, attributes: Attributes, sheet: StyleSheets) -> Style:
    """Return the style of an element."""
    get = attributes.get
    if sheet.rules:
        own = sheet.style(tag, get("class") or "", get("id") or "", get("style") or "")
    else:
        own = sheet.style("", "", "", inline) if (inline := get("style")) else PLAIN
    if _LEGACY.isdisjoint(attributes):
        return own
    fore = get("color") if tag == "font" else get("text") if tag == "body" else None
    return _add_legacy_attributes(own, "hidden" in attributes, "background" in attributes, get("bgcolor"), fore)


def _chain_closings(one: Closing | None, other: Closing | None) -> Closing | None:
    if one is None or other is None:
        return one or other

    def closing() -> None:
        one()
        other()

    return closing


def _find_first(node: LexborNode) -> LexborNode:
    """Return where the document begins: comments may stand before its root."""
    while (before := node.prev) is not None:
        node = before
    return node


@lru_cache(1024)
def _add_legacy_attributes(own: Style, is_hidden: bool, has_picture: bool, back: str | None, fore: str | None) -> Style:
    """Return what the attributes of old HTML say about the appearance, where the style does not."""
    return replace(
        own,
        hides=own.hides or ("attribute" if is_hidden else ""),
        background=UNKNOWN
        if has_picture
        else parse_colour(back)
        if back and own.background is None
        else own.background,
        colour=parse_colour(fore) if fore and own.colour is None else own.colour,
    )
