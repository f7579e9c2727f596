"""OneNote sections (MS-ONESTORE), in which files are attached under pictures that ask for a click."""

import re
from collections.abc import Iterator
from itertools import islice

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.script_strings import find_addresses
from gatepost.files.file_types import identify

MAX_OBJECTS = 500
MAX_NAMES = 20_000
_MARK = bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac")
_HEAD = 36
_PACKAGED = bytes.fromhex("2fe98d63d4a6c14b9a36b3fc2511a5b7")
MAX_RUNS = 2_000
MIN_BLANKS = 3
# Letters of alphabets whose characters have a small first byte: Latin, Greek, Cyrillic, Hebrew, Arabic.
_WIDE_RUN = re.compile(rb"(?>[\t\n\r\x20-\x7e\xa0-\xff]\0|[^\x00][\x01-\x06]|[\x10-\x3f]\x20){16,}+")
_NARROW_RUN = re.compile(rb"[\t\n\r\x20-\x7e\xa0-\xff]{24,}+")
_PICTURES = frozenset({"png", "jpeg", "gif", "bmp", "tiff", "webp"})
_CHARACTERS = frozenset(range(0x20, 0x7F)) - frozenset(b'/\\"<>|*?')
# An extension, and what may stand behind it in a name that hides it: dots, blanks of all sorts, the mark of a stream.
_ENDING = re.compile(
    rb"(?>[A-Za-z0-9-]\0){1,24}+(?>[ .:$\"'_A-Z\xa0]\0|[\x00-\x6f]\x20|\x00\x30|\x00\x28|\xff\xfe){0,40}+(?=\0\0)"
)


def inspect(builder: ContentsBuilder) -> None:
    """Add the attached files, the text and the links of a OneNote section (MS-ONESTORE). Attached files stand in it as
    they are, each behind a fixed mark and its length. A section that was saved from the web has another form inside
    (section 2.8, of MS-FSSHTTPB); its files are not read, and that is said."""
    content = builder.file.content
    names = list(dict.fromkeys(_find_note_names(content)))
    place = content.find(_MARK)
    count = 0
    while place >= 0:
        count += 1
        if count > MAX_OBJECTS:
            builder.add_unread("count")
            break
        size = int.from_bytes(content[place + 16 : place + 24], "little")
        start = place + _HEAD
        _add_attached(content[start : start + min(size, len(content))], names, builder)
        place = content.find(_MARK, start)
    if content[48:64] == _PACKAGED:
        builder.add_unread("unsupported")
    builder.add_links(find_addresses(content))
    builder.add_text("\n".join(_find_note_texts(builder.take_source(content))))


def _find_note_texts(content: bytes) -> Iterator[str]:
    """Yield what is written on the pages: runs of characters, in two bytes or, where all are Latin, in one
    (MS-ONE sections 2.3.51 and 2.3.52); titles of fonts and the like are shorter."""
    for match in islice(_WIDE_RUN.finditer(content), MAX_RUNS):
        yield match.group().decode("utf-16-le", "replace")
    for match in islice(_NARROW_RUN.finditer(content), MAX_RUNS):
        if match.group().count(b" ") >= MIN_BLANKS:
            yield match.group().decode("cp1252", "replace")


def _find_note_names(content: bytes) -> Iterator[str]:
    """Yield whatever looks like the name of a file, in characters of two bytes."""
    place = content.find(b".\0")
    for _ in range(MAX_NAMES):
        if place < 0:
            return
        ending = _ENDING.match(content, place + 2)
        start = place
        while (
            ending
            and start >= 2
            and place - start < 240
            and content[start - 2] in _CHARACTERS
            and not content[start - 1]
        ):
            start -= 2
        if ending and start < place:
            yield content[start : ending.end()].decode("utf-16-le")
        place = content.find(b".\0", place + 2)


def _add_attached(content: bytes, names: list[str], builder: ContentsBuilder) -> None:
    """Add one attached file. Pictures are part of the page; any other file may bear any of the names in the section."""
    if identify(content) in _PICTURES:
        builder.add_member("picture", content)
        return
    builder.add_trait("embedded-object", names[0] if names else "attached file")
    builder.add_member(tuple(names[:8]) or ("attached file",), content)
