"""What is counted of a core for `fair_queue`: the turns of tenants, who sends mail, slots, and what waits for one.

A core may run as several processes. Then each counts in memory that all of them share (`NodeCounts`), and every number
is that of all processes; a process that ends takes nothing with it. `Turns`, `RecentTenants` and `SlotCounts` are those
of a core in one process, and each has a twin whose numbers are shared.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from gatepost.process.node_memory import NodeMemory, SharedTally, fit_cell

# A tenant that has sent no mail for so long is not waited for.
RECENT_SECONDS = 3.0
# Costly mail leaves room for a tenant that has sent mail within so long: the next message of that one finds it.
REMEMBERED_SECONDS = 600.0
# A process that has not said for so long that its message still waits does not work: nobody waits for it.
STALE_SECONDS = 3.0
# Tenants that can wait at once with turns of their own; others beyond share one.
MAX_TENANTS = 4_096

Tenant: TypeAlias = str | None
# When the turn of a message begins, and when the message came.
Place: TypeAlias = tuple[int, int]


class Turns:
    """When the next turn of each tenant begins, in virtual time.

    A turn begins where the one before it of the same tenant ended, or now, if that is later; now is the beginning of
    the turn that was given last. Whoever begins first has the next turn. So nobody can save up turns for later, and a
    tenant without a turn is not remembered.
    """

    def __init__(self) -> None:
        self._now = 0
        self._ends: dict[Tenant, int] = {}
        self._most_ends = 64

    def start_of(self, tenant: Tenant) -> int:
        """Return when the next turn of this tenant begins."""
        return max(self._now, self._ends.get(tenant, 0))

    def take(self, tenant: Tenant) -> None:
        """Give this tenant a turn."""
        end = self._ends.get(tenant, 0)
        if end > self._now:
            self._now = end
        self._ends[tenant] = self._now + 1
        if len(self._ends) > self._most_ends:
            self._ends = {each: end for each, end in self._ends.items() if end > self._now}
            self._most_ends = max(64, 2 * len(self._ends))

    def join(self, tenant: Tenant) -> None:
        """Count a message of this tenant that waits."""

    def leave(self, tenant: Tenant) -> None:
        """Count it no longer."""


class RecentTenants:
    """Who has sent mail just now. Rules that leave something to others hold only while there are others. Of those the
    one that was last is enough: `_last` is who sent the last message, `_other` when somebody else did so before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: Tenant = None
        self._last_at = self._other_at = -math.inf

    def note(self, tenant: Tenant) -> None:
        """Count a message of this tenant; None stands for the deployment."""
        if tenant != self._last:
            self._last, self._other_at = tenant, self._last_at
        self._last_at = self._clock()

    @property
    def are_several(self) -> bool:
        """Whether more than one tenant has sent mail within the last seconds."""
        return self.were_several(RECENT_SECONDS)

    def were_several(self, seconds: float) -> bool:
        """Whether more than one tenant has sent mail within so many seconds."""
        return self._other_at >= self._clock() - seconds


class SlotCounts:
    """What is counted of a core in one process: slots by tenant, and the messages that wait for one."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.tenants = RecentTenants()
        self._slots: Counter[Tenant] = Counter()
        self._in_processing = 0
        # How many messages wait in this process, and their bytes.
        self.own_waiting = self.own_bytes = 0

    @property
    def in_processing(self) -> int:
        return self._in_processing

    @property
    def waiting(self) -> int:
        """How many messages wait, over all processes."""
        return self.own_waiting

    @property
    def waiting_bytes(self) -> int:
        """The bytes of all messages that wait, over all processes."""
        return self.own_bytes

    @property
    def others_wait(self) -> bool:
        """Whether messages wait in another process."""
        return False

    def slots_of(self, tenant: Tenant) -> int:
        """How many messages of this tenant are in processing."""
        return self._slots[tenant]

    def take(self, tenant: Tenant, maximum: int) -> int | None:
        """Take a slot and return how many were taken before; None where none is free."""
        before = self._in_processing
        if before >= maximum:
            return None
        self._in_processing += 1
        self._slots[tenant] = self._slots.get(tenant, 0) + 1
        return before

    def give_back(self, tenant: Tenant) -> None:
        """Give a slot back."""
        self._in_processing -= 1
        self._slots[tenant] -= 1
        if not self._slots[tenant]:
            del self._slots[tenant]

    def change_waiting(self, change: int, size: int) -> None:
        """Count a message of this size that waits (1), or waits no longer (-1)."""
        self.own_waiting += change
        self.own_bytes += change * size

    def is_next(self, place: Place | None) -> bool:  # noqa: ARG002  no other process, no other place
        """Tell other processes what is first here; return whether nothing that waits in them goes before it."""
        return True

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this when another process may have given a slot back."""


class NodeCounts:
    """The cells in which the processes of a node count, made before the node forks them (see `NodeMemory`)."""

    def __init__(self, memory: NodeMemory) -> None:
        self.memory = memory
        self.now = memory.allocate(1)
        self.waiting = SharedTally(memory, MAX_TENANTS)
        self.slots = SharedTally(memory, MAX_TENANTS)
        # Of each process: its slots; turn and arrival of its first message that waits (turn 0: none), and when it said
        # so; how many wait, and their bytes; the two tenants that sent mail last, and when.
        self.columns = memory.allocate_columns(10)


