"""The nodes and scripts of a page of HTML or XML, as rows for the stand-in browser.

Scripts are taken out of the source of HTML before it is parsed: they are the larger part of most pages that have any,
and the limits for hostile markup (`mail.html.limits`) would change them. A mark stands in their place, and is replaced
wherever it turns up: in an element, in a comment, in an attribute.

SVG, XHTML, and XML with a style sheet are read as XML. Elements are known by their vocabulary and not by their prefix,
entities of the document itself are resolved, character data sections are text. A browser shows a document that is not
well-formed up to its first error, and has run the scripts before it; so what stands before the error is read. What
entities unfold to is limited by the number of nodes and characters, and by expat's own limit (its version is at least
2.4.1 in every Python that is supported). The page is also written out as HTML with resolved entities and without
prefixes, for the readers of HTML.
"""

import re
from collections.abc import Iterator
from html import escape
from xml.parsers import expat

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from gatepost.mail.html.limits import find_script_end, limit_html

MAX_ROWS = 9_000
# Of a page with more nodes than these, only those are kept that a script can find by name, and what is inside them.
ALL_ROWS = 5_000
MAX_TAGS = 20_000
MAX_ROW_TEXT = 6_000_000  # characters of all texts and attributes together
MAX_TEMPLATES = 40
MAX_SCRIPTS = 10_000
MAX_STYLES = 400_000

_START = re.compile(r"<(?:[\w.-]{1,40}:)?script\b(?>[^>\"']|\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))*+>?+", re.IGNORECASE)
_END = re.compile(r"</(?:[\w.-]{1,40}:)?script(?=[\s/>])", re.IGNORECASE)
_MARK = re.compile("\ue000(\\d{1,6})\ue001")
_MARKED = re.compile(r"\s(type|src|href|xlink:href)\s{0,9}=\s{0,9}(\"[^\"]*+|'[^']*+|[^\s>\"']++)", re.IGNORECASE)
_RUNNABLE = re.compile(r"(?:java|ecma|j|live)script|\Amodule\Z|babel", re.IGNORECASE)

Row = tuple[int, int, str] | tuple[int, int, str, dict[str, str], str, int]


class PageScript(msgspec.Struct, frozen=True):
    """One script of a page: its place among the rows, its text or address, and whether it is a module."""

    place: int
    text: str
    source: str = ""
    is_module: bool = False


class PageNodes(msgspec.Struct):
    """A page for the stand-in browser. `rows` are the nodes: the row of the parent, the type of the node (3 for text, 8
    for a comment, 1 for an element), and the text, or the name, attributes, vocabulary and place of an element.
    `visible` is what may be read in the page: its texts without scripts and styles. `code` is how much of each script
    the interpreter must parse, once that was measured."""

    rows: list[Row] = msgspec.field(default_factory=list)
    scripts: list[PageScript] = msgspec.field(default_factory=list)
    styles: str = ""
    visible: str = ""
    base: str = ""
    is_whole: bool = True
    has_handlers: bool = False
    pictures: list[str] = msgspec.field(default_factory=list)
    code: list[int] = msgspec.field(default_factory=list)


_ADDRESSED = frozenset({"template", "script", "style", "input", "textarea", "form", "iframe", "body", "html", "head"})


def _is_addressed(name: str, attributes: dict[str, str]) -> bool:
    """Return whether scripts look for an element by its name, class or attributes of its own."""
    if name in _ADDRESSED or "id" in attributes or "name" in attributes:
        return True
    return any(key.startswith("data-") or key[:2] == "on" for key in attributes)


