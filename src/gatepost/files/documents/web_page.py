"""Web pages as files: what they ask for, and what their scripts put together.

A page opened from disk runs its scripts. Smuggling keeps the file in a script as text, turns it back into bytes in the
browser and saves it, so that no scanner on the way sees a file. The text is found here by what it is: a long literal
in base64, digits or percent signs. It is turned back, and what comes out is a file like any other. Saved pages and
reports hold such literals, too: pictures and fonts, in pages that save nothing.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from itertools import chain, islice
from urllib.parse import unquote_to_bytes

import msgspec

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.page_scripts import (
    FONTS,
    HARMLESS,
    identify_payload,
    list_layers,
    replace_references,
    run_scripts,
    was_followed,
)
from gatepost.files.file_types import find_last_extensions
from gatepost.files.values import File, Trait
from gatepost.findings import kinds
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.html.large_pages import is_large_page, shorten_page
from gatepost.mail.links import parse_url
from gatepost.mail.message import Defect, Part
from gatepost.mail.text import TextReader
from gatepost.pages.page_nodes import SVG, XHTML, PageNodes, read_html_nodes, read_xml_page
from gatepost.pages.runner import PageEffects

MAX_PAGE = 16 << 20
MAX_SCRIPTS_SIZE = 64 << 20  # of a page that is cut down, whose scripts are not
MAX_LITERALS = 100
MUCH_CODE = 50_000
MUCH_DATA = 8_192  # bytes of a literal that is more than a table of a library
MAX_PICTURES = 20
_PAGES = frozenset({"html", "htm", "xhtml", "shtml", "svg", "hta", "xht"})
# Each repeats a class of characters: a group would cost memory for every character. The marks before and after are in
# none of the classes, so every character is looked at once.
_LITERAL = re.compile(r"[\"'`]([A-Za-z0-9+/=_\s\\%.,-]{120,}+)[\"'`]")
_NUMBERS = re.compile(r"[\[(]([0-9a-fA-FxX,\s]{180,}+)[\])]")
_DATA = re.compile(
    r"data:(?:application|text)/[\w.+-]{1,80}(?:;[\w=.-]{1,40}){0,4};base64,([A-Za-z0-9+/=\s%]{100,}+)", re.IGNORECASE
)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,2}|[0-9]{1,3}")
_NO_DIGITS = str.maketrans("", "", "0123456789abcdefABCDEF")
_NO_BASE64 = {ord(char): None for char in " \t\r\n\f\v\\=%"} | {ord("-"): "+", ord("_"): "/"}
CHUNK = 60_000
MAX_ENTITIES = 20_000
MAX_NUMBERS = 4_000_000  # characters of a list of numbers
_PICTURE = re.compile(
    rb"data:image/[\w.+-]{1,40}(?:;[\w=.-]{1,40}){0,4};base64,([A-Za-z0-9+/=\s]{300,}+)", re.IGNORECASE
)
# The ways in which a browser makes a file of bytes, and saves or opens it.
_SAVES = tuple(
    "createobjecturl;mssaveoropenblob;mssaveblob;new file(;.download;setattribute('download;"
    'setattribute("download;blob:'.split(";")
)
_MAKES = ("new blob", "new file(", "uint8array", "mssave", "data:application")
_DECODES = ("atob(", "unescape(", "decodeuricomponent(", "fromcharcode", "charcodeat")
_WRITES = ("document.write", "innerhtml", "document.open", "srcdoc", "location", "eval(", "new function(")
NEARBY_DATA = 3_000  # characters between data and what saves it
LEAST_DATA = 256  # bytes of data that may be a file; libraries have tables that are smaller
_DECRYPTS = ("cryptojs.", "crypto.subtle", "aes.decrypt", ".decrypt(")
_HANDLER = re.compile(rb"[\s\"'/]on[a-z]{3,25}\s{0,9}=")
_XML_NAMES = frozenset({"xml", "svg", "xhtml", "xht", "xsl", "xslt"})
_PREFIXED_SCRIPT = re.compile(rb"<[\w.-]{1,40}:script[\s>/]", re.IGNORECASE)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_XML_MARKS = (
    *(b"http://www.w3.org/1999/xhtml", b"http://www.w3.org/2000/svg", b"http://www.w3.org/1999/XSL/Transform"),
    *(b"xml-stylesheet", b"<!ENTITY", b"urn:schemas-microsoft-com:xslt"),
)
# Code of six signs only (JSFuck), and names as obfuscators write them (`_0x4f2a`).
_UNREADABLE = re.compile(r"\[\][\[\]()!+]{298}")
_RENAMED = re.compile(r"_0x(?<!\w_0x)[0-9a-f]{4,6}\b")
MANY_RENAMED = 20
# Internet Explorer and what is built on it run this; the stand-in browser does not.
_AUTOMATION = re.compile(
    r"<script\b[^<>]{0,200}vbs[^<>]{0,200}>[^<]{0,20000}?\b(?:CreateObject|GetObject|ExecuteGlobal|Execute)\b",
    re.IGNORECASE,
)
_TYPED = frozenset(
    {"exe", "zip", "rar", "7z", "iso", "ole", "cab", "lnk", "vhd", "onenote", "gzip", "chm", "elf", "pdf"}
)


def is_page(file: File) -> bool:
    """Return whether the name of a text file makes a browser open it."""
    return any(_PAGES.intersection(find_last_extensions(name)) for name in file.names)


def is_xml_page(file: File) -> bool:
    """Return whether a browser shows a file, as XML, as more than text: it has elements of XHTML or SVG under any
    prefix, is given a form by a style sheet, or makes its text of entities. No browser shows parts of documents."""
    if file.within or (file.type not in ("xml", "svg") and not is_named_xml(file)):
        return False
    content = file.content[:MAX_PAGE]
    if content[:2] in _WIDE_MARKS:
        content = content.decode("utf-16", "replace").encode()
    if file.type in ("svg", "html"):
        # As HTML it is read in any case; as XML it says something else where there are entities or prefixes.
        low = content.lower()
        return (
            any(mark in low for mark in (b"<!entity", b"xml-stylesheet", b"<![cdata["))
            or _has_scripts(content, low)
            or _has_handlers(low)
        )
    return any(mark in content for mark in _XML_MARKS)


def is_named_xml(file: File) -> bool:
    """Return whether the name of a file makes a browser read it as XML."""
    return any(_XML_NAMES.intersection(find_last_extensions(name)) for name in file.names)


def inspect_xml(builder: ContentsBuilder) -> None:
    """Add what is in a page that is XML: as XML, and then as a page without entities and prefixes."""
    page = read_xml_page(builder.file.content)
    if page is None:
        inspect(builder)
        return
    is_picture = page.root in (SVG, "svg")
    if not page.is_whole:
        builder.add_trait("script-unfinished", "limit of nodes")
        if _PREFIXED_SCRIPT.search(builder.file.content):
            builder.add_trait("page-svg-script" if is_picture else "xml-script", "under a prefix")
    scripts = [script.text or script.source for script in page.nodes.scripts]
    if page.processor_script or (scripts or page.nodes.has_handlers):
        name = "page-svg-script" if is_picture else "xml-script" if page.root != XHTML else "page-script"
        builder.add_trait(name, (scripts or ["a handler"])[0])
    if page.markup_entities:
        builder.add_trait("xml-entity-markup", ", ".join(page.markup_entities))
    for target in page.style_sheets:
        if page.has_transform or target.startswith("#") or parse_url(target).scheme in ("http", "https", "data", "ftp"):
            builder.add_trait("xml-transform", target)
            builder.add_link(target, source="script")
    content = page.html.encode("utf-8", "replace")
    builder.file = msgspec.structs.replace(builder.file, content=content, type="html", shown=False)
    inspect(builder, page.nodes)


def inspect(builder: ContentsBuilder, nodes: PageNodes | None = None) -> None:
    """Add links, forms and files in scripts of a page or picture (SVG); `nodes` are those of one read as XML."""
    _add_pictures(builder.file.content, builder)
    raw = _take_page(builder)
    file = builder.file
    low = raw.lower()
    has_scripts = _has_scripts(raw, low)
    if has_scripts or (not file.is_body and _has_handlers(low)):
        text, _ = decode_charset(raw, None)
        effects = _run_page(text, low, builder, nodes)
        layers = tuple(list_layers(effects)) if effects else ()
        if has_scripts and 0 < text.count("&#") < MAX_ENTITIES:
            text = replace_references(text)  # `&#100;ata:` is `data:` to a browser
        if has_scripts or layers:
            _inspect_scripts("\n".join((text, *layers) if has_scripts else layers), builder, effects)
    if not file.shown:  # what the reader of the message has seen in a page, the walk knows
        _inspect_page(file, builder)


def _take_page(builder: ContentsBuilder) -> bytes:
    """Return the page as it is to be read. A large one is cut down, which the builder's file then is, too."""
    file = builder.file
    if not is_large_page(file.content):
        return file.content
    text, _ = decode_charset(file.content, None)
    page = shorten_page(text)
    raw = page.html.encode("utf-8", "replace")
    if not page.is_whole or len(raw) > MAX_PAGE + MAX_SCRIPTS_SIZE:
        builder.add_unread("size")
        return file.content[:MAX_PAGE]
    builder.add_unread("text")
    if not file.shown:
        builder.add_links(page.links)
    builder.file = msgspec.structs.replace(file, content=raw)
    return raw


