"""Alerts to people, by mail and by a signed call, for the events that the operator chose.

At most `maxPerHour` alerts are sent in an hour, counted from the first of them; of the rest one summary is sent when
that hour is over, or when the service stops. In quiet hours only errors are told at once; one summary tells of the rest
when they are over. An alert that cannot be sent is tried five times, with growing waits, then
counted as dropped: an alert that is hours late misleads. Alerts wait in memory.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

import msgspec

from gatepost.events.output import (
    DeliveryCounter,
    DeliveryError,
    OutputCounters,
    SendingThread,
    WaitingEvents,
    of_kinds,
)
from gatepost.events.schema import EncodedEvent
from gatepost.events.webhook import WebhookCaller
from gatepost.settings.events import AlertSettings, QuietHours, Severity
from gatepost.settings.values import hide_path

HOUR = 3_600.0
MAX_ATTEMPTS = 5
MAX_WAITING = 256 << 10
_RANKS: dict[Severity, int] = {"info": 0, "notice": 1, "warning": 2, "error": 3}

# Sends one message; raises `DeliveryError`.
SendsMail = Callable[[EmailMessage], None]


class Alert(msgspec.Struct, frozen=True):
    """What a person is told: a line, details below it, and the events that it is about."""

    title: str
    text: str
    lines: tuple[bytes, ...] = ()


class AlertLimit:
    """Lets so many alerts pass in an hour, and keeps account of the rest."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._lock = threading.Lock()
        self._started: float | None = None
        self._passed = 0
        self._rest: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def passes(self, kind: str) -> bool:
        """Return whether an alert may be sent now; one that may not is counted for the summary."""
        with self._lock:
            if self._started is None:
                self._started = self._clock()
            if self._passed < self._most:
                self._passed += 1
                return True
            self._rest[kind] += 1
            return False

    def hold_back(self, kind: str) -> None:
        """Count an alert that came in quiet hours."""
        with self._lock:
            self._held[kind] += 1

    def take_held(self) -> Alert | None:
        """Return the summary of quiet hours that are over; None if nothing came in them."""
        with self._lock:
            held, self._held = self._held, Counter()
        if not held:
            return None
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(held.items()))
        return Alert(f"{held.total()} alerts in quiet hours", f"While it was quiet, these came up: {counts}.\n")

    def summary(self, *, now: bool = False) -> Alert | None:
        """Return the summary of an hour that is over, or with `now` of the current one; None if there is none."""
        with self._lock:
            if self._started is None or (not now and self._clock() - self._started < HOUR):
                return None
            rest, self._rest = self._rest, Counter()
            self._started, self._passed = None, 0
        if not rest:
            return None
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(rest.items()))
        return Alert(f"{rest.total()} more alerts", f"More alerts than events.alerts.maxPerHour came up: {counts}.\n")


