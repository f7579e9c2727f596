"""Deliveries on both engines: found by the id of the next hop, told in the timeline, gone with their message."""

import msgspec
from tests.store.conftest import NewRecord

from gatepost.abby.messages import describe_timeline
from gatepost.ids import new_id
from gatepost.mail.message import Envelope, Receipt
from gatepost.store.audit import CLI, Actor
from gatepost.store.evidence import Evidence
from gatepost.store.message_records import MAX_REPLY, Delivery, MessageRecord
from gatepost.store.privacy import Person
from gatepost.store.removed_mail import RemovedCopy, digest_mailbox
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store

HOP = "smtp://127.0.0.1:10026"
TENANT, OTHER = new_id(), new_id()


def mail(base: MessageRecord, completed: int, queue_id: str = "", *, decision: str = "deliver") -> MessageRecord:
    report = msgspec.structs.replace(base.report, decision=decision, verdict="clean", message_id="<1@x.example>")
    envelope = Envelope("ann@x.example", ("bob@y.example", "eve@y.example"), "192.0.2.1", "mx", TENANT)
    return msgspec.structs.replace(
        base,
        ggrid=new_id(),
        created=completed - 1_500,
        completed=completed,
        envelope=envelope,
        report=report,
        source="smtp",
        receipt=Receipt("mx1", "192.0.2.9", queue_id, 1_200),
    )


def accepted(record: MessageRecord, queue_id: str, reply: str = "2.0.0 Ok") -> Delivery:
    return Delivery(record.ggrid, record.completed + 10, HOP, 250, reply, queue_id)


async def find(store: Store, **wanted: object) -> list[str]:
    page = await store.messages.search(MessageFilter(**wanted))  # type: ignore[arg-type]
    return [row.ggrid for row in page.rows]


async def test_a_message_is_found_by_the_ids_of_both_queues(store: Store, new_record: NewRecord) -> None:
    first, second = mail(new_record(), 10_000, "4BoRdEr"), mail(new_record(), 20_000, "4Other")
    for each in (first, second):
        await store.messages.record(each)
    sent = [accepted(first, "4NeXt"), accepted(second, "4Second"), accepted(new_record(), "4Nobody")]
    await store.messages.record_deliveries(sent)
    await store.messages.record_deliveries(sent)  # doing it again changes nothing

    assert await find(store, next_hop_id="4NeXt") == [first.ggrid]
    assert await find(store, next_hop_id=" 4Second ") == [second.ggrid]
    assert await find(store, next_hop_id="4next") == await find(store, next_hop_id="4Nobody") == []
    assert await find(store, next_hop_id="4NeXt", sender="ann@x.example", tenant=TENANT) == [first.ggrid]
    assert await find(store, next_hop_id="4NeXt", tenant=OTHER) == []
    assert await find(store, next_hop_id="4NeXt", since=15_000) == []
    assert await find(store, evidence=Evidence(queue_id="4BoRdEr")) == [first.ggrid]
    assert await find(store, evidence=Evidence(queue_id="4border")) == []
    for known in ("4NeXt", "4BoRdEr", " 4NeXt"):
        assert await find(store, anywhere=known) == [first.ggrid], known
    assert await find(store, anywhere="4NeXt", tenant=OTHER) == []
    assert await find(store, anywhere="4NeXt", next_hop_id="4Second") == []
    assert (await store.messages.count(MessageFilter(anywhere="4NeXt"))).messages == 1


async def test_a_held_message_is_found_by_its_queue_id(store: Store, new_record: NewRecord) -> None:
    from gatepost.store.held_search import HeldFilter

    held = mail(new_record(), 10_000, "4Held", decision="quarantine")
    await store.messages.record(held)
    await store.quarantine.hold(held)
    page = await store.quarantine.search(HeldFilter(evidence=Evidence(queue_id="4Held")))
    assert [each.record.receipt for each in page.rows] == [held.receipt]
    assert (await store.quarantine.search(HeldFilter(anywhere="4Held"))).rows == page.rows
    assert not (await store.quarantine.search(HeldFilter(evidence=Evidence(queue_id="4Other")))).rows


async def test_deliveries_go_with_their_message(store: Store, new_record: NewRecord) -> None:
    record = mail(new_record(), 10_000)
    await store.messages.record(record)
    await store.messages.record_deliveries([accepted(record, "4NeXt", "x" * 1_000)])
    found = await store.messages.timeline(record.ggrid)
    assert found is not None
    assert len(found.deliveries[0].reply) == MAX_REPLY
    assert await store.messages.purge(20_000) == 1
    again = msgspec.structs.replace(record, ggrid=record.ggrid)
    await store.messages.record(again)
    found = await store.messages.timeline(record.ggrid)
    assert found is not None
    assert found.deliveries == ()


async def test_an_erasure_takes_the_replies(store: Store, new_record: NewRecord) -> None:
    record = mail(new_record(), 10_000, "4BoRdEr")
    await store.messages.record(record)
    await store.messages.record_deliveries([accepted(record, "4NeXt", "2.1.5 <bob@y.example> is fine")])
    person = Person("bob@y.example")
    found, *_ = await store.privacy.messages_about(person)
    keys = [(each.completed, uid) for uid, each in found]
    assert await store.privacy.delete_messages(keys) == 1
    assert await store.messages.timeline(record.ggrid) is None
    assert (await store.privacy.messages_about(person))[0] == ()
    assert await find(store, next_hop_id="4NeXt") == []
    await store.messages.record(record)
    timeline = await store.messages.timeline(record.ggrid)
    assert timeline is not None
    assert timeline.deliveries == ()


