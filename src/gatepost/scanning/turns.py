"""Turns between tenants, among scans that wait for a slot.

Slots are given in rounds, and in a round each tenant that waits gets one. A tenant that starts to wait joins the next
round; within a round, and within a tenant, whoever came first goes first. However many scans one tenant has waiting,
the first scan of another is therefore served after at most one of each of the others. Scans without a tenant are those
of one tenant, the deployment.

Turns alone would let one tenant have all slots until a scan of another comes. While several tenants send mail, a tenant
therefore gets a slot only while it has fewer than `SHARE` times as many as are free (the dynamic threshold of Choudhury
and Hahne, 1998): one that floods the service leaves a quarter of the slots, two leave a seventh, and a tenant that
sends little finds a free slot at once.

Where a service runs as several processes, the rounds are those of the node: each process announces the first scan that
waits in it, and the process whose scan is first of all takes the next slot.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from gatepost.node_memory import NodeMemory, SharedTally

# The round in which a scan is served, and when it came.
Place: TypeAlias = tuple[int, int]

# Tenants that can wait at once with turns of their own; others beyond share one.
MAX_TENANTS = 4_096
# A process that has not announced its scan again for so long does not work: nobody waits for it.
STALE_SECONDS = 3.0
# A tenant that has sent no mail for so long is not waited for.
RECENT_SECONDS = 3.0
# How many slots a tenant may have for each that is free.
SHARE = 3


class RecentTenants:
    """Who has sent mail just now. Rules that leave something to others hold only while there are others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str | None, float] = {}

    def note(self, tenant: str | None) -> None:
        """Count a scan of this tenant; None stands for the deployment."""
        self._seen.pop(tenant, None)
        self._seen[tenant] = self._clock()
        self._forget()

    @property
    def are_several(self) -> bool:
        """Whether more than one tenant has sent mail within the last seconds."""
        if len(self._seen) > 1:
            self._forget()
        return len(self._seen) > 1

    def _forget(self) -> None:
        """Drop those who were last seen too long ago; they stand in the order in which they were seen."""
        before = self._clock() - RECENT_SECONDS
        while self._seen and next(iter(self._seen.values())) < before:
            del self._seen[next(iter(self._seen))]


class Turns:
    """The rounds of one process."""

    def __init__(self) -> None:
        self._round = 0
        self._rounds: dict[str, int] = {}
        self._waiting: Counter[str] = Counter()
        self._arrived = 0
        self._bytes = 0

    def new_ticket(self) -> int:
        """Return when a scan came: a number that grows, and that all processes of a machine can compare."""
        self._arrived = max(self._arrived + 1, time.monotonic_ns())
        return self._arrived

    def join(self, tenant: str) -> None:
        """Count a scan that starts to wait."""
        if not self._waiting[tenant]:
            self._rounds[tenant] = self._round + 1
        self._waiting[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Count a scan that no longer waits."""
        self._waiting[tenant] -= 1
        if self._waiting[tenant] <= 0:
            del self._waiting[tenant], self._rounds[tenant]

    def round_of(self, tenant: str) -> int:
        """Return the round in which the tenant's next scan is served."""
        return self._rounds.get(tenant, self._round + 1)

    def serve(self, tenant: str) -> None:
        """Note that a scan of this tenant, which still counts, is given a slot."""
        served = self.round_of(tenant)
        self._round = max(self._round, served)
        self._rounds[tenant] = served + 1

    def hold(self, size: int) -> None:
        """Count the bytes of a message that waits."""
        self._bytes += size

    def release(self, size: int) -> None:
        """Count them no longer."""
        self._bytes -= size

    @property
    def held_bytes(self) -> int:
        """The bytes of all messages that wait."""
        return self._bytes

    def announce(self, place: Place | None) -> None:
        """Tell the other processes which place the first scan here has."""

    def is_next(self, place: Place) -> bool:  # noqa: ARG002  no other process, no other place
        """Announce this place, and return whether no other process has a scan that is to be served before it."""
        return True

    @property
    def others_wait(self) -> bool:
        """Whether scans wait in another process."""
        return False


class TurnCells:
    """Where the processes of a node keep the rounds of tenants, and the first scan that waits in each of them."""

    def __init__(self, memory: NodeMemory) -> None:
        self.memory = memory
        self.round = memory.allocate(1)
        self.tenants = SharedTally(memory, MAX_TENANTS)
        # Of each process: round and ticket of its first scan (round 0: none), when it said so, and the bytes waiting.
        self.columns = memory.allocate_columns(4)


class SharedTurns(Turns):
    """The rounds of a node with several processes."""

    def __init__(self, cells: TurnCells) -> None:
        super().__init__()
        self._cells, self._memory, self._tenants = cells, cells.memory, cells.tenants
        self._own = cells.columns[cells.memory.member]
        # The entries of the tenants that wait in this process.
        self._entries: dict[str, int] = {}

    def join(self, tenant: str) -> None:
        with self._memory:
            entry = self._entries.get(tenant)
            if entry is None:
                entry = self._entries[tenant] = self._tenants.find_or_share(tenant)
            if not self._tenants.total(entry):
                self._tenants.values[entry] = self._cells.round[0] + 1
            self._tenants.add_at(entry, 1)
        self._waiting[tenant] += 1

    def leave(self, tenant: str) -> None:
        with self._memory:
            self._tenants.add_at(self._entries[tenant], -1)
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant], self._entries[tenant]

    def round_of(self, tenant: str) -> int:
        return int(self._tenants.values[self._entries[tenant]])

    def serve(self, tenant: str) -> None:
        with self._memory:
            entry = self._entries[tenant]
            served = self._tenants.values[entry]
            self._cells.round[0] = max(self._cells.round[0], served)
            self._tenants.values[entry] = served + 1

    def hold(self, size: int) -> None:
        self._own[3] += size

    def release(self, size: int) -> None:
        self._own[3] -= size

    @property
    def held_bytes(self) -> int:
        return sum(column[3] for column in self._cells.columns)

    def announce(self, place: Place | None) -> None:
        self._is_first(place)

    def is_next(self, place: Place) -> bool:
        return self._is_first(place)

    def _is_first(self, place: Place | None) -> bool:
        """Announce the first scan here, and wake the process whose scan goes before it, if there is one.

        What a process has announced may be out of date, as its tenant had its turn elsewhere: woken, it looks again.
        """
        with self._memory:
            self._own[0], self._own[1] = place or (0, 0)
            self._own[2] = time.monotonic_ns()
            others = self._places()
        if not others or (place is not None and place < min(others)[0]):
            return True
        self._memory.ring(min(others)[1])
        return False

    @property
    def others_wait(self) -> bool:
        return any(column[0] for column in self._cells.columns if column is not self._own) and bool(self._places())

    def _places(self) -> list[tuple[Place, int]]:
        """The first scans of the other processes that work, each with the number of its process."""
        stale = time.monotonic_ns() - int(STALE_SECONDS * 1e9)
        return [
            ((column[0], column[1]), number)
            for number, column in enumerate(self._cells.columns)
            if number != self._memory.member and column[0] and column[2] > stale
        ]
