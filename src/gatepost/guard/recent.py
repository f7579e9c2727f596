"""The last few of something, kept in step on both sides of a socket.

guard must know which snapshots a worker still has. Both see the same jobs in the same order, so both keep a `Recent`
of the same size: what falls out on one side falls out on the other.
"""

from typing import Generic, TypeVar

T = TypeVar("T")

KEPT = 32


class Recent(Generic[T]):
    """Up to `KEPT` values by name; the one that was used longest ago goes first."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}

    def get(self, name: str) -> T | None:
        """The value, which thereby is the latest used."""
        if name not in self._values:
            return None
        value = self._values[name] = self._values.pop(name)
        return value

    def put(self, name: str, value: T) -> None:
        self._values.pop(name, None)
        self._values[name] = value
        if len(self._values) > KEPT:
            del self._values[next(iter(self._values))]
