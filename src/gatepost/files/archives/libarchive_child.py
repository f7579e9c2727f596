"""What libarchive unpacks, in a disposable child (`gatepost.process.children`).

The library is loaded with this module, in the nursery, since a sealed process can load nothing; it reads from memory
and is asked for a limited number of bytes. It is native code with a history of memory errors, and a dictionary of 4 GB
is one field of a header: all that costs a child. `gatepost.files.archives.libarchive` asks for it.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

Format = Literal["rar", "7z", "compress", "lz4"]
Unread = Literal["", "encrypted", "unsupported", "size", "count"]

_FORMATS: dict[Format, tuple[str, ...]] = {
    "rar": ("format_rar", "format_rar5"),
    "7z": ("format_7zip",),
    "compress": ("format_raw", "filter_compress"),
    "lz4": ("format_raw", "filter_lz4"),
}
_STEP = 256 << 10
_OK, _END, _WARN = 0, 1, -20
_DIRECTORY = 0o040000
_MAX_HEADERS = 20_000
MAX_NAME = 10_000


def _load_library() -> Any:
    """Load the library and declare the types of its functions; return None where it is not installed."""
    for name in ("libarchive.so.13", "libarchive.so"):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        return None
    library.archive_read_new.restype = ctypes.c_void_p
    library.archive_entry_pathname_utf8.restype = ctypes.c_char_p
    library.archive_read_data.restype = ctypes.c_ssize_t
    library.archive_read_open_memory.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    library.archive_read_data.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    library.archive_read_next_header.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    for name in ("archive_entry_pathname_utf8", "archive_entry_filetype", "archive_entry_is_data_encrypted"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)
    library.archive_read_free.argtypes = (ctypes.c_void_p,)
    for name in itertools.chain.from_iterable(_FORMATS.values()):
        getattr(library, f"archive_read_support_{name}").argtypes = (ctypes.c_void_p,)
    return library


_LIBRARY = _load_library()
IS_INSTALLED = _LIBRARY is not None


class ArchiveOrder(msgspec.Struct, frozen=True, array_like=True):
    """What to unpack, and how many bytes of all files together are wanted."""

    format: Format
    limit: int
    content: bytes


class UnpackedFile(msgspec.Struct, frozen=True, array_like=True):
    """The head of one file in the answer, before its bytes: their number, and why there are no more."""

    name: str
    size: int
    unread: Unread


def load() -> Callable[[bytes, Callable[[bytes], None]], None]:
    """Return the work of a child."""
    return _unpack


def _unpack(order: bytes, answer: Callable[[bytes], None]) -> None:
    given = msgspec.msgpack.decode(order, type=ArchiveOrder)
    archive = ctypes.c_void_p(_LIBRARY.archive_read_new())
    for name in _FORMATS[given.format]:
        getattr(_LIBRARY, f"archive_read_support_{name}")(archive)
    if _LIBRARY.archive_read_open_memory(archive, given.content, len(given.content)) != _OK:
        return
    for name, data, unread in _read_entries(archive, given.limit):
        head = msgspec.msgpack.encode(UnpackedFile(name, len(data), unread))
        answer(bytes([len(head) >> 8, len(head) & 255]) + head)
        answer(data)


def _read_entries(archive: ctypes.c_void_p, limit: int) -> Iterator[tuple[str, bytes, Unread]]:
    entry = ctypes.c_void_p()
    for _ in range(_MAX_HEADERS):
        status = _LIBRARY.archive_read_next_header(archive, ctypes.byref(entry))
        if status == _END:
            return
        if status < _WARN:
            yield "", b"", "unsupported"
            return
        if _LIBRARY.archive_entry_filetype(entry) & 0o170000 == _DIRECTORY:
            continue
        name = (_LIBRARY.archive_entry_pathname_utf8(entry) or b"").decode("utf-8", "replace")[:MAX_NAME]
        if _LIBRARY.archive_entry_is_data_encrypted(entry):
            yield name, b"", "encrypted"
            continue
        data, unread = _read_data(archive, limit)
        limit -= len(data)
        yield name, data, unread
    yield "", b"", "count"


def _read_data(archive: ctypes.c_void_p, limit: int) -> tuple[bytes, Unread]:
    pieces: list[bytes] = []
    size = 0
    buffer = ctypes.create_string_buffer(_STEP)
    while size <= limit:
        count = _LIBRARY.archive_read_data(archive, buffer, _STEP)
        if count < 0:
            return b"".join(pieces)[:limit], "unsupported"
        if count == 0:
            return b"".join(pieces)[:limit], ""
        pieces.append(buffer.raw[:count])
        size += count
    return b"".join(pieces)[:limit], "size"
