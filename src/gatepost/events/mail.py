"""Events by mail, and the line in which an event is told to people."""

from collections.abc import Callable, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any

import msgspec

from gatepost.events.schema import EncodedEvent
from gatepost.settings.events import EventMailSettings

# Sends one message; raises `DeliveryError`.
SendsMail = Callable[[EmailMessage], None]

_HEAD = ("schema", "event", "id", "at", "node")
# What the line says of an event beside its kind.
_SAID: dict[str, tuple[str, ...]] = {
    "health.changed": ("component", "after"),
    "node.state": ("state",),
    "user.signInFailed": ("user", "reason", "address"),
    "key.created": ("name",),
    "config.published": ("version", "reason"),
    "config.rollout": ("version", "nodeName", "outcome", "reason"),
    "key.revoked": ("name",),
    "list.changed": ("list", "change"),
    "audit.recorded": ("action",),
    "flow.limited": ("limit", "subject"),
    "rule.stopped": ("rule", "reason"),
    "threshold.reached": ("alert", "count"),
    "message.held": ("verdict",),
    "events.omitted": ("count", "reason"),
}


class MailSender:
    """Sends each event as a mail."""

    def __init__(self, settings: EventMailSettings, node: str, send_mail: SendsMail) -> None:
        self.address = ", ".join(settings.recipients)
        self._settings, self._node, self._send_mail = settings, node, send_mail

    def send(self, events: Sequence[EncodedEvent]) -> None:
        """Send a mail for each event; raises `DeliveryError`."""
        for event in events:
            self._send_mail(build_event_mail(event, self._settings, self._node))

    def close(self) -> None:
        """Do nothing: each mail has a connection of its own."""


def build_event_mail(event: EncodedEvent, settings: EventMailSettings, node: str) -> EmailMessage:
    """Return the mail (RFC 5322) of an event: its kind and its fields, one in a line, marked as written by a program
    (RFC 3834 section 5)."""
    fields = read_event(event.line)
    lines = [f"{name}: {_show(value)}" for name, value in fields.items() if name not in _HEAD]
    head = [f"event: {event.kind}", f"severity: {event.severity}", f"time: {event.at}", f"node: {node}"]
    message = EmailMessage(policy=SMTP)
    message["From"] = settings.sender or f"gatepost@{node}"
    message["To"] = ", ".join(settings.recipients)
    message["Subject"] = f"[gatepost {node}] {describe_event(fields)}"
    message["Date"] = formatdate()
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join([*head, *lines, f"id: {event.id}"]) + "\n")
    return message


def describe_event(fields: dict[str, Any]) -> str:
    """Return an event in one line for people: its kind, and what matters most in it."""
    kind = str(fields.get("event", ""))
    words = [_show(fields[name]) for name in _SAID.get(kind, ()) if name in fields]
    return " ".join([kind, *words])[:200]


def read_event(line: bytes) -> dict[str, Any]:
    """Return the fields of an event; none for a line that a power cut has damaged."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return fields


def _show(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
