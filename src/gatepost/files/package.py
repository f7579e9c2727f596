"""Files in the form of the old Object Packager (MS-OLEDS section 2.3.6): a label, the path it came from, the bytes."""

import msgspec

MAX_NAME = 500


class Package(msgspec.Struct, frozen=True):
    """A packaged file with every name that it bears, or the command that stands in its place."""

    names: tuple[str, ...] = ("embedded object",)
    content: bytes = b""
    command: str = ""


def packaged(data: bytes) -> Package:
    """Read a package; without content where the bytes are none."""
    if data[:2] != b"\x02\0":
        return Package()
    label, place = _text(data, 2)
    source, place = _text(data, place)
    kind = int.from_bytes(data[place + 2 : place + 4], "little")
    place += 4
    if kind == 1:  # no file, but a command line
        command, _ = _text(data, place + 2)
        return Package(_names(label, source), command=command)
    length = int.from_bytes(data[place : place + 4], "little")
    temporary = data[place + 4 : place + 4 + min(length, MAX_NAME)]
    place += 4 + length
    size = int.from_bytes(data[place : place + 4], "little")
    content = data[place + 4 : place + 4 + size]
    return Package(_names(label, source, temporary.split(b"\0", 1)[0].decode("cp1252", "replace")), content)


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.find(b"\0", place, place + MAX_NAME)
    if end < 0:
        return "", len(data)
    return data[place:end].decode("cp1252", "replace"), end + 1


def _names(*paths: str) -> tuple[str, ...]:
    names = [path.replace("\\", "/").rpartition("/")[2] for path in paths]
    return tuple(dict.fromkeys(name for name in names if name)) or ("embedded object",)
