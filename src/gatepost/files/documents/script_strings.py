"""Strings that a script or command hides from a plain text search.

Macros and scripts take their strings apart and put them together when they run (`"X5O!" + "P%@AP"`), PowerShell takes
whole programs in base64 (`-EncodedCommand`), cmd.exe ignores carets and PowerShell backticks. This module undoes the
usual three; it runs nothing. Scripts in forms of PDF that are XML (XFA) are found here, too.

`find_addresses` finds web addresses in bytes that are not text as a whole, with one byte to a character or two.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import islice

# A share of a computer with a domain: anybody can own that.
DOMAIN_SHARE = re.compile(r"(?:file:)?[\\/]{2,5}[^\\/]{1,200}\.[^\\/.]{1,60}[\\/]", re.IGNORECASE)
MAX_TEXT = 4 << 20
MAX_FOUND = 200

# The closing mark may lack: an expression that fails on a long string would be tried again at each mark inside it.
_VISUAL_BASIC = re.compile(r'"((?>[^"\r\n]|""){0,4096}+)"?')
_JAVASCRIPT = re.compile(r""""((?>[^"\\\r\n]|\\.){0,4096}+)"?|'((?>[^'\\\r\n]|\\.){0,4096}+)'?""", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{40,}+={0,2}")
_CARET = re.compile(r"\^(.)", re.DOTALL)


def join_basic_strings(source: str) -> str:
    """Return all string literals of Visual Basic source in their order, put together."""
    return "".join(match.group(1).replace('""', '"') for match in _VISUAL_BASIC.finditer(source[:MAX_TEXT]))


def join_script_strings(source: str) -> str:
    """Return all string literals of JavaScript source in their order, put together."""
    found = (match.group(1) or match.group(2) or "" for match in _JAVASCRIPT.finditer(source[:MAX_TEXT]))
    return "".join(_ESCAPED.sub(_unescape_match, text) if "\\" in text else text for text in found)


def spell_out(text: str) -> str:
    """Return the text, and as the command shells understand it where that differs."""
    forms = [text]
    if "^" in text:
        forms.append(_CARET.sub(r"\1", text))
    if "`" in text:
        forms.append(text.replace("`", ""))
    return "\n".join(forms)


def decode_commands(text: str) -> Iterator[str]:
    """Yield what stands in base64 and is text, as UTF-16 (PowerShell's own form) or plain."""
    for count, match in enumerate(_BASE64.finditer(text[:MAX_TEXT])):
        if count >= MAX_FOUND:
            return
        digits = match.group().rstrip("=")
        try:
            content = b64decode(digits + "=" * (-len(digits) % 4))
        except Error:
            continue
        wide = content[1::2].count(0) * 4 > len(content)
        decoded = content.decode("utf-16-le" if wide else "latin-1", "replace")
        head = decoded[:400]
        if sum(character.isprintable() or character.isspace() for character in head) > 0.9 * len(head):
            yield decoded


def expand_commands(text: str) -> bytes:
    """Return a command with all that it spells out, as one file."""
    return "\n".join([spell_out(text), *(spell_out(inner) for inner in decode_commands(text))]).encode()


def _unescape_match(match: re.Match[str]) -> str:
    digits = match.group(1) or match.group(2)
    if digits:
        return chr(int(digits, 16)) if not 0xD800 <= int(digits, 16) <= 0xDFFF else "\ufffd"
    return {"n": "\n", "r": "\r", "t": "\t", "\n": ""}.get(match.group(3), match.group(3))


MAX_ADDRESSES = 2_000

