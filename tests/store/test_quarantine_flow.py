"""What came into the quarantine and left it, on both engines."""

import pytest
from tests.store.conftest import NewRecord

from gatepost.ids import id_time, new_id
from gatepost.store import quarantine
from gatepost.store.audit import CLI, Actor
from gatepost.store.quarantine import QuarantineFlow
from gatepost.store.store import Store

MINE, THEIRS = new_id(), new_id()
HOUR = 3_600_000
ANN = Actor("user", "ann")
REST = "b@rcpt.example", "ü@rcpt.example"


async def test_every_message_counts_once_in_its_period(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = id_time(new_id())
    old = new_id((now - 2 * HOUR) * 1_000_000)

    ids = [new_id() for _ in range(8)]
    for uid in (*ids, old):
        await store.quarantine.hold(new_record(uid, tenant=MINE))
    await store.quarantine.hold(new_record(tenant=THEIRS))
    _, released, shared, deleted, gone, restored, reported, rightly = ids
    await store.quarantine.mark_released(released, REST, ANN)
    for recipient in REST:
        await store.quarantine.mark_released_to(shared, recipient, Actor("recipient", recipient), new_id())
    await store.feedback.report_wrong(released, "should have been delivered", ANN)
    await store.quarantine.delete(deleted, ANN, for_good=False)
    await store.quarantine.delete(gone, ANN)
    await store.quarantine.delete(restored, ANN, for_good=False)
    await store.quarantine.restore(restored, ANN)
    await store.feedback.report_wrong(reported, "should have been delivered", ANN)
    await store.feedback.report_wrong(rightly, "should have been held", ANN)
    # It came before the period: what was done with it counts, and it is none that came in.
    await store.quarantine.delete(old, CLI)
    until = now + HOUR
    flow = await store.quarantine.flow(MINE, now - HOUR, until)
    assert flow == QuarantineFlow(8, 4, 2, 1, 3, 3)
    everything = await store.quarantine.flow(None, now - HOUR, until)
    assert everything == QuarantineFlow(9, 5, 2, 1, 3, 3)
    assert await store.quarantine.flow(THEIRS, now - HOUR, until) == QuarantineFlow(1, 1)
    assert await store.quarantine.flow(MINE, now - 3 * HOUR, now - HOUR) == QuarantineFlow()
    assert await store.quarantine.flow(new_id(), 0, until) == QuarantineFlow()
    monkeypatch.setattr(quarantine, "EXAMINED_ACTIONS", 2)
    assert (await store.quarantine.flow(MINE, now - HOUR, until)).more
    monkeypatch.undo()
    monkeypatch.setattr(quarantine, "MAX_COUNTED", 3)
    assert (await store.quarantine.flow(None, now - HOUR, until)).more
