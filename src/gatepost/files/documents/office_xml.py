"""The XML of Office documents: parts of .docx, .xlsx, .pptx and OpenDocument, and documents that are one XML file.

Each part is inspected by itself when the walk through the zip comes to it, and is recognised by its elements: the names
of parts are the author's choice. It is scanned for a few elements, not parsed: no entities are expanded, no depth is
counted, and XML that a strict parser would refuse is read all the same.

A field of a text document is written between marks for its begin, middle and end, in as many pieces as the author
likes, with other fields inside: `DDEAUTO` may stand there as `DD`, `EAU`, `TO`, or as `{QUOTE 68 68 69}`, a field that
makes letters of numbers. `FieldCollector` puts the pieces together.
"""

import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from urllib.parse import unquote

from gatepost.files.documents.compound import find_calls
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import has_text, read_xml_text
from gatepost.files.documents.script_strings import DOMAIN_SHARE, find_addresses, find_form_addresses, find_form_scripts

MAX_DEPTH = 64
MAX_FIELDS = 20_000
MAX_LENGTH = 65_536


class FieldCollector:
    """The fields of one text, gathered piece by piece."""

    def __init__(self) -> None:
        self._open: list[list[str]] = []
        self._done: list[str] = []

    def add(self, element: str, attributes: dict[str, str], text: str) -> None:
        """Add one element of interest, in the order of the text."""
        if element == "fldSimple":
            self._keep(attributes.get("instr", ""))
        elif element == "instrText":
            if not self._open:
                self._open.append([])
            self._open[-1].append(text)
        elif attributes.get("fldCharType") == "begin":
            if len(self._open) < MAX_DEPTH:
                self._open.append([])
        elif attributes.get("fldCharType") == "end":
            self._close()

    def finish(self) -> Iterator[str]:
        """Return all instructions; fields that were never closed are read to the end."""
        while self._open:
            self._close()
        return iter(self._done)

    def _close(self) -> None:
        if not self._open:
            return
        instruction = "".join(self._open.pop())[:MAX_LENGTH]
        self._keep(instruction)
        if self._open:
            self._open[-1].append(_expand_quote(instruction))

    def _keep(self, instruction: str) -> None:
        if instruction.strip() and len(self._done) < MAX_FIELDS:
            self._done.append(instruction.strip())


def _expand_quote(instruction: str) -> str:
    """Return the text that a QUOTE field shows; what other fields show is not known here."""
    words = instruction.split()
    if not words or words[0].upper() != "QUOTE":
        return ""
    return "".join(chr(int(word)) if word.isdecimal() and int(word) < 0xD800 else word for word in words[1:2_000])


MAX_ELEMENTS = 200_000

