"""Which waiting analysis goes to which worker.

A worker takes a new job only while nothing executes in it, and keeps few others suspended. Two queues: most jobs share
a worker with suspended ones; a large message, or one that has broken a worker, has its worker alone. For the first of
those a worker is reserved, which gets nothing new until it is empty, so that a stream of small mail cannot starve it;
and large messages never hold all workers, so that they cannot starve small mail either. A third queue is for those who
only look at a message: they wait until no small mail does, or until so much of it has gone before them.
"""

from collections import deque
from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

MAX_SUSPENDED = 8
MAX_SUSPENDED_BYTES = 16 << 20
LARGE = 1 << 20
PATIENCE = 50


class Waiting(Protocol):
    """A job as far as its place in a queue goes."""

    @property
    def size(self) -> int: ...

    @property
    def alone(self) -> bool: ...


class Seat(Protocol):
    """A worker as far as its room for jobs goes."""

    @property
    def free(self) -> bool:
        """It is ready, nothing executes in it, and it is not about to go."""
        ...

    @property
    def suspended(self) -> int: ...

    @property
    def suspended_bytes(self) -> int: ...

    @property
    def taken_alone(self) -> bool: ...


J = TypeVar("J", bound=Waiting)
S = TypeVar("S", bound=Seat)


class Queue(Generic[J]):
    """The jobs that wait for a worker, first come first served but for `again`, which go first."""

    def __init__(self) -> None:
        self._alone: deque[J] = deque()
        self._shared: deque[J] = deque()
        self._patient: deque[J] = deque()
        self._passed = 0

    def __len__(self) -> int:
        return len(self._alone) + len(self._shared) + len(self._patient)

    def put(self, job: J, *, again: bool = False, patient: bool = False) -> None:
        """Wait at the end, or at the front if it has been waiting before; `patient` jobs let others go first."""
        queue = self._alone if job.alone else self._patient if patient else self._shared
        if again:
            queue.appendleft(job)
        else:
            queue.append(job)

    def remove(self, job: J) -> None:
        """Wait no longer."""
        for queue in (self._alone, self._shared, self._patient):
            if job in queue:
                queue.remove(job)

    def next(self, seats: Collection[S]) -> tuple[J, S] | None:
        """The next job that can start now, and where; it leaves the queue."""
        reserved = None
        if self._alone and _may_be_alone(seats, self._alone[0]):
            reserved = min((seat for seat in seats if not seat.taken_alone), key=_load, default=None)
            if reserved is not None and reserved.free and not reserved.suspended:
                return self._alone.popleft(), reserved
        if self._patient and (not self._shared or self._passed >= PATIENCE):
            seat = _emptiest(seats, self._patient[0].size, reserved)
            if seat is not None:
                self._passed = 0
                return self._patient.popleft(), seat
        if not self._shared:
            return None
        seat = _emptiest(seats, self._shared[0].size, reserved)
        if seat is None:
            return None
        self._passed += bool(self._patient)
        return self._shared.popleft(), seat


def _may_be_alone(seats: Collection[Seat], job: Waiting) -> bool:
    """All workers but one may hold a large message; a second attempt, which is short or killed, may take any."""
    taken = sum(seat.taken_alone for seat in seats)
    return taken < (len(seats) if job.size <= LARGE else max(1, len(seats) - 1))


def _load(seat: Seat) -> tuple[bool, int]:
    return not seat.free, seat.suspended


def _emptiest(seats: Collection[S], size: int, reserved: S | None) -> S | None:
    """The worker with room for so many bytes that holds the fewest others."""
    best, fewest = None, MAX_SUSPENDED
    for seat in seats:
        room = seat.suspended < fewest and seat.suspended_bytes + size <= MAX_SUSPENDED_BYTES
        if room and seat.free and seat is not reserved and not seat.taken_alone:
            best, fewest = seat, seat.suspended
    return best
