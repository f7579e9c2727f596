"""Text that is not HTML, made readable: flowed paragraphs (RFC 3676), folded calendars (RFC 5545), rich text."""

import re

_FLOWED = re.compile(r"format\s{0,9}=\s{0,9}\"?flowed", re.IGNORECASE)
_DELSP = re.compile(r"delsp\s{0,9}=\s{0,9}\"?yes", re.IGNORECASE)
# A quoted line, a signature mark and an empty line end a paragraph; RFC 3676 section 4.
_SOFT_BREAK = re.compile(r"(?<!\n--) \n(?=[^\n>])")
_STUFFED = re.compile(r"^ (?=[ >]|From )", re.MULTILINE)
_ICALENDAR_FOLD = re.compile(r"\n[ \t]")
_ICALENDAR_ESCAPE = re.compile(r"\\([nN,;\\])")
_RTF = re.compile(
    r"\\'([0-9a-fA-F]{2})|\\u(-?\d{1,6}) ?\??|\\(par|line|tab|cell|row)\b ?|\\[a-zA-Z]{1,32}-?\d{0,10} ?|\\.|[{}\n]"
)


def lines(text: str) -> str:
    """The text with one kind of line end and no byte order mark."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff")


def flowed(text: str, content_type: str) -> str:
    """Paragraphs whole again where the content type says `format=flowed`."""
    if not _FLOWED.search(content_type):
        return text
    text = _SOFT_BREAK.sub("" if _DELSP.search(content_type) else " ", text)
    return _STUFFED.sub("", text)


def calendar(text: str) -> str:
    """A calendar or card with its lines unfolded and unescaped."""
    return _ICALENDAR_ESCAPE.sub(_icalendar_character, _ICALENDAR_FOLD.sub("", text))


def _icalendar_character(match: re.Match[str]) -> str:
    return "\n" if match.group(1) in "nN" else match.group(1)


def rich_text(text: str) -> str:
    """The words of an RTF document: control words dropped, characters decoded, nothing laid out."""
    return _RTF.sub(_rtf_character, text)


def _rtf_character(match: re.Match[str]) -> str:
    code, number, mark = match.groups()
    if code:
        return bytes.fromhex(code).decode("windows-1252", "replace")
    if number:
        return chr(int(number) & 0xFFFF) if not 0xD800 <= int(number) & 0xFFFF <= 0xDFFF else "\ufffd"
    return "\n" if mark else ""
