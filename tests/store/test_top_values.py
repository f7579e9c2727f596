"""What is most frequent, on both engines: bounded, without trials, and of one tenant."""

import msgspec
import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.lists.rulings import Subject
from gatepost.store import traffic
from gatepost.store.store import Store


async def test_the_most_frequent(store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await new_tenant(store)
    links = (Subject("link", "http://evil.example/x", "1"), Subject("link", "http://evil.example/y", "1"))
    plain = new_record(completed=2_000, tenant=tenant.uid)
    bad = msgspec.structs.replace(
        new_record(completed=2_500), report=msgspec.structs.replace(plain.report, subjects=links)
    )
    clean = msgspec.structs.replace(
        new_record(completed=2_600), report=msgspec.structs.replace(bad.report, verdict="clean", tags=())
    )
    trial = msgspec.structs.replace(new_record(completed=2_700), source="page")
    old = new_record(completed=1_000)
    for record in (plain, bad, clean, trial, old):
        await store.messages.record(record)
    found = await store.traffic.top_values(None, 1_500, 3_000)
    assert (found.counted, found.more) == (3, False), "neither the old one nor the trial"
    assert found.senders == (("a@sender.example", 3),)
    assert found.domains == (("sender.example", 3),)
    assert dict(found.targets) == {"b@rcpt.example": 2, "ü@rcpt.example": 2}, "nobody is attacked by clean mail"
    assert dict(found.findings) == {"text:lure": 2, "url:homograph": 2}
    assert found.tenants == ((tenant.uid, 1),)
    assert found.hosts == (("evil.example", 2),), "as many as a search for the host finds, clean ones too"
    assert found.reached == 2_000
    assert found.campaigns == ((bad.ggrid, "hello", 2),), "the newest of two that are alike, and no clean one"
    assert (await store.traffic.top_values(tenant.uid, 0, 3_000)).counted == 1
    monkeypatch.setattr(traffic, "COUNTED", 2)
    assert (await store.traffic.top_values(None, 0, 3_000)).more


async def test_link_hosts_follow_the_period(
    store: Store, new_record: NewRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only some records are read for links; what is counted is the whole period."""
    monkeypatch.setattr(traffic, "READ_FOR_LINKS", 4)

    for number in range(40):
        host = "new.example" if number >= 30 else "old.example"
        made = new_record(completed=1_000 + number)
        report = msgspec.structs.replace(made.report, subjects=(Subject("link", f"https://{host}/{number}", "1"),))
        await store.messages.record(msgspec.structs.replace(made, report=report))
    month = await store.traffic.top_values(None, 0, 3_000)
    assert month.hosts == (("old.example", 30), ("new.example", 10))
    day = await store.traffic.top_values(None, 1_030, 3_000)
    assert day.hosts == (("new.example", 10),)
