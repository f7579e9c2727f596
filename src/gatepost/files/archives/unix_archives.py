"""Archives of Unix systems: tar (POSIX ustar with GNU and pax names), ar(5) (and .deb, which is one), cpio(5), and rpm
(Linux Standard Base), which is a header before a packed cpio."""

from collections.abc import Iterator

from gatepost.files.archives.reader import MAX_HEADERS, catch_faults
from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, UnpackBudget, UnreadReason

_AR_HEADER = 60
_NEW_HEADER, _OLD_HEADER, _BINARY_HEADER = 110, 76, 26
_FORMAT, _FOLDER, _REGULAR = 0o170000, 0o040000, 0o100000
_RPM_LEAD = 96
_RPM_HEADER = b"\x8e\xad\xe8"


@catch_faults
def read_ar(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the files of an ar archive, with GNU's and BSD's long names."""
    source = ByteSource(content, 8)
    names = b""
    headers = StepLimit(MAX_HEADERS)
    while source.left >= _AR_HEADER:
        headers.step()
        header = source.take(_AR_HEADER)
        size = _parse_number(header[48:58], 10)
        if header[58:60] != b"`\n":
            raise BrokenError("no header")
        label = header[:16].rstrip()
        name = label.rstrip(b"/")
        if label == b"//":
            names = bytes(source.data[source.place : source.place + size])
        elif label.startswith(b"#1/"):
            length = min(_parse_number(label[3:], 10), size)
            name = source.take(length).rstrip(b"\0")
            size -= length
        elif label.startswith(b"/") and label[1:].isdigit():
            name = names[int(label[1:]) :].split(b"\n", 1)[0].rstrip(b"/")
        if label in (b"/", b"//", b"/SYM64/") or content.startswith(b"!<thin>"):
            source.skip(min(size, source.left) if label in (b"/", b"//", b"/SYM64/") else 0)
        else:
            yield _take_member(source, name.decode("utf-8", "replace"), size, budget)
        source.skip(min(size & 1, source.left))


@catch_faults
def read_cpio(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the files of a cpio archive in any of its forms."""
    source = ByteSource(content)
    headers = StepLimit(MAX_HEADERS)
    while source.left >= _BINARY_HEADER:
        headers.step()
        mode, size, name, pad = _read_cpio_header(source)
        if name == "TRAILER!!!":
            return
        start = source.place
        if mode & _FORMAT in (_REGULAR, 0) and size:
            yield _take_member(source, name, size, budget)
        else:
            source.skip(size)
        source.skip(min(-(source.place if pad == 4 else source.place - start) % pad, source.left))
    raise BrokenError("no trailer")


def _read_cpio_header(source: ByteSource) -> tuple[int, int, str, int]:
    """Return mode, size, name, and what the data is padded to."""
    magic = bytes(source.data[source.place : source.place + 6])
    if magic in (b"070701", b"070702"):
        header = source.take(_NEW_HEADER)
        mode, size, length = (_parse_number(header[at : at + 8], 16) for at in (14, 54, 94))
        name, pad = source.take(length), 4
        source.skip(min(-source.place % 4, source.left))
    elif magic == b"070707":
        header = source.take(_OLD_HEADER)
        mode, size, length = (_parse_number(header[a:b], 8) for a, b in ((18, 24), (65, 76), (59, 65)))
        name, pad = source.take(length), 1
    elif magic[:2] in (b"\xc7\x71", b"\x71\xc7"):
        order = "little" if magic[0] == 0xC7 else "big"
        header = source.take(_BINARY_HEADER)
        words = [int.from_bytes(header[at : at + 2], order) for at in range(0, _BINARY_HEADER, 2)]  # type: ignore[arg-type]
        mode, length, size, pad = words[3], words[10], words[11] << 16 | words[12], 2
        name = source.take(length)
        source.skip(min(length & 1, source.left))
    else:
        raise BrokenError("no header")
    return mode, size, name.rstrip(b"\0").decode("utf-8", "replace"), pad


@catch_faults
def read_rpm(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield the payload of an rpm package: a packed cpio behind a lead and two headers."""
    source = ByteSource(content, _RPM_LEAD)
    for number in range(2):
        if source.take(8)[:3] != _RPM_HEADER:
            raise BrokenError("no header")
        entries, size = int.from_bytes(source.take(4), "big"), int.from_bytes(source.take(4), "big")
        source.skip(16 * entries + size)
        if number == 0:
            source.skip(-source.place % 8)
    if not source.left:
        raise BrokenError("no payload")
    yield _take_member(source, "payload", source.left, budget)


def _take_member(source: ByteSource, name: str, size: int, budget: UnpackBudget) -> Member:
    here = min(size, source.left)
    limit = min(max(0, budget.allowance(here)), here)
    data = bytes(source.data[source.place : source.place + limit])
    source.skip(here)
    budget.pay(0, limit)
    short: UnreadReason | None = "size" if limit < here else "damaged" if here < size else None
    return Member((name,), data, short)


def _parse_number(field: bytes, base: int) -> int:
    try:
        value = int(field.strip(b" \0") or b"0", base)
    except ValueError:
        raise BrokenError("no number") from None
    if value < 0:
        raise BrokenError("a negative number")
    return value


BLOCK = 512


def is_tar(content: bytes) -> bool:
    """Return whether this is a tar: by the magic of ustar, or by a header checksum that is right (the oldest tars have
    no magic)."""
    if len(content) < BLOCK:
        return False
    header = content[:BLOCK]
    if header[257:262] == b"ustar":
        return True
    stated = _parse_tar_number(header[148:156]) if header[0] else None
    return stated is not None and stated == sum(header) - sum(header[148:156]) + 8 * 32


def read_tar(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield every regular file."""
    place = 0
    long_name = ""
    count = 0
    while place + BLOCK <= len(content) and count <= budget.max_files:
        header = content[place : place + BLOCK]
        if not header.strip(b"\0"):
            place += BLOCK
            continue
        size = _parse_tar_number(header[124:136])
        if size is None:
            yield Member(("",), b"", "damaged")
            return
        room = budget.allowance(min(size, len(content)))
        data = content[place + BLOCK : place + BLOCK + min(size, room)]
        place += BLOCK + (size + BLOCK - 1) // BLOCK * BLOCK
        kind = header[156:157]
        if kind == b"L":
            long_name = _decode_text(data)
        elif kind == b"x":
            long_name = _find_pax_path(data) or long_name
        elif kind in (b"0", b"\0", b"7"):
            count += 1
            short: UnreadReason | None = "size" if size > room else "damaged" if len(data) < size else None
            budget.pay(0, len(data))
            yield Member((long_name or _decode_text(header[:100]),), data, short)
            long_name = ""
    if count > budget.max_files:
        yield Member(("",), b"", "count")
    elif content[place:].strip(b"\0"):
        yield Member(("",), b"", "damaged")


def _parse_tar_number(field: bytes) -> int | None:
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _decode_text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _find_pax_path(data: bytes) -> str:
    for line in data[:65_536].split(b"\n"):
        _, _, record = line.partition(b" ")
        if record.startswith(b"path="):
            return record[5:].decode("utf-8", "replace")
    return ""
