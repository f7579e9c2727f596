"""Reports teach the pool of whoever made them, within bounds; models are kept, taken, rolled back, and locked."""

import msgspec
import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.analysis.report import Line
from gatepost.ids import new_id
from gatepost.mail.sender_history import Facet, facet_key
from gatepost.store import feedback, learning
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.feedback import MailReport, ReportedMessage, TextFeatures
from gatepost.store.learning import MAX_KEPT, ModelLookBack, TaughtMessage
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import now

ANN, TOKEN = Actor("user", "ann"), Actor("token", "soar")
ROW = b"\x01\x00\x02\x00"


def with_row(record: MessageRecord, features: bytes = ROW, **changes: object) -> MessageRecord:
    report = msgspec.structs.replace(record.report, features=features, **changes)
    return msgspec.structs.replace(record, report=report)


async def test_a_report_teaches_the_pool_of_whoever_made_it(store: Store, new_record: NewRecord) -> None:
    tenant = new_id()

    ours = with_row(new_record(tenant=tenant))
    bare = new_record(tenant=tenant)
    for record in (ours, bare):
        await store.messages.record(record)
    noted = await store.feedback.report_wrong(ours.ggrid, "should have been held", ANN, tenant)
    assert noted is not None
    assert noted.taught
    noted = await store.feedback.report_wrong(ours.ggrid, "should have been delivered", TOKEN)
    assert noted is not None
    assert noted.taught
    # A record without a row teaches nothing, unless the report has the message.
    noted = await store.feedback.report_wrong(bare.ggrid, "should have been held", ANN, tenant)
    assert noted is not None
    assert not noted.taught
    evidence = TextFeatures(b"\x03\x00", ())
    noted = await store.feedback.report_wrong(bare.ggrid, "should have been held", ANN, tenant, evidence)
    assert noted is not None
    assert noted.taught
    deployment, mine = await store.learning.pools()
    assert (deployment.tenant, deployment.unwanted, deployment.wanted) == (None, 0, 1)
    assert (mine.tenant, mine.unwanted, mine.wanted, mine.reporters) == (tenant, 2, 0, 1)
    rows = await store.learning.pool_reports(tenant)
    assert [row.features for row in rows] == [ROW, b"\x03\x00"]
    assert "rcpt.example" not in str(rows)
    assert await store.learning.pool_reports(tenant, rows[-1].id) == ()


