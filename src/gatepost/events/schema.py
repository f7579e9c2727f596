"""The events: a closed set of kinds, each a frozen value with the fields that its kind adds to those of every event.

An event becomes one line of JSON. The fields of every event come first: `schema`, `event`, `id`, `at`, `node`. A kind
or a field may be added at any time; none changes its meaning without a new schema number.

Strings come from strangers. Each is cut to a length, each list to a number of items, so that a line has at most
`MAX_LINE` bytes. A line has no character that a terminal, a log viewer or a syslog server could take for the end of a
line or for a command: JSON escapes control characters, and `encode_event` also those that are invisible or change the
direction of text.
"""

import re
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from gatepost.ids import id_time, new_id
from gatepost.policy.rules import Decision, Verdict
from gatepost.process.health import Component
from gatepost.settings.events import EventKind, Severity
from gatepost.store.engine import storable
from gatepost.times import date_time

SCHEMA = 1
MAX_LINE = 60_000
# An address of RFC 5321 section 4.5.3.1 has at most 254 characters, a host name 253.
MAX_TEXT = 254
MAX_ID, MAX_TYPE = 36, 24
MAX_RECIPIENTS, MAX_SENDERS, MAX_FILES, MAX_HOSTS, MAX_TAGS, MAX_SAMPLE = 20, 3, 20, 20, 32, 5
CUT = "…"

Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]
Id: TypeAlias = Annotated[str, Meta(max_length=MAX_ID)]
Digest: TypeAlias = Annotated[str, Meta(max_length=64)]


