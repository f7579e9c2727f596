"""Changes of a message on its way to the next hop: stretches of bytes that go, and what goes in their place.

guard's process parses no mail. A sealed worker says where a part lies (`Cuts`), guard writes what goes there, and
everything between the edits leaves as it came.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec

MAX_CUTS = 200


class Cut(msgspec.Struct, frozen=True):
    """Bytes of a message that go: the part with this `path`, in whose place a notice goes, or with "" nothing."""

    start: Annotated[int, msgspec.Meta(ge=0)]
    end: Annotated[int, msgspec.Meta(ge=0)]
    path: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class Cuts(msgspec.Struct, frozen=True, tag=True):
    """What goes from a message that is stripped of attachments; without any cut it cannot be stripped."""

    cuts: Annotated[tuple[Cut, ...], msgspec.Meta(max_length=MAX_CUTS)] = ()


class Edit(msgspec.Struct, frozen=True, order=True):
    """The bytes from `start` to `end` of a message are replaced by `text`."""

    start: int
    end: int
    text: bytes = b""


def order_edits(edits: Iterable[Edit], size: int) -> tuple[Edit, ...] | None:
    """Return the edits in their order; None where two overlap, or one is outside of a message of that size."""
    found = tuple(sorted(edits))
    position = 0
    for edit in found:
        if not position <= edit.start <= edit.end <= size:
            return None
        position = edit.end
    return found


def apply_edits(pieces: Iterable[bytes], edits: Sequence[Edit]) -> Iterator[bytes]:
    """Yield a message, which comes in pieces, with edits that are in order."""
    begin = position = number = 0
    for piece in pieces:
        end = begin + len(piece)
        while number < len(edits) and edits[number].start < end:
            edit = edits[number]
            number += 1
            if edit.start > position:
                yield piece[position - begin : edit.start - begin]
            if edit.text:
                yield edit.text
            position = edit.end
        if position < end:
            yield piece[position - begin :]
            position = end
        begin = end
    yield from (edit.text for edit in edits[number:] if edit.text)
