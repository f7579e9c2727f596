"""The timeline of a message in words that a help desk understands, for the API, the command line and the pages."""

from collections.abc import Iterator

from gatepost.api.messages import Timeline, TimelineEvent, TimelineStep
from gatepost.store.audit import AuditRecord
from gatepost.store.deliveries import Delivery
from gatepost.store.message_records import MessageRecord
from gatepost.store.messages import Attempt, MessageTimeline
from gatepost.times import date_time

MAX_NAMED = 5
_ACTIONS: dict[str, TimelineEvent] = {
    "lookBack.found": "lookedBack",
    "message.reported": "reported",
    "quarantine.delete": "deleted",
    "quarantine.release": "released",
    "quarantine.releaseFailed": "releaseFailed",
    "quarantine.restore": "restored",
}


def describe_timeline(found: MessageTimeline, *, shows_hosts: bool = True) -> Timeline:
    """Return the steps of a message in the order of time. For people of a tenant, names and addresses of nodes, clients
    and next hops are left out: those are the operator's."""
    record = found.record
    steps = sorted(_list_steps(found, shows_hosts=shows_hosts), key=lambda step: step.time)
    return Timeline(
        ggrid=record.ggrid,
        message_id=record.report.message_id,
        tenant_uid=record.envelope.tenant,
        envelope_from=record.envelope.sender,
        envelope_recipients=record.envelope.recipients,
        subject=record.report.subject,
        steps=tuple(steps),
        is_cut=found.is_cut,
    )


def _list_steps(found: MessageTimeline, *, shows_hosts: bool) -> Iterator[TimelineStep]:
    record = found.record
    for attempt in found.attempts:
        yield _describe_attempt(attempt, record)
    yield _describe_receipt(record, shows_hosts=shows_hosts)
    if record.receipt and record.receipt.throttled:
        text = f"Waited {record.receipt.throttled:,} ms because the node was busy."
        yield TimelineStep(date_time(record.created), "throttled", text)
    report = record.report
    throttled = record.receipt.throttled if record.receipt else 0
    took = max(0, record.completed - record.created - throttled)
    text = f"Analysed in {took:,} ms: the verdict is {report.verdict}, the decision {report.decision}."
    yield TimelineStep(date_time(record.completed), "analysed", text)
    if step := _describe_decision(found):
        yield step
    yield from (_describe_delivery(each, shows_hosts=shows_hosts) for each in found.deliveries)
    release = found.held.release if found.held else None
    if release:
        to = _name_some(release.recipients)
        text = f"Released by {release.by} to {to}."
        yield TimelineStep(date_time(release.time), "released", text, by=release.by)
    for action in found.actions:
        if action.action != "quarantine.release" or not release:
            yield _describe_action(action)


def _describe_receipt(record: MessageRecord, *, shows_hosts: bool) -> TimelineStep:
    receipt, node, queue_id = record.receipt, "", ""
    where = {"smtp": "over SMTP", "rest": "through the scanning API", "page": "as a trial on the scan page"}
    words = ["Received", where.get(record.source, "")]
    if receipt and shows_hosts:
        node = receipt.node
        words += [f"by the node {node}"] if node else []
        words += [f"from {receipt.client}"] if receipt.client else []
    if record.envelope.remote_address:
        words.append(f"(sending host {record.envelope.remote_address})")
    if receipt and receipt.queue_id:
        queue_id = receipt.queue_id
        words.append(f"with the queue id {queue_id}")
    text = " ".join(filter(None, words)) + "."
    return TimelineStep(date_time(record.created), "received", text, node=node, queue_id=queue_id)


def _describe_decision(found: MessageTimeline) -> TimelineStep | None:
    """What was done by the decision, as far as no delivery says it."""
    record, decision = found.record, found.record.report.decision
    when = date_time(record.completed)
    if found.held is not None:
        return TimelineStep(date_time(found.held.kept), "held", "Held in the quarantine.")
    if record.source not in ("smtp", "rest"):
        return None  # a trial, or a record that does not say how the message came
    if record.source == "rest":
        text = "The decision was returned to the mail server that asked; what it did is in the log of that server."
        return TimelineStep(when, "answered", text)
    if decision == "deliver":
        text = "What the next hop answered is not on record."
        return None if found.deliveries else TimelineStep(when, "unknown", text)
    if decision == "quarantine":
        text = "It is not in the quarantine: it was deleted, or its time there is over."
        return TimelineStep(when, "unknown", text)
    if decision == "drop":
        return TimelineStep(when, "dropped", "Accepted and discarded, as the policy says.")
    if decision == "bounce":
        return TimelineStep(when, "refused", "Refused with 550; the sending server tells the sender.")
    text = "Put off with 451, because there was no decision; the sending server tries again."
    return TimelineStep(when, "deferred", text)


def _describe_delivery(sent: Delivery, *, shows_hosts: bool) -> TimelineStep:
    hop = f" {sent.next_hop}" if shows_hosts and sent.next_hop else ""
    again = "the sending server tries again" if not sent.released else "it is still held"
    reply = f"{sent.code} {sent.reply}".strip()
    event: TimelineEvent = "delivered" if sent.is_accepted else "deferred" if sent.code < 500 else "refused"
    if sent.is_accepted:
        own = f" Its id there is {sent.queue_id}." if sent.queue_id else ""
        text = f"Accepted by the next hop{hop}: {reply}.{own}"
    elif sent.code == 0:
        text = f"The next hop{hop} gave no reply ({sent.reply}); {again}."
    elif sent.code < 500:
        text = f"Put off by the next hop{hop}: {reply}; {again}."
    else:
        text = f"Refused by the next hop{hop}: {reply}."
    return TimelineStep(
        date_time(sent.time),
        event,
        text,
        node=sent.node if shows_hosts else "",
        next_hop=sent.next_hop if shows_hosts else "",
        code=sent.code or None,
        reply=sent.reply,
        queue_id=sent.queue_id,
    )


def _describe_action(action: AuditRecord) -> TimelineStep:
    by, said = action.actor.label, action.sample[1] if len(action.sample) > 1 else ""
    texts = {
        "message.reported": f"Reported by {by}: it {said}.",
        "quarantine.delete": f"Deleted from the quarantine by {by}.",
        "quarantine.release": f"Released by {by}.",
        "quarantine.releaseFailed": f"{by} wanted to release it; it was not sent: {said}.",
        "quarantine.restore": f"Its deletion was taken back by {by}.",
    }
    if action.action == "lookBack.found":
        what = f"new entries of the list {action.list}" if action.list else "a newly learnt model"
        text = f"A look back found it: {what} would have held it."
    else:
        text = texts[action.action]
    return TimelineStep(date_time(action.time), _ACTIONS[action.action], text, by=by)


def _describe_attempt(attempt: Attempt, record: MessageRecord) -> TimelineStep:
    when = "before" if attempt.created < record.created else "again"
    what = "The same message came" if attempt.is_same else "A message with the same Message-ID came"
    reply = f"; the next hop answered {attempt.code}" if attempt.code else ""
    text = f"{what} {when}: the decision was {attempt.decision}{reply}."
    return TimelineStep(date_time(attempt.created), "attempt", text, ggrid=attempt.ggrid)


def _name_some(recipients: tuple[str, ...]) -> str:
    more = f" and {len(recipients) - MAX_NAMED} more" if len(recipients) > MAX_NAMED else ""
    return ", ".join(recipients[:MAX_NAMED]) + more
