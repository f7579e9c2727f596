"""The trail says who changed what, only ever grows, and is read in pages."""

import asyncio
from pathlib import Path

import apsw
import asyncpg
import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import Use

from gatepost.lists.catalogue import BY_NAME
from gatepost.store import paging
from gatepost.store.audit import CLI, Actor, AuditFilter, AuditRecord
from gatepost.store.lists import NewEntry
from gatepost.store.store import Store

ANN = Actor("key", "ann", "0198a000-0000-7000-8000-000000000001")
BOB = Actor("user", "bob", "2")
URLS, IPS = BY_NAME["blocked-urls"], BY_NAME["blocked-ips"]


async def test_who_what_where_how_many(store: Store) -> None:
    tenant = await new_tenant(store, "t", Actor("user", "bob"))
    await store.lists.add(tenant.uid, URLS, [NewEntry(f"{n}", f"{n}") for n in range(9)], ANN)
    await store.lists.remove(tenant.uid, URLS.name, ["3", "4", "x"], ANN)
    deleted, added, created = (await store.audit.page(AuditFilter())).rows
    assert deleted.id > added.id > created.id
    assert (added.actor, added.action, added.scope, added.list, added.count) == (
        *(ANN, "entries.add", tenant.uid),
        *("blocked-urls", 9),
    )
    assert len(added.sample) == 5
    assert (deleted.count, deleted.sample) == (2, ("3", "4"))
    assert (created.actor, created.action, created.sample) == (Actor("user", "bob"), "tenant.create", ("t",))


async def test_pages_and_times(store: Store) -> None:
    one, two = await new_tenant(store, "one"), await new_tenant(store, "two")
    for number in range(7):
        scope = (None, one.uid, two.uid)[number % 3]
        await store.lists.add(scope, URLS, [NewEntry(str(number), str(number))], ANN)
        await asyncio.sleep(0.002)
    everything = (await store.audit.page(AuditFilter())).rows
    assert [record.sample for record in everything[:3]] == [("6",), ("5",), ("4",)]
    pages: list[AuditRecord] = []
    page = await store.audit.page(AuditFilter(), limit=4)
    pages += page.rows
    while page.next:
        page = await store.audit.page(AuditFilter(), page.next, limit=4)
        assert len(page.rows) <= 4
        pages += page.rows
    assert tuple(pages) == everything
    assert [record.sample[0] for record in (await store.audit.page(AuditFilter(scope=one.uid))).rows] == [
        "4",
        "1",
        "one",
    ]
    middle = everything[3].time
    assert (await store.audit.page(AuditFilter(since=middle))).rows == everything[:4]
    assert (await store.audit.page(AuditFilter(until=middle))).rows == everything[4:]
    assert (await store.audit.page(AuditFilter(since=middle, until=middle + 1))).rows == everything[3:4]
    assert len((await store.audit.page(AuditFilter(), limit=0)).rows) == 1


def test_it_only_grows(use: Use, storage_url: str, tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        await store.tenants.create("t")

    async def on_postgres(statement: str) -> None:
        connection = await asyncpg.connect(storage_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def tamper(statement: str) -> None:
        if storage_url.startswith("sqlite:"):
            apsw.Connection(str(tmp_path / "g.db")).execute(statement)
        else:
            asyncio.run(on_postgres(statement))

    use(scenario)
    for statement in ("DELETE FROM audit", "UPDATE audit SET actor_name = 'x'"):
        with pytest.raises((apsw.ConstraintError, asyncpg.RaiseError), match="only grows"):
            tamper(statement)


async def samples_of(store: Store, wanted: AuditFilter, limit: int = 2) -> list[str]:
    samples: list[str] = []
    before = None
    for _ in range(100):
        page = await store.audit.page(wanted, before, limit)
        samples += [record.sample[0] for record in page.rows]
        before = page.next
        if before is None:
            return samples
    raise AssertionError("it does not end")


@pytest.mark.parametrize("budget", [3, 50_000])
async def test_filters(store: Store, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    monkeypatch.setattr(paging, "ROW_BUDGET", budget)

    tenant = await new_tenant(store)
    for n, (scope, what, by) in enumerate(
        [(None, URLS, ANN), (tenant.uid, URLS, BOB), (None, IPS, BOB), (tenant.uid, IPS, ANN), (None, URLS, ANN)]
    ):
        await store.lists.add(scope, what, [NewEntry(str(n), str(n))], by)
    await store.lists.remove(None, URLS.name, ["4"], BOB)
    times = [record.time for record in (await store.audit.page(AuditFilter())).rows]
    for wanted, expected in [
        (AuditFilter(), ["4", "4", "3", "2", "1", "0", "t"]),
        (AuditFilter(actor="ann"), ["4", "3", "0"]),
        (AuditFilter(actor="key:ann"), ["4", "3", "0"]),
        (AuditFilter(actor="user:ann"), []),
        (AuditFilter(actor="2"), ["4", "2", "1"]),
        (AuditFilter(actor="cli"), ["t"]),
        (AuditFilter(action="entries.add"), ["4", "3", "2", "1", "0"]),
        (AuditFilter(action="entries."), ["4", "4", "3", "2", "1", "0"]),
        (AuditFilter(action="entries"), []),
        (AuditFilter(list="blocked-ips"), ["3", "2"]),
        (AuditFilter(scope=tenant.uid.upper()), ["3", "1", "t"]),
        (AuditFilter(scope=""), ["4", "4", "2", "0"]),
        (AuditFilter(scope=tenant.uid, actor="bob"), ["1"]),
        (AuditFilter(since=times[0] + 1), []),
        (AuditFilter(until=times[-1]), []),
        (AuditFilter(since=times[-1], until=times[0] + 1, action="tenant.create"), ["t"]),
    ]:
        assert await samples_of(store, wanted) == expected, wanted


async def test_an_observer_is_told_of_what_is_durable(store: Store) -> None:
    """After the commit, in order, and not of a call that ended without a change."""
    told: list[AuditRecord] = []
    await store.api_keys.create("before", None, False, None)
    store.observe_changes(told.append)
    created = await store.api_keys.create("after", None, False, None)
    assert isinstance(created, tuple)
    assert [record.action for record in told] == ["apikey.create"]
    await store.api_keys.revoke(created[1].id)
    # The second time nothing changes, and an unknown key is an error.
    await store.api_keys.revoke(created[1].id)
    await store.api_keys.revoke(ANN.id)
    await store.users.create("ann", "administrator", None, "hash", CLI)
    await store.users.create("ann", "administrator", None, "hash", CLI)
    assert [record.action for record in told] == ["apikey.create", "apikey.revoke", "user.create"]
    assert (told[0].sample, told[0].actor) == ((f"after {created[1].id}",), CLI)
    page = await store.audit.page(AuditFilter())
    assert [record.action for record in page.rows][::-1][1:] == [record.action for record in told]