async def test_the_latest_word_of_a_reporter_counts_and_a_day_has_a_bound(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MAX_PER_DAY", 3)

    records = [with_row(new_record()) for _ in range(5)]
    for record in records:
        await store.messages.record(record)
    for says in ("should have been held", "should have been delivered"):
        noted = await store.feedback.report_wrong(records[0].ggrid, says, ANN)
        assert noted is not None
        assert noted.taught
    (pool,) = await store.learning.pools()
    assert (pool.unwanted, pool.wanted) == (0, 1)
    taught = []
    for record in records[1:]:
        noted = await store.feedback.report_wrong(record.ggrid, "should have been held", ANN)
        taught.append(noted is not None and noted.taught)
    assert taught == [True, True, False, False]
    # Saying something else of a message is no further report.
    noted = await store.feedback.report_wrong(records[1].ggrid, "should have been delivered", ANN)
    assert noted is not None
    assert noted.taught


async def test_a_pool_is_bounded_in_number_and_age(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MAX_POOL", 4)
    messages = [TaughtMessage(f"m{number}", ROW, sender="a@x.example") for number in range(9)]

    assert await store.learning.add_reports(None, CLI, [*messages, TaughtMessage("none", b"")], unwanted=True) == 9
    assert [row.message for row in await store.learning.pool_reports(None)] == ["m5", "m6", "m7", "m8"]
    assert await store.learning.purge_reports(now() + 1_000) == 4
    assert await store.learning.pools() == ()


async def test_what_is_certain_is_not_reported_away(store: Store, new_record: NewRecord) -> None:
    line = Line("file:eicar", "It is malware", "x", {}, 1_000, 1_000, "malware", conclusive=True)

    record = with_row(new_record(), lines=(line,))
    await store.messages.record(record)
    noted = await store.feedback.report_wrong(record.ggrid, "should have been delivered", ANN)
    assert noted is not None
    assert not noted.taught
    noted = await store.feedback.report_wrong(record.ggrid, "should have been held", ANN)
    assert noted is not None
    assert noted.taught


async def test_a_release_teaches_and_makes_the_sender_known(store: Store, new_record: NewRecord) -> None:
    tenant = new_id()

    record = with_row(new_record(tenant=tenant), senders=("Ida@shop.example",))
    await store.quarantine.hold(record)
    await store.quarantine.mark_released(record.ggrid, ("b@rcpt.example",), ANN)
    await store.quarantine.mark_released(record.ggrid, ("b@rcpt.example",), ANN)
    (pool,) = await store.learning.pools()
    assert (pool.tenant, pool.unwanted, pool.wanted) == (tenant, 0, 1)
    key = facet_key(Facet.CLAIMED_ADDRESS, "ida@shop.example")
    other = facet_key(Facet.PROVEN_ADDRESS, "ida@shop.example")
    found = await store.sightings.find(tenant, (key, other))
    assert (found[key].delivered, found[key].held, found[key].days) == (1, 0, 1)
    assert other not in found


async def test_models_are_taken_refused_and_rolled_back(store: Store) -> None:
    assert await store.learning.roll_back(None, CLI) == (None, None)
    first = await store.learning.keep_model(None, b'{"reason":"a"}', b"one", CLI)
    assert await store.learning.current_models() == {"": first}
    refused = await store.learning.keep_model(None, b'{"reason":"b"}', b"", CLI)
    assert await store.learning.current_models() == {"": first}
    second = await store.learning.keep_model(None, b"{}", b"two", CLI)
    await store.look_backs.record_of_model(second, ModelLookBack(7, 10, 1, ("g",)))
    assert await store.learning.current_models() == {"": second}
    assert await store.learning.model_bytes(second) == b"two"
    assert await store.learning.model_bytes(10_000) == b""
    states = {model.version: model.state for model in await store.learning.models(None)}
    assert states == {first: "former", refused: "refused", second: "current"}
    shown = await store.learning.find_model(second)
    assert shown is not None
    assert shown.look_back == ModelLookBack(7, 10, 1, ("g",))
    assert await store.learning.roll_back(None, ANN) == (second, first)
    assert await store.learning.current_models() == {"": first}
    assert await store.learning.roll_back(None, ANN) == (first, None)
    assert await store.learning.current_models() == {}
    actions = [row.action for row in (await store.audit.page(AuditFilter())).rows]
    assert actions[:2] == ["model.rolledBack", "model.rolledBack"]
    for _ in range(MAX_KEPT + 3):
        await store.learning.keep_model(None, b"{}", b"x", CLI)
    assert len(await store.learning.models(None)) == MAX_KEPT


async def test_a_deleted_tenant_leaves_no_pool(store: Store) -> None:
    tenant = await new_tenant(store, "Ours")
    await store.learning.add_reports(tenant.uid, CLI, [TaughtMessage("m", ROW)], unwanted=True)
    await store.learning.keep_model(tenant.uid, b"{}", b"x", CLI)
    assert await store.learning.current_models() == {tenant.uid: 1}
    await store.tenants.delete(tenant.uid, CLI)
    assert await store.learning.pools() == ()
    assert await store.learning.current_models() == {}


async def test_reports_by_mail_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "MAX_BY_REPORTER", 3)
    monkeypatch.setattr(feedback, "MAX_BY_MAIL", 5)

    made = await new_tenant(store, "acme")

    def report(who: str, *names: str, **changes: object) -> MailReport:
        messages = tuple(ReportedMessage(f"{name:0>64}", ROW, tuple(range(16)), "x.example") for name in names)
        plain = MailReport(new_id(), made.uid, Actor("mail", who), True, messages)
        return msgspec.structs.replace(plain, **changes)

    assert await store.feedback.report_mail(report("ann@acme.example", "a", "b")) == 2
    assert await store.feedback.report_mail(report("ann@acme.example", "c", "d")) is None
    assert await store.feedback.report_mail(report("ann@acme.example", "c")) == 1
    assert await store.feedback.report_mail(report("bob@acme.example", "a", "b")) == 2
    assert await store.feedback.report_mail(report("eve@acme.example", "e")) is None
    (pool,) = await store.learning.pools()
    assert (pool.tenant, pool.unwanted, pool.wanted, pool.reporters) == (made.uid, 5, 0, 2)
    assert "acme.example" not in str(await store.learning.pool_reports(made.uid))
    marks = [mark for mark in await store.campaigns.marks(0) if mark.says == "unwanted"]
    assert {mark.tenant for mark in marks} == {made.uid}
    trail = (await store.audit.page(AuditFilter(action="mail.reported"))).rows
    assert [record.actor.label for record in trail][::-1] == [
        "mail:ann@acme.example",
        "mail:ann@acme.example",
        "mail:bob@acme.example",
    ]
    assert trail[-1].sample[1:] == ("should have been held", f"{'a':0>64}", f"{'b':0>64}")


async def test_what_is_certain_is_not_taught_as_wanted(store: Store) -> None:
    message = ReportedMessage("ab" * 32, ROW)
    report = MailReport(new_id(), None, Actor("mail", "a@x.example"), False, (message,), is_certain=True)
    assert await store.feedback.report_mail(report) == 0
    assert await store.learning.pools() == ()
