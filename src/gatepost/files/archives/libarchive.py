"""Archives that only libarchive can unpack, where it is installed: rar, rare methods of 7z, and streams of compress
and LZ4.

It works in a disposable child (`libarchive_child.py`), so that its faults cost that child, and within limits of time
and memory of the kernel. Cabinets are not given to it: a crafted one corrupted memory in its reader. Where our own
readers know the names, these count: libarchive's depend on the locale. A failure is reported as unsupported, not as
damaged, because libarchive is asked only for what no other reader can unpack.
"""

from collections.abc import Iterator, Sequence

import msgspec

from gatepost.files.archives.libarchive_child import IS_INSTALLED, ArchiveOrder, Format, UnpackedFile
from gatepost.files.values import Member, UnpackBudget
from gatepost.process.children import run_in_child
from gatepost.process.cpu_account import FILES

SECONDS = 3.0  # CPU seconds for one archive
_HEADS = 64 << 20  # bytes of all heads together


def is_installed() -> bool:
    """Return whether libarchive is installed."""
    return IS_INSTALLED


def is_usable(budget: UnpackBudget) -> bool:
    """Return whether libarchive is installed, and what it gives is wanted."""
    return IS_INSTALLED and budget.native


def read_members(content: bytes, kind: Format, budget: UnpackBudget, names: Sequence[str] = ()) -> Iterator[Member]:
    """Yield the files, under these names where there are any; "unsupported" for what is not reached."""
    limit = budget.allowance(len(content))
    shortage = budget.shortage(len(content))
    budget.pay(len(content), 0)
    answer = b""
    if is_usable(budget) and budget.take_library_call():
        order = msgspec.msgpack.encode(ArchiveOrder(kind, limit, content))
        seconds = min(SECONDS, budget.cpu.left(FILES))
        answer = run_in_child("archive", order, seconds, limit + _HEADS).answer
    remaining = iter(names if answer or names else [""])
    for head, data in _read_answer(answer):
        if data == content:  # a stream that is broken at its beginning is handed on as it is
            yield Member(("",), b"", "unsupported")
            continue
        budget.pay(0, len(data))
        unread = shortage if head.unread == "size" else head.unread or None
        own = next(remaining, head.name)
        yield Member((own,), data, "unsupported" if len(data) < head.size else unread)
    yield from (Member((name,), b"", "unsupported") for name in remaining)


def _read_answer(answer: bytes) -> Iterator[tuple[UnpackedFile, bytes]]:
    """Yield heads and contents, of the last file as much as the child gave before it was ended."""
    place = 0
    while place + 2 <= len(answer):
        start = place + 2 + int.from_bytes(answer[place : place + 2])
        try:
            head = msgspec.msgpack.decode(answer[place + 2 : start], type=UnpackedFile)
        except msgspec.DecodeError:
            return
        yield head, answer[start : start + head.size]
        place = start + head.size
