"""The keys below `events` in both configuration files: the outputs of the event stream, and alerts to people."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from gatepost.settings.section import Section
from gatepost.settings.values import (
    Count,
    FileBytes,
    FilePath,
    MailAddress,
    Milliseconds,
    NewFile,
    NodeName,
    Secret,
    SmtpServer,
    SyslogAddress,
    UpToThousand,
    WebhookUrl,
)

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
    "config.published",
    "config.rollout",
    "user.signedIn",
    "user.signInFailed",
    "key.created",
    "key.revoked",
    "node.state",
    "health.changed",
    "flow.limited",
    "audit.recorded",
]
Severity: TypeAlias = Literal["info", "notice", "warning", "error"]
Facility: TypeAlias = Literal[
    "user", "mail", "daemon", "auth", "syslog", "authpriv", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
]  # fmt: skip

_KINDS = "kinds of events that this output gets; by default all"


class EventFileSettings(Section):
    """Events as JSON lines in a file."""

    path: NewFile = Field("events/events.jsonl", description="the file; relative to the data folder")
    max_size: FileBytes = Field(
        100 << 20, description="size at which the file is renamed to `events.jsonl.1` and a new one is started"
    )
    keep: UpToThousand = Field(5, description="number of renamed files that are kept")
    kinds: list[EventKind] = Field([], description=_KINDS)


class SyslogSettings(Section):
    """Events to a syslog server (RFC 5424)."""

    address: SyslogAddress = Field(
        description="`udp://host:514`, `tcp://host:601`, `tls://host:6514` or `unix:/dev/log`"
    )
    facility: Facility = Field("local0", description="facility of the messages")
    ca: FilePath | None = Field(
        None, description="PEM file to verify the server with; by default the authorities of the system"
    )
    kinds: list[EventKind] = Field([], description=_KINDS)


class WebhookTarget(Section):
    """An address that is called with signed events."""

    url: WebhookUrl = Field(description="`https://…`; `http://` is accepted for this machine only")
    secret: Secret = Field(description="secret that calls are signed with; 64 hex digits are recommended")
    ca: FilePath | None = Field(
        None, description="PEM file to verify the server with; by default the authorities of the system"
    )
    timeout: Milliseconds = Field(10_000, description="milliseconds that one call may take")


class WebhookSettings(WebhookTarget):
    """Events in batches to an HTTPS server."""

    batch: UpToThousand = Field(100, description="maximum number of events in one call")
    max_spool: FileBytes = Field(
        256 << 20, description="maximum size of events on disk that wait for delivery; above it the oldest are dropped"
    )
    kinds: list[EventKind] = Field([], description=_KINDS)


class AlertMailSettings(Section):
    """Alerts by mail."""

    recipients: Annotated[list[MailAddress], Field(min_length=1, max_length=20)] = Field(
        description="addresses that get the alerts"
    )
    sender: MailAddress | None = Field(None, description="address in From; by default `gatepost@` and the node's name")
    server: SmtpServer | None = Field(
        None, description="`smtp://host:port` of a server that takes the mail; by default the routes of `delivery`"
    )
    tls: Literal["off", "opportunistic", "required", "verified"] = Field(
        "opportunistic", description="TLS to that server"
    )


class AlertSettings(Section):
    """Alerts to people."""

    kinds: list[EventKind] = Field(
        ["health.changed", "node.state", "user.signInFailed"], description="kinds of events that people are told of"
    )
    min_severity: Severity = Field(
        "notice", description="lowest severity of those events; a failed sign-in is `warning` once it locks an account"
    )
    max_per_hour: Count = Field(10, description="maximum number of alerts in an hour; one summary tells of the rest")
    mail: AlertMailSettings | None = Field(None, description="alerts by mail; off if not set")
    webhook: WebhookTarget | None = Field(None, description="alerts by a signed call; off if not set")


class EventsSettings(Section):
    """The event stream; without an output no event is made."""

    node: NodeName | None = Field(None, description="name of this machine in events; by default its host name")
    subjects: bool = Field(True, description="whether `message.scanned` has the subject of the message")
    file: EventFileSettings | None = Field(None, description="JSON lines in a file; off if not set")
    syslog: SyslogSettings | None = Field(None, description="syslog server; off if not set")
    webhooks: Annotated[list[WebhookSettings], Field(max_length=10)] = Field([], description="HTTPS servers")
    alerts: AlertSettings | None = Field(None, description="alerts to people; off if not set")

    @property
    def enabled(self) -> bool:
        """Whether anything is to get events."""
        return bool(self.file or self.syslog or self.webhooks or self.alerts)
