"""The event stream of a service: its outputs, the alerts of the web interface among them, and their mail."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from email.message import EmailMessage
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from gatepost import __version__
from gatepost.events.output import DeliveryError, Output, OutputCounters, SendsMail
from gatepost.events.schema import EncodedEvent, NodeState, encode_event
from gatepost.events.sources import describe_scan
from gatepost.events.stream import (
    EventMetrics,
    EventStream,
    MakesMailer,
    OutputError,
    build_web_outputs,
    node_name,
    open_stream,
)
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings.events import EventMailSettings, EventsSettings, WebAlert
from gatepost.settings.feeds import WebSettingsError
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.store.alerts import AlertDefinition
from gatepost.store.errors import StorageError
from gatepost.store.search_conditions import MessageFilter, hoist
from gatepost.store.search_language import SearchFault, SearchPlace, by_name_and_id
from gatepost.store.store import Store

if TYPE_CHECKING:
    from gatepost.smtp.routing import Routing


FOLLOW_SECONDS = 5.0
CLOSE_SECONDS = 2.0

log = Logger("gatepost.events")


class WebAlerts:
    """The alerts of the web interface as an output: followed in storage, and rebuilt when they change. `is_wanted` says
    whether there are any, and `changed` is called when that may be another."""

    name, address = "web-alerts", "alerts of the web interface"

    def __init__(self, settings: EventsSettings, make_mailer: MakesMailer) -> None:
        self._settings, self._make_mailer = settings, make_mailer
        self._lock = threading.Lock()
        self._alerts: tuple[AlertDefinition, ...] = ()
        self._outputs: tuple[Output, ...] = ()
        self._past = OutputCounters()
        self.changed: Callable[[], None] = lambda: None

    @property
    def is_wanted(self) -> bool:
        return bool(self._outputs)

    def build_following(self, store: Store) -> PeriodicWork:
        """Return what takes over changes for as long as the process serves."""
        failed = "alerts of the web interface could not be read"
        return PeriodicWork(partial(self.look, store), FOLLOW_SECONDS, failed, log, waits_first=True)

    async def look(self, store: Store) -> None:
        try:
            alerts = await store.alerts.all()
        except StorageError:
            return
        # When a threshold was reached last changes nothing for whoever sends alerts.
        alerts = tuple(replace(each, alert=replace(each.alert, fired=0, found=0)) for each in alerts)
        if alerts != self._alerts:
            await asyncio.to_thread(self.use, alerts)

    def use(self, alerts: Sequence[AlertDefinition]) -> None:
        """Send alerts as these say, from now on."""
        outputs: list[Output] = []
        for each in alerts:
            try:
                outputs += build_web_outputs(each.shown_name, each.alert, self._settings, self._make_mailer, sends=True)
            except WebSettingsError as fault:
                log.warning("alert of the web interface is not sent", alert=each.name, reason=str(fault))
        with self._lock:
            before, self._outputs, self._alerts = self._outputs, tuple(outputs), tuple(alerts)
        self.changed()
        for output in before:
            output.close(CLOSE_SECONDS)
            self._past += replace(output.counters(), waiting_bytes=0)

    def write(self, events: Sequence[EncodedEvent]) -> None:
        with self._lock:
            for output in self._outputs:
                output.write(events)

    def close(self, seconds: float) -> None:
        """Send what waits."""
        with self._lock:
            for output in self._outputs:
                output.close(seconds / len(self._outputs))

    def test(self, event: EncodedEvent) -> str:
        """Send one event to all receivers; the first failure is the result."""
        with self._lock:
            return find_failure(self._outputs, event)

    def counters(self) -> OutputCounters:
        return sum((output.counters() for output in self._outputs), self._past)


def find_failure(outputs: Iterable[Output], event: EncodedEvent) -> str:
    """Send an event to all these outputs; return why the first of them failed, "" if all took it."""
    tried = [(output.name, output.test(event)) for output in outputs]
    return next((f"by {name}: {fault}" for name, fault in tried if fault), "")


def try_alert(settings: GuardSettings | AbbySettings, alert: WebAlert) -> str:
    """Send an event to all receivers of an alert of the web interface; return why that failed, "" if all took it."""
    events = settings.events
    outputs = build_web_outputs("", alert, events, partial(build_mailer, settings), sends=False)
    return find_failure(outputs, encode_event(NodeState(state="test", version=__version__), node_name(events)))


THRESHOLD_SECONDS = 30.0


class ThresholdWatch:
    """Counts what the searches of alerts find, on each node. A search reads as much as one of a page,
    and nothing is counted while a message is analysed; the node that writes down first what was found tells of it."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        failed = "thresholds of alerts could not be looked at"
        self.periodic = PeriodicWork(self.look, THRESHOLD_SECONDS, failed, log, waits_first=True)

    async def look(self) -> None:
        """Look once at every alert that has a threshold."""
        now = int(self._clock() * 1000)
        for each in await self._store.alerts.all():
            alert = each.alert
            if not alert.has_threshold or now - alert.fired < alert.minutes * 60_000:
                continue
            found = await self._count(alert, now)
            if found >= alert.count:
                await self._store.alerts.reach(each.name, found, now)

    async def _count(self, alert: WebAlert, now: int) -> int:
        names = by_name_and_id((each.uid, each.name) for each in await self._store.tenants.all())
        place = SearchPlace(now, tenants={} if alert.tenant else names)
        expression = await self._store.messages.read_search(alert.search, place, alert.tenant or None)
        if isinstance(expression, SearchFault):
            log.warning("the search of an alert cannot be read", search=alert.search, reason=expression.message)
            return 0
        wanted = hoist(MessageFilter(tenant=alert.tenant or None, query=expression))
        since = max(wanted.since or 0, now - alert.minutes * 60_000)
        return (await self._store.messages.count(replace(wanted, since=since))).messages


