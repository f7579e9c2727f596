"""Build abby, the API service, from its settings: the cores behind it, its application and its server."""

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette

from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores, LocalCore
from gatepost.mailboxes.removal import MailRemover
from gatepost.process.health import Health, HealthLedger
from gatepost.service.event_stream import try_alert
from gatepost.service.metrics import AbbyMetrics
from gatepost.service.plan import Plan, SharedParts
from gatepost.service.publishing import NodePublisher
from gatepost.service.schedules import try_feed
from gatepost.settings.consistency import is_own_core
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, settings_in_force
from gatepost.settings.keys import AbbySettings
from gatepost.settings.scan_sources import TlsSettings
from gatepost.web.context import FeedLine, Installation, SignInRules
from gatepost.web.registry import build_site

if TYPE_CHECKING:
    from gatepost.abby.remote_core import RemoteCore
    from gatepost.service.core import CoreParts
    from gatepost.web.openid import OpenidClient


class ApiParts(msgspec.Struct, frozen=True):
    """The API service: its application, and the cores behind it."""

    app: Starlette
    cores: Cores
    health: HealthLedger

    @property
    def own_health(self) -> Health:
        """What is wrong with this process; cores of others say for themselves what is wrong with them, unless none
        answers."""
        return Health.of((*self.health.reasons, *(each for each in self.cores.silence if each.state == "RED")))


def _build_openid(settings: AbbySettings) -> "OpenidClient | None":
    provider = settings.sign_in.openid_connect
    if not provider or not settings.public_url:
        return None
    # Loaded where it is configured: with its libraries it takes memory and time of a start.
    from gatepost.web.openid import OpenidClient

    return OpenidClient(provider, settings.public_url)


def _open_core(url: str, plan: Plan) -> "RemoteCore":
    """Open the way to a core of another process."""
    # Loaded where there is one: a node with a core of its own makes no requests.
    from gatepost.abby.remote_core import RemoteCore

    return RemoteCore(url, plan.secret, plan.ca)


def build_api(plan: Plan, settings: AbbySettings, shared: SharedParts, own: "CoreParts | None") -> ApiParts:
    """Build the API service; `own` is the core of this process, if it runs one."""
    # The core of this process is called directly, without an upload.
    hosts = tuple(
        LocalCore(own.guard, own.quarantine) if own and is_own_core(url, own.settings) else _open_core(url, plan)
        for url in settings.service_providers.core.hosts
    )
    cores = Cores(hosts, shared.health)
    metrics = AbbyMetrics(cores)
    shared.registry.register(metrics)
    services = create_services(
        store=shared.store,
        cores=cores,
        spool=shared.spool,
        held_mail_cores=hosts,
        policies=shared.policies,
        scan_seconds=settings.service_providers.core.long_request_timeout / 1000,
    )
    site = build_site(
        services,
        _describe_installation(plan, settings),
        events=shared.events,
        rules=SignInRules(settings.sign_in),
        openid=_build_openid(settings),
        public_url=settings.public_url,
        remover=MailRemover(settings.remediation, shared.store.removed_mail) if settings.remediation else None,
    )
    app = create_app(
        services,
        tokens=settings.static_api_tokens,
        metrics=shared.metrics,
        observe=metrics.observe_scan,
        routes=site.routes,
        error_page=site.error_page,
        strict_transport=isinstance(settings.tls, TlsSettings),
        look_back=bool(settings.lists.look_back),
    )
    return ApiParts(app, cores, shared.health)


def _describe_installation(plan: Plan, settings: AbbySettings) -> Installation:
    of_guard = settings_in_force(GUARD_FILE.name, plan.guard) if plan.guard else ()
    return Installation(
        started=time.time(),
        settings=(*settings_in_force(ABBY_FILE.name, settings), *of_guard),
        examine=plan.examine,
        feeds=tuple(_describe_feed(feed) for feed in settings.feeds),
        try_feed=partial(try_feed, plan.config, plan.data.path) if plan.config else None,
        data=plan.data.path,
        publisher=NodePublisher(plan.local or plan.config, plan.data) if plan.config else None,
        test_alert=partial(try_alert, plan.settings),
        learn=partial(_save_feedback, plan.data.path),
        unlearn=partial(_take_feedback_back, plan.data.path),
        certificate=str(plan.data.certificate) if plan.certificate == plan.own_certificate else "",
    )


def _describe_feed(feed: FeedSettings) -> FeedLine:
    every = feed.every if feed.is_scheduled else None
    return FeedLine(feed.name, feed.tenant, feed.list_name, feed.source, feed.format, every)


def _save_feedback(data: Path, raw: bytes, wanted: bool) -> None:
    """Keep a message that was judged wrongly for the next training; the text model is loaded only then."""
    from gatepost.textmodel.model import save_feedback

    save_feedback(data, raw, wanted)


def _take_feedback_back(data: Path, sha256: str, wanted: bool | None) -> None:
    from gatepost.textmodel.model import take_feedback_back

    take_feedback_back(data, sha256, wanted)
