"""Costly calls: each caller, each tenant and all together have so many at once, and what has ended is forgotten."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores
from gatepost.api.call_limits import LIMITS, CallingParty, CallKind, CallLimit, CallLimits, RunningCall
from gatepost.api.errors import OVERLOADED, RATE_LIMITED, Failure
from gatepost.rejudge import list_plan, try_change
from gatepost.scanning.spool import Spool
from gatepost.store import open_store
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant

ONE, OTHER, BETA = CallingParty("key:1", "alpha"), CallingParty("key:2", "alpha"), CallingParty("key:3", "beta")


def begin(limits: CallLimits, party: CallingParty, kind: CallKind = "stream") -> RunningCall:
    call = limits.begin(kind, party)
    assert isinstance(call, RunningCall)
    return call


def code(outcome: RunningCall | Failure) -> object:
    return outcome.error if isinstance(outcome, Failure) else None


def test_one_tenant_leaves_room_for_the_others() -> None:
    limits = CallLimits({"stream": CallLimit(in_all=4, per_tenant=3, per_caller=2), "search": CallLimit(1, 1, 1)})
    first, second = begin(limits, ONE), begin(limits, ONE)
    assert code(limits.begin("stream", ONE)) is RATE_LIMITED
    third = begin(limits, OTHER)
    assert code(limits.begin("stream", OTHER)) is RATE_LIMITED, "the tenant has as many as it may have"
    beta = begin(limits, BETA)
    assert code(limits.begin("stream", BETA)) is OVERLOADED
    begin(limits, ONE, "search").end()
    first.end()
    first.end()
    assert limits.running("stream") == 3, "ended once"
    with begin(limits, ONE):
        assert limits.running("stream") == 4
    for call in (second, third, beta):
        call.end()
    assert not limits._running, "nothing is kept of callers that have ended"


def test_the_deployment_has_no_limit_of_a_tenant() -> None:
    limits = CallLimits({"stream": CallLimit(in_all=9, per_tenant=1, per_caller=2)})
    for number in range(4):
        begin(limits, CallingParty(f"key:{number}"))
    assert limits.running("stream") == 4


def test_every_kind_leaves_a_share_to_others() -> None:
    for limit in LIMITS.values():
        assert limit.per_caller <= limit.per_tenant <= limit.in_all // 2


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


async def test_dry_runs_of_one_key_do_not_fill_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real API: two dry runs of a key wait for their turn, the third is told to come back."""

    async def key_of(store: Store, name: str) -> tuple[str, str]:
        tenant = await store.tenants.create(name)
        assert isinstance(tenant, Tenant)
        made: Any = await store.api_keys.create(name, tenant.uid, False, None)
        return tenant.uid, made[0]

    store = open_store("sqlite:g.db", tmp_path)
    (alpha, alpha_key), (beta, beta_key) = await key_of(store, "alpha"), await key_of(store, "beta")
    may_run, running = asyncio.Event(), 0
    real = try_change.try_change

    async def slow(*args: Any, **named: Any) -> try_change.Trial:
        nonlocal running
        running += 1
        await may_run.wait()
        return await real(*args, **named)

    monkeypatch.setattr(list_plan, "try_change", slow)
    services = create_services(store=store, cores=Cores([]), spool=Spool(tmp_path / "spool"))
    transport = httpx.ASGITransport(create_app(services, tokens=()))
    async with httpx.AsyncClient(transport=transport, base_url="http://abby") as client:

        def ask(tenant: str, key: str) -> asyncio.Task[httpx.Response]:
            entries = [{"entry": "x.example"}]
            body = {"listName": "blocked-senders", "tenantUid": tenant, "entries": entries, "dryRun": True}
            path = "/api/public/lists/v1/addEntries"
            headers = {"authorization": f"apikey {key}"}
            return asyncio.create_task(client.post(path, json=body, headers=headers))

        waiting = [ask(alpha, alpha_key), ask(alpha, alpha_key)]
        await until(lambda: services.limits.running("dry run") == 2 and running == 1)
        refused = await ask(alpha, alpha_key)
        assert (refused.status_code, refused.json()["error"]) == (429, "rate_limited")
        assert refused.headers["retry-after"] == "5"
        waiting.append(ask(beta, beta_key))
        await until(lambda: services.limits.running("dry run") == 3)
        may_run.set()
        assert [answer.status_code for answer in await asyncio.gather(*waiting)] == [200, 200, 200]
        assert services.limits.running("dry run") == 0
        assert (await ask(alpha, alpha_key)).status_code == 200
    await store.close()
