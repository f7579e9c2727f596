"""Events from what the rest of Gatepost knows: records of messages, and records of the audit trail."""

from collections.abc import Callable
from typing import Any

from gatepost.analysis.report import FileSeen, Report
from gatepost.events.schema import (
    MAX_FILES,
    MAX_HOSTS,
    MAX_ID,
    MAX_RECIPIENTS,
    MAX_SAMPLE,
    MAX_SENDERS,
    MAX_TAGS,
    MAX_TYPE,
    AuditRecorded,
    ConfigPublished,
    ConfigRollout,
    EventActor,
    EventFields,
    EventFile,
    FoundMessage,
    KeyCreated,
    KeyRevoked,
    ListChanged,
    LookBackFound,
    MessageDeleted,
    MessageHeld,
    MessageReleased,
    MessageReported,
    MessageScanned,
    PolicyPublished,
    SenderLimited,
    ThresholdReached,
    bound,
    bound_all,
)
from gatepost.ids import canonical
from gatepost.store.audit import Actor, AuditRecord
from gatepost.store.message_records import MessageRecord

_LIST_CHANGES = {
    "entries.add": "added",
    "entries.delete": "deleted",
    "entries.expire": "expired",
    "entries.normalise": "normalised",
    "list.create": "created",
    "list.delete": "removed",
}


def describe_scan(record: MessageRecord, seconds: float, *, subjects: bool) -> MessageScanned:
    """Return the event of a message whose result is on record; the subject only where it is wanted."""
    report, envelope = record.report, record.envelope
    hosts, host = _find_hosts(report)
    return MessageScanned(
        tenant_uid=envelope.tenant,
        ggrid=record.ggrid,
        source=record.source,
        verdict=report.verdict,
        decision=report.decision,
        score=report.score / 100,
        tags=report.tags[:MAX_TAGS],
        envelope_from=bound(envelope.sender),
        recipients=bound_all(envelope.recipients, MAX_RECIPIENTS),
        recipient_count=len(envelope.recipients),
        senders=bound_all(report.senders, MAX_SENDERS),
        subject=bound(report.subject) if subjects else None,
        host=host or envelope.remote_address,
        helo=None if envelope.helo is None else bound(envelope.helo),
        size=record.size,
        sha256=record.sha256,
        files=tuple([_file(each) for each in report.files[:MAX_FILES]]),
        file_count=len(report.files),
        link_hosts=bound_all(hosts, MAX_HOSTS),
        link_host_count=len(hosts),
        milliseconds=round(seconds * 1_000, 1),
        action=report.action.name if report.action else "",
        action_to=bound(report.action.to) if report.action else "",
        action_failed=bound(report.action.failed) if report.action else "",
    )


def describe_held(record: MessageRecord) -> MessageHeld:
    """Return the event of a message that is held now."""
    return MessageHeld(
        tenant_uid=record.envelope.tenant, ggrid=record.ggrid, verdict=record.report.verdict, size=record.size
    )


def describe_limited_sender(sender: str, limit: str, count: int) -> SenderLimited:
    """Return the event of a sender of outbound mail over a limit."""
    return SenderLimited(sender=bound(sender), limit=bound(limit), count=count)


def describe_change(record: AuditRecord) -> EventFields | None:
    """Return the event of a record of the audit trail; None for what has an event of its own elsewhere."""
    if record.action in _LIST_CHANGES:
        return _describe_list_change(record)
    if record.action in _TOLD_ELSEWHERE:
        return None
    return _CHANGES.get(record.action, _describe_record)(record)


# The pages tell of these themselves, with more than the trail has.
_TOLD_ELSEWHERE = frozenset({"user.signIn", "user.signInFailed"})


def _describe_record(record: AuditRecord) -> AuditRecorded:
    return AuditRecorded(
        tenant_uid=record.scope,
        action=bound(record.action),
        by=_actor(record.actor),
        list=bound(record.list),
        count=record.count,
        sample=bound_all(record.sample, MAX_SAMPLE),
    )


def _describe_list_change(record: AuditRecord) -> ListChanged:
    change: Any = _LIST_CHANGES[record.action]
    return ListChanged(
        tenant_uid=record.scope,
        list=bound(record.list),
        change=change,
        count=record.count,
        sample=bound_all(record.sample, MAX_SAMPLE) if record.action.startswith("entries.") else (),
        by=_actor(record.actor),
    )


def _describe_release(record: AuditRecord) -> MessageReleased:
    # The message, the id that the released message carries where it has one, then every recipient.
    ggrid, *rest = record.sample
    recipients = rest[1:] if rest and canonical(rest[0]) else rest
    return MessageReleased(
        tenant_uid=record.scope,
        ggrid=bound(ggrid, MAX_ID),
        by=_actor(record.actor),
        recipients=bound_all(recipients, MAX_RECIPIENTS),
        recipient_count=record.count,
    )


