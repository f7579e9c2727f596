"""Data of PDF forms that travels without its form: FDF (ISO 32000-1 section 12.7.7) and XFDF (ISO 19444-1).

Whoever opens such a file gets the form from where it says, on the author's server or file share, with scripts of the
author in it that run before and after the data are filled in.
"""

import re
from html import unescape
from itertools import islice

from gatepost.files.documents.contents_builder import ContentsBuilder

MAX_SOURCE = 4 << 20
MAX_FOUND = 20
_SPACE = rb"[\0\t\n\f\r ]{0,20}"
_TEXT = rb"\(((?>[^\\()]|\\.|\([^()]{0,500}\)){1,20000}+)\)"
_FORM = re.compile(rb"/U?F" + _SPACE + rb"(?:" + _TEXT + rb"|<([0-9A-Fa-f\s]{4,8000}+)>)", re.DOTALL)
_SCRIPT = re.compile(rb"/(?:Before|After|AfterPermsReady|JS)" + _SPACE + _TEXT, re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_XML_FORM = re.compile(r"<(?:[\w.-]{1,40}:)?f\s[^<>]{0,200}?href\s{0,9}=\s{0,9}[\"']([^\"'<>]{3,2000})", re.IGNORECASE)
_XML_SCRIPT = re.compile(r"<(?:[\w.-]{1,40}:)?(?:JavaScript|Launch)\b[^<>]{0,2000}>([^<]{0,20000}+)", re.IGNORECASE)
_ELSEWHERE = re.compile(r"(?:https?|ftp|file):/{0,9}[^/\s]|[\\/]{2}[^\\/\s]", re.IGNORECASE)


def is_form_data(content: bytes) -> bool:
    """Return whether the content is XFDF; FDF is a PDF by its first bytes."""
    return b"ns.adobe.com/xfdf" in content[:2_048]


def inspect_fdf(builder: ContentsBuilder) -> None:
    """Add where FDF takes its form from, and its scripts."""
    content = builder.file.content[:MAX_SOURCE]
    if not content.startswith(b"%FDF-"):
        return
    for match in islice(_FORM.finditer(content), MAX_FOUND):
        hexadecimal = match[2] and bytes.fromhex("".join(match[2].decode("ascii").split())[: len(match[2]) & ~1])
        _add_form(_decode(hexadecimal or _ESCAPE.sub(_unescape, match[1] or b"")), builder)
    for match in islice(_SCRIPT.finditer(content), MAX_FOUND):
        _add_script(_decode(_ESCAPE.sub(_unescape, match[1])), builder)


def inspect_xfdf(builder: ContentsBuilder) -> None:
    """Add where XFDF takes its form from, and its scripts."""
    text = builder.file.content[:MAX_SOURCE].decode("utf-8", "replace")
    for match in islice(_XML_FORM.finditer(text), MAX_FOUND):
        _add_form(unescape(match[1]), builder)
    for match in islice(_XML_SCRIPT.finditer(text), MAX_FOUND):
        _add_script(unescape(match[1]), builder)


def _add_form(target: str, builder: ContentsBuilder) -> None:
    """A form on the reader's own disk is named without a server."""
    if _ELSEWHERE.match(target.strip()):
        builder.add_link(target.strip())
        builder.add_trait("remote-template", target.strip())


def _add_script(source: str, builder: ContentsBuilder) -> None:
    """Data have no scripts: those who export them save values."""
    builder.add_trait("pdf-javascript", source[:100])
    builder.add_command("program-action", "script", source)


def _decode(text: bytes) -> str:
    if text[:2] in (b"\xfe\xff", b"\xff\xfe"):
        return text.decode("utf-16", "replace")
    return text.decode("utf-8", "replace")


def _unescape(match: re.Match[bytes]) -> bytes:
    sign = match[1]
    if sign[:1].isdigit():
        return bytes([int(sign, 8) & 0xFF])
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\n": b""}.get(sign, sign)