class NodeCollector:
    """Collects rows within the limits; used for HTML and XML."""

    def __init__(self) -> None:
        self.page = PageNodes()
        self._texts: list[str] = []
        self._styles: list[str] = []
        self._room = MAX_ROW_TEXT
        self.is_thinned = False

    def add_text(self, parent: int, parent_name: str, text: str, kind: int = 3) -> None:
        """Add a text or a comment."""
        if len(self.page.rows) >= ALL_ROWS and kind == 3 and parent <= ALL_ROWS and parent_name not in _ADDRESSED:
            return
        if not self._take(len(text)):
            return
        if kind == 3 and parent_name == "style":
            self._styles.append(text)
        elif kind == 3 and parent_name not in ("script", "noscript"):
            self._texts.append(text)
        self.page.rows.append((parent, kind, text))

    def add_element(self, parent: int, name: str, attributes: dict[str, str], vocabulary: str = "") -> int:
        """Add an element; return its number, which is that of its parent where there is no room for it."""
        if len(self.page.rows) >= ALL_ROWS and not _is_addressed(name, attributes) and parent <= ALL_ROWS:
            self.is_thinned = True
            return parent
        if not self._take(sum(map(len, attributes.values()))):
            return parent
        number = len(self.page.rows) + 1
        self.page.rows.append((parent, 1, name, attributes, vocabulary, number))
        if name == "base" and not self.page.base:
            self.page.base = attributes.get("href", "")
        elif name in ("img", "image", "input") and len(self.page.pictures) < 40:
            source = attributes.get("src") or attributes.get("href") or attributes.get("xlink:href") or ""
            if source.lstrip()[:5].lower() == "data:":
                self.page.pictures.append(source)
        for key, value in attributes.items():
            if key[:2] == "on" or (
                ":" in value[:40] and value.lstrip()[:40].lower().replace("\t", "").startswith("java")
            ):
                self.page.has_handlers = True
        return number

    def add_script(self, place: int, text: str, attributes: dict[str, str]) -> None:
        """Add a script that runs, if its type is one of JavaScript."""
        kind = attributes.get("type", "").strip()
        source = attributes.get("src") or attributes.get("href") or attributes.get("xlink:href") or ""
        if (kind and not _RUNNABLE.search(kind)) or len(self.page.scripts) >= MAX_SCRIPTS:
            return
        if text.strip() or source:
            self.page.scripts.append(PageScript(place, text, source.strip(), kind.lower() == "module"))

    def build(self) -> PageNodes:
        """Return what was collected."""
        self.page.styles = "\n".join(self._styles)[:MAX_STYLES]
        self.page.visible = " ".join(self._texts)
        return self.page

    def _take(self, size: int) -> bool:
        self._room -= size
        if self._room < 0 or len(self.page.rows) >= MAX_ROWS:
            self.page.is_whole = False
            return False
        return True


def read_html_nodes(html: str) -> PageNodes:
    """Return the nodes and scripts of an HTML page."""
    texts: list[str] = []
    starts: list[str] = []
    limited = limit_html(_cut_middle("".join(_take_scripts_out(html, texts, starts))), MAX_TAGS)
    collector = _HtmlNodes(texts)
    collector.walk(LexborHTMLParser(limited.html).root, 0, "")
    collector.add_unseen(starts)
    page = collector.nodes.build()
    page.is_whole = page.is_whole and not limited.limits
    return page


