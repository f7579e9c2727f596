"""Build the milter source of a core from its settings."""

from gatepost.milter.session import MilterPart
from gatepost.service.core import CoreParts, build_report_intake
from gatepost.service.plan import SharedParts
from gatepost.service.routes import hostname
from gatepost.settings.scan_sources import MilterSettings
from gatepost.smtp.client import Tenancy, parse_networks
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.services import MessageHandler, Services


def _limits(source: MilterSettings) -> SmtpLimits:
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
        tenancy=Tenancy(core.settings.tenants, shared.store),
        spool=shared.spool,
        hostname=source.hostname or hostname(core.settings),
        limits=_limits(source),
        reports=build_report_intake(core, shared),
    )
    return MilterPart(
        services,
        core.quarantine,
        max_connections=source.max_connections,
        allowed=parse_networks(source.allowed_hosts),
        in_queue=source.quarantine == "queue",
    )
