"""Archives that only libarchive can unpack, where it is installed: rar, and rare methods of 7z.

The library is loaded with this module, since a sealed worker can load nothing; it reads from memory and is asked for a
limited number of bytes. It is native code with a history of memory errors, so callers give it only what their own
reading of the headers found in order and within the limits of memory (a dictionary of 4 GB is one field of a header).
Cabinets are not given to it: a crafted one corrupted memory in its reader. Names come from our own readers:
libarchive's depend on the locale. A failure is reported as unsupported, not as damaged, because libarchive is asked
only for what no other reader can unpack.
"""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from gatepost.files.values import Member, UnpackBudget, UnreadReason

Format = Literal["rar", "7z"]

_FORMATS: dict[Format, tuple[str, ...]] = {"rar": ("rar", "rar5"), "7z": ("7zip",)}
_STEP = 256 << 10
_OK, _END, _WARN = 0, 1, -20
_DIRECTORY = 0o040000
_MAX_HEADERS = 20_000


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
    for name in ("rar", "rar5", "7zip"):
        getattr(library, f"archive_read_support_format_{name}").argtypes = (ctypes.c_void_p,)
    return library


_LIBRARY = _load_library()


def is_installed() -> bool:
    """Return whether libarchive is installed."""
    return _LIBRARY is not None


def is_usable(budget: UnpackBudget) -> bool:
    """Return whether libarchive is installed, and may be called in this process."""
    return _LIBRARY is not None and budget.native


def read_members(content: bytes, kind: Format, budget: UnpackBudget, names: Sequence[str]) -> Iterator[Member]:
    """Yield the files under these names, in the order of the archive; "unsupported" for what is not reached."""
    remaining = iter(names)
    for member in _unpack(content, kind, budget):
        own = next(remaining, "")
        yield msgspec.structs.replace(member, names=(own,) if own else member.names)
    yield from (Member((name,), b"", "unsupported") for name in remaining)


def _unpack(content: bytes, kind: Format, budget: UnpackBudget) -> Iterator[Member]:
    limit = budget.allowance(len(content))
    shortage = budget.shortage(len(content))
    budget.pay(len(content), 0)
    archive = ctypes.c_void_p(_LIBRARY.archive_read_new())
    try:
        for name in _FORMATS[kind]:
            getattr(_LIBRARY, f"archive_read_support_format_{name}")(archive)
        if _LIBRARY.archive_read_open_memory(archive, content, len(content)) != _OK:
            return
        for name, data, unread in _read_entries(archive, limit):
            budget.pay(0, len(data))
            yield Member((name,), data, shortage if unread == "size" else unread)
    finally:
        _LIBRARY.archive_read_free(archive)


def _read_entries(archive: ctypes.c_void_p, limit: int) -> Iterator[tuple[str, bytes, UnreadReason | None]]:
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
        name = (_LIBRARY.archive_entry_pathname_utf8(entry) or b"").decode("utf-8", "replace")
        if _LIBRARY.archive_entry_is_data_encrypted(entry):
            yield name, b"", "encrypted"
            continue
        data, unread = _read_data(archive, limit)
        limit -= len(data)
        yield name, data, unread
    yield "", b"", "count"


def _read_data(archive: ctypes.c_void_p, limit: int) -> tuple[bytes, UnreadReason | None]:
    pieces: list[bytes] = []
    size = 0
    buffer = ctypes.create_string_buffer(_STEP)
    while size <= limit:
        count = _LIBRARY.archive_read_data(archive, buffer, _STEP)
        if count < 0:
            return b"".join(pieces)[:limit], "unsupported"
        if count == 0:
            return b"".join(pieces)[:limit], None
        pieces.append(buffer.raw[:count])
        size += count
    return b"".join(pieces)[:limit], "size"
