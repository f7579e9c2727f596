"""Build abby, the API service, from its settings: the cores behind it, its application and its server."""

import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gatepost.abby.app import create_app, create_services
from gatepost.abby.core_clients import LocalCore, RemoteCore
from gatepost.abby.cores import Cores
from gatepost.service.feeds import FeedSchedule
from gatepost.service.health import check_storage, probe_cores
from gatepost.service.http_servers import Server, build_server
from gatepost.service.metrics import AbbyMetrics
from gatepost.service.plan import Plan, SharedParts
from gatepost.settings.agreement import host_and_port, is_this_machine, leads_to
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.settings.in_force import settings_in_force
from gatepost.settings.keys import AbbySettings, GuardSettings, TlsSettings
from gatepost.web.context import FeedLine, Installation
from gatepost.web.registry import build_site

if TYPE_CHECKING:
    from gatepost.service.core import OwnCore


def build_api_server(plan: Plan, settings: AbbySettings, shared: SharedParts, own: "OwnCore | None") -> Server:
    """Build the API service on a port that is already bound; `own` is the core of this process, if it runs one."""
    hosts = build_cores(settings, plan.secret, plan.ca, own)
    node = shared.node
    cores = Cores(hosts, turns=node.turns())
    node.on_bell(cores.serve_waiting)
    metrics = AbbyMetrics(cores)
    shared.registry.register(metrics)
    services = create_services(
        store=shared.store,
        cores=cores,
        spool=shared.spool,
        held_mail_cores=hosts,
        policies=shared.policies,
        scan_seconds=settings.service_providers.core.long_request_timeout / 1000,
        calls=node.calls(),
        guesses=node.guesses(),
    )
    if shared.health:
        shared.health.watch_queue(probe_cores(cores))
    site = build_site(services, _describe_installation(plan, settings), events=shared.events)
    app = create_app(
        services,
        tokens=settings.static_api_tokens,
        ready=lambda: check_storage(shared.store),
        metrics=node.metrics(shared.registry),
        observe=metrics.observe_scan,
        routes=site.routes,
        error_page=site.error_page,
        strict_transport=isinstance(settings.tls, TlsSettings),
    )
    tally, balance = node.connections("abby"), node.balance("abby")
    pair, limits = plan.certificate, settings.connections
    return build_server(app, shared.bound["abby"], pair, limits, tally=tally, balance=balance)


def start_feeds(plan: Plan, settings: AbbySettings, shared: SharedParts, stack: AsyncExitStack) -> None:
    """Run the feeds that have a source by their schedule, if there are any; the stack stops them."""
    if plan.config is None or not any(feed.is_scheduled for feed in settings.feeds):
        return
    schedule = FeedSchedule(shared.store, settings.feeds, plan.config, plan.data.path)
    shared.registry.register(schedule)
    schedule.start()
    stack.push_async_callback(schedule.stop)


def build_cores(
    settings: AbbySettings, secret: str, ca: Path, own: "OwnCore | None"
) -> tuple[LocalCore | RemoteCore, ...]:
    """Build a client for each core in `hosts`; the core of this process is called directly, without an upload."""

    def build(url: str) -> LocalCore | RemoteCore:
        if own and _is_own(url, own.settings):
            return LocalCore(own.guard, own.held_mail)
        return RemoteCore(url, secret, ca)

    return tuple(build(url) for url in settings.service_providers.core.hosts)


def _is_own(url: str, guard: GuardSettings) -> bool:
    """A guard without `restApi` listens nowhere, so that an address on this machine can only mean it."""
    if guard.scan_sources.rest_api is None:
        return is_this_machine(host_and_port(url)[0])
    return leads_to(url, guard)


def _describe_installation(plan: Plan, settings: AbbySettings) -> Installation:
    of_guard = settings_in_force(GUARD_FILE.name, plan.guard) if plan.guard else ()
    return Installation(
        started=time.time(),
        settings=(*settings_in_force(ABBY_FILE.name, settings), *of_guard),
        examine=plan.examine,
        feeds=tuple(_describe_feed(feed) for feed in settings.feeds),
        learn=partial(_save_feedback, plan.data.path),
        certificate=str(plan.data.certificate) if plan.certificate == plan.own_certificate else "",
    )


def _describe_feed(feed: FeedSettings) -> FeedLine:
    every = feed.every if feed.is_scheduled else None
    return FeedLine(feed.name, feed.tenant, feed.list_name, feed.source, feed.format, every)


def _save_feedback(data: Path, raw: bytes, wanted: bool) -> None:
    """Keep a message that was judged wrongly for the next training; the text model is loaded only then."""
    from gatepost.textmodel.deployed import save_feedback

    save_feedback(data, raw, wanted)