class _Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Fields that have their default (nothing, or an empty list) are left out."""


class EventActor(_Fields, frozen=True, kw_only=True):
    """Who made a change: an API key, a static token, a user, the command line, a recipient, or Gatepost itself."""

    kind: Annotated[
        Literal["key", "token", "user", "cli", "feed", "mail", "recipient", "system"], Meta(description="what acted")
    ]
    name: Annotated[Text, Meta(description="its name")] = ""
    id: Annotated[Text, Meta(description="its id")] = ""


class EventFile(_Fields, frozen=True, kw_only=True):
    """A file of a message, by its content."""

    sha256: Annotated[Digest, Meta(description="SHA-256 of the content")]
    type: Annotated[Text, Meta(description="type by content, such as `pdf`")]
    size: Annotated[int, Meta(description="bytes")]


class EventFields(_Fields, tag_field="event", frozen=True, kw_only=True):
    """What the fields of every kind have in common."""

    tenant_uid: Annotated[Id | None, Meta(description="the tenant, where there is one")] = None


class MessageScanned(EventFields, tag="message.scanned", frozen=True, kw_only=True):
    """A message was analysed and its result is on record. A message that two cores tried is told of twice, with the
    same `ggrid`."""

    ggrid: Annotated[Id, Meta(description="id of the analysis")]
    source: Annotated[Text, Meta(description="`smtp`, `rest` or `page`: how the message came")] = ""
    verdict: Annotated[Verdict, Meta(description="the verdict")]
    decision: Annotated[Decision, Meta(description="the decision")]
    score: Annotated[float, Meta(description="points")]
    tags: Annotated[tuple[Text, ...], Meta(description="tags of the findings", max_length=MAX_TAGS)] = ()
    envelope_from: Annotated[Text, Meta(description="envelope sender; empty for a bounce")] = ""
    recipients: Annotated[tuple[Text, ...], Meta(description="the first recipients", max_length=MAX_RECIPIENTS)] = ()
    recipient_count: Annotated[int, Meta(description="number of all recipients")]
    senders: Annotated[tuple[Text, ...], msgspec.Meta(description="addresses in From", max_length=MAX_SENDERS)] = (
        msgspec.field(default=(), name="from")
    )
    subject: Annotated[Text | None, Meta(description="subject; absent with `subjects: false`")] = None
    host: Annotated[Text | None, Meta(description="address of the sending host")] = None
    helo: Annotated[Text | None, Meta(description="what the sending host called itself")] = None
    size: Annotated[int, Meta(description="bytes of the message")]
    sha256: Annotated[Digest, Meta(description="SHA-256 of the message")]
    files: Annotated[tuple[EventFile, ...], Meta(description="the first files", max_length=MAX_FILES)] = ()
    file_count: Annotated[int, Meta(description="number of all files")] = 0
    link_hosts: Annotated[
        tuple[Text, ...], Meta(description="the first hosts that links lead to", max_length=MAX_HOSTS)
    ] = ()
    link_host_count: Annotated[int, Meta(description="number of all hosts that links lead to")] = 0
    milliseconds: Annotated[float, Meta(description="time from admission to the record")]
    action: Annotated[
        Text, Meta(description="`tag`, `redirect`, `copy` or `strip`: the action over SMTP; absent without one")
    ] = ""
    action_to: Annotated[Text, Meta(description="the mailbox of a redirect or copy")] = ""
    action_failed: Annotated[Text, Meta(description="why the action was not carried out")] = ""


class MessageHeld(EventFields, tag="message.held", frozen=True, kw_only=True):
    """A message was put into the quarantine."""

    ggrid: Annotated[Id, Meta(description="id of the analysis")]
    verdict: Annotated[Verdict, Meta(description="the verdict")]
    size: Annotated[int, Meta(description="bytes of the message")]


class MessageReleased(EventFields, tag="message.released", frozen=True, kw_only=True):
    """A held message was sent on."""

    ggrid: Annotated[Id, Meta(description="id of the analysis")]
    by: Annotated[EventActor, Meta(description="who released it")]
    recipients: Annotated[tuple[Text, ...], Meta(description="the first recipients", max_length=MAX_RECIPIENTS)] = ()
    recipient_count: Annotated[int, Meta(description="number of all recipients")]


class MessageDeleted(EventFields, tag="message.deleted", frozen=True, kw_only=True):
    """A held message was deleted by somebody. The end of its retention is not an event."""

    ggrid: Annotated[Id, Meta(description="id of the analysis")]
    by: Annotated[EventActor, Meta(description="who deleted it")]


class MessageReported(EventFields, tag="message.reported", frozen=True, kw_only=True):
    """Somebody reported that the decision about a message was wrong."""

    ggrid: Annotated[Id, Meta(description="id of the analysis; of a report by mail, the id of the report")]
    by: Annotated[EventActor, Meta(description="who reported it")]
    says: Annotated[Text, Meta(description="`should have been delivered` or `should have been held`")]


class SenderLimited(EventFields, tag="sender.limited", frozen=True, kw_only=True):
    """A sender of outbound mail is over a limit of `scanSources.smtp.outbound.senderLimits`: perhaps its account was
    captured. It is told once an hour for each sender and node."""

    sender: Annotated[Text, Meta(description="the address, or `user` and the name that the client told")]
    limit: Annotated[Text, Meta(description="`messages`, `recipients` or `refused recipients`")]
    count: Annotated[int, Meta(description="how many within an hour")]


class ListChanged(EventFields, tag="list.changed", frozen=True, kw_only=True):
    """Entries of a list were changed, or a custom list was created or deleted. Without `tenantUid` the list is
    global."""

    list: Annotated[Text, Meta(description="name of the list")]
    change: Annotated[
        Literal["added", "deleted", "expired", "normalised", "created", "removed"],
        Meta(description="what happened to the entries; `created` and `removed` are about a whole custom list"),
    ]
    count: Annotated[int, Meta(description="number of entries")]
    sample: Annotated[tuple[Text, ...], Meta(description="some of the entries", max_length=MAX_SAMPLE)] = ()
    by: Annotated[EventActor, Meta(description="who changed it")]


class FoundMessage(_Fields, frozen=True, kw_only=True):
    """A message that was delivered before it was known."""

    ggrid: Annotated[Id, Meta(description="id of the analysis")]
    recipients: Annotated[tuple[Text, ...], Meta(description="envelope recipients", max_length=MAX_SAMPLE)] = ()


class LookBackFound(EventFields, tag="lookBack.found", frozen=True, kw_only=True):
    """New entries of a list, or a model that takes part now, would have held messages that were delivered. Tell their
    recipients. Without `tenantUid` the list or the model is the deployment's."""

    list: Annotated[Text, Meta(description="name of the list; absent for a model")] = ""
    model: Annotated[Text, Meta(description="number of the learnt model; absent for a list")] = ""
    by: Annotated[EventActor, Meta(description="who added the entries, or which feed")]
    count: Annotated[int, Meta(description="number of messages")]
    messages: Annotated[tuple[FoundMessage, ...], Meta(description="the newest of them", max_length=MAX_RECIPIENTS)]