_ELEMENT = re.compile(
    r"<(?:[\w.-]{1,40}:)?(Relationship|fldChar|instrText|fldSimple|ddeLink|oleLink|customUI|hlinkClick|hlinkMouseOver|"
    r"hlinkHover|definedName|dde-source|dde-connection-decl|encryption-data|binaryData|binData|binary-data|Path|event-listener|"
    r"module|macrosheet|chunk|Cell|script|a)\b((?>[^<>\"']|\"[^\"<]{0,8192}\"|'[^'<]{0,8192}'){0,2000}+)>([^<]*)"
)
_ATTRIBUTE = re.compile(r"([\w:.-]{1,60})\s{0,10}=\s{0,10}(?:\"([^\"]*)\"|'([^']*)')")
_MARKS = tuple(
    b"Relationship instrText fldSimple ddeLink onLoad ppaction uto_ dde- encryption-data binaryData binData "
    b"binary-data SupBook HYPERLINK( WEBSERVICE( webservice( .IMAGE( script: href= NavigateUri= :macrosheet <chunk "
    b"Formula= webPr dbPr textPr olapPr ns.adobe.com/xdp "
    b"urn:schemas-microsoft-com:xslt".split()
)
_FORMULA_LINK = re.compile(r"HYPERLINK\(\s{0,5}(?:&quot;|\")([^&\"<]{4,2000})", re.IGNORECASE)
# Functions that fetch what they name as soon as the sheet is calculated, with cells of it in the address; and pictures.
_FETCHING = re.compile(r"(WEBSERVICE|\.IMAGE)\(\s{0,5}(?:&quot;|\")?([^&\"<)]{1,2000})", re.IGNORECASE)
MAX_FETCHING = 200
_JOINED = re.compile(r"(?:&quot;|\")\s{0,5}&amp;\s{0,5}(?:&quot;|\")")
# Shapes in Word (VML), and pages of XPS.
_SHAPE_LINK = re.compile(
    r"\b(?:href|NavigateUri)\s{0,5}=\s{0,5}[\"']((?:https?|ftp|file):[^\"'<>]{3,2000})", re.IGNORECASE
)
MAX_SHAPE_LINKS = 2_000
_FETCHED = {
    "attachedTemplate": "remote-template",
    "oleObject": "remote-object",
    "frame": "remote-object",
    "subDocument": "remote-object",
    "externalLinkPath": "",
    "image": "",
}
# Targets elsewhere that are shown or asked for, and those that are not fetched by themselves. Every other kind of part
# is loaded from there as if it were in the document: the ribbon's program, a chunk of text, a control, a master.
_ORDINARY_TARGETS = frozenset(
    "hyperlink externalLinkPath xlExternalLinkPath xlLibrary xlStartup xlAlternateStartup xlPathMissing image audio "
    "video media slide mailMergeSource mailMergeHeaderSource recipientData printerSettings".split()
)
_RIBBON = frozenset({"extensibility", "ui", "userCustomization"})
_ELSEWHERE = re.compile(
    r"(?:https?|ftp|mhtml|ms-[\w-]{1,30}|search-ms|x-usc):|(?:file:)?[\\/]{2,5}(?![\\/]|[a-z]:)[^\\/]", re.IGNORECASE
)
_PROGRAM = re.compile(
    r"\b(?:powershell|cmd|mshta|wscript|cscript|rundll32|regsvr32|certutil|msiexec)(?:\.exe)?\b", re.IGNORECASE
)
_SHELL = re.compile(r"\A(?:mhtml:|file:[\\/]{1,5}(?=\\\\))", re.IGNORECASE)
_STARTS = re.compile(r"\bauto_(?:open|close|activate|deactivate)", re.IGNORECASE)
_CELLS_THAT_RUN = ("xlMacrosheet", "xlIntlMacrosheet")


def is_xml(content: bytes) -> bool:
    """Return whether the content may be XML: its first character is a bracket, in one byte or two."""
    head = content[:64].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")
    return head.startswith(b"<")


def inspect(builder: ContentsBuilder) -> None:
    """Add the links, fields, macros and remote targets in one part."""
    file = builder.file
    content = file.content
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content[:4]:
        text = content.decode(
            "utf-16-be" if content[:2] == b"\xfe\xff" or content[:1] == b"\0" else "utf-16-le", "replace"
        )
        content = text.encode("utf-8", "replace")
    if any(mark in content for mark in _MARKS):
        _scan(_remove_comments(content).decode("utf-8", "replace"), builder)
    if has_text(content):
        builder.add_text(read_xml_text(builder.take_source(content)))
    elif not file.within and b"://" in content and b"Relationship" not in content:  # a feed, a track, settings
        builder.add_links(map(unescape, find_addresses(builder.take_source(content))), "script")


def _remove_comments(content: bytes) -> bytes:
    """Return the content without comments, which may stand within a word, and without CDATA marks."""
    if b"<!" not in content:
        return content
    pieces = content.replace(b"<![CDATA[", b"").replace(b"]]>", b"").split(b"<!--")
    return b"".join([pieces[0], *(piece.partition(b"-->")[2] for piece in pieces[1:])])


