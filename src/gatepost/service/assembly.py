"""A guard and an abby from their settings: which parts, wired how. Nothing starts here."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from gatepost.abby.app import create_app
from gatepost.abby.cores import Cores
from gatepost.abby.local import InProcess, LocalCore
from gatepost.abby.remote import RemoteCore
from gatepost.abby.web.desk import Installation
from gatepost.config import overrides
from gatepost.config.agreement import host_and_port, is_this_machine, leads_to
from gatepost.guard.acquaintance import Acquaintances
from gatepost.guard.admission import Admission
from gatepost.guard.answers import Answerer
from gatepost.guard.clamd import Clamd
from gatepost.guard.core import Guard
from gatepost.guard.custody import Custody
from gatepost.guard.dns import Resolver
from gatepost.guard.keeping import Keeping
from gatepost.guard.listing import Listing
from gatepost.guard.metrics import AcquaintanceMetrics, GuardMetrics
from gatepost.guard.pool import PoolSettings, WorkerPool
from gatepost.guard.quarantine import Quarantine
from gatepost.guard.spool import Spool
from gatepost.metrics import exposition
from gatepost.policy import Policies
from gatepost.service.measuring import AbbyMetrics
from gatepost.settings import Abby as AbbySettings
from gatepost.settings import Guard as GuardSettings
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

_NOBODY = "00000000-0000-0000-0000-000000000000"


def build_guard(
    settings: GuardSettings, store: Store, registry: CollectorRegistry, *, models: str = "", trial: bool = False
) -> Guard:
    """A core with its workers, resolver and door. `models` is a folder of text models. `trial` lets messages ask for
    misbehaviour; it is for tests only."""
    resolver = Resolver(settings.dns.nameservers, settings.dns.timeout / 1000)
    lists = Listing(store)
    antivirus = Clamd(settings.clamd.address) if settings.clamd else None
    known = Acquaintances(store, settings.acquaintance) if settings.acquaintance.enabled else None
    answerer = Answerer(resolver, lists=lists, antivirus=antivirus, acquaintances=known)
    policies = overrides.loaded(settings.policy)
    of_tenants = {uid: each.policy for uid, each in policies.tenants.items()}
    pool_settings = _pool_settings(settings, models, trial)
    pool = WorkerPool(pool_settings, answerer.answer, policies.deployment.policy, of_tenants)
    admission = Admission(settings.maximum, settings.threshold, settings.max_throttle_delay / 1000)
    metrics = GuardMetrics(admission, pool, resolver, store)
    registry.register(metrics)
    if known:
        registry.register(AcquaintanceMetrics(known))
    return Guard(settings, store, pool, answerer, admission, lists=lists, acquaintances=known, observe=metrics.scanned)


def _pool_settings(settings: GuardSettings, models: str, trial: bool) -> PoolSettings:
    return PoolSettings(
        processes=settings.worker_processes,
        analysis_timeout=settings.analysis_timeout / 1000,
        stage_limit=settings.stage_limit / 1000,
        memory=settings.worker_memory,
        unsealed=settings.unsealed,
        trial=trial,
        rules=settings.yara.folder if settings.yara else None,
        models=models,
        antivirus=settings.clamd is not None,
    )


class Own(msgspec.Struct, frozen=True):
    """The core of this very process, as REST scans get it, and what can be done with the mail that it holds."""

    settings: GuardSettings
    guard: InProcess
    custody: Custody


def rest_core(settings: GuardSettings, guard: Guard, quarantine: Quarantine) -> InProcess:
    """The core as REST scans get it: with `keep: held` it keeps what it holds."""
    source = settings.scan_sources.rest_api
    return Keeping(guard, quarantine) if source and source.keep == "held" else guard


def build_cores(settings: AbbySettings, secret: str, ca: Path, own: Own | None) -> tuple[LocalCore | RemoteCore, ...]:
    """The cores that `hosts` names; the guard of this very process is talked to without a second upload."""

    def core(url: str) -> LocalCore | RemoteCore:
        if own and _is_own(url, own.settings):
            return LocalCore(own.guard, own.custody)
        return RemoteCore(url, secret, ca)

    return tuple(core(url) for url in settings.service_providers.core.hosts)


def _is_own(url: str, guard: GuardSettings) -> bool:
    """A guard without `restApi` listens nowhere; an address on this machine can then only mean it."""
    if guard.scan_sources.rest_api is None:
        return is_this_machine(host_and_port(url)[0])
    return leads_to(url, guard)


def build_abby(
    settings: AbbySettings,
    hosts: Sequence[LocalCore | RemoteCore],
    store: Store,
    spool: Spool,
    registry: CollectorRegistry,
    policies: Policies,
    installation: Installation,
) -> Starlette:
    """The API service; `policies` are those of the cores, `installation` is what its system page tells."""
    cores = Cores(hosts)
    metrics = AbbyMetrics(cores)
    registry.register(metrics)
    return create_app(
        cores=cores,
        releasers=hosts,
        store=store,
        tokens=settings.static_api_tokens,
        spool=spool,
        long_request_seconds=settings.service_providers.core.long_request_timeout / 1000,
        ready=lambda: _missing(store),
        metrics=exposed(registry),
        observe=metrics.scanned,
        policies=policies,
        installation=installation,
    )


def exposed(registry: CollectorRegistry) -> Callable[[], bytes]:
    """What `/metrics` answers, when asked."""
    return lambda: exposition(registry)


async def _missing(store: Store) -> str | None:
    try:
        await store.tenant(_NOBODY)
    except StorageError:
        return "storage cannot be read"
    return None