class PolicyPublished(EventFields, tag="policy.published", frozen=True, kw_only=True):
    """Rules were changed in the web interface, and nodes apply them within seconds. Policy files are part of a version
    of the configuration (`config.published`). Without `tenantUid` the rules are the deployment's."""

    version: Annotated[Text, Meta(description="version of the rules of that scope that is in force now")]
    by: Annotated[EventActor, Meta(description="who changed them")]
    rule: Annotated[Text, Meta(description="name of the rule that was created, changed or deleted")] = ""


class RuleStopped(EventFields, tag="rule.stopped", frozen=True, kw_only=True):
    """A rule took too long for three messages, and this node judges mail without it until its condition is changed or
    the node starts again. Without `tenantUid` it is left out of the deployment's policy."""

    rule: Annotated[Text, Meta(description="name of the rule")]
    reason: Annotated[Text, Meta(description="what happened the third time")] = ""


class ConfigPublished(EventFields, tag="config.published", frozen=True, kw_only=True):
    """A version of the configuration was published, or an earlier one was brought back; nodes take it over from now
    on."""

    version: Annotated[Text, Meta(description="number of the version")]
    by: Annotated[EventActor, Meta(description="who published it")]
    reason: Annotated[Text, Meta(description="why, as it was given")] = ""


class AuditRecorded(EventFields, tag="audit.recorded", frozen=True, kw_only=True):
    """Something was put on the audit trail for which there is no kind of its own: a reading of held mail, an export, a
    trial, a failed release, a change of users or tenants."""

    action: Annotated[Text, Meta(description="what was done, as the audit trail names it")]
    by: Annotated[EventActor, Meta(description="who did it")]
    list: Annotated[Text, Meta(description="the list that it is about; empty for others")] = ""
    count: Annotated[int, Meta(ge=0, description="how many things it is about")] = 0
    sample: Annotated[tuple[Text, ...], Meta(description="what it is about", max_length=MAX_SAMPLE)] = ()


class ConfigRollout(EventFields, tag="config.rollout", frozen=True, kw_only=True):
    """A node has taken a published version over, or could not run it; then all nodes go back to the one before."""

    version: Annotated[Text, Meta(description="number of the version")]
    node_name: Annotated[Text, Meta(description="the node")]
    outcome: Annotated[Literal["takenOver", "failed"], Meta(description="what happened")]
    reason: Annotated[Text, Meta(description="why it failed")] = ""


class UserSignedIn(EventFields, tag="user.signedIn", frozen=True, kw_only=True):
    """A user signed in to the web interface."""

    user: Annotated[Text, Meta(description="name of the user")]
    user_id: Annotated[Id, Meta(description="id of the user")]
    address: Annotated[Text, Meta(description="address of the client")]
    second_factor: Annotated[bool, Meta(description="whether a code or a security key was asked for")]


