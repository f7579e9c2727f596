"""The keys below `events` in both configuration files, and outputs that are defined in the web interface: alerts.

What a person at a browser may name is narrower than what stands in guard.yml: calls go over https to the internet, and
mail takes the routes of other mail. The secret that calls are signed with is made by Gatepost.

An alert may also have a threshold: a search, how many messages it must find, and within how many minutes. It is told
once in that time. In quiet hours it gets errors only, and one summary tells of the rest afterwards.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from pydantic import Field

from gatepost.settings import values
from gatepost.settings.feeds import check_web_url, validate_web_settings
from gatepost.settings.values import Section, setting

EventKind: TypeAlias = Literal[
    "message.scanned",
    "message.held",
    "message.released",
    "message.deleted",
    "message.reported",
    "sender.limited",
    "list.changed",
    "lookBack.found",
    "policy.published",
    "rule.stopped",
    "config.published",
    "config.rollout",
    "user.signedIn",
    "user.signInFailed",
    "key.created",
    "key.revoked",
    "node.state",
    "health.changed",
    "threshold.reached",
    "events.omitted",
    "audit.recorded",
]
Severity: TypeAlias = Literal["info", "notice", "warning", "error"]
Facility: TypeAlias = Literal[
    "user", "mail", "daemon", "auth", "syslog", "authpriv", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
]  # fmt: skip


_MAX_PER_HOUR = "maximum number of events in an hour; one summary tells of the rest"


class OutputFilter(Section):
    """Which events an output gets."""

    kinds: list[EventKind] = setting([], description="kinds of events that this output gets; by default all")
    min_severity: Severity = setting("info", description="lowest severity of the events that this output gets")


class EventFileSettings(OutputFilter):
    """Events as JSON lines in a file."""

    path: values.NewFile = setting("events/events.jsonl", description="the file; relative to the data folder")
    max_size: values.FileBytes = setting(
        100 << 20, description="size at which the file is renamed to `events.jsonl.1` and a new one is started"
    )
    keep: values.UpToThousand = setting(5, description="number of renamed files that are kept")


class SyslogSettings(OutputFilter):
    """Events to a syslog server (RFC 5424)."""

    address: values.SyslogAddress = setting(
        description="`udp://host:514`, `tcp://host:601`, `tls://host:6514` or `unix:/dev/log`"
    )
    facility: Facility = setting("local0", description="facility of the messages")
    ca: values.FilePath | None = setting(
        None, description="PEM file to verify the server with; by default the authorities of the system", local=True
    )


class WebhookSettings(OutputFilter):
    """Signed calls with events to an HTTPS server."""

    url: values.WebhookUrl = setting(description="`https://…`; `http://` is accepted for this machine only")
    secret: values.Secret = setting(description="secret that calls are signed with; 64 hex digits are recommended")
    ca: values.FilePath | None = setting(
        None, description="PEM file to verify the server with; by default the authorities of the system"
    )
    timeout: values.Milliseconds = setting(10_000, description="milliseconds that one call may take")
    batch: values.UpToThousand = setting(100, description="maximum number of events in one call")
    max_spool: values.FileBytes = setting(
        256 << 20, description="maximum size of events on disk that wait for delivery; above it the oldest are dropped"
    )
    max_per_hour: values.Count | None = setting(None, description=f"{_MAX_PER_HOUR}; by default there is no limit")


class EventMailSettings(OutputFilter):
    """Events by mail."""

    recipients: Annotated[list[values.MailAddress], Field(min_length=1, max_length=20)] = setting(
        description="addresses that get the mail"
    )
    sender: values.MailAddress | None = setting(
        None, description="address in From; by default `gatepost@` and the node's name"
    )
    server: values.SmtpServer | None = setting(
        None, description="`smtp://host:port` of a server that takes the mail; by default the routes of `delivery`"
    )
    tls: Literal["off", "opportunistic", "required", "verified"] = setting(
        "opportunistic", description="TLS to that server"
    )
    kinds: list[EventKind] = setting(
        ["health.changed", "node.state", "user.signInFailed"], description="kinds of events that are sent"
    )
    min_severity: Severity = setting(
        "notice", description="lowest severity of those events; a failed sign-in is `warning` once it locks an account"
    )
    max_per_hour: values.Count = setting(10, description=_MAX_PER_HOUR)


class EventsSettings(Section):
    """The event stream; without an output no event is made."""

    node: values.NodeName | None = setting(
        None, description="name of this machine in events; by default its host name", local=True
    )
    subjects: bool = setting(True, description="whether `message.scanned` has the subject of the message")
    file: EventFileSettings | None = setting(None, description="JSON lines in a file; off if not set", local=True)
    syslog: SyslogSettings | None = setting(None, description="syslog server; off if not set")
    webhooks: Annotated[list[WebhookSettings], Field(max_length=10)] = setting([], description="HTTPS servers")
    mail: EventMailSettings | None = setting(None, description="events by mail; off if not set")

    @property
    def enabled(self) -> bool:
        return bool(self.file or self.syslog or self.webhooks or self.mail)


MAX_ALERTS = 20
# Of one tenant, and of all tenants together with the deployment.
MAX_TENANT_ALERTS, MAX_ALL_ALERTS = 5, 100
MAX_PER_HOUR = 100
MAX_THRESHOLD, MAX_MINUTES = 10_000, 1_440
THRESHOLD: EventKind = "threshold.reached"
_QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
# An alert for every scanned message would be no alert.
ALERT_KINDS: tuple[EventKind, ...] = tuple(
    kind for kind in get_args(EventKind) if kind not in ("message.scanned", "events.omitted")
)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class QuietHours(msgspec.Struct, frozen=True):
    """A time of each day, in minutes from midnight, in a time zone; it may reach over midnight."""

    start: int
    end: int
    zone: str = ""

    def holds_at(self, moment: float) -> bool:
        """Whether a Unix time is within these hours; a zone that this machine does not know is UTC."""
        try:
            zone = ZoneInfo(self.zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError):
            zone = ZoneInfo("UTC")
        local = datetime.fromtimestamp(moment, zone)
        minute = local.hour * 60 + local.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def read_quiet_hours(text: str, zone: str = "") -> QuietHours | None:
    """Read `22:00-06:00`; None for what is not written so, and for a time without length."""
    found = _QUIET.fullmatch(text.strip())
    if found is None:
        return None
    first, last = (int(found[place]) * 60 + int(found[place + 1]) for place in (1, 3))
    return None if first == last else QuietHours(first, last, zone)


class WebAlert(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """An output that was defined in the web interface; most fields are the keys of that name of an output. One with a
    `count` has a threshold: so many messages that `search` finds within so many `minutes`, of one `tenant` or of all.
    `quiet` are its quiet hours in a `zone`. `fired` is when its threshold was reached last, and `found` how many
    messages were."""

    kinds: tuple[str, ...] = ()
    min_severity: str = "notice"
    max_per_hour: int = 10
    recipients: tuple[str, ...] = ()
    url: str = ""
    secret: str = ""
    search: str = ""
    count: int = 0
    minutes: int = 0
    tenant: str = ""
    quiet: str = ""
    zone: str = ""
    fired: int = 0
    found: int = 0

    @property
    def has_threshold(self) -> bool:
        return self.count > 0


def build_alert(alert: WebAlert, server: EventMailSettings | None = None) -> EventsSettings:
    """Return the outputs of an alert as a file would have them; raises `WebSettingsError`. Mail goes through the server
    of `server`, if that names one."""
    kinds = (THRESHOLD,) if alert.has_threshold else alert.kinds
    allowed: tuple[tuple[str, bool, str], ...] = (
        ("kinds", bool(kinds) and set(kinds) <= set(ALERT_KINDS), "must be chosen"),
        ("count", alert.count <= MAX_THRESHOLD, f"must be a number from 1 to {MAX_THRESHOLD:,}"),
        ("minutes", not alert.count or 1 <= alert.minutes <= MAX_MINUTES, f"must be from 1 to {MAX_MINUTES:,}"),
        ("quiet", not alert.quiet or read_quiet_hours(alert.quiet) is not None, "must be written like 22:00-06:00"),
        ("max_per_hour", 1 <= alert.max_per_hour <= MAX_PER_HOUR, f"must be a number from 1 to {MAX_PER_HOUR}"),
        ("recipients", bool(alert.recipients or alert.url), "are needed, or an address to call"),
    )
    mistakes = [(field, sentence) for field, is_right, sentence in allowed if not is_right]
    chosen = {"kinds": list(kinds), "min_severity": alert.min_severity, "max_per_hour": alert.max_per_hour}
    stated: dict[str, Any] = {}
    if alert.recipients:
        stated["mail"] = {**chosen, "recipients": list(alert.recipients)}
        if server and server.server:
            stated["mail"] |= {"server": server.server, "tls": server.tls, "sender": server.sender}
    if alert.url:
        mistakes += check_web_url(alert.url, "", "guard.yml")
        stated["webhooks"] = [{**chosen, "url": alert.url, "secret": alert.secret or "-", "batch": 1}]
    return validate_web_settings(EventsSettings, stated, mistakes, _describe)


def _describe(fault: Any) -> tuple[str, str]:
    place = [step for step in fault["loc"] if isinstance(step, str)]
    return place[1], str(fault["msg"]).removeprefix("Value error, ")
