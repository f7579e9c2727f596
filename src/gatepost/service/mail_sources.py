"""Build the two sources of a core that mail servers use, SMTP and milter, from its settings."""

from gatepost.events.sources import describe_limited_sender
from gatepost.milter.session import MilterPart
from gatepost.service.core import CoreParts
from gatepost.service.listeners import SmtpPart, smtp_tls
from gatepost.service.plan import Plan, SharedParts
from gatepost.service.routes import hostname
from gatepost.service.signing import build_signer
from gatepost.settings.scan_sources import MilterSettings, SmtpSettings
from gatepost.smtp.client import Tenancy, parse_networks
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.outbound import HOUR, HourlyLimits, Outbound, SenderLimits
from gatepost.smtp.reporting import ReportIntake
from gatepost.smtp.services import MessageHandler, Services


def _build_report_intake(core: CoreParts, shared: SharedParts) -> ReportIntake | None:
    """Build what takes reports by mail, where there are addresses for them."""
    learning = core.settings.learning
    if not learning.report_addresses:
        return None
    addresses = {each.address: each.says == "unwanted" for each in learning.report_addresses}
    tenancy = Tenancy(core.settings.tenants, shared.store.tenants.of_domain)
    keep = shared.store.feedback.report_mail
    return ReportIntake(addresses, parse_networks(learning.report_hosts), core.guard, keep, tenancy)


def _smtp_limits(source: SmtpSettings) -> SmtpLimits:
    return SmtpLimits(
        message=source.max_message_size,
        recipients=source.max_recipients,
        hops=source.max_hops,
        command_wait=source.command_timeout / 1_000,
        data_wait=source.data_timeout / 1_000,
        data_most=source.message_timeout / 1_000,
        per_address=source.max_connections_per_address,
    )


def _build_outbound(core: CoreParts, shared: SharedParts) -> Outbound | None:
    """Build the outbound direction of the SMTP source, if there is one."""
    source = core.settings.scan_sources.smtp
    settings = source.outbound if source else None
    if settings is None:
        return None
    stated = settings.sender_limits
    limits = SenderLimits(
        HourlyLimits(stated.messages, stated.recipients, stated.refused_recipients),
        shared.node.senders(),
        holds=stated.over_limit == "hold",
        tell=lambda found: shared.events.emit(describe_limited_sender, found.sender, found.limit, found.count),
        remark=lambda found: shared.condition.remark(
            f"{found.sender} is over its limit of {found.limit} and may be captured", HOUR
        ),
    )
    return Outbound(parse_networks(settings.hosts), settings.port, core.outbound_routing, limits)


def build_smtp_source(plan: Plan, core: CoreParts, shared: SharedParts) -> SmtpPart | None:
    """Build what SMTP sessions use, if SMTP is a source; raises `StartError` if its certificate cannot be used."""
    source = core.settings.scan_sources.smtp
    if source is None:
        return None
    services = Services(
        guard=core.guard,
        handler=MessageHandler(core.guard, core.quarantine, after_queue=source.after_queue),
        routing=core.routing,
        tenancy=Tenancy(core.settings.tenants, shared.store.tenants.of_domain),
        spool=shared.spool,
        hostname=hostname(core.settings),
        reports=_build_report_intake(core, shared),
        deliveries=core.deliveries,
        flow=core.flow,
        outbound=_build_outbound(core, shared),
        signer=build_signer(core.settings, Tenancy(core.settings.tenants, shared.store.tenants.of_domain)),
        limits=_smtp_limits(source),
        tls=None if source.tls == "off" else smtp_tls(*plan.smtp_certificate),
        tls_required=source.tls == "required",
    )
    return SmtpPart(services, source)


def _milter_limits(source: MilterSettings) -> SmtpLimits:
    return SmtpLimits(
        message=source.max_message_size,
        recipients=source.max_recipients,
        command_wait=source.command_timeout / 1_000,
        data_most=source.message_timeout / 1_000,
    )


def build_milter_source(core: CoreParts, shared: SharedParts) -> MilterPart | None:
    """Build what milter sessions use, if milter is a source. The mail server delivers, so there are no routes."""
    source = core.settings.scan_sources.milter
    if source is None:
        return None
    services = Services(
        guard=core.guard,
        handler=MessageHandler(core.guard, core.quarantine),
        routing=None,
        tenancy=Tenancy(core.settings.tenants, shared.store.tenants.of_domain),
        spool=shared.spool,
        hostname=source.hostname or hostname(core.settings),
        limits=_milter_limits(source),
        reports=_build_report_intake(core, shared),
    )
    return MilterPart(
        services,
        core.quarantine,
        max_connections=source.max_connections,
        allowed=parse_networks(source.allowed_hosts),
        in_queue=source.quarantine == "queue",
    )