class UserSignInFailed(EventFields, tag="user.signInFailed", frozen=True, kw_only=True):
    """An attempt to sign in was refused. Names that no user has are left out: people type passwords into that field."""

    user: Annotated[Text | None, Meta(description="name of the user, where there is one")] = None
    user_id: Annotated[Id | None, Meta(description="id of the user, where there is one")] = None
    address: Annotated[Text, Meta(description="address of the client")]
    reason: Annotated[
        Literal["password", "code", "key", "locked", "disabled"],
        Meta(
            description="`password`: name or password is wrong; `key`: of WebAuthn; `locked`: too many attempts before"
        ),
    ]
    locked_until: Annotated[
        str | None, Meta(description="until when attempts are refused, if this one set a lock; a date-time")
    ] = None


class KeyCreated(EventFields, tag="key.created", frozen=True, kw_only=True):
    """An API key was created. Without `tenantUid` it may act on every scope."""

    key_id: Annotated[Id, Meta(description="id of the key")]
    name: Annotated[Text, Meta(description="name of the key")]
    by: Annotated[EventActor, Meta(description="who created it")]


class KeyRevoked(EventFields, tag="key.revoked", frozen=True, kw_only=True):
    """An API key was revoked."""

    key_id: Annotated[Id, Meta(description="id of the key")]
    name: Annotated[Text, Meta(description="name of the key")]
    by: Annotated[EventActor, Meta(description="who revoked it")]


class NodeState(EventFields, tag="node.state", frozen=True, kw_only=True):
    """A service started or is about to stop, or `gatepost events test` was called."""

    state: Annotated[Literal["started", "stopping", "test"], Meta(description="the state")]
    services: Annotated[tuple[Text, ...], Meta(description="`guard`, `abby`; empty for a test")] = ()
    version: Annotated[Text, Meta(description="version of Gatepost")]


HealthState: TypeAlias = Literal["ok", "degraded", "failed"]
HealthComponent: TypeAlias = Literal["messageQueue", Component]


class HealthChanged(EventFields, tag="health.changed", frozen=True, kw_only=True):
    """The health of a part changed and stayed so for some seconds."""

    component: Annotated[
        HealthComponent,
        Meta(description="`messageQueue` follows `messageQueueStatus`; the others warn of what should be looked at"),
    ]
    before: Annotated[HealthState, Meta(description="the state before")]
    after: Annotated[HealthState, Meta(description="the state now")]
    reason: Annotated[Text, Meta(description="what was seen")] = ""
    clears: Annotated[Text, Meta(description="what ends it")] = ""


class ThresholdReached(EventFields, tag="threshold.reached", frozen=True, kw_only=True):
    """The search of an alert has found as many messages within its time as the alert asks for. It is told once in that
    time, by one node."""

    alert: Annotated[Text, Meta(description="name of the alert")]
    search: Annotated[Text, Meta(description="what was searched for; empty for all messages")] = ""
    count: Annotated[int, Meta(ge=1, description="how many messages were found")]
    threshold: Annotated[int, Meta(ge=1, description="from how many on people are told")]
    minutes: Annotated[int, Meta(ge=1, description="within how many minutes")]


class OmittedKind(_Fields, frozen=True, kw_only=True):
    """A kind of events that an output did not get."""

    kind: Annotated[Text, Meta(description="the kind")]
    count: Annotated[int, Meta(ge=1, description="how many events of it")]


class EventsOmitted(EventFields, tag="events.omitted", frozen=True, kw_only=True):
    """An output did not get some events, since there were more in an hour than it may get (`maxPerHour`), or since they
    came in its quiet hours. Only that output gets this event, whatever its filter."""

    reason: Annotated[Literal["maxPerHour", "quietHours"], Meta(description="why it did not get them")]
    count: Annotated[int, Meta(ge=1, description="how many events")]
    omitted: Annotated[tuple[OmittedKind, ...], Meta(description="their kinds")]


