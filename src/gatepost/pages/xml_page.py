"""XML that a browser shows as a page: SVG, XHTML, and XML with a style sheet, read as XML.

Elements are known by their vocabulary and not by their prefix, entities of the document itself are resolved, character
data sections are text. A browser shows a document that is not well-formed up to its first error, and has run the
scripts before it; so what stands before the error is read. What entities unfold to is limited by the number of nodes
and characters, and by expat's own limit (its version is at least 2.4.1 in every Python that is supported).

The page is also written out as HTML with resolved entities and without prefixes, for the readers of HTML.
"""

import re
from html import escape
from xml.parsers import expat

import msgspec

from gatepost.pages.page_nodes import NodeCollector, PageNodes

SVG, XHTML = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"
XSLT, XLINK = "http://www.w3.org/1999/XSL/Transform", "http://www.w3.org/1999/xlink"
# Vocabularies whose `script` an XSLT processor runs.
_PROCESSOR_SCRIPTS = frozenset({"urn:schemas-microsoft-com:xslt", "http://xml.apache.org/xslt", "http://icl.com/saxon"})
MAX_XML = 8 << 20
MAX_HTML = 4_000_000
MAX_DEPTH = 500
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
        if len(self._open) >= MAX_DEPTH or not self._nodes.page.is_whole:
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
