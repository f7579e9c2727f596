"""Scenarios of this folder run on both engines, with a real next hop."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.store.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A storage of each engine without data."""
    return f"sqlite:{tmp_path / 'g.db'}" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def deployment(
    request: pytest.FixtureRequest, loop_runner: asyncio.Runner, store: Store, next_hop: Any
) -> Iterator[Any]:
    """The `Deployment` of the module: `prepare` makes its tenant, and `relay` is closed in the end."""
    made = request.module.Deployment(store, next_hop.url)
    loop_runner.run(made.prepare())
    yield made
    loop_runner.run(made.relay.close())
