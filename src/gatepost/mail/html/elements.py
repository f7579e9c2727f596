"""What single HTML elements and attributes add to a page: links, forms, frames, scripts, pictures.

The two tables at the end say which element and which attribute is looked at. An attribute counts on any element:
`<x href>` is a link in some program (VML buttons, SVG), and a list of pairs would have holes.
"""

import re
from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote

from selectolax.lexbor import LexborNode

from gatepost import kinds
from gatepost.mail.html.active import HtmlNotes
from gatepost.mail.html.script import read_scripts
from gatepost.mail.html.style import Appearance
from gatepost.mail.links import MAX_SHOWN, Links, Source, decode_base64_text
from gatepost.speedups import native
from gatepost.urls import NO_URL, Url, parse_url

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
        _read_base(page, value)
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


def _read_base(page: PageBuilder, value: str) -> None:
    if page.base is NO_URL and (base := parse_url(value)) is not NO_URL:
        page.base = base
        page.notes.note(kinds.HTML_BASE, value)


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


def _read_srcdoc(page: PageBuilder, _tag: str, value: str, _: Attributes) -> None:
    page.add_document(value)


def _read_script(page: PageBuilder, attributes: Attributes, node: LexborNode | None) -> None:
    inside = node.text() if node else ""
    kind = attributes.get("type") or ""
    page.notes.note_script(kind, attributes.get("src") or inside.strip(), in_svg=page.vectors > 0)
    if "json" not in kind.lower():
        page.add_script(inside)


def _read_picture(page: PageBuilder, attributes: Attributes, _: LexborNode | None) -> None:
    page.alt = page.alt or attributes.get("alt") or ""


def _read_input(page: PageBuilder, attributes: Attributes, _: LexborNode | None) -> None:
    kind = (attributes.get("type") or "").strip().lower()
    if kind == "password":
        page.notes.note(kinds.HTML_PASSWORD_FIELD, attributes.get("name") or "")
    elif kind in {"submit", "button", "reset"}:
        page.add_text(attributes.get("value") or "")


def _read_form(page: PageBuilder, attributes: Attributes, _: LexborNode | None) -> None:
    page.notes.note(kinds.HTML_FORM, f"action={attributes.get('action') or ''}")


def _read_frame(page: PageBuilder, attributes: Attributes, _: LexborNode | None) -> None:
    page.notes.note(kinds.HTML_FRAME, attributes.get("src") or "")


def _read_object(page: PageBuilder, attributes: Attributes, _: LexborNode | None) -> None:
    page.notes.note(kinds.HTML_OBJECT, attributes.get("data") or attributes.get("src") or "")


def _enter_svg(page: PageBuilder, _: Attributes, __: LexborNode | None) -> Closing:
    page.vectors += 1

    def closing() -> None:
        page.vectors -= 1

    return closing


def _read_template(page: PageBuilder, _: Attributes, node: LexborNode | None) -> None:
    html = (node.html or "") if node else ""
    page.add_document(html[html.find(">") + 1 :].removesuffix("</template>"))


ELEMENTS: dict[str, Callable[[PageBuilder, Attributes, LexborNode | None], Closing | None]] = {
    "script": _read_script,
    "img": _read_picture,
    "input": _read_input,
    "form": _read_form,
    "iframe": _read_frame,
    "frame": _read_frame,
    "object": _read_object,
    "embed": _read_object,
    "applet": _read_object,
    "svg": _enter_svg,
    "template": _read_template,
}
ATTRIBUTES: dict[str, Callable[[PageBuilder, str, str, Attributes], Closing | None]] = {
    "href": _read_href,
    "xlink:href": _read_href,
    "srcset": _read_srcset,
    "action": _read_action,
    "formaction": _read_action,
    "content": _read_content,
    "values": _read_animation,
    "to": _read_animation,
    "from": _read_animation,
    "srcdoc": _read_srcdoc,
    "src": _read_source,
    "lowsrc": _read_source,
    "dynsrc": _read_source,
    "poster": _read_source,
    "background": _read_source,
    "data": _read_source,
    "code": _read_source,
    "codebase": _read_source,
}