def _add_pictures(raw: bytes, builder: ContentsBuilder) -> None:
    """Add pictures that stand in the page as `data:` addresses (RFC 2397), so that they are searched for codes."""
    if b"data:image" not in raw:
        return
    for number, match in enumerate(_PICTURE.finditer(raw), 1):
        if number > MAX_PICTURES:
            builder.add_unread("pixels")
            return
        content = _decode_base64(match.group(1).decode("ascii"))
        builder.add_member(f"picture {number}", content, len(content))


def _has_scripts(raw: bytes, low: bytes) -> bool:
    """Return whether the page may run something or hold a file; two-byte characters do not show that at a glance."""
    if b"\0" in raw[:1_000] or b"onload" in low or b"onerror" in low or b";base64," in low:
        return True
    return b"script" in low and (b"<script" in low or b"javascript:" in low)


def _has_handlers(low: bytes) -> bool:
    """Return whether anything else in the page may run. The message's own text is not searched for it."""
    return any(mark in low for mark in (b"script:", b":script", b"srcdoc", b"=&#")) or bool(_HANDLER.search(low))


def _run_page(text: str, low: bytes, builder: ContentsBuilder, nodes: PageNodes | None) -> PageEffects | None:
    """Run the scripts of a page and return what they did; pictures alone run nothing."""
    if not (b"script" in low or b"srcdoc" in low or b"data:" in low or b"\0" in low[:1_000] or _HANDLER.search(low)):
        return None
    return run_scripts(nodes or read_html_nodes(text), text, builder)


