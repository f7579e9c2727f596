"""Build guard, the core, from its settings: workers, quarantine, routes, and its scan sources: HTTPS, SMTP, milter.

Each part is built in one place. The service builds them once per process; commands that work beside a running service,
such as `gatepost quarantine`, build the few that they need.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request

from gatepost.abby.authenticator import Caller, Guesses, address_of, guessing_address
from gatepost.auth.origin import parse_networks
from gatepost.drop_in.session import DropInPart, DropInSession, build_protocol
from gatepost.events.schema import RuleStopped
from gatepost.events.sources import describe_limited_sender, describe_scan
from gatepost.events.stream import NO_EVENTS, Emits, node_name
from gatepost.findings.kinds import LIMIT_RULE_FAILED
from gatepost.guard.actions import ActionPlanner
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.campaigns import Campaigns
from gatepost.guard.answers.clamd import ClamdClient
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.answers.lists import LearntModelSnapshots, ListAnswers
from gatepost.guard.answers.reputation import ReputationZones
from gatepost.guard.answers.sender_history import SenderHistories
from gatepost.guard.http_source import build_rest_app
from gatepost.guard.metrics import GuardMetrics, QuarantineMetrics, ReputationMetrics, SenderHistoryMetrics
from gatepost.guard.quarantine.quarantine import Cleanup, Quarantine
from gatepost.guard.quarantine.raw_store import folder_of, open_raw_store
from gatepost.guard.service import Guard, ScanObserver
from gatepost.milter.session import MilterPart, MilterSession
from gatepost.policy.layers import OUTBOUND
from gatepost.policy.rules import RULE_STOPPED
from gatepost.process.logs import Logger
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.service.certificates import build_smtp_tls
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.plan import Plan, SharedParts
from gatepost.service.routes import hostname, open_outbound_routing, open_routing
from gatepost.service.signing import build_signer
from gatepost.settings.keys import GuardSettings, by_tenant
from gatepost.settings.scan_sources import AskerSettings, DropInSettings, MilterSettings, RspamdSettings, SmtpSettings
from gatepost.smtp.client import OutboundTenants, Tenancy
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.hop_answers import DeliveryLog
from gatepost.smtp.intake import AskerPart
from gatepost.smtp.outbound import HOUR, CountsOfAllNodes, HourlyLimits, Outbound, SenderLimits
from gatepost.smtp.routing import Routing
from gatepost.smtp.sender_rewriting import SenderRewriting
from gatepost.smtp.sent_reports import ReportGatherer
from gatepost.smtp.services import MessageHandler, RecipientVerifier, ReportIntake, Services
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.pool import PoolSettings, WorkerPool
from gatepost.workers.supervisor import SealError

log = Logger("gatepost.guard")


@asynccontextmanager
async def open_quarantine(
    settings: GuardSettings,
    store: Store,
    data: DataFolder,
    routing: Routing | None,
    outbound: Routing | None = None,
    *,
    shared: SharedParts | None = None,
    viewer: WorkerPool | None = None,
) -> AsyncIterator[Quarantine]:
    """Build the quarantine on a store; released mail takes the routes of other mail, and `viewer` has messages shown.

    A service passes what its parts share: then expired mail is deleted and held mail is counted while the service runs.
    A command passes nothing and leaves both to the service.
    """
    raw = await asyncio.to_thread(open_raw_store, settings.quarantine.url, data.quarantine)
    tenancy = Tenancy(settings.tenants, store.tenants.of_domain)
    metrics = QuarantineMetrics(store.quarantine, settings.quarantine.max_size)
    quarantine = Quarantine(
        store,
        raw,
        routing,
        viewer,
        max_size=settings.quarantine.max_size,
        hostname=hostname(settings),
        tenancy=tenancy,
        node=node_name(settings.events),
        metrics=metrics,
        events=shared.events if shared else NO_EVENTS,
        core=name_core(settings, data),
        outbound=outbound,
        signer=await asyncio.to_thread(build_signer, settings, tenancy),
        # Where an operator says where held mail is to lie, all of it lies there.
        in_database=settings.quarantine.url is None,
        shows_html=settings.quarantine.html_view,
    )
    cleanup = Cleanup(
        store,
        raw,
        settings.quarantine.retention,
        metrics=metrics,
        deleted_retention=settings.quarantine.deleted_retention,
    )
    if shared:
        shared.registry.register(metrics)
        metrics.start()
        cleanup.start()
    try:
        yield quarantine
    finally:
        await quarantine.finish()
        await cleanup.stop()
        await metrics.stop()


def name_core(settings: GuardSettings, data: DataFolder) -> str:
    """Return the name of this core in records of held mail: its machine and port where the bytes lie in a folder, and
    nothing where they lie in an object store, which all cores can read."""
    if folder_of(settings.quarantine.url, data.quarantine) is None:
        return ""
    source = settings.scan_sources.rest_api
    name = node_name(settings.events)
    return f"{name}:{source.port}" if source else name


def build_guard(
    plan: Plan, settings: GuardSettings, shared: SharedParts, gatherer: ReportGatherer | None = None
) -> Guard:
    """Build a core with its workers, resolver and queue; `gatherer` counts for reports to others."""
    store, policies = shared.store, shared.policies
    resolver = Resolver(settings.dns.nameservers, settings.dns.timeout / 1000)
    lists = ListAnswers(store)
    antivirus = ClamdClient(settings.clamd.address) if settings.clamd else None
    histories = SenderHistories(store.sightings, settings.sender_history) if settings.sender_history.enabled else None
    reputation = ReputationZones(settings.reputation.zones, lists)
    campaigns = Campaigns(store.campaigns)
    answerer = Answerer(
        resolver,
        lists=lists,
        antivirus=antivirus,
        sender_histories=histories,
        reputation=reputation,
        campaigns=campaigns,
    )
    of_tenants = {uid: each.policy for uid, each in policies.now.tenants.items()}
    pool_settings = _build_pool_settings(plan, settings, reputation.list_subjects())
    queue = FairQueue(settings.maximum, settings.threshold, settings.max_throttle_delay / 1000)
    policy = policies.now.deployment.policy
    pool = WorkerPool(pool_settings, answerer.begin, policy, of_tenants, senders=queue.tenants)
    queue.share_processors(pool_settings.processes, pool.count_idle)
    pool.note_cpu = queue.note_cpu
    policies.observe(pool.publish)
    metrics = GuardMetrics(queue, pool.counters, resolver.counters, store.counters)
    shared.registry.register(metrics)
    if settings.reputation.zones:
        shared.registry.register(ReputationMetrics(reputation.counters))
    if histories:
        shared.registry.register(SenderHistoryMetrics(histories.counters))
    return Guard(
        settings,
        store,
        pool,
        answerer,
        queue,
        lists=lists,
        sender_histories=histories,
        campaigns=campaigns,
        learnt=LearntModelSnapshots(store.learning) if settings.learning.enabled else None,
        observe=_observe_scans(metrics, shared.events, policies, gatherer, subjects=settings.events.subjects),
        health=shared.health,
        node=node_name(settings.events),
        actions=ActionPlanner(lambda: policies.now, Tenancy(settings.tenants, store.tenants.of_domain)),
        dns_counters=resolver.counters,
    )


def _observe_scans(
    metrics: GuardMetrics,
    events: Emits,
    policies: PoliciesInForce,
    gatherer: ReportGatherer | None = None,
    *,
    subjects: bool,
) -> ScanObserver:

    def observe(record: MessageRecord, seconds: float) -> None:
        metrics.observe_scan(record, seconds)
        events.emit(describe_scan, record, seconds, subjects=subjects)
        if gatherer:
            gatherer.note_mail(record.report, record.envelope)
        if LIMIT_RULE_FAILED.id in record.report.tags:
            _count_stopped_rules(record, events, policies)

    return observe


def _count_stopped_rules(record: MessageRecord, events: Emits, policies: PoliciesInForce) -> None:
    """Switch off rules that took too long for several messages, and say so."""
    scope = OUTBOUND if record.envelope.outbound and OUTBOUND in policies.now.tenants else record.envelope.tenant
    for line in record.report.lines:
        reason = str(line.facts.get("reason", ""))
        if line.kind != LIMIT_RULE_FAILED.id or not reason.startswith(RULE_STOPPED):
            continue
        name = str(line.facts.get("rule", ""))
        if policies.note_stopped(scope, name):
            log.warning("rule switched off: it took too long for three messages", rule=name, tenant=scope)
            events.emit(RuleStopped, tenant_uid=record.envelope.tenant, rule=name, reason=reason)


def _build_pool_settings(plan: Plan, settings: GuardSettings, reputation: tuple[str, ...]) -> PoolSettings:
    return PoolSettings(
        processes=settings.worker_processes,
        analysis_timeout=settings.analysis_timeout / 1000,
        stage_limit=settings.stage_limit / 1000,
        message_cpu=settings.message_cpu / 1000,
        memory=settings.worker_memory,
        unsealed=settings.unsealed,
        rules=settings.yara.folder if settings.yara else None,
        models=str(plan.models),
        antivirus=settings.clamd is not None,
        reputation=reputation,
        own_networks={tenant: tuple(networks) for tenant, networks in by_tenant(settings.own_networks).items()},
        plugins=tuple(settings.plugins),
    )


class CoreParts(msgspec.Struct, frozen=True):
    """A core that runs: the service itself, its held mail and its ways out."""

    settings: GuardSettings
    tenancy: Tenancy
    guard: Guard
    quarantine: Quarantine
    routing: Routing | None
    outbound_routing: Routing | None
    deliveries: DeliveryLog
    sender_counts: CountsOfAllNodes | None
    reports: ReportIntake

    def renew_tls(self) -> None:
        """Read the files for TLS towards next hops again; raises `OSError` if one cannot be used."""
        for routing in {each for each in (self.routing, self.outbound_routing) if each is not None}:
            routing.renew_tls()


async def start_core(plan: Plan, settings: GuardSettings, shared: SharedParts, stack: AsyncExitStack) -> CoreParts:
    """Build a core and start its workers; the stack stops them."""
    gatherer = _start_gatherer(settings, shared, stack)
    deliveries = DeliveryLog(shared.store.messages.record_deliveries)
    deliveries.start()
    stack.push_async_callback(deliveries.stop)
    routing = await stack.enter_async_context(open_routing(settings, plan.data))
    opened_outbound = open_outbound_routing(settings, routing, plan.data)
    outbound_routing = await stack.enter_async_context(opened_outbound)
    guard = build_guard(plan, settings, shared, gatherer)
    opened = open_quarantine(
        settings, shared.store, plan.data, routing, outbound_routing, shared=shared, viewer=guard.pool
    )
    quarantine = await stack.enter_async_context(opened)
    try:
        await guard.start()
    except SealError as fault:
        raise StartError(str(fault)) from None
    stack.push_async_callback(guard.stop)
    source = settings.scan_sources.rest_api
    if source and source.keep == "held":
        guard.keep_with(quarantine)
    counts = _start_sender_counts(settings, shared, stack)
    tenancy = Tenancy(settings.tenants, shared.store.tenants.of_domain)
    mailboxes, hosts = by_tenant(settings.report_mailboxes), parse_networks(tuple(settings.learning.report_hosts))
    addresses = {each.address: each.says == "unwanted" for each in settings.learning.report_addresses}
    keep = shared.store.feedback.report_mail
    guard.reports = reports = ReportIntake(addresses, mailboxes, hosts, guard.read_report, keep, tenancy)
    return CoreParts(settings, tenancy, guard, quarantine, routing, outbound_routing, deliveries, counts, reports)


def _start_gatherer(settings: GuardSettings, shared: SharedParts, stack: AsyncExitStack) -> ReportGatherer | None:
    """Begin to count for reports to others, if some are sent; the stack writes what is left."""
    if settings.domain_reports.send is None:
        return None
    gatherer = ReportGatherer(shared.store.sent_reports, settings.domain_reports.send)
    gatherer.start()
    stack.push_async_callback(gatherer.stop)
    return gatherer


def _start_sender_counts(
    settings: GuardSettings, shared: SharedParts, stack: AsyncExitStack
) -> CountsOfAllNodes | None:
    """Start to count outbound senders over all nodes, if there is an outbound direction; the stack ends it."""
    source = settings.scan_sources.smtp
    if source is None or source.outbound is None:
        return None
    counts = CountsOfAllNodes(shared.store.flow_counts)
    counts.start()
    stack.push_async_callback(counts.stop)
    return counts


class SecretGuesses:
    """Slows down guessing of the cores' secret, by the rules by which abby slows down guessing of tokens."""

    def __init__(self, guesses: Guesses) -> None:
        self._guesses = guesses
        self._abby = Caller("abby", frozenset(), b"secret")

    async def enter(self, request: Request, *, right: bool) -> None:
        """Return when this attempt, which was right or wrong, may be answered."""
        address = address_of(request)
        delay = self._guesses.delay(address, self._abby if right else None)
        if delay:
            await asyncio.sleep(delay)
        if right:
            self._guesses.trust(address, self._abby)

    def enter_at_once(self, host: str) -> bool:
        """Whether a right attempt from this address waits for nothing."""
        address = guessing_address(host)
        is_free = self._guesses.is_free(address, self._abby)
        if is_free:
            self._guesses.trust(address, self._abby)
        return is_free


