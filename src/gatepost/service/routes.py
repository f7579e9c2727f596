"""Build the routes of delivered mail from the settings: for SMTP, for mail that is released, for alerts and checks; and
what verifies recipients, which may ask the next hops of these routes."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from gatepost.policy.layers import OUTBOUND
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings.delivery import HopSettings, NextHops, list_hops
from gatepost.settings.keys import GuardSettings
from gatepost.settings.recipients import CallOutSettings, LdapSettings, parse_filter
from gatepost.smtp.hop_answers import HopCells
from gatepost.smtp.ldap import LdapDirectory, LdapServer
from gatepost.smtp.next_hop import Credentials, NextHopTimeouts
from gatepost.smtp.recipients import (
    CallOut,
    DirectoryRecipients,
    ListedRecipients,
    RecipientRule,
    RecipientSource,
    RecipientVerifier,
)
from gatepost.smtp.routing import DEFAULT, HopTls, Relay, Route, RouteRule, Routing, SeenFeatures
from gatepost.store.list_lookup import ListLookup


def hostname(settings: GuardSettings) -> str:
    """Return the name under which this core greets other mail servers."""
    smtp, milter = settings.scan_sources.smtp, settings.scan_sources.milter
    return (smtp.hostname if smtp else None) or (milter.hostname if milter else None) or socket.gethostname()


@asynccontextmanager
async def open_routing(
    settings: GuardSettings,
    data: DataFolder | None = None,
    shared: HopCells | None = None,
) -> AsyncIterator[Routing | None]:
    """Build the routes, if there is a next hop, and close their connections in the end. What next hops can do is kept
    in the data folder. Raises `StartError` if a certificate cannot be used."""
    routing = build_routing(settings, data, shared)
    try:
        yield routing
    finally:
        if routing:
            await routing.close()


def build_routing(
    settings: GuardSettings,
    data: DataFolder | None = None,
    shared: HopCells | None = None,
) -> Routing | None:
    """Build the routes; None without a next hop. `shared` is where processes of a node count what next hops answer.
    Raises `StartError` if a certificate cannot be used."""
    delivery = settings.delivery
    if not delivery.has_next_hop:
        return None
    seen = SeenFeatures(data.next_hops if data else None)
    rules = [
        RouteRule(
            _build_route(name_route(index), settings, route, route.next_hop, seen, shared),
            frozenset(route.domains),
            frozenset(route.tenants),
        )
        for index, route in enumerate(delivery.routes)
    ]
    if not delivery.next_hop:
        return Routing(rules, None)
    return Routing(rules, _build_route(DEFAULT, settings, delivery, delivery.next_hop, seen, shared))


@asynccontextmanager
async def open_outbound_routing(
    settings: GuardSettings,
    inbound: Routing | None,
    data: DataFolder | None = None,
    shared: HopCells | None = None,
) -> AsyncIterator[Routing | None]:
    """Build the route of outbound mail, if it has a next hop of its own; else it takes those of other mail. Raises
    `StartError` if a certificate cannot be used."""
    smtp = settings.scan_sources.smtp
    outbound = smtp.outbound if smtp else None
    if outbound is None or outbound.next_hop is None:
        yield inbound
        return
    seen = SeenFeatures(data.next_hops if data else None)
    route = _build_route(OUTBOUND, settings, outbound, outbound.next_hop, seen, shared)
    routing = Routing((), route)
    try:
        yield routing
    finally:
        await routing.close()


def name_route(index: int) -> str:
    """Return the name of a route in metrics and messages: that of its key."""
    return f"routes[{index}]"


def _build_route(
    name: str,
    settings: GuardSettings,
    stated: HopSettings,
    next_hop: NextHops,
    seen: SeenFeatures,
    shared: HopCells | None = None,
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
    return Route(name, relays, weights, shared)


def build_recipient_verifier(
    settings: GuardSettings, routing: Routing | None, lists: ListLookup
) -> RecipientVerifier | None:
    """Build what verifies recipients; None without a rule. Raises `StartError` if a certificate cannot be used."""
    stated = settings.recipient_verification
    if not stated.rules:
        return None
    rules = [
        RecipientRule(
            tuple(list_recipient_sources(settings, index, routing, lists)),
            frozenset(rule.domains),
            frozenset(rule.tenants),
            accepts_unverified=rule.on_failure == "accept",
            tag_separator=rule.tag_separator,
        )
        for index, rule in enumerate(stated.rules)
    ]
    return RecipientVerifier(
        rules,
        known_seconds=stated.cache.known_minutes * 60.0,
        unknown_seconds=stated.cache.unknown_minutes * 60.0,
        maximum=stated.cache.maximum,
    )


def list_recipient_sources(
    settings: GuardSettings, index: int, routing: Routing | None, lists: ListLookup | None
) -> Iterator[RecipientSource]:
    """Yield the sources of a rule, cheap ones first; without storage, those elsewhere. Raises `StartError`."""
    rule, name = settings.recipient_verification.rules[index], f"recipientVerification.rules[{index}]"
    if rule.recipient_list and lists:
        yield ListedRecipients(lists)
    if rule.ldap:
        yield DirectoryRecipients(_build_directory(rule.ldap, name))
    if rule.call_out:
        yield _build_call_out(settings, name, rule.call_out, routing)


def _build_directory(stated: LdapSettings, name: str) -> LdapDirectory:
    """Build what asks a directory; raises `StartError` if the authorities cannot be read."""
    server = LdapServer(
        tuple(stated.servers),
        stated.base,
        parse_filter(stated.filter),
        stated.user or "",
        stated.password or "",
        start_tls=stated.start_tls,
        ca=stated.ca,
        verify=stated.verify,
        seconds=stated.timeout / 1_000,
    )
    try:
        return LdapDirectory(server)
    except OSError as fault:
        raise StartError(f"The file {name}.ldap.ca in guard.yml cannot be used: {fault}.") from None


def _build_call_out(
    settings: GuardSettings, name: str, stated: CallOutSettings, routing: Routing | None
) -> RecipientSource:
    if stated.next_hop is None:
        return CallOut(routing.find if routing else lambda _domain, _tenant: None)
    route = _build_route(name, settings, stated, stated.next_hop, SeenFeatures(None))
    return CallOut(lambda _domain, _tenant: route, owned=route)
