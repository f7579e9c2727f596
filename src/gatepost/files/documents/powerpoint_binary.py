"""PowerPoint's binary documents (MS-PPT): records in records.

Embedded objects and macros stand in them as compressed compound files, and a click or a mere move of the mouse may
start a program.
"""

from collections.abc import Iterator

from gatepost.files.archives import decompress
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.script_strings import expand_commands, find_addresses

MAX_RECORDS = 500_000
STORAGE, ACTION, TEXT = 0x1011, 0x0FF3, 0x0FBA
WIDE_TEXT, NARROW_TEXT = 0x0FA0, 0x0FA8  # what stands on slides (MS-PPT sections 2.9.42 and 2.9.43)
RUN_PROGRAM, RUN_MACRO = 2, 1
_WANTED = frozenset({STORAGE, ACTION, TEXT, WIDE_TEXT, NARROW_TEXT})
ENCRYPTED_TOKEN = b"\xdf\xc4\xd1\xf3"


def inspect(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect the stream `PowerPoint Document`."""
    program = False
    shown: list[str] = []
    for kind, instance, data in _read_records(content, builder):
        if kind == STORAGE:
            _add_storage(data, instance, builder)
        elif kind == ACTION:
            program = data[8:9] == bytes([RUN_PROGRAM])
            if data[8:9] == bytes([RUN_MACRO]):
                builder.add_trait("macro-autorun", "an action on a slide")
        elif kind == TEXT and program:
            command = data.decode("utf-16-le", "replace")
            builder.add_trait("program-action", command)
            builder.add_member("program action", expand_commands(command))
            program = False
        elif kind == TEXT:
            builder.add_links(find_addresses(data))
        elif kind in (WIDE_TEXT, NARROW_TEXT):
            shown.append(data.decode("utf-16-le" if kind == WIDE_TEXT else "latin-1", "replace"))
    builder.add_text("\n".join(shown).replace("\r", "\n").replace("\x0b", "\n"))


def inspect_user(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect the stream `Current User`, which says whether the rest is encrypted (MS-PPT section 2.3.2)."""
    if content[12:16] == ENCRYPTED_TOKEN:
        builder.add_trait("encrypted", "PowerPoint")


def _add_storage(data: bytes, instance: int, builder: ContentsBuilder) -> None:
    if instance == 1:
        out, unread = decompress.deflate(data[6:], builder.allowance(len(data)))  # past a length and the head of zlib
        builder.add_unread(None if unread == "damaged" else unread)  # PowerPoint leaves the end away
        builder.add_member("embedded storage", out, len(data))
    else:
        builder.add_member("embedded storage", data)


def _read_records(content: bytes, builder: ContentsBuilder) -> Iterator[tuple[int, int, bytes]]:
    """Yield the records that are wanted, wherever they stand; containers are stepped into, not over."""
    place = 0
    for _ in range(MAX_RECORDS):
        if place + 8 > len(content):
            return
        head = content[place] | content[place + 1] << 8
        kind = content[place + 2] | content[place + 3] << 8
        place += 8
        if head & 0xF == 0xF:
            continue
        size = int.from_bytes(content[place - 4 : place], "little")
        if kind in _WANTED:
            yield kind, head >> 4, content[place : place + size]
        place += size
    builder.add_unread("count")
