"""What single HTML elements and attributes add to a page: links, forms, frames, scripts, pictures.

The two tables at the end say which element and which attribute is looked at. An attribute counts on any element:
`<x href>` is a link in some program (VML buttons, SVG), and a list of pairs would have holes.
"""

import re
from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote

from selectolax.lexbor import LexborNode

from gatepost.kinds import (
    HTML_BASE,
    HTML_FORM,
    HTML_FRAME,
    HTML_META_REFRESH,
    HTML_OBJECT,
    HTML_PASSWORD_FIELD,
    TEXT_BIDI_OVERRIDE,
)
from gatepost.mail.html.active import Notes
from gatepost.mail.html.style import Look
from gatepost.mail.link_wrappers import base64_text
from gatepost.mail.links import MAX_SHOWN, Links, Source
from gatepost.urls import NOTHING, Url, parse

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


def plain(chunks: list[str]) -> str:
    """Pieces of text put together as a page shows them: runs of blanks are one, blocks stand on their own lines."""
    return "\n".join([" ".join(words) for line in "".join(chunks).split(BREAK) if (words := line.split())])


class Gathering:
    """What one document has shown so far. `visible` and `hidden` are pieces of text, `loose` those outside links,
    `unseen` counts hidden characters by reason, `nested` are documents inside this one."""

    def __init__(self, where: str, links: Links, notes: Notes) -> None:
        self.visible: list[str] = []
        self.hidden: list[str] = []
        self.loose: list[str] = []
        self.unseen: Counter[str] = Counter()
        self.nested: list[str] = []
        self.is_whole = True
        self.notes = notes
        self.look = Look()
        self.base: Url = NOTHING
        self.alt = ""
        self.vectors = 0
        self._anchors = 0
        self._nested_chars = 0
        self._links = links
        self._where = where

    def text(self, text: str) -> None:
        """A piece of text under the look of the moment."""
        look = self.look
        if not look.unseen:
            if look.reversed:
                self.notes.note(TEXT_BIDI_OVERRIDE, "style")
                text = text[::-1]
            self.visible.append(text)
            if not self._anchors and ("." in text or ":" in text):
                self.loose.append(text)
        elif text.strip():
            self.hidden.append(text)
            self.unseen[look.unseen] += len(text)

    def nest(self, html: str) -> None:
        """A document inside this one, to be read after it."""
        if self._nested_chars + len(html) <= MAX_NESTED_CHARS:
            self._nested_chars += len(html)
            self.nested.append(html)
        else:
            self.is_whole = False

    def css(self, text: str) -> None:
        for target in self.notes.css(text):
            self.link(target, "css")

    def link(self, target: str, source: Source, shown: str = "") -> None:
        hidden = bool(self.look.unseen)
        url = self._links.add(target, self._where, source, shown=shown, base=self.base, hidden=hidden)
        if url.scheme in _ORDINARY:
            return
        if source not in _PICTURES or url.scheme not in {"data", "blob"}:
            self.notes.link(url.scheme, target, in_svg=self.vectors > 0)
        if source != "css" and (match := _DATA_PAGE.match(target)):
            self.nest(_data_page(target[match.end() :], match.group(1)))

    def anchor(self, target: str) -> Closing | None:
        """A link whose text comes after it: what shows until its end is what it shows."""
        if target.lstrip()[:1] in {"", "#"}:
            return None
        start = len(self.visible)
        self.alt = ""
        self._anchors += 1

        def closing() -> None:
            self._anchors -= 1
            self.link(target, "html", plain(self.visible[start:])[:MAX_SHOWN] or self.alt)

        return closing


def _data_page(text: str, parameters: str) -> str:
    text = unquote(text[:MAX_NESTED_CHARS])
    return base64_text(text) if "base64" in parameters.lower() else text


def _href(page: Gathering, tag: str, value: str, attributes: Attributes) -> Closing | None:
    if tag == "base":
        _base(page, value)
    elif tag == "link":
        page.link(value, "css")
        if "import" in (attributes.get("rel") or "").lower():
            page.notes.note(HTML_FRAME, value)
    elif tag in {"image", "use", "feImage"}:
        page.link(value, "image")
    elif tag == "area":
        page.link(value, "html", attributes.get("alt") or "")
    else:
        return page.anchor(value)
    return None