def _inspect_page(file: File, builder: ContentsBuilder) -> None:
    kind = "image/svg+xml" if file.type == "svg" else "text/html"
    reader = TextReader()
    reader.read(Part(file.path, content_type=kind, disposition="attachment", content=file.content))
    for defect in reader.defects:
        if defect.kind.startswith("html:"):
            trait = make_trait(defect)
            builder.add_trait(trait.name, trait.detail)
        elif defect.kind == kinds.LIMIT_TEXT_SIZE.id:
            builder.add_unread("text")
        elif defect.kind.startswith("limit:"):
            builder.add_unread("size")
    for link in reader.links:
        builder.add_link(link.target, link.shown, "refresh" if link.source == "refresh" else "file")
    builder.add_text("\n".join(text.visible for text in reader.texts))


def make_trait(defect: Defect) -> Trait:
    """Return what was seen in a page as a trait of the file."""
    return Trait(defect.kind.replace("html:", "page-"), defect.detail)


def _inspect_scripts(text: str, builder: ContentsBuilder, effects: PageEffects | None) -> None:
    """Inspect what the scripts of a page say, and those that they made of strings when they ran."""
    low = text.lower()
    is_followed = was_followed(effects)
    known = {made.content for made in effects.files} if effects else set()
    is_open = is_followed and not (effects is not None and effects.is_closed)
    _inspect_payloads(text, low, builder, known, is_followed=is_followed, is_open=is_open)
    if builder.file.is_body:
        return
    if _has_any(low, _WRITES) and _has_any(low, _DECRYPTS):
        builder.add_trait("encrypted", "page")
    if _AUTOMATION.search(text):
        builder.add_trait("program-action", "VBScript")
    if _UNREADABLE.search(text) or sum(1 for _ in islice(_RENAMED.finditer(text), MANY_RENAMED)) == MANY_RENAMED:
        builder.add_trait("obfuscated-script")


