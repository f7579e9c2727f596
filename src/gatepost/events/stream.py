"""The event stream of one process: takes events anywhere, and hands them to the outputs in batches.

`emit` encodes an event once and appends it to a queue: that is all that the caller waits for, and it never raises. A
thread empties the queue ten times a second. So a kill loses the events of the last tenth of a second, and a stop loses
none that an output could take.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, Protocol

import structlog

from gatepost.events.output import Output, WaitingEvents, time_left, until
from gatepost.events.schema import EventFields, encode_event

BATCH_SECONDS = 0.1
CLOSE_SECONDS = 5.0

log = structlog.get_logger("gatepost.events")


P = ParamSpec("P")


class Emits(Protocol):
    """What takes events. While it `is_idle` nobody gets any."""

    is_idle: bool

    def emit(self, make: Callable[P, EventFields | None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Take the event that `make` returns for these arguments, if it returns one; never raises, never waits."""
        ...


class NoEvents:
    """Makes no event: for a process without outputs."""

    is_idle = True

    def emit(self, make: Callable[P, EventFields | None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do nothing."""


NO_EVENTS = NoEvents()


class EventStream:
    """Takes events from any thread. `close` ends it."""

    def __init__(self, node: str, outputs: Iterable[Output]) -> None:
        self._node = node
        self.outputs: Sequence[Output] = tuple(outputs)
        # It is emptied ten times a second: it reaches its bound only where a disk does not answer.
        self._queue = WaitingEvents()
        self._wake, self._stopping = threading.Event(), threading.Event()
        # What nobody wants is not even made: functions that make events, and with `is_idle` all of them.
        self.unwanted: frozenset[Callable[..., object]] = frozenset()
        self.is_idle = False
        self.emitted: Counter[str] = Counter()
        self.dropped = self.failures = 0
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def emit(self, make: Callable[P, EventFields | None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make an event, encode it and queue it."""
        if self.is_idle or make in self.unwanted:
            return
        try:
            event = make(*args, **kwargs)
            if event is None:
                return
            encoded = encode_event(event, self._node)
        except Exception:
            # Whatever is wrong with an event, its cause is a message or a change that must go on.
            self.failures += 1
            log.exception("an event could not be made", kind=getattr(make, "__name__", ""))
            return
        self.emitted[encoded.kind] += 1
        self.dropped += self._queue.add((encoded,))
        if not self._wake.is_set():
            self._wake.set()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Hand over what is queued and end the outputs, within so many seconds."""
        end = until(seconds)
        self._stopping.set()
        self._wake.set()
        self._thread.join(seconds)
        for output in self.outputs:
            output.close(time_left(end))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            # Not in the other order: an event that comes in between wakes this thread again.
            self._stopping.wait(BATCH_SECONDS)
            self._wake.clear()
            self._hand_over()
        self._hand_over()

    def _hand_over(self) -> None:
        batch = self._queue.take_all()
        if not batch:
            return
        for output in self.outputs:
            started = time.monotonic()
            try:
                output.write(batch)
            except Exception:
                # One output must not take the events from the others.
                self.failures += 1
                log.exception("an output of events failed", output=output.name)
            if time.monotonic() - started > BATCH_SECONDS * 10:
                log.warning("an output of events is slow", output=output.name)
