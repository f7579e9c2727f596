"""Entries of the List API wait for a look back with the change that adds them, together, and are limited."""

from typing import Any

import pytest
from tests.store.accounts import new_tenant

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME, ListDefinition, make_custom_list
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.policy.layers import unchanged_policies
from gatepost.rejudge.try_change import run_waiting
from gatepost.store import look_backs
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LOOK_BACK
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import now

URLS, SENDERS = BY_NAME["blocked-urls"], BY_NAME["blocked-senders"]
KEY = Actor("key", "playbook", "1")


async def add(store: Store, *keys: str, scope: str | None = None, definition: ListDefinition = URLS) -> None:
    entries = [NewEntry(key, key) for key in keys]
    assert await store.lists.add(scope, definition, entries, KEY, look_back=True) == len(keys)


async def deliver(store: Store, link: str, tenant: str | None = None) -> str:
    report = Report("clean", "deliver", (), 0, "", subjects=(Subject("link", link, "html"),))
    envelope = Envelope("a@x.example", ("bob@rcpt.example",), tenant=tenant)
    record = MessageRecord(new_id(), now(), now(), envelope, 1, "00" * 32, report)
    await store.messages.record(record)
    return record.ggrid


async def test_calls_on_a_list_are_looked_back_for_together(store: Store) -> None:
    await add(store, "a.example", "b.example")
    await add(store, "x@y.example", definition=SENDERS)
    await add(store, "b.example", "c.example")
    assert await store.look_backs.waiting() == 3
    first = await store.look_backs.first()
    assert first is not None
    assert (first.list_name, first.keys, first.actor) == (
        "blocked-urls",
        ("a.example", "b.example", "c.example"),
        "key:playbook",
    )
    # What comes while one looks back waits for the next.
    await add(store, "d.example")
    await store.look_backs.finish(first)
    left = []
    while waiting := await store.look_backs.first():
        left.append((waiting.list_name, waiting.keys))
        await store.look_backs.finish(waiting)
    assert left == [("blocked-senders", ("x@y.example",)), ("blocked-urls", ("d.example",))]
    assert await store.look_backs.waiting() == 0


async def test_one_process_looks_back_at_a_time(store: Store) -> None:
    await add(store, "a.example")
    job = await store.jobs.hold(LOOK_BACK, None, "dead", now() + 60_000)
    assert job
    assert [each async for each in run_waiting(store, unchanged_policies(), 7)] == []
    assert await store.look_backs.waiting() == 1
    # The lease of a process that was killed runs out.
    assert await store.jobs.renew(job, now() - 1)
    assert len([each async for each in run_waiting(store, unchanged_policies(), 7)]) == 1
    assert await store.look_backs.waiting() == 0


async def test_what_waits_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_backs, "MAX_WAITING", 3)
    monkeypatch.setattr(look_backs, "MAX_WAITING_IN_SCOPE", 4)

    for number in range(5):
        await add(store, f"{number}.example")
        await add(store, f"{number}@y.example", definition=SENDERS)
    assert await store.look_backs.waiting() == 4


async def test_nothing_waits_without_being_asked_for_or_for_a_list_that_is_gone(store: Store) -> None:
    await store.lists.add(None, URLS, [NewEntry("a.example", "a.example")], KEY)
    assert await store.look_backs.waiting() == 0
    own = make_custom_list("own", "url", "block", "", "", 10)
    await store.lists.create(None, own, CLI)
    await add(store, "a.example", definition=own)
    await store.lists.delete(None, "own", CLI)
    assert await store.look_backs.first() is None
    await store.lists.purge_expired(now())
    assert await store.look_backs.waiting() == 0


async def test_the_look_back_is_kept_and_told_as_any_other(store: Store) -> None:
    made = await new_tenant(store, "Acme")
    tenant = made.uid
    caught = await deliver(store, "https://a.example/x", tenant)
    await deliver(store, "https://a.example/y")  # of nobody
    await add(store, "a.example", scope=tenant)
    await add(store, "fine.example")
    found = {waiting.scope: seen.found async for waiting, seen in run_waiting(store, unchanged_policies(), 7)}
    assert found == {tenant: 1, None: 0}
    (kept,) = await store.look_backs.of_list(tenant, "blocked-urls")
    assert (kept.actor, kept.hits) == ("key:playbook", ((caught, "a.example"),))
    (told,) = (await store.audit.page(AuditFilter(action="lookBack.found"))).rows
    assert (told.scope, told.count) == (tenant, 1)
    assert await store.look_backs.waiting() == 0
    assert [each async for each in run_waiting(store, unchanged_policies(), 7)] == []


async def test_a_run_that_breaks_off_forgets_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await add(store, "a.example")

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr("gatepost.rejudge.try_change.look_back", broken)
    with pytest.raises(RuntimeError):
        [each async for each in run_waiting(store, unchanged_policies(), 7)]
    assert await store.look_backs.waiting() == 1
    assert not (await store.jobs.find(LOOK_BACK)).holder
