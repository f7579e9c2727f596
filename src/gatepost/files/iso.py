"""Disc images: ISO 9660 with Joliet and Rock Ridge names, and UDF beside or instead of it.

Windows opens these with a double click, and what lies inside once lost the mark of coming from the web. One image may
hold several directory trees over the same sectors; a program believes one of them, so all are read, and a file that
two trees lead to has the names of both. Standards: ECMA-119, the Joliet specification, ECMA-167 (see `udf`).
"""

from collections import deque
from collections.abc import Iterable, Iterator

from gatepost.files import udf
from gatepost.files.budget import Budget
from gatepost.files.bytesource import Count, TooManyError
from gatepost.files.tree import Member, Unread
from gatepost.files.udf import Extent

SECTOR = 2048
_FIRST = 16
_MAX_DESCRIPTORS = 64
MAX_STEPS = 50_000
_MAX_FOLDERS = 5_000
_MAX_FOLDER_SIZE = 1 << 20
_PRIMARY, _SUPPLEMENTARY, _LAST = 1, 2, 255
_JOLIET = (b"%/@", b"%/C", b"%/E")
_IS_FOLDER = 2


def members(content: bytes, budget: Budget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
    """Every file of every tree, once."""
    found: dict[tuple[Extent, ...], dict[str, None]] = {}
    unread: Unread | None = None
    try:
        for wide, root in _roots(content):
            _add(found, _tree(content, root, wide, budget.max_files))
    except TooManyError:
        unread = "count"
    if udf.is_udf(content):
        files, shortfall = udf.files(content, budget.max_files)
        unread = unread or shortfall
        _add(found, files)
    for extents, names in found.items():
        yield _member(content, tuple(names), extents, budget)
    if unread or not found:
        yield Member(("",), b"", unread or "damaged")


def _add(found: dict[tuple[Extent, ...], dict[str, None]], files: Iterable[tuple[str, tuple[Extent, ...]]]) -> None:
    for name, extents in files:
        found.setdefault(extents, {})[name] = None


def _member(content: bytes, names: tuple[str, ...], extents: tuple[Extent, ...], budget: Budget) -> Member:
    size = sum(extent.size for extent in extents)
    limit = min(budget.allowance(min(size, len(content))), size)
    pieces: list[bytes] = []
    left = limit
    for extent in extents:
        pieces.append(content[extent.start : extent.start + min(extent.size, left)])
        left -= len(pieces[-1])
    data = b"".join(pieces)
    budget.pay(len(data), len(data))
    return Member(names, data, "size" if limit < size else "damaged" if len(data) < size else None)


def _roots(content: bytes) -> Iterator[tuple[bool, bytes]]:
    """The root record of each tree, and whether its names are Joliet's."""
    for number in range(_FIRST, _FIRST + _MAX_DESCRIPTORS):
        sector = content[number * SECTOR : (number + 1) * SECTOR]
        if sector[1:6] != b"CD001" or sector[0] == _LAST:
            return
        if sector[0] == _PRIMARY:
            yield False, sector[156:190]
        elif sector[0] == _SUPPLEMENTARY:
            yield sector[88:91] in _JOLIET, sector[156:190]


def _tree(content: bytes, root: bytes, wide: bool, limit: int) -> Iterator[tuple[str, tuple[Extent, ...]]]:
    """The files below a root, with their paths. A folder that leads back to itself is read once."""
    queue = deque([("", _extent(root))])
    seen: set[int] = set()
    steps = Count(MAX_STEPS)
    count = 0
    while queue and len(seen) < _MAX_FOLDERS:
        path, place = queue.popleft()
        if place.start in seen:
            continue
        seen.add(place.start)
        pending: tuple[Extent, ...] = ()
        folder = content[place.start : place.start + min(place.size, _MAX_FOLDER_SIZE)]
        for record in _records(folder, steps):
            name = path + _name(record, wide)
            if record[25] & _IS_FOLDER:
                queue.append((f"{name}/", _extent(record)))
                continue
            pending = (*pending, _extent(record)) if len(pending) < 64 else pending
            if record[25] & 0x80:  # the file goes on in the next record
                continue
            count += 1
            if count > limit + 1:
                return
            yield name, pending
            pending = ()


def _records(data: bytes, steps: Count) -> Iterator[bytes]:
    """The entries of a folder but for the two that stand for itself and its parent."""
    place = 0
    while place < len(data):
        steps.step()
        size = data[place]
        if size < 34:  # entries do not cross sectors: the rest of this one is empty
            place = (place // SECTOR + 1) * SECTOR
            continue
        record = data[place : place + size]
        if len(record) == size and record[32] and record[33 : 33 + record[32]] not in (b"\0", b"\1"):
            yield record
        place += size


def _extent(record: bytes) -> Extent:
    start, size = int.from_bytes(record[2:6], "little"), int.from_bytes(record[10:14], "little")
    return Extent(start * SECTOR, size)


def _name(record: bytes, wide: bool) -> str:
    raw = record[33 : 33 + record[32]]
    if wide:
        name = raw.decode("utf-16-be", "replace")
    else:
        name = _rock_ridge(record[33 + record[32] :]) or raw.decode("latin-1")
    return name.removesuffix(";1").rstrip(".")


def _rock_ridge(system: bytes) -> str:
    """The long name among the fields after an entry (IEEE P1282, field NM)."""
    place = len(system) % 2 and 1 if system[:1] == b"\0" else 0
    name = b""
    while place + 4 <= len(system):
        size = system[place + 2]
        if size < 4:
            break
        if system[place : place + 2] == b"NM":
            name += system[place + 5 : place + size]
        place += size
    return name.decode("utf-8", "replace")
