"""What is counted of a core for `fair_queue`: the turns of tenants, who sends mail, slots, and what waits for one."""

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

# A tenant that has sent no mail for so long is not waited for.
RECENT_SECONDS = 3.0
# Costly mail leaves room for a tenant that has sent mail within so long: the next message of that one finds it.
REMEMBERED_SECONDS = 600.0

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
    """What is counted of a core: slots by tenant, and the messages that wait for one, with their bytes."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.tenants = RecentTenants()
        self._slots: Counter[Tenant] = Counter()
        self.in_processing = self.waiting = self.waiting_bytes = 0

    def slots_of(self, tenant: Tenant) -> int:
        """How many messages of this tenant are in processing."""
        return self._slots[tenant]

    def take(self, tenant: Tenant, maximum: int) -> int | None:
        """Take a slot and return how many were taken before; None where none is free."""
        before = self.in_processing
        if before >= maximum:
            return None
        self.in_processing += 1
        self._slots[tenant] = self._slots.get(tenant, 0) + 1
        return before

    def give_back(self, tenant: Tenant) -> None:
        """Give a slot back."""
        self.in_processing -= 1
        self._slots[tenant] -= 1
        if not self._slots[tenant]:
            del self._slots[tenant]

    def change_waiting(self, change: int, size: int) -> None:
        """Count a message of this size that waits (1), or waits no longer (-1)."""
        self.waiting += change
        self.waiting_bytes += change * size
