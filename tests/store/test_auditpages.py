"""Pages of the audit trail, on both engines."""

from collections.abc import Awaitable, Callable

import pytest

from gatepost.lists.catalogue import BY_NAME
from gatepost.store import scanning
from gatepost.store.interface import CLI, Actor, CountingStore, NewEntry, Tenant
from gatepost.store.searchstore import AuditFilter

Use = Callable[[Callable[[CountingStore], Awaitable[None]]], None]
ANN, BOB = Actor("key", "ann", "1"), Actor("user", "bob", "2")
URLS, IPS = BY_NAME["blocked-urls"], BY_NAME["blocked-ips"]


async def found(store: CountingStore, wanted: AuditFilter, limit: int = 2) -> list[str]:
    samples: list[str] = []
    before = None
    for _ in range(100):
        page = await store.audit_page(wanted, before, limit)
        samples += [record.sample[0] for record in page.rows]
        before = page.next
        if before is None:
            return samples
    raise AssertionError("it does not end")


@pytest.mark.parametrize("budget", [3, 50_000])
def test_filters(use: Use, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    monkeypatch.setattr(scanning, "BUDGET", budget)

    async def scenario(store: CountingStore) -> None:
        tenant = await store.create_tenant("t", CLI)
        assert isinstance(tenant, Tenant)
        for n, (scope, what, by) in enumerate(
            [(None, URLS, ANN), (tenant.uid, URLS, BOB), (None, IPS, BOB), (tenant.uid, IPS, ANN), (None, URLS, ANN)]
        ):
            await store.add_entries(scope, what, [NewEntry(str(n), str(n))], by)
        await store.delete_entries(None, URLS.name, ["4"], BOB)
        times = [record.time for record in await store.audit()]
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
            assert await found(store, wanted) == expected, wanted

    use(scenario)