MAIL_SECONDS = 30.0


@asynccontextmanager
async def open_service_events(
    settings: GuardSettings | AbbySettings, data: DataFolder, registry: CollectorRegistry
) -> AsyncIterator[tuple[EventStream, WebAlerts]]:
    """Open the outputs of a service, and close them at the end; raises `StartError`. While neither the settings nor the
    web interface want events, none is made."""
    events = settings.events
    make_mailer = partial(build_mailer, settings)
    alerts = WebAlerts(events, make_mailer)
    try:
        stream = open_stream(events, data.path, make_mailer, [alerts])
    except OutputError as fault:
        raise StartError(str(fault)) from None
    alerts.changed = lambda: _note_wanted(stream, alerts, is_enabled=events.enabled)
    alerts.changed()
    registry.register(EventMetrics(stream))
    try:
        yield stream, alerts
    finally:
        await asyncio.to_thread(stream.close)


def _note_wanted(stream: EventStream, alerts: WebAlerts, *, is_enabled: bool) -> None:
    """Have no event made that nobody gets: alerts of the web interface are not for each scan."""
    stream.unwanted = frozenset() if is_enabled else frozenset({describe_scan})
    stream.is_idle = not is_enabled and not alerts.is_wanted


def build_mailer(settings: GuardSettings | AbbySettings, mail: EventMailSettings) -> SendsMail:
    """Return what sends events by mail, through their own server or the next hop."""
    node = node_name(settings.events)

    async def send(message: EmailMessage) -> None:
        from gatepost.smtp.next_hop import NextHopError

        routing = _route_mail(settings, mail, node)
        several = [relay.url for _, relay in routing.relays()]
        server = several[0] if len(several) == 1 else "the next hop"
        try:
            async with asyncio.timeout(MAIL_SECONDS * 2):
                sent = await routing.send(str(message["From"]), mail.recipients, message.as_bytes(), {})
        except (NextHopError, TimeoutError) as fault:
            raise DeliveryError(f"{server} {str(fault) or 'did not answer in time'}") from None
        finally:
            await routing.close()
        if not sent.reply.positive:
            raise DeliveryError(f"{server} answered {sent.reply.code}")

    return lambda message: asyncio.run(send(message))


def _route_mail(settings: GuardSettings | AbbySettings, mail: EventMailSettings, node: str) -> "Routing":
    """Return the way of this mail: its own server, or the routes of other mail to the same recipients."""
    from gatepost.service.routes import build_routing
    from gatepost.smtp.next_hop import NextHopTimeouts
    from gatepost.smtp.routing import Relay, Routing

    if mail.server:
        return Routing.through(Relay(mail.server, mail.tls, node, NextHopTimeouts.from_setting(MAIL_SECONDS)))
    built = build_routing(settings) if isinstance(settings, GuardSettings) else None
    if built is None:
        raise DeliveryError("there is no next hop here (delivery in guard.yml, or events.mail.server)")
    return built