# Names of XML vocabularies and the like: they look like addresses and lead nowhere.
_VOCABULARIES = tuple(
    "http://schemas. https://schemas. http://www.w3.org/ http://purl.org/ http://ns.adobe.com/ http://xml.org/ "
    "http://openoffice.org/ http://docs.oasis-open.org/ http://www.openoffice.org/".split()
)
_MARKS = (
    (
        b"://",
        re.compile(rb"(?:https?|ftp|file)\Z", re.IGNORECASE),
        re.compile(rb"[\x21\x23-\x26\x28-\x3b\x3d\x3f-\x7e]{3,2000}+"),
        5,
    ),
    (
        b":\0/\0/\0",
        re.compile(rb"(?:h\0t\0t\0p\0(?:s\0)?|f\0(?:t\0p\0|i\0l\0e\0))\Z", re.IGNORECASE),
        re.compile(rb"(?>[\x21\x23-\x26\x28-\x3b\x3d\x3f-\x7e]\0){3,2000}+"),
        10,
    ),
    (b"\\\0\\\0", re.compile(rb"(?<!\\\0)\Z"), re.compile(rb"(?>[\w.@-]\0){3,200}+\\\0(?>[\x20-\x7e]\0){1,500}+"), 10),
)


def find_addresses(content: bytes) -> Iterator[str]:
    """Yield every address; shares (`\\\\host\\share`) only where characters take two bytes."""
    found: dict[str, None] = {}
    for mark, before, after, reach in _MARKS:
        wide = b"\0" in mark
        place = content.find(mark)
        while place >= 0 and len(found) < MAX_ADDRESSES:
            end = place + len(mark)
            head = before.search(content, max(0, place - reach), place)
            if head and (tail := after.match(content, end)):
                end = tail.end()
                found[content[head.start() : end].decode("utf-16-le" if wide else "ascii", "replace")] = None
            place = content.find(mark, end)
    for address in found:
        if not address.lower().startswith(_VOCABULARIES):
            yield address


# Calls by which a script of a PDF opens a file that it brings along, and those that only exploits make: CVE-2007-5659,
# 2008-2992, 2009-0927, 2009-4324, and strings that are machine code.
LAUNCHES = re.compile(
    r"exportDataObject\s{0,9}\([^)]{0,300}?nLaunch\s{0,9}:\s{0,9}[12]|Collab\s{0,9}\.\s{0,9}(?:collectEmailInfo|getIcon)"
    r"|util\s{0,9}\.\s{0,9}printf\s{0,9}\(\s{0,9}[\"']%\d{4,}|media\s{0,9}\.\s{0,9}newPlayer\s{0,9}\(\s{0,9}null"
    r"|(?:%u[0-9a-fA-F]{4}){8}"
)
MAX_SCRIPTS = 200
MAX_FORM = 4 << 20
_SCRIPT = re.compile(rb"<(?:[\w.-]{1,40}:)?script\b[^<>]{0,1000}>([^<]{0,100000})")
_CDATA = re.compile(rb"<!\[CDATA\[|\]\]>")
_CALCULATION = re.compile(rb"formcalc", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]{0,30}:", re.IGNORECASE)


def find_form_scripts(form: bytes) -> list[str]:
    """Return the scripts of a form that are JavaScript; FormCalc only calculates."""
    form = _CDATA.sub(b"", form[:MAX_FORM])
    found = islice(_SCRIPT.finditer(form), MAX_SCRIPTS)
    wanted = (match for match in found if not _CALCULATION.search(match.group()[: match.start(1) - match.start()]))
    return [text for match in wanted if (text := unescape(match.group(1).decode("utf-8", "replace")).strip())]


_FORM_ADDRESS = re.compile(
    rb"\b(?:target|href|url|uri)\s{0,3}=\s{0,3}[\"'](https?:[^\"'<>]{4,2000})"
    rb"|<(?:[\w.-]{1,40}:)?(?:soapAddress|wsdlAddress|uri|submitUrl)\b[^<>]{0,500}>\s{0,20}(https?:[^<>\s]{4,2000})"
)


def find_form_addresses(form: bytes) -> list[str]:
    """Return the addresses that a form sends to, asks, or takes pictures from."""
    found = islice(_FORM_ADDRESS.finditer(form[:MAX_FORM]), MAX_SCRIPTS)
    return [unescape((match[1] or match[2]).decode("utf-8", "replace")) for match in found]


def join_addresses(base: str, addresses: Iterable[str]) -> Iterator[str]:
    """Yield addresses, those that are relative behind the base of the document."""
    for address in addresses:
        yield address if not base or _ABSOLUTE.match(address) else base.rstrip("/") + "/" + address.lstrip("/")
