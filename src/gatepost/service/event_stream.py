"""The event stream of a service: its outputs opened and closed, and the mail of alerts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from gatepost.events.alerts import SendsMail
from gatepost.events.metrics import EventMetrics
from gatepost.events.open_stream import OutputError, node_name, open_stream
from gatepost.events.output import DeliveryError
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings.event_keys import AlertMailSettings
from gatepost.settings.keys import AbbySettings, GuardSettings

if TYPE_CHECKING:
    from gatepost.smtp.routing import Routing

ALERT_SECONDS = 30.0


@asynccontextmanager
async def open_service_events(
    settings: GuardSettings | AbbySettings, data: DataFolder, registry: CollectorRegistry
) -> AsyncIterator[Emits]:
    """Open the outputs of a service, and close them at the end; raises `StartError`."""
    if not settings.events.enabled:
        yield NO_EVENTS
        return
    try:
        stream = open_stream(settings.events, data.path, build_alert_mailer(settings))
    except OutputError as fault:
        raise StartError(str(fault)) from None
    registry.register(EventMetrics(stream))
    try:
        yield stream
    finally:
        await asyncio.to_thread(stream.close)


def build_alert_mailer(settings: GuardSettings | AbbySettings) -> SendsMail | None:
    """Return what sends the mail of an alert, through its own server or the next hop; None where no mail is wanted."""
    mail = settings.events.alerts.mail if settings.events.alerts else None
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
    return Routing.through(Relay(mail.server or "", mail.tls, node, NextHopTimeouts.from_setting(ALERT_SECONDS)))
