"""Scenarios of this folder run on both engines, with a real next hop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.store import open_store


@pytest.fixture(params=["sqlite", "postgresql"])
def use(
    request: pytest.FixtureRequest, tmp_path: Path, next_hop: Any
) -> Callable[[Callable[[Any], Awaitable[None]]], None]:
    """Runs a scenario on each engine, with the `Deployment` of its module: `prepare` makes its tenant, and `relay` is
    closed in the end."""
    url = f"sqlite:{tmp_path / 'g.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")

    def used(scenario: Callable[[Any], Awaitable[None]]) -> None:
        async def run() -> None:
            store = open_store(url, tmp_path)
            deployment = request.module.Deployment(store, next_hop.url)
            try:
                await deployment.prepare()
                await scenario(deployment)
            finally:
                await deployment.relay.close()
                await store.close()

        asyncio.run(run())

    return used
