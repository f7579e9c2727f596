"""Run feeds on a store, and look at what they left there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gatepost.feeds.run import FeedBusy, FeedOutcome, FeedRunner, RunOptions
from gatepost.policy.layers import unchanged_policies
from gatepost.settings.feeds import FeedSettings
from gatepost.store import open_store
from gatepost.store.store import Store


def use(url: str, folder: Path, scenario: Callable[[Store, FeedRunner], Awaitable[None]]) -> None:
    """Do something with a store and feeds that run on it."""

    async def run() -> None:
        store = open_store(url, folder)
        try:
            await scenario(store, FeedRunner(store, unchanged_policies()))
        finally:
            await store.close()

    asyncio.run(run())


async def ran(runner: FeedRunner, settings: FeedSettings, **options: Any) -> FeedOutcome:
    """The outcome of a run that nobody else is in the way of."""
    outcome = await runner.run(settings, RunOptions(**options))
    assert not isinstance(outcome, FeedBusy)
    return outcome


async def keys(store: Store, list_name: str = "blocked-urls", scope: str | None = None) -> list[str]:
    page = await store.lists.page(scope, list_name, limit=1000)
    return [entry.key for entry in page.rows]
