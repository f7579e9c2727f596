"""The scans that wait for a slot, in the order in which they are served: tenants take turns (see `scanning.turns`)."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from gatepost.abby.core_state import CoreState
from gatepost.api.errors import Failure
from gatepost.scanning.turns import Place, Turns


class HasTicket(Protocol):
    """A scan that waits: whose it is, and when it came."""

    @property
    def tenant(self) -> str: ...

    @property
    def ticket(self) -> int: ...


W = TypeVar("W", bound=HasTicket)

# How long a slot may stay free for a scan of another process before it is taken for one of this process.
PATIENCE_SECONDS = 0.25


def _ticket(scan: HasTicket) -> int:
    return scan.ticket


class WaitingScans(Generic[W]):
    """The scans that wait in this process; `turns` knows of those in others, `may_have_slot` which tenants may get one.

    Each tenant has its scans by arrival. A heap has one current entry for each tenant, by the place of its first scan;
    what is in the heap besides is out of date and dropped when it comes up. So a slot costs the same whether three
    tenants wait or three thousand.
    """

    def __init__(self, turns: Turns, may_have_slot: Callable[[str], bool] = lambda _tenant: True) -> None:
        self._turns, self._may_have_slot = turns, may_have_slot
        self._by_tenant: dict[str, list[W]] = {}
        self._places: dict[str, Place] = {}
        self._heap: list[tuple[Place, str]] = []
        self._blocked_since: float | None = None

    def __bool__(self) -> bool:
        return bool(self._by_tenant)

    def add(self, scan: W) -> None:
        """Let a scan wait; one that waited before gets its place among those of its tenant back."""
        self._turns.join(scan.tenant)
        insort(self._by_tenant.setdefault(scan.tenant, []), scan, key=_ticket)
        self._note_place(scan.tenant)
        self.announce()

    def discard(self, scan: W) -> None:
        """Take out a scan, if it is there."""
        if self._remove(scan):
            self.announce()

    def first(self) -> W | None:
        """Return the scan that is to be served next in this process. Tenants that have their share of the slots are
        passed over; those are few, since the share is a part of all slots."""
        passed: list[tuple[Place, str]] = []
        found: W | None = None
        while self._heap and found is None:
            place, tenant = self._heap[0]
            is_current = self._places.get(tenant) == place
            if not is_current or self._turns.round_of(tenant) != place[0]:
                heappop(self._heap)
                if is_current:
                    self._note_place(tenant)
            elif self._may_have_slot(tenant):
                found = self._by_tenant[tenant][0]
            else:
                passed.append(heappop(self._heap))
        for each in passed:
            heappush(self._heap, each)
        return found

    def may_go(self, scan: W) -> bool:
        """Whether the first scan here may take a free slot: it is the next of all processes, or the one that is next
        does not take it."""
        now = asyncio.get_running_loop().time()
        if self._turns.is_next((self._turns.round_of(scan.tenant), scan.ticket)):
            self._blocked_since = None
            return True
        if self._blocked_since is None:
            self._blocked_since = now
        return now - self._blocked_since >= PATIENCE_SECONDS

    def serve(self, scan: W) -> None:
        """Take out a scan that is given a slot."""
        self._blocked_since = None
        self._turns.serve(scan.tenant)
        self._remove(scan)
        self.announce()

    def pop(self) -> W | None:
        """Take out a scan without serving it; None where none waits."""
        scan = next((scans[0] for scans in self._by_tenant.values()), None)
        if scan is not None:
            self.discard(scan)
        return scan

    def announce(self) -> None:
        """Tell other processes what is first here; to be called now and then while scans wait."""
        scan = self.first()
        self._turns.announce((self._turns.round_of(scan.tenant), scan.ticket) if scan is not None else None)

    def _remove(self, scan: W) -> bool:
        scans = self._by_tenant.get(scan.tenant, [])
        at = bisect_left(scans, scan.ticket, key=_ticket)
        if at == len(scans) or scans[at] is not scan:
            return False
        del scans[at]
        if not scans:
            del self._by_tenant[scan.tenant], self._places[scan.tenant]
        else:
            self._note_place(scan.tenant)
        self._turns.leave(scan.tenant)
        return True

    def _note_place(self, tenant: str) -> None:
        place = (self._turns.round_of(tenant), self._by_tenant[tenant][0].ticket)
        if self._places.get(tenant) != place:
            self._places[tenant] = place
            heappush(self._heap, (place, tenant))


class WaitingClient(Protocol):
    """The client of a scan, while the scan waits."""

    def park(self) -> None:
        """Move the message from memory to disk, since the scan is about to wait."""
        ...

    async def wait_until_gone(self) -> None:
        """Return when the client has left."""
        ...


class Waiter:
    """One scan in the queue; `turn` becomes the core that it may use, or the failure that ends its wait.

    `beside` are the cores that have the message already, where a second attempt is wanted.
    """

    def __init__(self, ticket: int, tenant: str, beside: frozenset[CoreState] = frozenset()) -> None:
        self.ticket, self.tenant, self.beside = ticket, tenant, beside
        self.turn: asyncio.Future[CoreState | Failure] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: "Waiter") -> bool:
        return self.ticket < other.ticket

    def withdraw(self) -> None:
        """Stop waiting, and give back a slot that was reserved for it."""
        if self.turn.done() and not self.turn.cancelled() and isinstance(state := self.turn.result(), CoreState):
            state.release(self.tenant)
        self.turn.cancel()