def _scan(text: str, builder: ContentsBuilder) -> None:
    fields = FieldCollector()
    for count, match in enumerate(_ELEMENT.finditer(text)):
        if count >= MAX_ELEMENTS:
            builder.add_unread("count")
            break
        element, inside, following = match.groups()
        attributes = _parse_attributes(inside)
        if element in ("fldChar", "instrText", "fldSimple"):
            fields.add(element, attributes, unescape(following))
        elif element == "Relationship":
            _inspect_relationship(attributes, builder)
        else:
            _inspect_element(element, attributes, following, builder)
    for instruction in fields.finish():
        add_field(instruction, builder)
    if "HYPERLINK(" in text:
        joined = _JOINED.sub("", text)  # `"https://" & "evil.example"`
        builder.add_links(unescape(match.group(1)) for match in _FORMULA_LINK.finditer(joined))
    if "SERVICE(" in text or "service(" in text or ".IMAGE(" in text:
        _inspect_fetching(_JOINED.sub("", text), builder)
    if "<connection" in text or ":connection" in text:
        _inspect_connections(text, builder)
    if "ns.adobe.com/xdp" in text[:2_000]:  # a form of Adobe's, which is XML
        form = text.encode("utf-8", "replace")
        for script in find_form_scripts(form):
            builder.add_trait("pdf-javascript", script)
        builder.add_links(find_form_addresses(form), "script")
    if "href=" in text or "NavigateUri=" in text:
        builder.add_links(unescape(match.group(1)) for match in islice(_SHAPE_LINK.finditer(text), MAX_SHAPE_LINKS))


_CONNECTION = re.compile(
    r"<(?:\w{1,20}:)?(?:webPr|dbPr|textPr|olapPr)\b[^<>]{0,2000}?\b(?:url|connection|sourceFile|localConnection)"
    r"=[\"']([^\"'<>]{4,4000})"
)
_SERVER = re.compile(r"(?:SERVER|Data Source|DSN)\s{0,3}=\s{0,3}([^;\"']{3,500})", re.IGNORECASE)


def _inspect_connections(text: str, builder: ContentsBuilder) -> None:
    """Inspect where a workbook takes its data from (ECMA-376 part 1, section 18.13)."""
    for match in islice(_CONNECTION.finditer(text), MAX_FETCHING):
        target = unescape(match.group(1))
        server = _SERVER.search(target)
        if _ELSEWHERE.match(target):
            builder.add_link(target)
        elif server and (_ELSEWHERE.match(server[1]) or "." in server[1]):
            builder.add_trait("connection-settings", server[1])


def _inspect_fetching(text: str, builder: ContentsBuilder) -> None:
    """Inspect formulas whose value comes from a server (`_xlfn.WEBSERVICE`, `_xlfn.IMAGE`)."""
    for match in islice(_FETCHING.finditer(text), MAX_FETCHING):
        target = unescape(match.group(2))
        if _ELSEWHERE.match(target):
            builder.add_link(target)
        if match.group(1).upper() == "WEBSERVICE":
            builder.add_trait("remote-object", target)


def _parse_attributes(text: str) -> dict[str, str]:
    return {
        match.group(1).rpartition(":")[2]: unescape(match.group(2) or match.group(3) or "")
        for match in _ATTRIBUTE.finditer(text)
    }


def add_field(instruction: str, builder: ContentsBuilder) -> None:
    """Report a field of a text document: a link, or data from another program."""
    words = instruction.split(None, 1)
    kind = words[0].strip('"').upper() if words else ""
    if kind in ("DDE", "DDEAUTO"):
        builder.add_command("dde", "DDE command", instruction)
    elif kind in ("HYPERLINK", "INCLUDEPICTURE", "INCLUDETEXT", "IMPORT") and len(words) > 1:
        target = re.sub(r'^\s*(?:\\\w\s+)*"?|".*$', "", words[1])
        builder.add_link(target)
        if kind != "HYPERLINK" and _ELSEWHERE.match(target):
            builder.add_trait("remote-object", target)


