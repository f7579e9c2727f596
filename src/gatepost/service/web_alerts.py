"""Alerts of the web interface as an output of the event stream: followed in storage, and rebuilt when they change."""

import asyncio
import threading
from collections.abc import Callable, Sequence

import structlog

from gatepost import __version__
from gatepost.events.alerts import AlertOutput, SendsMail
from gatepost.events.output import OutputCounters
from gatepost.events.schema import EncodedEvent, NodeState, encode_event
from gatepost.settings.event_keys import AlertSettings
from gatepost.settings.web_alerts import WebAlert, WebAlertError, build_alert, leave_out
from gatepost.store.alerts import AlertDefinition
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

FOLLOW_SECONDS = 5.0
CLOSE_SECONDS = 2.0

log = structlog.get_logger("gatepost.events")

# Returns what sends the mail of an alert.
MakesMailer = Callable[[AlertSettings], SendsMail | None]


class WebAlerts:
    """The alerts of the web interface; `file` are those of a file, whose receivers are left out. `is_wanted` says
    whether there are any, and `changed` is called when that may be another."""

    name, address = "web-alerts", "alerts of the web interface"

    def __init__(self, file: AlertSettings | None, node: str, make_mailer: MakesMailer) -> None:
        self._file, self._node, self._make_mailer = file, node, make_mailer
        self._lock = threading.Lock()
        self._alerts: tuple[AlertDefinition, ...] = ()
        self._outputs: tuple[AlertOutput, ...] = ()
        self._past = OutputCounters()
        self.changed: Callable[[], None] = lambda: None

    @property
    def is_wanted(self) -> bool:
        return bool(self._outputs)

    async def follow(self, store: Store) -> None:
        """Take over changes for as long as the process serves."""
        while True:
            await self.look(store)
            await asyncio.sleep(FOLLOW_SECONDS)

    async def look(self, store: Store) -> None:
        """Look once."""
        try:
            alerts = await store.alerts.all()
        except StorageError:
            return
        if alerts != self._alerts:
            await asyncio.to_thread(self.use, alerts)

    def use(self, alerts: Sequence[AlertDefinition]) -> None:
        """Send alerts as these say, from now on."""
        outputs: list[AlertOutput] = []
        for each in alerts:
            try:
                outputs.append(build_output(each.alert, self._file, self._node, self._make_mailer))
            except WebAlertError as fault:
                log.warning("alert of the web interface is not sent", alert=each.name, reason=str(fault))
        with self._lock:
            before, self._outputs, self._alerts = self._outputs, tuple(outputs), tuple(alerts)
        self.changed()
        for output in before:
            output.close(CLOSE_SECONDS)
            self._past = _add(self._past, output.counters())

    def write(self, events: Sequence[EncodedEvent]) -> None:
        """Hand events to every alert that wants them."""
        with self._lock:
            for output in self._outputs:
                output.write(events)

    def close(self, seconds: float) -> None:
        """Send what waits."""
        with self._lock:
            for output in self._outputs:
                output.close(seconds / max(1, len(self._outputs)))

    def test(self, event: EncodedEvent) -> str:
        """Send one alert to all receivers; the first failure is the result."""
        with self._lock:
            return next((fault for fault in (output.test(event) for output in self._outputs) if fault), "")

    def counters(self) -> OutputCounters:
        total = self._past
        for output in self._outputs:
            total = _add(total, output.counters())
        return total


def build_output(alert: WebAlert, file: AlertSettings | None, node: str, make_mailer: MakesMailer) -> AlertOutput:
    """Return what sends one alert; raises `WebAlertError`, also where the file has all its receivers."""
    settings = build_alert(leave_out(alert, file), file.mail if file else None)
    return AlertOutput(settings, node, make_mailer(settings), public_only=True)


def _add(one: OutputCounters, other: OutputCounters) -> OutputCounters:
    waiting = other.waiting_bytes
    return OutputCounters(
        one.delivered + other.delivered, one.dropped + other.dropped, one.failures + other.failures, waiting
    )


def try_alert(file: AlertSettings | None, node: str, make_mailer: MakesMailer, alert: WebAlert) -> str:
    """Send one alert of the web interface to all its receivers; return why that failed, "" if all took it."""
    try:
        output = build_output(alert, file, node, make_mailer)
    except WebAlertError:
        return "a file has all its receivers, so nothing is sent from here"
    try:
        return output.test(encode_event(NodeState(state="test", version=__version__), node))
    finally:
        output.close(0.0)
