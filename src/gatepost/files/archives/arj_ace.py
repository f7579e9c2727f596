"""ARJ and ACE: dead formats that some unpackers still open. Names, encryption, and content that was only stored."""

from collections.abc import Iterable, Iterator

from gatepost.files.values import BrokenError, ByteSource, Member, StepLimit, TooManyError, UnpackBudget, UnreadReason

_ARJ = b"\x60\xea"
_ACE_FILE = 1
MAX_HEADERS = 20_000
_MAX_EXTENSIONS = 16


def read_arj(content: bytes, budget: UnpackBudget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield the files of an ARJ archive; the first header is that of the archive."""
    source = ByteSource(content)
    try:
        _read_arj_header(source)
        while header := _read_arj_header(source):
            garbled, method, packed = header[4] & 1, header[5], int.from_bytes(header[12:16], "little")
            name = header[header[0] :].split(b"\0", 1)[0].decode("cp437")
            yield _read_member(source, name, packed, budget, stored=method == 0, encrypted=bool(garbled))
    except BrokenError:
        yield Member(("",), b"", "damaged")


def _read_arj_header(source: ByteSource) -> bytes:
    """Return one header without its checksum and extensions; empty at the end."""
    if source.take(2) != _ARJ:
        raise BrokenError("no header")
    header = source.take(source.number(2))
    if header:
        if len(header) < 30:
            raise BrokenError("a header cut short")
        source.skip(4)
        for _ in range(_MAX_EXTENSIONS):
            if not (size := source.number(2)):
                return header
            source.skip(size + 4)
        raise BrokenError("extensions without end")
    return header


def read_ace(content: bytes, budget: UnpackBudget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Yield the files of an ACE archive."""
    source = ByteSource(content)
    headers = StepLimit(MAX_HEADERS)
    try:
        while source.left:
            headers.step()
            source.skip(2)
            header = ByteSource(source.take(source.number(2)))
            kind, flags = header.number(1), header.number(2)
            packed = header.number(4) if flags & 1 else 0
            if kind != _ACE_FILE:
                source.skip(packed)
                continue
            header.skip(16)
            method = header.number(1)
            header.skip(5)
            name = header.take(header.number(2)).decode("cp437")
            yield _read_member(source, name, packed, budget, stored=method == 0, encrypted=bool(flags & 0x4000))
    except TooManyError:
        yield Member(("",), b"", "count")
    except BrokenError:
        yield Member(("",), b"", "damaged")


def _read_member(
    source: ByteSource, name: str, packed: int, budget: UnpackBudget, *, stored: bool, encrypted: bool
) -> Member:
    start = source.place
    source.skip(packed)
    if encrypted or not stored:
        return Member((name,), b"", "encrypted" if encrypted else "unsupported")
    limit = min(budget.allowance(packed), packed)
    budget.pay(packed, limit)
    short: UnreadReason | None = "size" if limit < packed else None
    return Member((name,), bytes(source.data[start : start + limit]), short)