class AlertOutput:
    """Alerts as an output of the stream; `public_only` calls hosts on the internet and no others. One with a threshold
    is told of its `own` events alone, by its name and tenant."""

    name = "alerts"

    def __init__(
        self,
        settings: AlertSettings,
        node: str,
        send_mail: SendsMail | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        public_only: bool = False,
        own: tuple[str, str] | None = None,
        quiet: QuietHours | None = None,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._node, self._send_mail = settings, node, send_mail
        self._own, self._quiet, self._time_of_day = own, quiet, time_of_day
        self.address = _list_receivers(settings)
        self._caller = WebhookCaller(settings.webhook, public_only=public_only) if settings.webhook else None
        self._limit = AlertLimit(settings.max_per_hour, clock)
        self._waiting = WaitingEvents(MAX_WAITING)
        self._deliveries = DeliveryCounter(self.name)
        self._next: Alert | None = None
        self._done: set[str] = set()
        self._attempts = 0
        self._stopping = threading.Event()
        self._thread = SendingThread("alerts", self.send_some, self._deliveries)

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Take the events that people want to hear of."""
        least = _RANKS[self._settings.min_severity]
        chosen = [event for event in of_kinds(events, self._settings.kinds) if _RANKS[event.severity] >= least]
        if self._own is not None:
            chosen = [event for event in chosen if _name_threshold(event) == self._own]
        if self._is_quiet:
            for event in chosen:
                if event.severity != "error":
                    self._limit.hold_back(event.kind)
            chosen = [event for event in chosen if event.severity == "error"]
        chosen = [event for event in chosen if self._limit.passes(event.kind)]
        if chosen:
            self._deliveries.drop(self._waiting.add(chosen))
            self._thread.wake()

    @property
    def _is_quiet(self) -> bool:
        return self._quiet is not None and self._quiet.holds_at(self._time_of_day())

    def send_some(self) -> bool:
        """Send the next alert, or the summary of an hour that is over."""
        if self._next is None:
            self._next, self._attempts, self._done = self._take(), 0, set()
        if self._next is None:
            return False
        self._attempts += 1
        try:
            self._send(self._next)
        except DeliveryError:
            if self._attempts >= MAX_ATTEMPTS:
                self._deliveries.drop(1)
                self._next = None
            raise
        self._deliveries.succeed(1)
        self._next = None
        return True

    def close(self, seconds: float) -> None:
        """Send what waits, and the summary of the hour that has begun."""
        self._stopping.set()
        self._thread.stop(seconds)
        if self._caller:
            self._caller.close()

    def test(self, event: EncodedEvent) -> str:
        """Send one alert, whatever its severity."""
        self._thread.stop(1.0)
        try:
            self._send(describe_alert([event], self._node))
        except DeliveryError as fault:
            return str(fault)
        return ""

    def counters(self) -> OutputCounters:
        return self._deliveries.counters(self._waiting.bytes)

    def _take(self) -> Alert | None:
        events = self._waiting.take(1)
        if events:
            return describe_alert(events, self._node)
        if not self._is_quiet and (held := self._limit.take_held()):
            return held
        return self._limit.summary(now=self._stopping.is_set())

    def _send(self, alert: Alert) -> None:
        """Send an alert on every way that has not taken it yet; the first failure is raised after all were tried."""
        fault: DeliveryError | None = None
        for way, send in (("mail", self._mail), ("webhook", self._call)):
            if way in self._done:
                continue
            try:
                send(alert)
                self._done.add(way)
            except DeliveryError as wrong:
                fault = fault or DeliveryError(f"by {way}: {wrong}")
        if fault:
            raise fault

    def _mail(self, alert: Alert) -> None:
        if self._send_mail and self._settings.mail:
            self._send_mail(build_alert_mail(alert, self._settings, self._node))

    def _call(self, alert: Alert) -> None:
        if self._caller:
            text = msgspec.json.encode(f"{alert.title} ({self._node})")
            self._caller.call(b'{"text":' + text + b',"events":[' + b",".join(alert.lines) + b"]}")


def _name_threshold(event: EncodedEvent) -> tuple[str, str]:
    """The name and the tenant of the alert whose threshold was reached."""
    fields = msgspec.json.decode(event.line)
    return str(fields.get("alert", "")), str(fields.get("tenantUid", ""))


def describe_alert(events: Sequence[EncodedEvent], node: str) -> Alert:
    """Return what a person is told of an event: its kind and its fields, one in a line."""
    event = events[0]
    fields = msgspec.json.decode(event.line)
    shown = {name: value for name, value in fields.items() if name not in ("schema", "event", "id", "at", "node")}
    lines = [f"{name}: {_show(value)}" for name, value in shown.items()]
    head = [f"event: {event.kind}", f"severity: {event.severity}", f"time: {event.at}", f"node: {node}"]
    return Alert(_title(event.kind, shown), "\n".join([*head, *lines, f"id: {event.id}"]) + "\n", (event.line,))


def build_alert_mail(alert: Alert, settings: AlertSettings, node: str) -> EmailMessage:
    """Return the mail of an alert (RFC 5322), marked as written by a program (RFC 3834 section 5)."""
    assert settings.mail is not None
    message = EmailMessage(policy=SMTP)
    message["From"] = settings.mail.sender or f"gatepost@{node}"
    message["To"] = ", ".join(settings.mail.recipients)
    message["Subject"] = f"[gatepost {node}] {alert.title}"
    message["Date"] = formatdate()
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(alert.text)
    return message


def _list_receivers(settings: AlertSettings) -> str:
    receivers = [*settings.mail.recipients] if settings.mail else []
    return ", ".join([*receivers, *([hide_path(settings.webhook.url)] if settings.webhook else [])])


def _title(kind: str, fields: dict[str, object]) -> str:
    said = {
        "health.changed": ("component", "after"),
        "node.state": ("state",),
        "user.signInFailed": ("user", "reason", "address"),
        "key.created": ("name",),
        "config.published": ("version", "reason"),
        "config.rollout": ("version", "nodeName", "outcome", "reason"),
        "key.revoked": ("name",),
        "list.changed": ("list", "change"),
        "audit.recorded": ("action",),
        "flow.limited": ("limit", "subject"),
        "rule.stopped": ("rule", "reason"),
        "threshold.reached": ("alert", "count"),
        "message.held": ("verdict",),
    }.get(kind, ())
    words = [_show(fields[name]) for name in said if name in fields]
    return " ".join([kind, *words])[:200]


def _show(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
