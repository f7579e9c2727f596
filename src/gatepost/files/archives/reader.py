"""What readers of archives have in common: their shape, and what they yield where bytes are broken."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from gatepost.files.values import BrokenError, Member, TooManyError, UnpackBudget

Reader: TypeAlias = Callable[[bytes, UnpackBudget, Iterable[str]], Iterator[Member]]
MAX_HEADERS = 20_000


def catch_faults(read: Callable[[bytes, UnpackBudget], Iterator[Member]]) -> Reader:
    """Return a reader that yields a member without a name where the bytes are broken, or hold too many headers."""

    def reader(content: bytes, budget: UnpackBudget, _passwords: Iterable[str] = ()) -> Iterator[Member]:
        try:
            yield from read(content, budget)
        except TooManyError:
            yield Member(("",), b"", "count")
        except BrokenError:
            yield Member(("",), b"", "damaged")

    return reader
