"""Files that stand behind other files: a picture with an archive at its end is both, and so is an archive.

A picture is shown up to its end, an unpacker looks for its mark from the start on, and a loader cuts the program out.
Zip is found by its own reader, from the end of the file. What is looked for here has a long mark, or a header that can
be checked, so that packed pictures do not hold one by chance.
"""

from collections.abc import Iterator

from gatepost.files.values import Member, UnpackBudget

MAX_FOUND = 8
_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"Rar!\x1a\x07", "rar"),
    (b"7z\xbc\xaf\x27\x1c\0", "7z"),
    (b"MSCF\0\0\0\0", "cab"),
    (b"\x7fELF\x01\x01\x01", "elf"),
    (b"\x7fELF\x02\x01\x01", "elf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "doc"),
    (b"This program cannot be run in DOS mode", "exe"),
    (b"This program must be run under Win32", "exe"),
    (b"PE\0\0", "exe"),
)
_PE_AT = 0x3C
_STUB = 0x400  # how far before its message or header a program starts
# Types whose readers end where their content ends, or that nothing reads.
CARRIERS = frozenset(
    "png jpeg gif bmp tiff webp heif jpeg2000 ico wav mp3 mp4 data text pgp ics vcard svg html xml pdf rtf".split()
)
APPENDED = "appended"
_SMALLEST = 16
_FILLING = b"\0\r\n \xff"


def find_tail(content: bytes, end: int, budget: UnpackBudget) -> Iterator[Member]:
    """Yield what stands behind the end of a file as a file of its own."""
    if tail := cut_tail(content, end):
        yield _take(APPENDED, tail, budget)


def cut_tail(content: bytes, end: int) -> bytes:
    """Return what stands behind the end of a file; nothing where it only fills a block."""
    tail = content[end:] if 0 < end < len(content) else b""
    return tail if len(tail.strip(_FILLING)) >= _SMALLEST else b""


def find_archive_end(kind: str, content: bytes) -> int:
    """Return where an archive ends that says so itself; 0 where it does not say."""
    if kind == "7z":  # 7zFormat.txt: offset and size of the header at the end, counted from byte 32
        return 32 + int.from_bytes(content[12:20], "little") + int.from_bytes(content[20:28], "little")
    if kind == "cab":  # [MS-CAB] section 2.1: cbCabinet
        return int.from_bytes(content[8:12], "little")
    return 0


def find_appended(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield what stands behind the start of a file, each from its mark to the end of the file."""
    places: dict[int, str] = {}
    for mark, name in _MARKS:
        place = content.find(mark, 1)
        for _ in range(MAX_FOUND):
            if place < 0:
                break
            start = _find_program(content, place) if name == "exe" else place
            if start > 0:
                places.setdefault(start, name)
            place = content.find(mark, place + 1)
    for start, name in sorted(places.items())[:MAX_FOUND]:
        yield _take(f"{APPENDED}.{name}", content[start:], budget)


def _take(name: str, content: bytes, budget: UnpackBudget) -> Member:
    limit = min(max(0, budget.allowance(len(content))), len(content))
    budget.pay(0, limit)
    return Member((name,), content[:limit], "size" if limit < len(content) else None)


def _find_program(content: bytes, place: int) -> int:
    """Return where the program begins that has its message or header here; -1 where none does."""
    start = content.rfind(b"MZ", max(0, place - _STUB), place)
    while start >= 0:
        header = start + int.from_bytes(content[start + _PE_AT : start + _PE_AT + 4], "little")
        if content.startswith(b"PE\0\0", header) or (place - start < 0x100 and content[place : place + 4] == b"This"):
            return start
        start = content.rfind(b"MZ", max(0, place - _STUB), start)
    return -1