def _base(page: Gathering, value: str) -> None:
    if page.base is NOTHING and (base := parse(value)) is not NOTHING:
        page.base = base
        page.notes.note(HTML_BASE, value)


def _source(page: Gathering, tag: str, value: str, _: Attributes) -> None:
    if value:
        page.link(value, "script" if tag == "script" else "html" if tag in _FRAMES else "image")


def _srcset(page: Gathering, _tag: str, value: str, _: Attributes) -> None:
    for candidate in value.split(",", MAX_CANDIDATES)[:MAX_CANDIDATES]:
        if words := candidate.split(None, 1):
            page.link(words[0], "image")


def _action(page: Gathering, _tag: str, value: str, _: Attributes) -> None:
    if value.strip():
        page.link(value, "form")


def _content(page: Gathering, _tag: str, value: str, attributes: Attributes) -> None:
    if (attributes.get("http-equiv") or "").strip().lower() != "refresh":
        return
    if (match := _REFRESH.match(value)) and (target := match.group(1).rstrip("\"' ")):
        page.notes.note(HTML_META_REFRESH, target)
        page.link(target, "refresh")


def _animated(page: Gathering, tag: str, value: str, _: Attributes) -> None:
    """`<animate attributeName=href values="javascript:…">` writes a link while the page is shown."""
    if tag in _ANIMATIONS:
        for text in value.split(";", MAX_CANDIDATES)[:MAX_CANDIDATES]:
            if ":" in text:
                page.link(text, "html")


def _page_inside(page: Gathering, _tag: str, value: str, _: Attributes) -> None:
    page.nest(value)


def _script(page: Gathering, attributes: Attributes, node: LexborNode) -> None:
    text = attributes.get("src") or node.text().strip()
    page.notes.script(attributes.get("type") or "", text, in_svg=page.vectors > 0)


def _picture(page: Gathering, attributes: Attributes, _: LexborNode) -> None:
    page.alt = page.alt or attributes.get("alt") or ""


def _input(page: Gathering, attributes: Attributes, _: LexborNode) -> None:
    kind = (attributes.get("type") or "").strip().lower()
    if kind == "password":
        page.notes.note(HTML_PASSWORD_FIELD, attributes.get("name") or "")
    elif kind in {"submit", "button", "reset"}:
        page.text(attributes.get("value") or "")


def _form(page: Gathering, attributes: Attributes, _: LexborNode) -> None:
    page.notes.note(HTML_FORM, f"action={attributes.get('action') or ''}")


def _frame(page: Gathering, attributes: Attributes, _: LexborNode) -> None:
    page.notes.note(HTML_FRAME, attributes.get("src") or "")


def _object(page: Gathering, attributes: Attributes, _: LexborNode) -> None:
    page.notes.note(HTML_OBJECT, attributes.get("data") or attributes.get("src") or "")


def _vector(page: Gathering, _: Attributes, __: LexborNode) -> Closing:
    page.vectors += 1

    def closing() -> None:
        page.vectors -= 1

    return closing


def _template(page: Gathering, _: Attributes, node: LexborNode) -> None:
    html = node.html or ""
    page.nest(html[html.find(">") + 1 :].removesuffix("</template>"))


ELEMENTS: dict[str, Callable[[Gathering, Attributes, LexborNode], Closing | None]] = {
    "script": _script,
    "img": _picture,
    "input": _input,
    "form": _form,
    "iframe": _frame,
    "frame": _frame,
    "object": _object,
    "embed": _object,
    "applet": _object,
    "svg": _vector,
    "template": _template,
}
ATTRIBUTES: dict[str, Callable[[Gathering, str, str, Attributes], Closing | None]] = {
    "href": _href,
    "xlink:href": _href,
    "srcset": _srcset,
    "action": _action,
    "formaction": _action,
    "content": _content,
    "values": _animated,
    "to": _animated,
    "from": _animated,
    "srcdoc": _page_inside,
    "src": _source,
    "lowsrc": _source,
    "dynsrc": _source,
    "poster": _source,
    "background": _source,
    "data": _source,
    "code": _source,
    "codebase": _source,
}
