"""Storage of either engine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.store import open_store
from gatepost.store.store import Store

both_engines = pytest.mark.parametrize("storage_url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:{tmp_path / 'g.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(storage_url: str, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Store]:
    store = open_store(storage_url, tmp_path)
    yield store
    runner.run(store.close())
