"""Counters of flow control: each process counts in memory, and learns once a second what all nodes have counted.

No message waits for storage. A counter belongs to a window of time that begins and ends at the same moment on every
node. What was counted since the last time is added to the row in storage, and the sum of all nodes comes back; so a
limit is passed by at most what other processes take in about a second. A key that was counted only once in its window
is not written: most of what strangers make up is seen once, and a limit is passed by one message of each process more.

While storage is away, each process goes by its own counts.
"""

import time
from collections.abc import Callable
from hashlib import blake2b

import structlog

from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import MAX_KEYS, FlowCount, FlowCounts

# Counters in memory, some 200 bytes each; above that, those that were not asked for the longest are forgotten.
MAX_CELLS = 50_000
# How long the sum of all nodes is believed while nothing is counted here.
BELIEVED_MILLISECONDS = 5_000
WRITTEN_FROM = 2

log = structlog.get_logger("gatepost.guard")


def digest(*parts: str) -> int:
    """Return the key of a name, as storage has it."""
    whole = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(whole, digest_size=8, person=b"flow").digest(), "little", signed=True)


class _Cell:
    """One counter: what all nodes had counted, what was counted here since, and when the former was read."""

    __slots__ = ("delta", "expires", "label", "read", "total", "unsaved")

    def __init__(self, expires: int) -> None:
        self.total = self.delta = self.read = 0
        self.expires, self.label = expires, ""
        # Whether the label still has to be written.
        self.unsaved = False


class FlowCounters:
    """The counters of one process. It belongs to one event loop."""

    def __init__(self, stored: FlowCounts, clock: Callable[[], float] = time.time) -> None:
        self._stored, self._clock = stored, clock
        self._cells: dict[tuple[int, int], _Cell] = {}
        self._touched: dict[tuple[int, int], None] = {}
        self.fault = ""

    @property
    def size(self) -> int:
        """How many counters are in memory."""
        return len(self._cells)

    def count(self, key: int, minutes: int) -> int:
        """Return what was counted in this window, as far as it is known here."""
        name, cell = self._find(key, minutes)
        if self._now() - cell.read >= BELIEVED_MILLISECONDS:
            self._touched[name] = None
        return cell.total + cell.delta

    def add(self, key: int, minutes: int) -> None:
        """Count one more."""
        name, cell = self._find(key, minutes)
        cell.delta += 1
        self._touched[name] = None

    def mark(self, key: int, minutes: int, label: str) -> bool:
        """Note that a limit was reached; False where that was noted before in this window."""
        name, cell = self._find(key, minutes)
        if cell.label:
            return False
        cell.label, cell.unsaved = label, True
        self._touched[name] = None
        return True

    def window_end(self, minutes: int) -> int:
        """Return when the current window ends, in Unix milliseconds."""
        length = minutes * 60_000
        return self._now() // length * length + length

    async def flush(self) -> None:
        """Write what was counted, and learn what other nodes have counted."""
        now = self._now()
        self._forget(now)
        asked = [name for name in list(self._touched)[:MAX_KEYS] if name in self._cells]
        for name in list(self._touched)[:MAX_KEYS]:
            del self._touched[name]
        if not asked:
            return
        written = {
            name: FlowCount(*name, cell.delta, cell.expires, cell.label if cell.unsaved else "")
            for name in asked
            if (cell := self._cells[name]).unsaved or (cell.delta and cell.total + cell.delta >= WRITTEN_FROM)
        }
        keys = [name[0] for name in asked if name not in written]
        try:
            counts = list(written.values())
            totals = await (self._stored.add_counts(counts, keys) if counts else self._stored.counts(keys))
        except StorageError as fault:
            if not self.fault:
                log.warning("flow control goes by what this process has counted", reason=str(fault))
            self.fault = "storage cannot be used"
            self._touched = dict.fromkeys([*asked, *self._touched])
            return
        self.fault = ""
        for name in asked:
            self._take(name, written.get(name), totals.get(name, 0), now)

    def _take(self, name: tuple[int, int], written: FlowCount | None, total: int, now: int) -> None:
        cell = self._cells.get(name)
        if cell is not None:
            cell.total, cell.read = total, now
            if written is not None:
                cell.delta -= written.count
                cell.unsaved = cell.unsaved and not written.label

    def _find(self, key: int, minutes: int) -> tuple[tuple[int, int], _Cell]:
        end = self.window_end(minutes)
        name = (key, end - minutes * 60_000)
        cell = self._cells.pop(name, None)
        if cell is None:
            if len(self._cells) >= MAX_CELLS:
                self._make_room()
            cell = _Cell(end)
        self._cells[name] = cell
        return name, cell

    def _make_room(self) -> None:
        """Forget a tenth of the counters, those first that were not asked for the longest."""
        for name in list(self._cells)[: MAX_CELLS // 10]:
            del self._cells[name]
            self._touched.pop(name, None)

    def _forget(self, now: int) -> None:
        """Forget counters of windows that are over."""
        for name in [name for name, cell in self._cells.items() if cell.expires <= now]:
            del self._cells[name]
            self._touched.pop(name, None)

    def _now(self) -> int:
        return int(self._clock() * 1_000)