async def test_the_timeline_of_a_message_over_attempts_and_hands(store: Store, new_record: NewRecord) -> None:
    first, second = mail(new_record(), 10_000, "4Same"), mail(new_record(), 400_000, "4Same")
    stranger = msgspec.structs.replace(
        second, ggrid=new_id(), report=msgspec.structs.replace(second.report, message_id="<2@x.example>")
    )
    for each in (first, second, stranger):
        await store.messages.record(each)
    later = Delivery(first.ggrid, 10_020, HOP, 451, "4.2.0 Try later")
    await store.messages.record_deliveries([later, accepted(second, "4NeXt", "2.0.0 Ok: queued as 4NeXt")])
    await store.feedback.report_wrong(second.ggrid, "should have been held", CLI)

    found = await store.messages.timeline(second.ggrid.upper(), TENANT)
    assert found is not None
    assert not found.is_cut
    steps = describe_timeline(found).steps
    assert [(step.event, step.text) for step in steps] == [
        ("attempt", "The same message came before: the decision was deliver; the next hop answered 451."),
        (
            "received",
            "Received over SMTP by the node mx1 from 192.0.2.9 (sending host 192.0.2.1) with the queue id 4Same.",
        ),
        ("throttled", "Waited 1,200 ms because the node was busy."),
        ("analysed", "Analysed in 300 ms: the verdict is clean, the decision deliver."),
        (
            "delivered",
            f"Accepted by the next hop {HOP}: 250 2.0.0 Ok: queued as 4NeXt. Its id there is 4NeXt.",
        ),
        ("reported", "Reported by cli: it should have been held."),
    ]
    assert (steps[0].ggrid, steps[1].node, steps[4].queue_id, steps[4].code) == (first.ggrid, "mx1", "4NeXt", 250)
    for tenants in describe_timeline(found, shows_hosts=False).steps:
        assert HOP not in tenants.text + tenants.next_hop
        assert "mx1" not in tenants.text + tenants.node
    before = await store.messages.timeline(first.ggrid)
    assert before is not None
    texts = [step.text for step in describe_timeline(before).steps]
    assert f"Put off by the next hop {HOP}: 451 4.2.0 Try later; the sending server tries again." in texts
    assert "The same message came again: the decision was deliver; the next hop answered 250." in texts
    assert await store.messages.timeline(second.ggrid, OTHER) is None
    assert await store.messages.timeline("nonsense") is None


async def test_the_timeline_of_held_mail(store: Store, new_record: NewRecord) -> None:
    held = mail(new_record(), 10_000, decision="quarantine")
    await store.messages.record(held)
    await store.quarantine.hold(held)
    user = Actor("user", "amy")
    await store.audit.note_failed_release(held.ggrid, TENANT, user, "the next hop did not answer")
    sent = msgspec.structs.replace(accepted(held, "4Rel"), node="mx2", released=True)
    await store.quarantine.mark_released(held.ggrid, ("bob@y.example",), user, "r", [sent])
    found = await store.messages.timeline(held.ggrid)
    assert found is not None
    texts = {step.event: step.text for step in describe_timeline(found).steps}
    assert texts["held"] == "Held in the quarantine."
    assert texts["releaseFailed"] == "user:amy wanted to release it; it was not sent: the next hop did not answer."
    assert texts["released"] == "Released by user:amy to bob@y.example."
    assert texts["delivered"].startswith(f"Accepted by the next hop {HOP}: 250 2.0.0 Ok.")
    assert [step.node for step in describe_timeline(found).steps if step.event == "delivered"] == ["mx2"]
    assert len([step for step in describe_timeline(found).steps if step.event == "released"]) == 1


async def test_the_timeline_has_what_was_taken_out_of_mailboxes(store: Store, new_record: NewRecord) -> None:
    record = msgspec.structs.replace(mail(new_record(), 10_000), source="milter")
    await store.messages.record(record)
    moved = RemovedCopy(record.ggrid, digest_mailbox("bob@y.example"), "1", TENANT, "moved", "INBOX")
    absent = RemovedCopy(
        record.ggrid, digest_mailbox("other@y.example"), "", TENANT, "absent", reason="no copy was found"
    )
    await store.removed_mail.record([moved, absent], Actor("user", "amy"))
    found = await store.messages.timeline(record.ggrid, TENANT)
    assert found is not None
    steps = {step.event: step for step in describe_timeline(found).steps}
    assert steps["removed"].text == "Taken out of the mailbox of bob@y.example by amy."
    assert steps["removeFailed"].text == "Not taken out of a mailbox by amy (no copy was found)."
    assert "returned to the mail server that asked" in steps["answered"].text, "with milter, that server has it"
    back = msgspec.structs.replace(moved, state="restored")
    await store.removed_mail.record([back], Actor("user", "bea"))
    found = await store.messages.timeline(record.ggrid)
    assert found is not None
    texts = [step.text for step in describe_timeline(found).steps if step.event == "putBack"]
    assert texts == ["Put back into the mailbox of bob@y.example by bea."]


async def test_without_a_delivery_on_record_nothing_is_claimed(store: Store, new_record: NewRecord) -> None:
    """What a kill took with it is missing, never wrong."""
    record = mail(new_record(), 10_000)
    await store.messages.record(record)
    found = await store.messages.timeline(record.ggrid)
    assert found is not None
    last = describe_timeline(found).steps[-1]
    assert (last.event, last.text) == ("unknown", "What the next hop answered is not on record.")