def build_rest_source(plan: Plan, core: CoreParts, shared: SharedParts) -> Starlette:
    """Build the HTTPS scan source of a core."""
    guesses = SecretGuesses(Guesses())
    return build_rest_app(core.guard, plan.secret, shared.spool, shared.metrics, core.quarantine, guesses)


class SmtpPart(msgspec.Struct, frozen=True):
    """The SMTP source: what its sessions use, and the limits on them."""

    services: Services
    settings: SmtpSettings


def _build_smtp_limits(source: SmtpSettings) -> SmtpLimits:
    return SmtpLimits(
        message=source.max_message_size,
        recipients=source.max_recipients,
        hops=source.max_hops,
        command_wait=source.command_timeout / 1_000,
        data_wait=source.data_timeout / 1_000,
        data_most=source.message_timeout / 1_000,
        per_address=source.max_connections_per_address,
        sessions=source.max_connections,
    )


def _build_outbound(core: CoreParts, shared: SharedParts) -> Outbound | None:
    """Build the outbound direction of the SMTP source, if there is one."""
    source = core.settings.scan_sources.smtp
    settings = source.outbound if source else None
    if settings is None or core.sender_counts is None:
        return None
    stated = settings.sender_limits
    limits = SenderLimits(
        HourlyLimits(stated.messages, stated.recipients, stated.refused_recipients),
        core.sender_counts,
        holds=stated.over_limit == "hold",
        tell=lambda found: shared.events.emit(describe_limited_sender, found.sender, found.limit, found.count),
        remark=lambda found: shared.health.note(
            "sender", f"a sender is over its limit of {found.limit} and may be captured; the log names it", seconds=HOUR
        ),
    )
    tenants = OutboundTenants(settings.hosts, settings.logins)
    if not tenants.is_bound:
        log.warning("outbound hosts are bound to no tenant: mail of tenants' domains is not signed")
    refuses = settings.other_senders == "refuse"
    stated_srs = settings.sender_rewriting
    rewriting = SenderRewriting(stated_srs.domain, stated_srs.keys, stated_srs.own_domains) if stated_srs else None
    return Outbound(tenants, settings.port, core.outbound_routing, limits, refuses=refuses, rewriting=rewriting)


