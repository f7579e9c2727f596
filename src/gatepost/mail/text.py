"""The text and links that a person reads in a message, from every textual part.

A part is read as what it is, not only as what it says: HTML that is declared as plain text is read as HTML, and an
attached page as a page. One reader serves a whole message, so that a thousand small parts cost no more than a large
one.

Text that is not HTML is made readable first: flowed paragraphs are joined (RFC 3676), calendars unfolded (RFC 5545
section 3.1), and rich text loses its control words.
"""

import re
from collections import deque
from html import unescape
from itertools import islice

from gatepost.findings import kinds
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.html import document
from gatepost.mail.html.active import LITTLE_TEXT, HtmlNotes, has_markup, is_acting_markup
from gatepost.mail.html.document import HtmlPage
from gatepost.mail.html.large_pages import cut_scripts, is_large_page, shorten_page
from gatepost.mail.html.limits import MAX_HTML, MAX_TAGS, limit_html
from gatepost.mail.html.script import ScriptBudget
from gatepost.mail.links import Links, find_cut_targets, find_cut_words, find_targets
from gatepost.mail.message import Defect, Link, Part, Text

_FLOWED = re.compile(r"format\s{0,9}=\s{0,9}\"?flowed", re.IGNORECASE)
_DELSP = re.compile(r"delsp\s{0,9}=\s{0,9}\"?yes", re.IGNORECASE)
# A quoted line, a signature mark and an empty line end a paragraph; RFC 3676 section 4.
_SOFT_BREAK = re.compile(r" \n(?<!\n-- \n)(?=[^\n>])")
_STUFFED = re.compile(r"\n (?=[ >]|From )")
_ICALENDAR_FOLD = re.compile(r"\n[ \t]")
_ICALENDAR_ESCAPE = re.compile(r"\\([nN,;\\])")
_RTF = re.compile(
    r"\\'([0-9a-fA-F]{2})|\\u(-?\d{1,6}) ?\??|\\(par|line|tab|cell|row)\b ?|\\[a-zA-Z]{1,32}-?\d{0,10} ?|\\.|[{}\n]"
)


