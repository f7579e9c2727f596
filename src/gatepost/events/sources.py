"""Events from what the rest of Gatepost knows: records of messages, and records of the audit trail."""

from collections.abc import Callable
from typing import Any

from gatepost.analysis.report import FileSeen, Report
from gatepost.events import schema
from gatepost.events.schema import EventFields, bound, bound_all
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


def describe_scan(record: MessageRecord, seconds: float, *, subjects: bool) -> schema.MessageScanned:
    """Return the event of a message whose result is on record; the subject only where it is wanted."""
    report, envelope = record.report, record.envelope
    hosts, host = _find_hosts(report)
    return schema.MessageScanned(
        tenant_uid=envelope.tenant,
        ggrid=record.ggrid,
        source=record.source,
        verdict=report.verdict,
        decision=report.decision,
        score=report.score / 100,
        tags=report.tags[: schema.MAX_TAGS],
        envelope_from=bound(envelope.sender),
        recipients=bound_all(envelope.recipients, schema.MAX_RECIPIENTS),
        recipient_count=len(envelope.recipients),
        senders=bound_all(report.senders, schema.MAX_SENDERS),
        subject=bound(report.subject) if subjects else None,
        host=host or envelope.remote_address,
        helo=None if envelope.helo is None else bound(envelope.helo),
        size=record.size,
        sha256=record.sha256,
        files=tuple([_file(each) for each in report.files[: schema.MAX_FILES]]),
        file_count=len(report.files),
        link_hosts=bound_all(hosts, schema.MAX_HOSTS),
        link_host_count=len(hosts),
        milliseconds=round(seconds * 1_000, 1),
        action=report.action.name if report.action else "",
        action_to=bound(report.action.to) if report.action else "",
        action_failed=bound(report.action.failed) if report.action else "",
    )


def describe_held(record: MessageRecord) -> schema.MessageHeld:
    return schema.MessageHeld(
        tenant_uid=record.envelope.tenant, ggrid=record.ggrid, verdict=record.report.verdict, size=record.size
    )


def describe_limited_sender(sender: str, limit: str, count: int) -> schema.SenderLimited:
    return schema.SenderLimited(sender=bound(sender), limit=bound(limit), count=count)


def describe_change(record: AuditRecord) -> EventFields | None:
    """Return the event of a record of the audit trail; None for what has an event of its own elsewhere."""
    if record.action in _LIST_CHANGES:
        return _describe_list_change(record)
    if record.action in _TOLD_ELSEWHERE:
        return None
    return _CHANGES.get(record.action, _describe_record)(record)


# The pages tell of these themselves, with more than the trail has.
_TOLD_ELSEWHERE = frozenset({"user.signIn", "user.signInFailed"})


def _describe_record(record: AuditRecord) -> schema.AuditRecorded:
    return schema.AuditRecorded(
        tenant_uid=record.scope,
        action=bound(record.action),
        by=_actor(record.actor),
        list=bound(record.list),
        count=record.count,
        sample=bound_all(record.sample, schema.MAX_SAMPLE),
    )


def _describe_list_change(record: AuditRecord) -> schema.ListChanged:
    change: Any = _LIST_CHANGES[record.action]
    return schema.ListChanged(
        tenant_uid=record.scope,
        list=bound(record.list),
        change=change,
        count=record.count,
        sample=bound_all(record.sample, schema.MAX_SAMPLE) if record.action.startswith("entries.") else (),
        by=_actor(record.actor),
    )


def _describe_release(record: AuditRecord) -> schema.MessageReleased:
    # The message, the id that the released message carries where it has one, then every recipient.
    ggrid, *rest = record.sample
    recipients = rest[1:] if rest and canonical(rest[0]) else rest
    return schema.MessageReleased(
        tenant_uid=record.scope,
        ggrid=bound(ggrid, schema.MAX_ID),
        by=_actor(record.actor),
        recipients=bound_all(recipients, schema.MAX_RECIPIENTS),
        recipient_count=record.count,
    )


def _describe_deletion(record: AuditRecord) -> schema.MessageDeleted:
    return schema.MessageDeleted(
        tenant_uid=record.scope, ggrid=bound(record.sample[0], schema.MAX_ID), by=_actor(record.actor)
    )


def _describe_report(record: AuditRecord) -> schema.MessageReported:
    ggrid, says, *_ = record.sample
    return schema.MessageReported(
        tenant_uid=record.scope, ggrid=bound(ggrid, schema.MAX_ID), by=_actor(record.actor), says=bound(says)
    )


def _describe_key(make: type[schema.KeyCreated | schema.KeyRevoked]) -> Callable[[AuditRecord], EventFields]:
    def describe(record: AuditRecord) -> EventFields:
        name, _, uid = record.sample[0].rpartition(" ")
        return make(
            tenant_uid=record.scope, key_id=bound(uid, schema.MAX_ID), name=bound(name), by=_actor(record.actor)
        )

    return describe


def _describe_look_back(record: AuditRecord) -> schema.LookBackFound:
    # The number of the model, where it is one, then a line for each of some messages: its id and recipients.
    model, *lines = record.sample
    found = (line.split("\n") for line in lines[: schema.MAX_RECIPIENTS])
    return schema.LookBackFound(
        tenant_uid=record.scope,
        list=bound(record.list),
        model=bound(model),
        by=_actor(record.actor),
        count=record.count,
        messages=tuple(
            schema.FoundMessage(ggrid=bound(ggrid, schema.MAX_ID), recipients=bound_all(rest, schema.MAX_SAMPLE))
            for ggrid, *rest in found
        ),
    )


def _describe_rule_change(record: AuditRecord) -> schema.PolicyPublished:
    # The name, the rule before and after the change, and the version of all rules of the scope.
    name, *_, version = record.sample
    return schema.PolicyPublished(
        tenant_uid=record.scope,
        version=bound(version.removeprefix("version ")),
        by=_actor(record.actor),
        rule=bound(name),
    )


def _describe_publication(record: AuditRecord) -> schema.ConfigPublished:
    number, *rest = record.sample
    return schema.ConfigPublished(version=bound(number), by=_actor(record.actor), reason=bound(rest[0]) if rest else "")


def _describe_threshold(record: AuditRecord) -> schema.ThresholdReached:
    name, search, threshold, minutes = record.sample
    return schema.ThresholdReached(
        tenant_uid=record.scope,
        alert=bound(name),
        search=bound(search),
        count=record.count,
        threshold=int(threshold),
        minutes=int(minutes),
    )


def _describe_rollout(record: AuditRecord) -> schema.ConfigRollout:
    name, *rest = record.sample
    failed = record.action == "config.fail"
    return schema.ConfigRollout(
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
    "apikey.create": _describe_key(schema.KeyCreated),
    "apikey.revoke": _describe_key(schema.KeyRevoked),
}


def _file(file: FileSeen) -> schema.EventFile:
    return schema.EventFile(sha256=file.sha256, type=bound(file.type, schema.MAX_TYPE), size=file.size)


def _actor(actor: Actor) -> schema.EventActor:
    return schema.EventActor(kind=actor.kind, name=bound(actor.name), id=bound(actor.id))


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