def build_smtp_source(plan: Plan, core: CoreParts, shared: SharedParts) -> SmtpPart | None:
    """Build what SMTP sessions use, if SMTP is a source; raises `StartError` if its certificate cannot be used."""
    source = core.settings.scan_sources.smtp
    if source is None:
        return None
    rules = core.settings.recipient_verification.rules
    services = Services(
        guard=core.guard,
        handler=MessageHandler(core.guard, core.quarantine, after_queue=source.after_queue),
        routing=core.routing,
        tenancy=core.tenancy,
        spool=shared.spool,
        hostname=hostname(core.settings),
        reports=core.reports,
        deliveries=core.deliveries,
        recipients=RecipientVerifier(rules, shared.store.list_lookup) if rules else None,
        outbound=_build_outbound(core, shared),
        signer=build_signer(core.settings, core.tenancy),
        limits=_build_smtp_limits(source),
        tls=None if source.tls == "off" else build_smtp_tls(*plan.smtp_certificate),
        tls_required=source.tls == "required",
    )
    return SmtpPart(services, source)


# The session of each source for mail servers that deliver themselves.
ASKER_SESSIONS: dict[str, type[MilterSession | DropInSession]] = {
    "milter": MilterSession,
    "spamd": DropInSession,
    "rspamd": DropInSession,
}


