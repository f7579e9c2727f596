"""The event stream of a service: its outputs opened and closed, and the mail of alerts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from gatepost.events.alerts import SendsMail
from gatepost.events.output import DeliveryError
from gatepost.events.sources import describe_scan
from gatepost.events.stream import EventMetrics, EventStream, OutputError, node_name, open_stream
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.web_alerts import WebAlerts
from gatepost.settings.event_keys import AlertMailSettings, AlertSettings
from gatepost.settings.keys import AbbySettings, GuardSettings

if TYPE_CHECKING:
    from gatepost.smtp.routing import Routing

ALERT_SECONDS = 30.0


@asynccontextmanager
async def open_service_events(
    settings: GuardSettings | AbbySettings, data: DataFolder, registry: CollectorRegistry
) -> AsyncIterator[tuple[EventStream, WebAlerts]]:
    """Open the outputs of a service, and close them at the end; raises `StartError`. While neither the settings nor the
    web interface want events, none is made."""
    events = settings.events
    alerts = WebAlerts(events.alerts, node_name(events), lambda wanted: build_alert_mailer(settings, wanted))
    try:
        stream = open_stream(events, data.path, build_alert_mailer(settings), [alerts])
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


def build_alert_mailer(settings: GuardSettings | AbbySettings, wanted: AlertSettings | None = None) -> SendsMail | None:
    """Return what sends the mail of an alert, that of the settings or another one, through its own server or the next
    hop; None where no mail is wanted."""
    alert = wanted or settings.events.alerts
    mail = alert.mail if alert else None
    if mail is None:
        return None
    node = node_name(settings.events)

    async def send(message: EmailMessage) -> None:
        from gatepost.smtp.next_hop import NextHopError

        routing = _route_alerts(settings, mail, node)
        several = [relay.url for _, relay in routing.relays()]
        server = several[0] if len(several) == 1 else "the next hop"
        try:
            async with asyncio.timeout(ALERT_SECONDS * 2):
                sent = await routing.send(str(message["From"]), mail.recipients, message.as_bytes(), {})
        except (NextHopError, TimeoutError) as fault:
            raise DeliveryError(f"{server} {str(fault) or 'did not answer in time'}") from None
        finally:
            await routing.close()
        if not sent.reply.positive:
            raise DeliveryError(f"{server} answered {sent.reply.code}")

    return lambda message: asyncio.run(send(message))


def _route_alerts(settings: GuardSettings | AbbySettings, mail: AlertMailSettings, node: str) -> "Routing":
    """Return the way of alerts: their own server, or the routes of other mail to the same recipients."""
    from gatepost.service.routes import build_routing
    from gatepost.smtp.next_hop import NextHopTimeouts
    from gatepost.smtp.relay import Relay
    from gatepost.smtp.routing import Routing

    built = build_routing(settings) if isinstance(settings, GuardSettings) and not mail.server else None
    if built is not None:
        return built
    if not mail.server:
        raise DeliveryError("there is no next hop here (delivery in guard.yml, or events.alerts.mail.server)")
    return Routing.through(Relay(mail.server or "", mail.tls, node, NextHopTimeouts.from_setting(ALERT_SECONDS)))
