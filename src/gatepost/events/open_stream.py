"""Open the event stream that the settings describe: for a service, for a command, or for a test of the outputs."""

import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from gatepost.events.alerts import AlertOutput, SendsMail
from gatepost.events.file_output import FileOutput
from gatepost.events.output import Output
from gatepost.events.sources import describe_change
from gatepost.events.stream import Emits, EventStream
from gatepost.events.syslog import SyslogOutput
from gatepost.events.webhook import WebhookOutput
from gatepost.settings.event_keys import EventsSettings
from gatepost.store.audit import AuditRecord


class OutputError(Exception):
    """An output cannot be used as it is configured; the text is a sentence for the operator."""


def open_stream(
    settings: EventsSettings, data: Path, send_mail: SendsMail | None = None, more: Sequence[Output] = ()
) -> EventStream:
    """Open all outputs of a service, and `more`; raises `OutputError`."""
    outputs = build_outputs(settings, data, sends=True, send_mail=send_mail)
    return EventStream(node_name(settings), [*outputs, *more])


def open_command_stream(settings: EventsSettings, data: Path) -> EventStream:
    """Open the outputs of a command that ends soon: events for webhooks stay on disk until a service sends them, and
    alerts are left to services."""
    without_alerts = settings.model_copy(update={"alerts": None})
    return EventStream(node_name(settings), build_outputs(without_alerts, data, sends=False))


def build_outputs(
    settings: EventsSettings, data: Path, *, sends: bool, send_mail: SendsMail | None = None
) -> list[Output]:
    """Build all outputs; without `sends` nothing is sent but by `test` and `close`. Raises `OutputError`."""
    outputs: list[Output] = []
    try:
        if file := settings.file:
            outputs.append(FileOutput(data / file.path, file.max_size, file.keep, file.kinds))
        if settings.syslog:
            outputs.append(SyslogOutput(settings.syslog, node_name(settings), sends=sends))
        for number, webhook in enumerate(settings.webhooks, 1):
            outputs.append(WebhookOutput(f"webhook-{number}", webhook, data / "events", sends=sends))
        if settings.alerts:
            outputs.append(AlertOutput(settings.alerts, node_name(settings), send_mail))
    except (OSError, ssl.SSLError) as fault:
        for output in outputs:
            output.close(0.0)
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        raise OutputError(f"An output of events cannot be opened: {reason}.") from None
    return outputs


def node_name(settings: EventsSettings) -> str:
    """Return the name of this machine in events."""
    return settings.node or socket.gethostname().encode("ascii", "replace").decode().replace(" ", "-") or "localhost"


def observe_audit(events: Emits) -> Callable[[AuditRecord], None]:
    """Return an observer for the store: it emits the event of each change that has one."""
    return lambda record: events.emit(describe_change, record)
