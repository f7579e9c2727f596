"""Compound files and macro projects built by hand, so that each test says what is in its own."""

import struct
from collections.abc import Callable

END, FREE, FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD

Compounds = Callable[..., bytes]


def _entry(name: str, kind: int, child: int, right: int, start: int, size: int, clsid: bytes = bytes(16)) -> bytes:
    raw = name.encode("utf-16-le")
    head = raw.ljust(64, b"\0") + struct.pack("<HBBIII", len(raw) + 2, kind, 1, FREE, right, child)
    return head + clsid + bytes(20) + struct.pack("<IQ", start, size)


def make_compound(streams: dict[str, bytes], clsid: bytes = bytes(16)) -> bytes:
    """A compound file with these streams (`a/b` stands in the storage a), all of them outside the mini stream."""
    folders = list(dict.fromkeys(path.rpartition("/")[0] for path in streams if "/" in path))
    top = [*folders, *(path for path in streams if "/" not in path)]
    numbers = {name: index + 1 for index, name in enumerate(top)}
    inner = [path for path in streams if "/" in path]
    numbers |= {path: len(top) + 1 + index for index, path in enumerate(inner)}
    data = b""
    table: list[int] = []
    starts: dict[str, int] = {}
    for path, content in streams.items():
        sectors = max(1, (len(content) + 511) // 512)
        starts[path] = len(table)
        table += [*range(len(table) + 1, len(table) + sectors), END]
        data += content.ljust(sectors * 512, b"\0")
    entries = [_entry("Root Entry", 5, 1 if top else FREE, FREE, END, 0, clsid)]
    for index, name in enumerate(top):
        right = index + 2 if index + 1 < len(top) else FREE
        if name in folders:
            children = [numbers[path] for path in inner if path.startswith(f"{name}/")]
            entries.append(_entry(name, 1, children[0], right, 0, 0))
        else:
            entries.append(_entry(name, 2, FREE, right, starts[name], len(streams[name])))
    for index, path in enumerate(inner):
        same = [other for other in inner[index + 1 :] if other.rpartition("/")[0] == path.rpartition("/")[0]]
        right = numbers[same[0]] if same else FREE
        entries.append(_entry(path.rpartition("/")[2], 2, FREE, right, starts[path], len(streams[path])))
    directory = b"".join(entries)
    sectors = (len(directory) + 511) // 512
    directory_start = len(table)
    table += [*range(len(table) + 1, len(table) + sectors), END]
    data += directory.ljust(sectors * 512, b"\0")
    tables = (len(table) + 126) // 127
    fat_start = len(table)
    table += [FAT] * tables
    data += struct.pack(f"<{len(table)}I", *table).ljust(tables * 512, b"\xff")
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIIIIIII", 0, tables, directory_start, 0, 0, END, 0, END, 0)
    places = [*range(fat_start, fat_start + tables)]
    return head + struct.pack("<109I", *(places + [FREE] * (109 - tables))) + data


def _vba(source: str) -> bytes:
    """Source in the container of MS-OVBA, as literal tokens only."""
    out = b"\x01"
    raw = source.encode("cp1252")
    for place in range(0, len(raw), 2048):
        chunk = raw[place : place + 2048]
        packed = b"".join(b"\0" + chunk[at : at + 8] for at in range(0, len(chunk), 8))
        out += struct.pack("<H", 0xB000 | (len(packed) - 1)) + packed
    return out


def make_project(**modules: str) -> dict[str, bytes]:
    """The streams of a macro project with these modules."""

    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HI", kind, len(data)) + data

    listing = record(3, b"\xe4\x04") + struct.pack("<HI", 9, 4) + bytes(6)
    for name in modules:
        listing += record(0x19, name.encode()) + record(0x1A, name.encode()) + record(0x31, bytes(4))
    return {"VBA/dir": _vba(listing.decode("cp1252"))} | {f"VBA/{name}": _vba(code) for name, code in modules.items()}