Event: TypeAlias = (
    MessageScanned
    | MessageHeld
    | MessageReleased
    | MessageDeleted
    | MessageReported
    | SenderLimited
    | ListChanged
    | LookBackFound
    | PolicyPublished
    | RuleStopped
    | ConfigPublished
    | ConfigRollout
    | UserSignedIn
    | UserSignInFailed
    | KeyCreated
    | KeyRevoked
    | NodeState
    | HealthChanged
    | ThresholdReached
    | EventsOmitted
    | AuditRecorded
)
EVENTS: tuple[type[EventFields], ...] = get_args(Event)

_ENCODER = msgspec.json.Encoder()
_SURROUND = len('{"event":""')
# What stands before the fields of a kind, without the names of kind and node.
_HEAD = '{{"schema":{},"event":"{}","id":"{}","at":"{}","node":{}'
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as outputs get it: one line of JSON, without a line end."""

    kind: EventKind
    severity: Severity
    id: str
    at: str
    line: bytes


def kind_of(event: EventFields) -> EventKind:
    kind: EventKind = type(event).__struct_config__.tag  # type: ignore[assignment]
    return kind


def encode_event(event: EventFields, node: str, nanoseconds: int | None = None) -> EncodedEvent:
    """Encode an event, once for all outputs; its id and time are made here."""
    uid, kind = new_id(nanoseconds), kind_of(event)
    at = date_time(id_time(uid))
    fields = _ENCODER.encode(event)[_SURROUND + len(kind) :]
    head = _HEAD.format(SCHEMA, kind, uid, at, _ENCODER.encode(node).decode())
    return EncodedEvent(kind, severity_of(event), uid, at, _escape_invisible(head.encode() + fields))


def describe_schema() -> dict[str, Any]:
    """Return the JSON Schema of an event (draft 2020-12)."""
    _, kinds = msgspec.json.schema_components(EVENTS, ref_template="#/$defs/{name}")
    head = {
        "schema": {"const": SCHEMA},
        "id": {"type": "string", "format": "uuid"},
        "at": {"type": "string", "format": "date-time"},
        "node": {"type": "string", "maxLength": 255},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Gatepost event",
        "type": "object",
        "properties": head,
        "required": ["event", *head],
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in EVENTS],
        "$defs": kinds,
    }


def bound(text: str, limit: int = MAX_TEXT) -> str:
    """Return text of a stranger as an event can hold it: cut to a length, and without lone surrogates."""
    cut = text if len(text) <= limit else text[: limit - 1] + CUT
    return cut if cut.isascii() and "\0" not in cut else storable(cut)


def bound_all(texts: Any, count: int) -> tuple[str, ...]:
    """Return the first texts of a sequence, each as `bound` returns it."""
    return tuple([bound(text) for text in texts[:count]])


def severity_of(event: EventFields) -> Severity:
    """Return the severity of an event, for syslog and for filters."""
    if isinstance(event, HealthChanged):
        return {"ok": "notice", "degraded": "warning", "failed": "error"}[event.after]  # type: ignore[return-value]
    if isinstance(event, ConfigRollout):
        return "error" if event.outcome == "failed" else "notice"
    if isinstance(event, UserSignInFailed):
        return "warning" if event.locked_until or event.reason == "locked" else "info"
    if isinstance(event, MessageScanned):
        return "warning" if event.decision == "undecided" else "info"
    if isinstance(event, SenderLimited | RuleStopped | ThresholdReached):
        return "warning"
    return "info" if isinstance(event, UserSignedIn | MessageHeld) else "notice"


def _escape_invisible(line: bytes) -> bytes:
    """Escape what is not printable and JSON leaves as it is: DEL, C1 controls, direction marks, line separators."""
    if line.isascii():
        return line.replace(b"\x7f", b"\\u007f") if b"\x7f" in line else line
    text = line.decode()
    if text.isprintable():
        return line
    return "".join([char if char.isprintable() else _escape(char) for char in text]).encode()


def _escape(char: str) -> str:
    # Above U+FFFF nothing invisible is worth the twelve characters of its escape.
    return "\N{REPLACEMENT CHARACTER}" if _ASTRAL.match(char) else f"\\u{ord(char):04x}"