def _inspect_relationship(attributes: dict[str, str], builder: ContentsBuilder) -> None:
    """Inspect a relationship (ECMA-376 part 2, section 9.3): a part of the document, or a target elsewhere."""
    kind = attributes.get("Type", "").rpartition("/")[2]
    target = attributes.get("Target", "")
    if kind in _CELLS_THAT_RUN:
        builder.add_trait("macro", "Excel 4.0")
        builder.add_trait("macro-cells", target)
    elif kind in ("oleObject", "package") and attributes.get("TargetMode") != "External":
        builder.add_trait("embedded-object", target)
    if attributes.get("TargetMode", "").lower() != "external" or not target:
        return
    if _ELSEWHERE.match(target):
        builder.add_link(_SHELL.sub("", target).partition("!")[0] if kind in _FETCHED else target)
        if trait := _FETCHED.get(kind) or _weigh_target(kind, target):
            builder.add_trait(trait, target)
    elif _PROGRAM.search(target):
        builder.add_command("program-action", "program action", unquote(target))


def _weigh_target(kind: str, target: str) -> str:
    """Return the trait of a target elsewhere of a kind that is not known by name."""
    if kind in _RIBBON:
        return "remote-template"
    is_loaded = bool(kind) and kind not in _ORDINARY_TARGETS
    return "remote-object" if is_loaded or (kind != "hyperlink" and DOMAIN_SHARE.match(target)) else ""


def _inspect_element(element: str, attributes: dict[str, str], following: str, builder: ContentsBuilder) -> None:
    match element:
        case "ddeLink" | "dde-source" | "dde-connection-decl":
            stated = ("ddeService", "ddeTopic", "dde-application", "dde-topic", "dde-item")
            builder.add_command("dde", "DDE command", " ".join(attributes[key] for key in stated if key in attributes))
        case "Path" if "|" in following:  # Excel 2003 XML writes `program|topic`
            builder.add_command("dde", "DDE command", unescape(following))
        case "customUI" if "onLoad" in attributes:
            builder.add_trait("macro-autorun", f"onLoad {attributes['onLoad']}")
        case "hlinkClick" | "hlinkMouseOver" | "hlinkHover":
            if attributes.get("action", "").startswith("ppaction://macro"):
                builder.add_trait("macro-autorun", attributes["action"])
        case "definedName" if _STARTS.search(attributes.get("name", "")):
            builder.add_trait("macro-autorun", attributes["name"])
        case "encryption-data":
            builder.add_trait("encrypted", "OpenDocument")
        case "binaryData" | "binData" | "binary-data":
            _add_binary(attributes.get("name", "binary data"), following, builder)
        case "a" if "href" in attributes:
            builder.add_link(attributes["href"])
        case "module" if "name" in attributes or "language" in attributes:
            builder.add_trait("macro", attributes.get("name", "OpenDocument Basic"))
            if calls := find_calls(unescape(following)):
                builder.add_trait("macro-call", ", ".join(calls))
        case _:
            _inspect_rare_element(element, attributes, following, builder)


def _inspect_rare_element(element: str, attributes: dict[str, str], following: str, builder: ContentsBuilder) -> None:
    """Inspect elements of OpenDocument, forms, old sheets and style sheets."""
    match element:
        case "event-listener":
            builder.add_trait("macro-autorun", f"{attributes.get('event-name', '')} {attributes.get('href', '')}")
        case "macrosheet":
            builder.add_trait("macro", "Excel 4.0")
            builder.add_trait("macro-cells", "sheet")
        case "chunk":  # a PDF inside a form (XDP, XML Forms Architecture)
            _add_binary("document.pdf", following, builder)
        case "Cell" if "|" in attributes.get("Formula", ""):  # Excel 2003 XML: `=program|topic!item`
            builder.add_command("dde", "DDE command", attributes["Formula"].lstrip("=+@- "))
        case "script" if "language" in attributes and b"urn:schemas-microsoft-com:xslt" in builder.file.content:
            builder.add_trait("program-action", f"{attributes['language']} in a style sheet")


def _add_binary(name: str, text: str, builder: ContentsBuilder) -> None:
    """Add a part in base64 of a document that is one XML file."""
    builder.add_base64(name, text[: builder.allowance(len(text))], len(text))
