"""Run feeds on a store, and look at what they left there."""

from typing import Any

from gatepost.feeds.run import FeedBusy, FeedOutcome, FeedRunner, RunOptions
from gatepost.settings.feeds import FeedSettings
from gatepost.store.store import Store


async def ran(runner: FeedRunner, settings: FeedSettings, **options: Any) -> FeedOutcome:
    """The outcome of a run that nobody else is in the way of."""
    outcome = await runner.run(settings, RunOptions(**options))
    assert not isinstance(outcome, FeedBusy)
    return outcome


async def keys(store: Store, list_name: str = "blocked-urls", scope: str | None = None) -> list[str]:
    page = await store.lists.page(scope, list_name, limit=1000)
    return [entry.key for entry in page.rows]
