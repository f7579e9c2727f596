"""Recipients to tenants: by the configuration, and by what is in the database at that moment, without a restart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gatepost.smtp.client import Tenancy
from gatepost.store import open_store
from gatepost.store.tenants import Tenant

CONFIGURED = "0198c5a2-7c11-7d3e-9f00-000000000001"
MESSAGE = b"Subject: x\r\n\r\ny\r\n.\r\n"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "sqlite:g.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


async def test_domains_route_mail_as_soon_as_they_are_set(url: str, deployment: Any, hop: Any, tmp_path: Path) -> None:
    # The service reads through one, somebody changes through the other, as another process does.
    store, elsewhere = open_store(url, tmp_path), open_store(url, tmp_path)
    async with deployment(hop()) as gate:
        gate.services.tenancy = Tenancy({"Configured.example": CONFIGURED}, store.tenants.of_domain)
        client = await gate.connect()

        async def tenant_of(recipient: str) -> str | None:
            await client.up_to_data(recipient=recipient)
            assert (await client.say(MESSAGE)).startswith("250")
            found: str | None = gate.guard.scanned[-1].envelope.tenant
            return found

        assert await tenant_of("b@new.example") is None
        one, two = [await elsewhere.tenants.create(name) for name in ("one", "two")]
        assert isinstance(one, Tenant)
        assert isinstance(two, Tenant)
        await elsewhere.tenants.set_domains(one.uid, ["new.example", "xn--bcher-kva.example"])
        assert await tenant_of("b@NEW.example.") == one.uid
        assert await tenant_of("b@xn--BCHER-kva.example") == one.uid
        assert await tenant_of("b@sub.new.example") is None
        # Domains move, and go with their tenant.
        await elsewhere.tenants.set_domains(one.uid, [])
        await elsewhere.tenants.set_domains(two.uid, ["new.example", "configured.example"])
        assert await tenant_of("b@new.example") == two.uid
        assert await tenant_of("b@configured.example") == CONFIGURED
        await elsewhere.tenants.delete(two.uid)
        assert await tenant_of("b@new.example") is None
    await asyncio.gather(store.close(), elsewhere.close())
