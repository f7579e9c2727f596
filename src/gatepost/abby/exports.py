"""Whole lists on their way out: so many at a time, for each holds a snapshot of storage until its reader has it all."""

from collections.abc import Callable, Sequence

from gatepost.abby.ndjson import EntryStream, following
from gatepost.api.errors import OVERLOADED, Failure
from gatepost.store.entries import EntryRow
from gatepost.store.store import Store

MAX_STREAMS = 16


class Exports:
    """The streams that run now, of the API and of the pages together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running = 0

    async def stream(
        self, scope: str | None, name: str, written: Callable[[Sequence[EntryRow]], bytes], heading: bytes = b""
    ) -> EntryStream | Failure:
        """All entries of a list, each batch as `written` makes it, below a heading."""
        if self._running >= MAX_STREAMS:
            return Failure(OVERLOADED, f"{MAX_STREAMS} lists are being read at this moment; try again soon")
        batches = self._store.stream_rows(scope, name, written)
        self._running += 1
        try:
            return EntryStream(heading + await following(batches), batches, self._ended)
        except BaseException:
            self._ended()
            raise

    def _ended(self) -> None:
        self._running -= 1
