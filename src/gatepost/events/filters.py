"""Which events an output gets: by kind and severity, so many in an hour, in quiet hours errors only.

With `maxPerHour` an hour is counted from its first event; when it is over, or when the service stops, the event
`events.omitted` tells of the rest. In quiet hours only errors pass; one such event tells of the rest when they are
over. The output of an alert with a threshold gets the events of that threshold alone.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from gatepost.events.output import Output, OutputCounters
from gatepost.events.schema import EncodedEvent, EventsOmitted, OmittedKind, encode_event
from gatepost.settings.events import OutputFilter, QuietHours, Severity

HOUR = 3_600.0
_RANKS: dict[Severity, int] = {"info": 0, "notice": 1, "warning": 2, "error": 3}


class FilteredOutput:
    """An output behind its filter. `write` and `close` are for one thread; an empty batch brings summaries that are
    due."""

    def __init__(
        self,
        output: Output,
        chosen: OutputFilter,
        node: str,
        *,
        max_per_hour: int | None = None,
        threshold: tuple[str, str] | None = None,
        quiet: QuietHours | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`threshold` is the name and the tenant of the only alert whose threshold this output is told of."""
        self.name, self.address = output.name, output.address
        self._output, self._node, self._clock = output, node, clock
        self._kinds, self._least = frozenset(chosen.kinds), _RANKS[chosen.min_severity]
        self._most, self._threshold, self._quiet = max_per_hour, threshold, quiet
        self._hour: float | None = None
        self._passed = 0
        self._rest: Counter[str] = Counter()
        self._hushed: Counter[str] = Counter()

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Hand over what passes now, and what became due."""
        now = self._clock()
        is_quiet = self._quiet is not None and self._quiet.holds_at(now)
        due = [] if is_quiet else self._summarize("quietHours", self._hushed)
        # A clock that was set back does not make an hour longer.
        if self._hour is not None and not 0 <= now - self._hour < HOUR:
            due += self._end_hour()
        passed = [event for event in events if self._is_wanted(event) and self._passes(event, now, is_quiet=is_quiet)]
        self._output.write([*due, *passed])

    def close(self, seconds: float) -> None:
        """Hand over the summary of the hour that has begun, and end."""
        self._output.write(self._end_hour())
        self._output.close(seconds)

    def test(self, event: EncodedEvent) -> str:
        """Deliver one event whatever the filter says."""
        return self._output.test(event)

    def counters(self) -> OutputCounters:
        return self._output.counters()

    def _is_wanted(self, event: EncodedEvent) -> bool:
        if self._kinds and event.kind not in self._kinds:
            return False
        return _RANKS[event.severity] >= self._least and (
            self._threshold is None or _name_threshold(event) == self._threshold
        )

    def _passes(self, event: EncodedEvent, now: float, *, is_quiet: bool) -> bool:
        if is_quiet and event.severity != "error":
            self._hushed[event.kind] += 1
            return False
        if self._most is None:
            return True
        self._hour = now if self._hour is None else self._hour
        if self._passed >= self._most:
            self._rest[event.kind] += 1
            return False
        self._passed += 1
        return True

    def _end_hour(self) -> list[EncodedEvent]:
        self._hour, self._passed = None, 0
        return self._summarize("maxPerHour", self._rest)

    def _summarize(self, reason: Literal["maxPerHour", "quietHours"], counted: Counter[str]) -> list[EncodedEvent]:
        """Return the event that tells of what was counted, and count anew."""
        if not counted:
            return []
        omitted = tuple(OmittedKind(kind=kind, count=count) for kind, count in sorted(counted.items()))
        summary = EventsOmitted(reason=reason, count=counted.total(), omitted=omitted)
        counted.clear()
        return [encode_event(summary, self._node)]


def _name_threshold(event: EncodedEvent) -> tuple[str, str]:
    """The name and the tenant of the alert whose threshold was reached."""
    fields = msgspec.json.decode(event.line)
    return str(fields.get("alert", "")), str(fields.get("tenantUid", ""))