def _cut_middle(html: str) -> str:
    """Return a page without its middle, where it has more tags than are read: what scripts use stands at either end."""
    if html.count("<") <= MAX_TAGS:
        return html
    tail = html.rsplit("<", MAX_TAGS // 2)[1:]
    return "<".join([*html.split("<", MAX_TAGS // 2)[:-1], *tail])


def _take_scripts_out(html: str, texts: list[str], starts: list[str]) -> Iterator[str]:
    """Yield the source with a mark in the place of each script's text; texts and start tags are put into the lists."""
    html = html.replace("\ue000", " ") if "\ue000" in html else html
    at = 0
    for start in _START.finditer(html):
        if start.start() < at:
            continue
        if start.group().endswith("/>") and ":" in start.group()[:42]:
            continue
        is_plain = ":" not in start.group()[:42].partition("script")[0]
        found = None if is_plain else _END.search(html, start.end())
        end = found.start() if found else find_script_end(html, start.end())
        if end < 0 or len(texts) >= MAX_SCRIPTS:
            break
        yield html[at : start.end()]
        yield f"\ue000{len(texts)}\ue001"
        texts.append(html[start.end() : end])
        starts.append(start.group())
        at = end
    yield html[at:]


class _HtmlNodes:
    """One walk over lexbor's tree. Nesting is limited before; templates are documents of their own."""

    def __init__(self, texts: list[str]) -> None:
        self.nodes = NodeCollector()
        self._scripts = texts
        self._seen: set[int] = set()
        self._templates = 0

    def walk(self, root: LexborNode | None, parent: int, parent_name: str) -> None:
        node = root
        above: list[tuple[LexborNode, int, str]] = []
        while node is not None and self.nodes.page.is_whole:
            inner = self._add(node, parent, parent_name)
            child = node.first_child if inner else None
            if inner and child is not None:
                above.append((node, parent, parent_name))
                node, parent, parent_name = child, inner, node.tag or ""
                continue
            following = node.next
            while following is None and above:
                node, parent, parent_name = above.pop()
                following = node.next
            node = following

    def _add(self, node: LexborNode, parent: int, parent_name: str) -> int:
        """Add one node; return the number for the nodes inside it, 0 where there are none to add."""
        tag = node.tag or ""
        if tag == "-text":
            self.nodes.add_text(parent, parent_name, self._restore(node.text_content or ""))
        elif tag == "-comment":
            self.nodes.add_text(parent, parent_name, self._restore(node.comment_content or ""), 8)
        elif tag and tag[0] not in "-!":
            attributes = {key: self._restore(value or "") for key, value in node.attributes.items()}
            number = self.nodes.add_element(parent, tag, attributes, "svg" if tag == "svg" else "")
            if tag == "script":
                self.nodes.add_script(number, self._restore(node.text(deep=True) or ""), attributes)
            elif tag == "template":
                self._add_template(node, number)
            return number
        return 0

    def _add_template(self, node: LexborNode, number: int) -> None:
        self._templates += 1
        html = node.html or ""
        if self._templates > MAX_TEMPLATES:
            return
        body = LexborHTMLParser(html[html.find(">") + 1 :].removesuffix("</template>")).body
        if body is not None and body.first_child is not None:
            self.walk(body.first_child, number, "template")

    def _restore(self, text: str) -> str:
        return _MARK.sub(self._find_script, text) if "\ue000" in text else text

    def add_unseen(self, starts: list[str]) -> None:
        """Add scripts that stand behind the last node that was read: a page may be long, and what runs stands last."""
        if self.nodes.page.is_whole and len(self._seen) == len(starts):
            return
        for number, start in enumerate(starts):
            if number not in self._seen:
                attributes = {match[1].lower(): match[2].strip("\"'") for match in _MARKED.finditer(start[:4_000])}
                self.nodes.add_script(0, self._scripts[number], attributes)

    def _find_script(self, match: re.Match[str]) -> str:
        number = int(match.group(1))
        self._seen.add(number)
        return self._scripts[number] if number < len(self._scripts) else ""


SVG, XHTML = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"
XSLT, XLINK = "http://www.w3.org/1999/XSL/Transform", "http://www.w3.org/1999/xlink"
# Vocabularies whose `script` an XSLT processor runs.
_PROCESSOR_SCRIPTS = frozenset({"urn:schemas-microsoft-com:xslt", "http://xml.apache.org/xslt", "http://icl.com/saxon"})
MAX_XML = 8 << 20
MAX_HTML = 4_000_000
MAX_DEPTH = 500
MAX_ELEMENTS = 40_000
MAX_DECLARED = 200

_HREF = re.compile(r"\bhref\s{0,9}=\s{0,9}[\"']([^\"']{0,2000})")
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())


class XmlPage(msgspec.Struct):
    """A page that is XML: its nodes for the stand-in browser, itself as HTML, the vocabulary of its root, entities that
    hold markup, the addresses of style sheets, and whether it holds a transformation (XSLT) of its own."""

    nodes: PageNodes
    html: str
    root: str
    markup_entities: list[str]
    style_sheets: list[str]
    has_transform: bool
    processor_script: str
    is_whole: bool


class _StoppedError(Exception):
    """A limit was reached."""


def read_xml_page(content: bytes) -> XmlPage | None:
    """Return a document as a page; None where not even its first element can be read."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.take_text
    parser.CommentHandler = reader.add_comment
    parser.ProcessingInstructionHandler = reader.add_instruction
    parser.EntityDeclHandler = reader.declare
    is_whole = len(content) <= MAX_XML
    try:
        parser.Parse(content[:MAX_XML].lstrip(), True)
    except (expat.ExpatError, ValueError, LookupError):
        pass  # what stands before the error is shown, and was read
    except _StoppedError:
        is_whole = False
    return reader.build(is_whole)


class _Reader:
    """Takes the events of one parse."""

    def __init__(self) -> None:
        self._nodes = NodeCollector()
        self._open: list[tuple[int, str, dict[str, str], list[str] | None]] = []
        self._html: list[str] = []
        self._text: list[str] = []
        self._size = 0
        self._count = 0
        self._room = MAX_HTML
        self._root: str | None = None
        self._markup: list[str] = []
        self._declared = 0
        self._sheets: list[str] = []
        self._has_transform = False
        self._processor_script = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        self._flush()
        vocabulary, _, local = name.rpartition(" ")
        if self._root is None:
            self._root = vocabulary or local.lower()
        local = local.lower()
        self._has_transform = self._has_transform or vocabulary == XSLT
        is_active = self._is_active(vocabulary)
        named = ((_name_attribute(key), value) for key, value in given.items())
        attributes = {key: value for key, value in named if is_active or key[:2] != "on"}
        is_script = local == "script" and is_active
        if local == "script" and vocabulary in _PROCESSOR_SCRIPTS:
            self._processor_script = vocabulary
            is_script = True
        self._count += 1
        if len(self._open) >= MAX_DEPTH or self._count > MAX_ELEMENTS or not self._nodes.page.is_whole:
            raise _StoppedError
        parent = self._open[-1][0] if self._open else 0
        number = self._nodes.add_element(parent, local, attributes, "svg" if vocabulary == SVG else "")
        self._open.append((number, local, attributes, [] if is_script else None))
        marks = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
        self._write(f"<{local}{marks}>")

    def end(self, _name: str) -> None:
        self._flush()
        number, local, attributes, script = self._open.pop()
        if script is not None:
            text = "".join(script)
            self._nodes.add_script(number, text, attributes)
            self._write(text)
        if local not in _VOID:
            self._write(f"</{local}>")

    def take_text(self, text: str) -> None:
        """Keep a piece of text. Expat gives line by line; what it would join itself is lost at an error."""
        self._text.append(text)
        self._size += len(text)
        if self._size > MAX_HTML:
            raise _StoppedError

    def _flush(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        if not text or not self._open:
            return
        number, local, _, script = self._open[-1]
        self._nodes.add_text(number, local, text)
        if script is not None:
            script.append(text)
        else:
            self._write(escape(text, quote=False))

    def add_comment(self, text: str) -> None:
        self._flush()
        if self._open:
            self._nodes.add_text(self._open[-1][0], "", text, 8)

    def add_instruction(self, name: str, data: str) -> None:
        if name != "xml-stylesheet" or "css" in data.lower() or len(self._sheets) >= MAX_DECLARED:
            return
        if match := _HREF.search(data):
            self._sheets.append(match.group(1))

    def declare(self, name: str, is_parameter: int, value: str | None, *_: object) -> None:
        self._declared += 1
        if self._declared > MAX_DECLARED:
            raise _StoppedError
        if value and not is_parameter and "<" in value:
            self._markup.append(name)

    def build(self, is_whole: bool) -> XmlPage | None:
        if self._root is None:
            return None
        while self._open:  # the document ends early
            self.end("")
        return XmlPage(
            self._nodes.build(),
            "".join(self._html),
            self._root,
            self._markup,
            self._sheets,
            self._has_transform,
            self._processor_script,
            is_whole and self._room >= 0,
        )

    def _is_active(self, vocabulary: str) -> bool:
        """Return whether a browser runs scripts of a vocabulary: what a transformation makes has any or none."""
        return vocabulary in (SVG, XHTML) or self._has_transform or self._root in ("svg", "html")

    def _write(self, html: str) -> None:
        self._room -= len(html)
        if self._room >= 0:
            self._html.append(html)


def _name_attribute(key: str) -> str:
    """Return the name of an attribute as HTML has it: that of XLink keeps its usual prefix."""
    vocabulary, _, local = key.rpartition(" ")
    return f"xlink:{local}" if vocabulary == XLINK else local.lower()