def _describe_deletion(record: AuditRecord) -> MessageDeleted:
    return MessageDeleted(tenant_uid=record.scope, ggrid=bound(record.sample[0], MAX_ID), by=_actor(record.actor))


def _describe_report(record: AuditRecord) -> MessageReported:
    ggrid, says, *_ = record.sample
    return MessageReported(
        tenant_uid=record.scope, ggrid=bound(ggrid, MAX_ID), by=_actor(record.actor), says=bound(says)
    )


def _describe_key(make: type[KeyCreated | KeyRevoked]) -> Callable[[AuditRecord], EventFields]:
    def describe(record: AuditRecord) -> EventFields:
        name, _, uid = record.sample[0].rpartition(" ")
        return make(tenant_uid=record.scope, key_id=bound(uid, MAX_ID), name=bound(name), by=_actor(record.actor))

    return describe


def _describe_look_back(record: AuditRecord) -> LookBackFound:
    # The number of the model, where it is one, then a line for each of some messages: its id and recipients.
    model, *lines = record.sample
    found = (line.split("\n") for line in lines[:MAX_RECIPIENTS])
    return LookBackFound(
        tenant_uid=record.scope,
        list=bound(record.list),
        model=bound(model),
        by=_actor(record.actor),
        count=record.count,
        messages=tuple(
            FoundMessage(ggrid=bound(ggrid, MAX_ID), recipients=bound_all(rest, MAX_SAMPLE)) for ggrid, *rest in found
        ),
    )


def _describe_rule_change(record: AuditRecord) -> PolicyPublished:
    # The name, the rule before and after the change, and the version of all rules of the scope.
    name, *_, version = record.sample
    return PolicyPublished(
        tenant_uid=record.scope,
        version=bound(version.removeprefix("version ")),
        by=_actor(record.actor),
        rule=bound(name),
    )


def _describe_publication(record: AuditRecord) -> ConfigPublished:
    number, *rest = record.sample
    return ConfigPublished(version=bound(number), by=_actor(record.actor), reason=bound(rest[0]) if rest else "")


def _describe_threshold(record: AuditRecord) -> ThresholdReached:
    name, search, threshold, minutes = record.sample
    return ThresholdReached(
        tenant_uid=record.scope,
        alert=bound(name),
        search=bound(search),
        count=record.count,
        threshold=int(threshold),
        minutes=int(minutes),
    )


def _describe_rollout(record: AuditRecord) -> ConfigRollout:
    name, *rest = record.sample
    failed = record.action == "config.fail"
    return ConfigRollout(
        version=str(record.count),
        node_name=bound(name),
        outcome="failed" if failed else "takenOver",
        reason=bound(rest[0]) if failed and rest else "",
    )


_CHANGES: dict[str, Callable[[AuditRecord], EventFields]] = {
    "quarantine.release": _describe_release,
    "alert.reached": _describe_threshold,
    "quarantine.delete": _describe_deletion,
    "message.reported": _describe_report,
    "mail.reported": _describe_report,
    "config.publish": _describe_publication,
    "lookBack.found": _describe_look_back,
    "rule.create": _describe_rule_change,
    "rule.change": _describe_rule_change,
    "rule.delete": _describe_rule_change,
    "config.rollback": _describe_publication,
    "config.takeOver": _describe_rollout,
    "config.fail": _describe_rollout,
    "apikey.create": _describe_key(KeyCreated),
    "apikey.revoke": _describe_key(KeyRevoked),
}


def _file(file: FileSeen) -> EventFile:
    return EventFile(sha256=file.sha256, type=bound(file.type, MAX_TYPE), size=file.size)


def _actor(actor: Actor) -> EventActor:
    return EventActor(kind=actor.kind, name=bound(actor.name), id=bound(actor.id))


def _find_hosts(report: Report) -> tuple[tuple[str, ...], str | None]:
    """Return the hosts that links lead to, each once, and the sending host where the analysis found one."""
    links: dict[str, None] = {}
    sending = None
    for subject in report.subjects:
        if subject.role == "link":
            links[_host_of(subject.value)] = None
        elif subject.role == "host":
            sending = subject.value
    links.pop("", None)
    return tuple(links), sending


def _host_of(link: str) -> str:
    """Return the host of a link as the report has it: a host, perhaps with port, path and query."""
    rest = link.partition("://")[2] or link
    host = rest.partition("/")[0].partition("?")[0]
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.partition(":")[0] if host.count(":") == 1 else host