def normalise_lines(text: str) -> str:
    """Return the text with one kind of line end and no byte order mark."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff")


def unflow(text: str, content_type: str) -> str:
    """Return paragraphs as single lines where the content type says `format=flowed` (RFC 3676)."""
    if not _FLOWED.search(content_type):
        return text
    text = _SOFT_BREAK.sub("" if _DELSP.search(content_type) else " ", text)
    return _STUFFED.sub("\n", f"\n{text}")[1:]


def unfold_calendar(text: str) -> str:
    """Return a calendar or card with its lines unfolded and unescaped (RFC 5545 section 3.1)."""
    return _ICALENDAR_ESCAPE.sub(
        lambda match: "\n" if match.group(1) in "nN" else match.group(1), _ICALENDAR_FOLD.sub("", text)
    )


def strip_rtf(text: str) -> str:
    """Return the words of an RTF document: control words are dropped, characters decoded."""
    return _RTF.sub(_decode_rtf, text)


def _decode_rtf(match: re.Match[str]) -> str:
    code, number, mark = match.groups()
    if code:
        return bytes.fromhex(code).decode("windows-1252", "replace")
    if number:
        return chr(int(number) & 0xFFFF) if not 0xD800 <= int(number) & 0xFFFF <= 0xDFFF else "\ufffd"
    return "\n" if mark else ""


MAX_TEXT = 4_000_000
# Of a longer text, so many bytes are read at its start, at its end, and at each of some places between them.
_HEAD, _TAIL, _SAMPLE, _SAMPLES = 3_000_000, 500_000, 50_000, 10
_SLACK = 4_096
# Links written in plain text. Logs and lists have any number; links of pages have a budget that these leave to them.
MAX_WRITTEN_LINKS = 5_000
_LAST_LINKS = 500
MAX_SCRIPT = 400_000  # letters of a script in a large page
_LAST_TEXT = 65_536
MAX_ALL_TEXT = 32_000_000
MAX_PAGES = 8
MAX_NESTING = 3

_PAGE_TYPES = frozenset({"text/html", "application/xhtml+xml", "text/x-amp-html", "image/svg+xml", "application/hta"})
_PAGE_NAMES = (".html", ".htm", ".xhtml", ".shtml", ".svg", ".hta")
_FOREIGN_TEXT = frozenset({"text/css", "text/javascript", "text/x-python", "text/csv"})
_MORE_TEXT = frozenset({"message/delivery-status", "application/rtf", "application/ics"})
_PAGE_START = re.compile(
    r"[\s\ufeff]{0,500}+(?:<!--.{0,500}?-->\s{0,100}+)?<(?:!doctype|html|head|body|meta|script|svg|iframe)[\s>/]",
    re.IGNORECASE | re.DOTALL,
)
_SHOWN_HEADERS = frozenset({"subject", "from", "to", "sender", "reply-to", "content-type", "content-disposition"})


def read_texts(parts: tuple[Part, ...]) -> tuple[tuple[Text, ...], tuple[Link, ...], tuple[Defect, ...]]:
    """Return texts, links and oddities of every textual leaf among `parts`, which hold every reading of the message."""
    reader = TextReader()
    for part in parts:
        reader.read(part)
    return tuple(reader.texts), tuple(reader.links), tuple(reader.defects)


def detect_form(part: Part) -> str:
    """Return how a leaf is to be read: "html", "plain", or "" where it is no text."""
    kind = part.content_type
    if kind in _PAGE_TYPES or (part.names and any(name.lower().endswith(_PAGE_NAMES) for name in part.names)):
        return "html"
    is_text = kind in _MORE_TEXT or (kind.startswith("text/") and kind not in _FOREIGN_TEXT)
    return "plain" if is_text else ""


class TextReader:
    """Reads the texts of one message within limits for all of them together. `nodes` counts the work on HTML."""

    def __init__(self) -> None:
        self.texts: list[Text] = []
        self.links = Links()
        self.defects: list[Defect] = []
        self.nodes = 0
        self.tags = 0
        self._pages = 0
        self._chars = 0
        self._written = 0
        self._scripts = ScriptBudget()
        self._seen: set[tuple[str, str, bytes]] = set()

    def read(self, part: Part) -> None:
        """Read one part, if it is text that was not read before in the same form."""
        notes = HtmlNotes(self._scripts)
        _check_names(part, notes)
        if not part.children and part.content and (form := detect_form(part)):
            key = (form, part.charset or "", part.content)
            if key not in self._seen:
                self._seen.add(key)
                self._read_leaf(part, form, notes)
        self.defects.extend(notes.defects(part.path))

    def _read_leaf(self, part: Part, form: str, notes: HtmlNotes) -> None:
        text = self._decode_content(part, form, notes)
        if form == "plain" and text.lstrip("\ufeff \t\r\n")[:1] == "<" and _PAGE_START.match(text):
            notes.note(kinds.HTML_UNDECLARED, part.content_type)
            if notes.has(kinds.LIMIT_TEXT_SIZE):
                notes.note(kinds.LIMIT_HTML_SIZE)
            form = "html"
        is_attached = part.disposition == "attachment" or part.content_type.partition("/")[0] not in {"text", "message"}
        is_named = notes.has(kinds.HTML_WEBMAIL_ATTACK)  # by its name, which the mail program shows
        if form == "html":
            visible, hidden = self._read_html(text, part.path, notes)
            if notes.has(kinds.HTML_SCRIPT) and len(visible) < LITTLE_TEXT and self._has_script_link(part.path):
                notes.note(kinds.HTML_WEBMAIL_ATTACK, "hardly more than a script from elsewhere")
            self.texts.append(Text(part.path, "html", visible, hidden, is_attached))
        else:
            visible = self._remove_invisible(_make_readable(text, part), notes)
            self.texts.append(Text(part.path, "plain", visible, "", is_attached))
            self._add_written_links(visible, part.path, notes)
        if is_attached and not is_named:  # a browser opens it, not the mail program
            notes.drop(kinds.HTML_WEBMAIL_ATTACK)
        if not self.links.is_whole:
            notes.note(kinds.LIMIT_LINKS)

    def _decode_content(self, part: Part, form: str, notes: HtmlNotes) -> str:
        room = max(0, MAX_ALL_TEXT - self._chars)
        content = part.content
        if form == "html" and is_large_page(content):
            text = self._shorten(decode_charset(content, part.charset)[0], part.path, notes)
            self._chars += len(text)
            return text
        if form == "html" and len(content) > room:
            content = content[:room]
            notes.note(kinds.LIMIT_HTML_SIZE)
        elif form != "html" and len(content) > min(MAX_TEXT, room):
            content = sample_text(content)[:room]
            notes.note(kinds.LIMIT_TEXT_SIZE, f"{len(content)} of {len(part.content)} bytes read")
        text, _ = decode_charset(content, part.charset)
        self._chars += len(text)
        return text

    def _read_html(self, html: str, where: str, notes: HtmlNotes) -> tuple[str, str]:
        page = self._read_page(html, where, notes)
        visible = page.join_visible()
        hidden = document.remove_invisible(page.join_hidden()).text
        nested = page.nested
        for _ in range(MAX_NESTING):
            if not nested:
                break
            inner = self._read_page("\n".join(nested), where, notes)
            visible = _join_texts(visible, inner.join_visible())
            nested = inner.nested
        if nested:
            notes.note(kinds.LIMIT_HTML_PARTS)
        if much := document.describe_hidden(visible, hidden, page.unseen):
            notes.note(kinds.TEXT_HIDDEN, much)
        return self._remove_invisible(visible, notes), hidden

    def _read_page(self, html: str, where: str, notes: HtmlNotes) -> HtmlPage:
        self._pages += 1
        limited = limit_html(html, MAX_TAGS - self.tags, is_strict=self._pages > MAX_PAGES)
        self.tags += limited.tags
        for limit in limited.limits:
            notes.note(limit)
        page = HtmlPage(limited.html, where, self.links, notes)
        self.nodes += page.nodes
        if not page.is_whole:
            notes.note(kinds.LIMIT_HTML_PARTS)
        self._add_written_links(" ".join(page.loose), where, notes)
        if words := find_cut_words(page.loose):
            for target in find_cut_targets(page.join_visible(), words):
                self.links.add(target, where, "text", shown=target)
        return page

    def _shorten(self, html: str, where: str, notes: HtmlNotes) -> str:
        """Return a large page cut down to what can matter (`large_pages`); its links are added."""
        page = shorten_page(html)
        short = cut_scripts(page.html, MAX_SCRIPT)
        if not page.is_whole or len(short) > min(MAX_HTML, MAX_ALL_TEXT - self._chars):
            notes.note(kinds.LIMIT_HTML_SIZE, f"{len(html)} letters")
            return html[: max(0, min(MAX_HTML, MAX_ALL_TEXT - self._chars))]
        notes.note(kinds.LIMIT_TEXT_SIZE, f"{len(short)} of {len(html)} letters read")
        for target in page.links:
            self.links.add(target, where, "html")
        return short

    def _remove_invisible(self, text: str, notes: HtmlNotes) -> str:
        seen = document.remove_invisible(text)
        if seen.broken_words:
            notes.note(kinds.TEXT_INVISIBLE_CHARACTERS, f"count={seen.broken_words}")
        if seen.is_overridden:
            notes.note(kinds.TEXT_BIDI_OVERRIDE)
        return seen.text

    def _has_script_link(self, where: str) -> bool:
        return any(link.source == "script" and link.host and link.where == where for link in self.links)

    def _add_written_links(self, text: str, where: str, notes: HtmlNotes) -> None:
        """Add the links of a plain text, the first of them and the last."""
        room = MAX_WRITTEN_LINKS - self._written
        found = find_targets(text)
        first = list(islice(found, room))
        self._written += len(first)
        self.links.add_written(first, where)
        if next(found, None) is not None:
            notes.note(kinds.LIMIT_TEXT_SIZE, f"{room} links read")
            last = deque(find_targets(text[-_LAST_TEXT:]) if room else (), _LAST_LINKS)
            self.links.add_written(list(last), where)


def sample_text(content: bytes) -> bytes:
    """Return a long text cut down to its start, pieces of its middle, and its end, at line ends or characters."""
    size = len(content)
    spread = (size - _HEAD - _TAIL) // _SAMPLES
    starts = [_HEAD + number * spread + spread // 2 for number in range(_SAMPLES)]
    places = [(0, _HEAD), *((start, start + _SAMPLE) for start in starts), (size - _TAIL, size)]
    if b"\0" in content[:_SLACK]:  # two or four bytes to a character
        return b"".join(content[start & ~3 : end & ~3 if end < size else size] for start, end in places)
    return b"\n".join(content[_find_break(content, start) : _find_break(content, end)] for start, end in places)


def _find_break(content: bytes, place: int) -> int:
    """Return the next place where a text can be cut."""
    if place in (0, len(content)):
        return place
    line = content.find(b"\n", place, place + _SLACK)
    if line >= 0:
        return line + 1
    while place < len(content) and content[place] & 0xC0 == 0x80:  # within a character of UTF-8
        place += 1
    return place


def _make_readable(text: str, part: Part) -> str:
    text = normalise_lines(text)
    if part.content_type in {"text/calendar", "text/vcard", "text/x-vcard", "application/ics"}:
        return unfold_calendar(text)
    if part.content_type in {"text/rtf", "application/rtf"}:
        return strip_rtf(text)
    return unflow(text, part.headers.first("content-type") or "")


def _join_texts(visible: str, more: str) -> str:
    """Return the visible text with lines added that only some mail programs show and that say something new."""
    shown = set(visible.split("\n"))
    fresh = [line for line in more.split("\n") if line and line not in shown]
    return "\n".join([visible, *fresh]) if fresh else visible


def _check_names(part: Part, notes: HtmlNotes) -> None:
    """Note header fields and file names that would act in a careless webmail."""
    for name in part.names:
        if has_markup(name):
            _note_markup(name, name, notes)
    for field in part.headers.fields:
        if field.name in _SHOWN_HEADERS and has_markup(field.value):
            _note_markup(f"{field.name}: {field.value}", field.value, notes)


def _note_markup(detail: str, value: str, notes: HtmlNotes) -> None:
    notes.note(kinds.HTML_IN_HEADER, detail)
    if is_acting_markup(unescape(value)):
        notes.note(kinds.HTML_WEBMAIL_ATTACK, detail)
