"""The raw header section of a message, as it is kept with its record: cut, compressed, and as the sender wrote it.

The bytes of delivered mail are gone, and many questions about it are answered by its header section alone. It is a
column of its own beside the packed record, so that what reads records by the thousand does not read it. Nothing is
parsed: the section ends at the first empty line (RFC 5322 section 2.1).
"""

from collections.abc import Sequence

from gatepost.store.engine import Operations, Read, Work, query, storable
from gatepost.store.record_packing import compress, decompress

# Longer sections are cut: some hosts write hundreds of fields, and hostile ones any number.
MAX_HEADER = 16 << 10
# A piece of a message in which the end of a section of that length is found.
HEAD_BYTES = MAX_HEADER + 4
_SELECT = "SELECT header FROM messages WHERE ggrid = $1"


class HeaderStore(Operations):
    """Header sections of messages on record."""

    @query
    def message_header(self, ggrid: str) -> Work[bytes | None]:
        """The raw header section of a message; None where it was not kept."""
        rows = yield Read(_SELECT, (storable(ggrid.lower()),))
        return decompress(rows[0][0]) if rows and rows[0][0] is not None else None


def cut_header(head: bytes) -> bytes:
    """Return the header section of a message, given its first `HEAD_BYTES`; one that was cut has `MAX_HEADER` bytes.

    Line ends may be bare line feeds, as in files of Unix.
    """
    if head.startswith((b"\n", b"\r\n")):
        return b""
    ends = [at + 1 for at in (head.find(b"\n\r\n"), head.find(b"\n\n")) if at >= 0]
    return head[: min((*ends, MAX_HEADER))]


def is_cut(header: bytes) -> bool:
    """Was the section longer than what is kept of it?"""
    return len(header) >= MAX_HEADER


def pack_header(header: bytes | None) -> bytes | None:
    """A section as it is stored."""
    return None if header is None else compress(header)


def decode_sections(packed: Sequence[bytes | None]) -> list[str]:
    """Stored sections as text, for who looks for something in them; bytes that are no UTF-8 become signs."""
    return [decompress(each).decode("utf-8", "replace") for each in packed if each is not None]