def _inspect_payloads(
    text: str,
    low: str,
    builder: ContentsBuilder,
    known: set[bytes],
    *,
    is_followed: bool,
    is_open: bool,
) -> None:
    """Literals that are files. A page that saves what it made is a smuggler, whatever the bytes are by now. `known` are
    files that the scripts made when they ran; of scripts that were followed to their end no more is suspected than
    files of a known type. Libraries hold data and save files, too: of much code, data must be large, or stand beside
    what makes and saves a file of it, also where conditions were not opened (`is_open`) which may keep it from that.
    """
    makes, decodes = _has_any(low, _MAKES), _has_any(low, _DECODES)
    saves, writes = _has_any(low, _SAVES), _has_any(low, _WRITES)
    if not (makes or decodes or saves):
        return
    for name, content, place in _decode_literals(text, low):
        kind = identify_payload(content)
        if kind in HARMLESS or content.startswith(FONTS):
            continue
        is_suspect = not is_followed and makes and kind in ("data", "text", "html", "script", "svg")
        if len(text) > MUCH_CODE and len(content) < MUCH_DATA and kind != "html":
            is_suspect = False
        if not is_open and kind == "data" and len(content) >= LEAST_DATA and not is_suspect:
            is_suspect = _is_saved_nearby(low, place, len(content))
        if saves and (kind in _TYPED or is_suspect):
            builder.add_trait("smuggling", f"{kind}, {len(content)} bytes")
        elif writes and kind in ("html", "svg"):
            builder.add_trait("written-page", f"{len(content)} bytes")
        if content not in known:
            builder.add_member(name, content, len(content))


def _is_saved_nearby(low: str, place: int, size: int) -> bool:
    """Return whether data, with at least one digit in forty, stands beside what makes and saves a file."""
    literal = low[place : place + size]
    if sum(map(str.isdigit, literal)) * 40 < len(literal):
        return False
    nearby = low[max(0, place - NEARBY_DATA) : place + 2 * size + NEARBY_DATA]
    return _has_any(nearby, _MAKES) and _has_any(nearby, _SAVES)


def _has_any(low: str, words: tuple[str, ...]) -> bool:
    return any(word in low for word in words)


def _decode_literals(text: str, low: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield long literals as bytes with their places."""
    found = chain(
        ((_decode_base64(match.group(1)), match.start()) for match in _find_data(text, low)),
        ((_decode_literal(match.group(1)), match.start()) for match in _LITERAL.finditer(text)),
        ((_decode_numbers(match.group(1)), match.start()) for match in _NUMBERS.finditer(text)),
    )
    for count, (content, place) in enumerate(islice((each for each in found if each[0]), MAX_LITERALS), 1):
        yield f"script data {count}", content, place


def _find_data(text: str, low: str) -> Iterator[re.Match[str]]:
    """Yield the data in links; looking for the plain word first is many times faster than the expression."""
    place = low.find("data:")
    while place >= 0:
        if match := _DATA.match(text, place):
            yield match
        place = low.find("data:", place + 5)


def _decode_literal(literal: str) -> bytes:
    if "%" in literal:
        return _decode_percent(literal) if literal.count("%") * 5 > len(literal) else b""
    if "," in literal:
        return _decode_numbers(literal)
    if "." in literal:
        return b""
    digits = literal.replace("\\n", "").replace("\\r", "").translate(_NO_BASE64)
    if not digits[:100].translate(_NO_DIGITS) and len(digits) % 2 == 0 and not digits.translate(_NO_DIGITS):
        return bytes.fromhex(digits)
    return _decode_base64(digits)


def _decode_percent(literal: str) -> bytes:
    """Return the bytes of a literal with percent signs, a chunk at a time: each sign costs memory while it is read."""
    content = bytearray()
    start = 0
    while start < len(literal):
        end = literal.find("%", start + CHUNK)
        end = end if end >= 0 else len(literal)
        chunk = literal[start:end]
        if chunk.count("%") * 3 == len(chunk):
            content += _decode_hex(chunk.replace("%", ""))
        elif start < MAX_NUMBERS:
            content += unquote_to_bytes(chunk)
        start = end
    return bytes(content)


def _decode_hex(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return b""


def _decode_base64(literal: str) -> bytes:
    # White space of other scripts is in the literals, too, and in no alphabet.
    digits = literal.translate(_NO_BASE64).encode("ascii", "ignore").rstrip(b"+/")
    try:
        return b64decode(digits[: len(digits) - (len(digits) % 4 == 1)] + b"=" * (-len(digits) % 4))
    except Error:
        return b""


def _decode_numbers(literal: str) -> bytes:
    """Return the bytes of a list of numbers, as many as are read; small numbers alone are no text and no file."""
    if literal.count(",") < 60:
        return b""
    content = bytearray()
    for start in range(0, min(len(literal), MAX_NUMBERS), CHUNK):
        # Numbers that are cut by the end of a chunk are read with the next one.
        first = literal.rfind(",", 0, start) + 1 if start else 0
        last = literal.rfind(",", 0, start + CHUNK) if start + CHUNK < len(literal) else len(literal)
        numbers = _NUMBER.findall(literal, first, max(first, last))
        content += bytes([int(number, 16 if "x" in number or "X" in number else 10) & 0xFF for number in numbers])
    return bytes(content) if content and max(content) > 31 else b""