def build_asker_limits(source: AskerSettings) -> SmtpLimits:
    """Return the limits on sessions of such a source."""
    limits = SmtpLimits(
        message=source.max_message_size, recipients=source.max_recipients, data_most=source.message_timeout / 1_000
    )
    if isinstance(source, MilterSettings):
        limits = msgspec.structs.replace(limits, command_wait=source.command_timeout / 1_000)
    return msgspec.structs.replace(limits, sessions=source.max_connections)


def build_asker_sources(core: CoreParts, shared: SharedParts) -> dict[str, AskerPart]:
    """Build what the sources use that are on for mail servers which deliver themselves."""
    return {
        name: _build_asker_source(name, source, core, shared)
        for name, source in core.settings.scan_sources.askers.items()
    }


def _build_asker_source(name: str, source: AskerSettings, core: CoreParts, shared: SharedParts) -> AskerPart:
    """Build what sessions of one such source use. The mail server delivers, so there are no routes."""
    services = Services(
        guard=core.guard,
        handler=MessageHandler(core.guard, core.quarantine),
        routing=None,
        tenancy=core.tenancy,
        spool=shared.spool,
        hostname=source.hostname or hostname(core.settings),
        limits=build_asker_limits(source),
        reports=core.reports,
    )
    common = (services, source.max_connections, parse_networks(tuple(source.allowed_hosts)))
    if isinstance(source, MilterSettings):
        return MilterPart(*common, quarantine=core.quarantine, in_queue=source.quarantine == "queue")
    assert isinstance(source, DropInSettings)
    held_as = source.held_as if isinstance(source, RspamdSettings) else ""
    return DropInPart(*common, protocol=build_protocol(name, held_as), tenant=source.tenant)