_SLOTS, _TURN, _ARRIVAL, _SAID, _WAITING, _BYTES, _LAST = range(7)


class SharedTurns(Turns):
    """The turns of a node with several processes: tenants that wait have an entry, which is lost with the last."""

    def __init__(self, cells: NodeCounts) -> None:
        super().__init__()
        self._cells, self._memory, self._tally = cells, cells.memory, cells.waiting
        self._entries: dict[Tenant, int] = {}
        self._waiting: Counter[Tenant] = Counter()

    def start_of(self, tenant: Tenant) -> int:
        entry = self._entries.get(tenant)
        # From 1 on: a process that announces turn 0 has nothing that waits.
        return max(1, self._cells.now[0], 0 if entry is None else self._tally.values[entry])

    def take(self, tenant: Tenant) -> None:
        with self._memory:
            self._cells.now[0] = start = fit_cell(self.start_of(tenant))
            if tenant in self._entries:
                self._tally.values[self._entries[tenant]] = start + 1

    def join(self, tenant: Tenant) -> None:
        with self._memory:
            if tenant not in self._entries:
                self._entries[tenant] = self._tally.find_or_share(tenant or "")
            self._tally.add_at(self._entries[tenant], 1)
        self._waiting[tenant] += 1

    def leave(self, tenant: Tenant) -> None:
        with self._memory:
            self._tally.add_at(self._entries[tenant], -1)
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant], self._entries[tenant]


class SharedTenants(RecentTenants):
    """Who has sent mail just now to any process of a node: each says which two tenants were the last."""

    def __init__(self, cells: NodeCounts) -> None:
        super().__init__()
        self._memory, self._columns = cells.memory, cells.columns
        self._own = cells.columns[cells.memory.member]
        self._digests: dict[Tenant, int] = {}

    def note(self, tenant: Tenant) -> None:
        own, now = self._own, time.monotonic_ns()
        if len(self._digests) > MAX_TENANTS:
            self._digests.clear()
        digest = self._digests.get(tenant) or self._digests.setdefault(tenant, self._memory.digest(tenant or ""))
        if own[_LAST] != digest:
            own[_LAST + 2], own[_LAST + 3], own[_LAST] = own[_LAST], own[_LAST + 1], digest
        own[_LAST + 1] = now

    def were_several(self, seconds: float) -> bool:
        before = time.monotonic_ns() - int(seconds * 1e9)
        last = {
            column[at]
            for column in self._columns
            for at in (_LAST, _LAST + 2)
            if column[at] and column[at + 1] > before
        }
        return len(last) > 1


class SharedCounts(SlotCounts):
    """What is counted of a core that runs as several processes: the numbers are those of all of them.

    A process that is killed gives back what it held when its column is set to zero.
    """

    def __init__(self, cells: NodeCounts) -> None:
        super().__init__()
        self._memory, self._columns, self._tally = cells.memory, cells.columns, cells.slots
        self._own = cells.columns[cells.memory.member]
        self.turns = SharedTurns(cells)
        self.tenants = SharedTenants(cells)

    @property
    def in_processing(self) -> int:
        return sum(column[_SLOTS] for column in self._columns)

    @property
    def waiting(self) -> int:
        return sum(column[_WAITING] for column in self._columns)

    @property
    def waiting_bytes(self) -> int:
        return sum(column[_BYTES] for column in self._columns)

    @property
    def others_wait(self) -> bool:
        return any(column[_TURN] for column in self._columns if column is not self._own) and bool(self._other_places())

    def slots_of(self, tenant: Tenant) -> int:
        return self._tally.count(tenant or "")

    def take(self, tenant: Tenant, maximum: int) -> int | None:
        with self._memory:
            before = self.in_processing
            if before >= maximum:
                return None
            self._own[_SLOTS] = fit_cell(self._own[_SLOTS] + 1)
            self._tally.add(tenant or "")
        return before

    def give_back(self, tenant: Tenant) -> None:
        with self._memory:
            self._own[_SLOTS] = fit_cell(self._own[_SLOTS] - 1)
            self._tally.remove(tenant or "")
            waiting = [number for number, column in enumerate(self._columns) if column[_TURN]]
        for number in waiting:
            if number != self._memory.member:
                self._memory.ring(number)

    def change_waiting(self, change: int, size: int) -> None:
        super().change_waiting(change, size)
        self._own[_WAITING], self._own[_BYTES] = self.own_waiting, self.own_bytes

    def is_next(self, place: Place | None) -> bool:
        """What a process has said may be out of date, as its tenant had a turn elsewhere: woken, it looks again."""
        with self._memory:
            self._own[_TURN], self._own[_ARRIVAL] = place or (0, 0)
            self._own[_SAID] = time.monotonic_ns()
            others = self._other_places()
        if not others or (place is not None and place < min(others)[0]):
            return True
        self._memory.ring(min(others)[1])
        return False

    def on_change(self, listener: Callable[[], None]) -> None:
        self._memory.listen(listener)

    def _other_places(self) -> list[tuple[Place, int]]:
        """What waits first in the other processes that work, each with the number of its process."""
        stale = time.monotonic_ns() - int(STALE_SECONDS * 1e9)
        return [
            ((column[_TURN], column[_ARRIVAL]), number)
            for number, column in enumerate(self._columns)
            if number != self._memory.member and column[_TURN] and column[_SAID] > stale
        ]
