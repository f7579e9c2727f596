"""Tar archives (POSIX ustar, GNU and pax names): blocks of 512 bytes, each entry a header and its data."""

from collections.abc import Iterator

from gatepost.files.values import Member, UnpackBudget, UnreadReason

BLOCK = 512


def is_tar(content: bytes) -> bool:
    """Return whether this is a tar: by the magic of ustar, or by a header checksum that is right (the oldest tars have
    no magic)."""
    if len(content) < BLOCK:
        return False
    header = content[:BLOCK]
    if header[257:262] == b"ustar":
        return True
    stated = _parse_number(header[148:156]) if header[0] else None
    return stated is not None and stated == _compute_checksum(header)


def read_members(content: bytes, budget: UnpackBudget) -> Iterator[Member]:
    """Yield every regular file."""
    place = 0
    long_name = ""
    count = 0
    while place + BLOCK <= len(content) and count <= budget.max_files:
        header = content[place : place + BLOCK]
        if not header.strip(b"\0"):
            place += BLOCK
            continue
        size = _parse_number(header[124:136])
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


def _parse_number(field: bytes) -> int | None:
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _compute_checksum(header: bytes) -> int:
    return sum(header) - sum(header[148:156]) + 8 * 32


def _decode_text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _find_pax_path(data: bytes) -> str:
    for line in data[:65_536].split(b"\n"):
        _, _, record = line.partition(b" ")
        if record.startswith(b"path="):
            return record[5:].decode("utf-8", "replace")
    return ""
