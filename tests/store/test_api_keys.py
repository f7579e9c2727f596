"""Keys: shown once, kept as a hash, refused for a reason that only the log learns."""

import re
import time
from pathlib import Path

import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import Use

from gatepost.ids import new_id
from gatepost.store import api_keys
from gatepost.store.api_keys import ApiKey, KeyRefused
from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.errors import NotFound, TenantFull
from gatepost.store.store import Store

ANN = Actor("user", "ann")


async def new_key(
    store: Store, name: str, tenant: str | None = None, read_only: bool = False, expires: int | None = None
) -> tuple[str, ApiKey]:
    created = await store.api_keys.create(name, tenant, read_only, expires, ANN)
    assert not isinstance(created, NotFound | TenantFull)
    return created


async def test_a_tenant_has_so_many_keys(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "MAX_OF_TENANT", 2)
    monkeypatch.setattr(api_keys, "MAX_REVOKED", 3)

    tenant = await new_tenant(store)
    first, _ = [(await new_key(store, "k", tenant.uid))[1] for _ in range(2)]
    full = await store.api_keys.create("one more", tenant.uid, False, None, ANN)
    assert isinstance(full, TenantFull)
    assert "2 API keys" in full.explanation
    assert len([await new_key(store, "of the deployment") for _ in range(3)]) == 3
    await store.api_keys.revoke(first.id, ANN)
    for _ in range(6):
        _, key = await new_key(store, "for a moment", tenant.uid)
        await store.api_keys.revoke(key.id, ANN)
    assert len(await store.api_keys.all(tenant.uid)) <= 6, "the oldest of those that were revoked are gone"


async def test_a_key_opens_until_it_is_revoked(store: Store) -> None:
    tenant = await new_tenant(store)
    secret, key = await new_key(store, "playbook", tenant.uid, True)
    other, _ = await new_key(store, "playbook")
    assert re.fullmatch(r"gp_[A-Za-z0-9_-]{43}", secret)
    assert secret != other
    assert (key.name, key.tenant, key.read_only, key.expires, key.revoked) == (
        *("playbook", tenant.uid, True),
        *(None, None),
    )
    assert await store.api_keys.authenticate(secret) == key
    assert await store.api_keys.revoke(new_id(), ANN) == NotFound("key")
    revoked = await store.api_keys.revoke(key.id.upper(), ANN)
    assert isinstance(revoked, ApiKey)
    assert revoked.revoked is not None
    again = await store.api_keys.revoke(key.id, ANN)
    assert isinstance(again, ApiKey)
    assert again.revoked == revoked.revoked, "once"
    refused = await store.api_keys.authenticate(secret)
    assert isinstance(refused, KeyRefused)
    assert (refused.reason, refused.key and refused.key.id) == ("revoked", key.id)
    assert isinstance(await store.api_keys.authenticate(other), ApiKey)
    assert [record.action for record in (await store.audit.page(AuditFilter(), limit=3)).rows] == [
        *("apikey.revoke", "apikey.create", "apikey.create"),
    ]


async def test_what_opens_nothing(store: Store) -> None:
    secret, _ = await new_key(store, "k")
    for wrong in ("", "gp_", secret[:-1], secret + "A", secret.swapcase(), "\0", "\ud800", "ä"):
        assert await store.api_keys.authenticate(wrong) == KeyRefused("unknown")
    expired, key = await new_key(store, "old", expires=time.time_ns() // 1_000_000 - 1)
    assert await store.api_keys.authenticate(expired) == KeyRefused("expired", key)
    assert await store.api_keys.create("k", new_id(), False, None) == NotFound("tenant")


def test_keys_are_listed_without_their_secrets(use: Use, tmp_path: Path) -> None:
    secrets = []

    async def scenario(store: Store) -> None:
        tenant = await new_tenant(store)
        for name, scope in (("a", None), ("b", tenant.uid)):
            secrets.append((await new_key(store, name, scope))[0])
        assert [key.name for key in await store.api_keys.all()] == ["a", "b"]
        assert [key.name for key in await store.api_keys.all(tenant.uid)] == ["b"]
        assert secrets[0] not in str((await store.api_keys.all(), (await store.audit.page(AuditFilter())).rows))

    use(scenario)
    for path in tmp_path.iterdir():
        assert not any(secret.encode() in path.read_bytes() for secret in secrets)


def test_use_is_noted_once_a_minute(use: Use) -> None:
    uses: list[str] = []

    async def first(store: Store) -> None:
        secret, _ = await new_key(store, "k")
        uses.append(secret)
        before = store.counters().changes
        for _ in range(20):
            assert isinstance(await store.api_keys.authenticate(secret), ApiKey)
        await store.close()
        assert store.counters().changes - before == 1

    async def later(store: Store) -> None:
        (key,) = await store.api_keys.all()
        assert key.last_used is not None
        assert key.created <= key.last_used <= time.time_ns() // 1_000_000
        before = store.counters().changes
        assert await store.api_keys.authenticate(uses[0]) == key
        assert store.counters().changes == before, "another process noted it less than a minute ago"

    use(first)
    use(later)
