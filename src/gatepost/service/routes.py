"""Build the routes of delivered mail from the settings: for SMTP, for mail that is released, for alerts and
checks."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gatepost.policy.layers import OUTBOUND
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings.delivery import HopSettings, NextHops, list_hops
from gatepost.settings.keys import GuardSettings
from gatepost.smtp.next_hop import Credentials, NextHopTimeouts
from gatepost.smtp.routing import DEFAULT, HopTls, Relay, Route, RouteRule, Routing, SeenFeatures


def hostname(settings: GuardSettings) -> str:
    """Return the name under which this core greets other mail servers."""
    smtp, milter = settings.scan_sources.smtp, settings.scan_sources.milter
    return (smtp.hostname if smtp else None) or (milter.hostname if milter else None) or socket.gethostname()


@asynccontextmanager
async def open_routing(settings: GuardSettings, data: DataFolder | None = None) -> AsyncIterator[Routing | None]:
    """Build the routes, if there is a next hop, and close their connections in the end. What next hops can do is kept
    in the data folder. Raises `StartError` if a certificate cannot be used."""
    routing = await asyncio.to_thread(build_routing, settings, data)
    try:
        yield routing
    finally:
        if routing:
            await routing.close()


def build_routing(settings: GuardSettings, data: DataFolder | None = None) -> Routing | None:
    """Build the routes; None without a next hop. Raises `StartError` if a certificate cannot be used."""
    delivery = settings.delivery
    if not delivery.has_next_hop:
        return None
    seen = SeenFeatures(data.next_hops if data else None)
    rules = [
        RouteRule(
            _build_route(name_route(index), settings, route, route.next_hop, seen),
            frozenset(route.domains),
            frozenset(route.tenants),
        )
        for index, route in enumerate(delivery.routes)
    ]
    if not delivery.next_hop:
        return Routing(rules, None)
    return Routing(rules, _build_route(DEFAULT, settings, delivery, delivery.next_hop, seen))


@asynccontextmanager
async def open_outbound_routing(
    settings: GuardSettings, inbound: Routing | None, data: DataFolder | None = None
) -> AsyncIterator[Routing | None]:
    """Build the route of outbound mail, if it has a next hop of its own; else it takes those of other mail. Raises
    `StartError` if a certificate cannot be used."""
    smtp = settings.scan_sources.smtp
    outbound = smtp.outbound if smtp else None
    if outbound is None or outbound.next_hop is None:
        yield inbound
        return
    seen = SeenFeatures(data.next_hops if data else None)
    route = await asyncio.to_thread(_build_route, OUTBOUND, settings, outbound, outbound.next_hop, seen)
    routing = Routing((), route)
    try:
        yield routing
    finally:
        await routing.close()


def name_route(index: int) -> str:
    """Return the name of a route in metrics and messages: that of its key."""
    return f"routes[{index}]"


def _build_route(
    name: str, settings: GuardSettings, stated: HopSettings, next_hop: NextHops, seen: SeenFeatures
) -> Route:
    delivery, own = settings.delivery, hostname(settings)
    urls, weights = list_hops(next_hop)
    timeouts = NextHopTimeouts.from_setting(stated.timeout / 1_000)
    tls = HopTls(stated.tls, delivery.ca, delivery.certificate, delivery.key)
    credentials = Credentials(stated.auth.user, stated.auth.password) if stated.auth else None
    try:
        relays = [
            Relay(url, stated.tls, own, timeouts, hop_tls=tls, credentials=credentials, seen=seen) for url in urls
        ]
    except (OSError, ValueError) as fault:
        raise StartError(f"A certificate of delivery in guard.yml cannot be used: {fault}.") from None
    return Route(name, relays, weights)
