"""How an engine does work, for those parts of the store that stand in modules of their own."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from gatepost.store.work import Work, storable

T = TypeVar("T")


class Doing(ABC):
    """Whoever can do a piece of work."""

    @abstractmethod
    async def _change(self, work: Callable[[], Work[T]]) -> T:
        """Do work that changes something, in one transaction; returns when it is durable."""

    @abstractmethod
    async def _query(self, work: Callable[[], Work[T]]) -> T:
        """Do work that only reads."""

    @abstractmethod
    async def _query_once(self, work: Callable[[], Work[T]]) -> T:
        """Do work that only reads, and sees one moment throughout."""


def now() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def scoped(scope: str | None) -> str | None:
    """A scope as it is kept: a uid in lower case, None for the global one."""
    return storable(scope.lower()) if scope else None
