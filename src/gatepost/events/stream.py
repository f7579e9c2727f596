"""The event stream of one process: takes events anywhere, and hands them to the outputs in batches.

`emit` encodes an event once and appends it to a queue: that is all that the caller waits for, and it never raises. A
thread empties the queue ten times a second. So a kill loses the events of the last tenth of a second, and a stop loses
none that an output could take.

`open_stream` and its like build the outputs that the settings describe, for a service, for a command or for a test, and
`EventMetrics` tells Prometheus what became of events.

A filter decides which events an output gets. With `maxPerHour` an hour is counted from its first event; when it is
over, or when the service stops, the event `events.omitted` tells of the rest. In quiet hours only errors pass; one such
event tells of the rest when they are over. The output of an alert with a threshold gets the events of that threshold
alone.
"""

import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, ParamSpec, Protocol

import msgspec
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.events.output import (
    FileOutput,
    MailSender,
    Output,
    OutputCounters,
    QueuedOutput,
    Sender,
    SendsMail,
    SyslogSender,
    WaitingEvents,
    time_left,
    until,
)
from gatepost.events.schema import EncodedEvent, EventFields, EventsOmitted, OmittedKind, encode_event
from gatepost.events.sources import describe_change
from gatepost.events.webhook import WebhookCaller, WebhookOutput
from gatepost.process.logs import Logger
from gatepost.process.metrics import counter, gauge
from gatepost.settings.events import (
    EventMailSettings,
    EventsSettings,
    OutputFilter,
    QuietHours,
    Severity,
    WebAlert,
    WebhookSettings,
    build_alert,
    read_quiet_hours,
)
from gatepost.store.audit import AuditRecord

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


BATCH_SECONDS = 0.1
CLOSE_SECONDS = 5.0
# How often outputs are asked for what is due without an event: summaries, and what waits in memory.
IDLE_SECONDS = 1.0
ATTEMPTS_FOR_PEOPLE, MAX_WAITING_FOR_PEOPLE = 5, 256 << 10
SYSLOG_BATCH = 100

# Returns what sends mail as these settings say.
MakesMailer = Callable[[EventMailSettings], SendsMail]

log = Logger("gatepost.events")


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
            self._wake.wait(IDLE_SECONDS)
            # Not in the other order: an event that comes in between wakes this thread again.
            self._stopping.wait(BATCH_SECONDS)
            self._wake.clear()
            self._hand_over()
        self._hand_over()

    def _hand_over(self) -> None:
        batch = self._queue.take()
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


class OutputError(Exception):
    """An output cannot be used as it is configured; the text is a sentence for the operator."""


def open_stream(
    settings: EventsSettings, data: Path, make_mailer: MakesMailer, more: Sequence[Output] = ()
) -> EventStream:
    """Open all outputs of a service, and `more`; raises `OutputError`."""
    outputs = build_outputs(settings, data, sends=True, make_mailer=make_mailer)
    return EventStream(node_name(settings), [*outputs, *more])


def open_command_stream(settings: EventsSettings, data: Path) -> EventStream:
    """Open the outputs of a command that ends soon: events for webhooks stay on disk until a service sends them, and
    mail is left to services."""
    return EventStream(node_name(settings), build_outputs(settings, data, sends=False))


def build_outputs(
    settings: EventsSettings, data: Path, *, sends: bool, make_mailer: MakesMailer | None = None
) -> list[Output]:
    """Build all outputs, those by mail only with `make_mailer`; without `sends` nothing is sent but by `test` and
    `close`. Raises `OutputError`."""
    node = node_name(settings)
    outputs: list[Output] = []
    try:
        if file := settings.file:
            outputs.append(FilteredOutput(FileOutput(data / file.path, file.max_size, file.keep), file, node))
        if syslog := settings.syslog:
            queued = QueuedOutput("syslog", SyslogSender(syslog, node), batch=SYSLOG_BATCH, sends=sends)
            outputs.append(FilteredOutput(queued, syslog, node))
        for number, webhook in enumerate(settings.webhooks, 1):
            spooled = WebhookOutput(f"webhook-{number}", webhook, data / "events", sends=sends)
            outputs.append(FilteredOutput(spooled, webhook, node, max_per_hour=webhook.max_per_hour))
        if settings.mail and make_mailer:
            queued = queue_for_people("mail", MailSender(settings.mail, node, make_mailer(settings.mail)), sends=sends)
            outputs.append(FilteredOutput(queued, settings.mail, node, max_per_hour=settings.mail.max_per_hour))
    except (OSError, ssl.SSLError) as fault:
        for output in outputs:
            output.close(0.0)
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        raise OutputError(f"An output of events cannot be opened: {reason}.") from None
    return outputs


def build_web_outputs(
    name: str, alert: WebAlert, events: EventsSettings, make_mailer: MakesMailer, *, sends: bool
) -> list[Output]:
    """Build the outputs of an alert of the web interface; raises `WebSettingsError`. They call hosts on the internet
    and no others, and what waits is in memory."""
    settings, node = build_alert(alert, events.mail), node_name(events)
    senders: list[tuple[EventMailSettings | WebhookSettings, str, Sender]] = [
        (webhook, "webhook", WebhookCaller(webhook, public_only=True)) for webhook in settings.webhooks
    ]
    if mail := settings.mail:
        senders.insert(0, (mail, "mail", MailSender(mail, node, make_mailer(mail))))
    return [
        FilteredOutput(
            queue_for_people(way, sender, sends=sends),
            chosen,
            node,
            max_per_hour=chosen.max_per_hour,
            threshold=(name, alert.tenant) if alert.has_threshold else None,
            quiet=read_quiet_hours(alert.quiet, alert.zone),
        )
        for chosen, way, sender in senders
    ]


def queue_for_people(name: str, sender: Sender, *, sends: bool) -> QueuedOutput:
    """Return an output of single events that are worth nothing when they are late."""
    return QueuedOutput(name, sender, limit=MAX_WAITING_FOR_PEOPLE, attempts=ATTEMPTS_FOR_PEOPLE, sends=sends)


def node_name(settings: EventsSettings) -> str:
    return settings.node or socket.gethostname().encode("ascii", "replace").decode().replace(" ", "-") or "localhost"


def observe_audit(events: Emits) -> Callable[[AuditRecord], None]:
    """Return an observer for the store: it emits the event of each change that has one."""
    return lambda record: events.emit(describe_change, record)


class EventMetrics(Collector):
    """Events by kind, and what became of them at each output."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def collect(self) -> Iterator[Metric]:
        stream = self._stream
        emitted = counter("gatepost_events", "Events by kind", labels=("event",))
        for kind, count in sorted(stream.emitted.items()):
            emitted.add_metric((kind,), count)
        yield emitted
        delivered = counter("gatepost_events_delivered", "Events delivered", labels=("output",))
        dropped = counter("gatepost_events_dropped", "Events given up, at a bound", labels=("output",))
        failures = counter("gatepost_events_failures", "Attempts that failed", labels=("output",))
        waiting = gauge("gatepost_events_waiting_bytes", "Bytes that wait", labels=("output",))
        dropped.add_metric(("queue",), stream.dropped)
        failures.add_metric(("queue",), stream.failures)
        for output in stream.outputs:
            counters = output.counters()
            delivered.add_metric((output.name,), counters.delivered)
            dropped.add_metric((output.name,), counters.dropped)
            failures.add_metric((output.name,), counters.failures)
            waiting.add_metric((output.name,), counters.waiting_bytes)
        yield from (delivered, dropped, failures, waiting)
