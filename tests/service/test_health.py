"""Health: a state counts once it was seen twice, and each change is told once."""

import asyncio
from pathlib import Path
from typing import Any

from gatepost.events.schema import EventFields, HealthChanged, HealthState
from gatepost.scanning.request import Load
from gatepost.service.health import HealthWatch, Seen, probe_core, probe_storage
from gatepost.store import open_store


class Collected:
    """Keeps the events."""

    is_idle = False

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []

    def emit(self, make: Any, *args: Any, **kwargs: Any) -> None:
        event: EventFields = make(*args, **kwargs)
        assert isinstance(event, HealthChanged)
        self.changes.append((event.component, event.before, event.after))


def test_a_state_counts_once_it_was_seen_twice(tmp_path: Path) -> None:
    async def scenario() -> list[tuple[str, str, str]]:
        store = open_store("sqlite:g.db", tmp_path)
        events = Collected()
        seen: list[HealthState] = ["ok", "failed", "ok", "failed", "failed", "degraded", "degraded", "ok", "ok"]
        states = iter(seen)

        async def probe() -> Seen:
            return next(states), ""

        watch = HealthWatch(events, store)
        watch.watch_queue(probe)
        for _ in range(9):
            await watch.look()
        await store.close()
        return events.changes

    assert asyncio.run(scenario()) == [
        ("messageQueue", "ok", "failed"),
        ("messageQueue", "failed", "degraded"),
        ("messageQueue", "degraded", "ok"),
    ]


def test_storage_that_is_away_is_told_and_its_return_too(tmp_path: Path) -> None:
    async def scenario() -> list[tuple[str, str, str]]:
        store, closed = open_store("sqlite:g.db", tmp_path), open_store("sqlite:g.db", tmp_path)
        await closed.close()
        events = Collected()
        watch = HealthWatch(events, store)
        for each in (store, closed, closed, store, store):
            watch._probes["storage"] = probe_storage(each)
            await watch.look()
        await store.close()
        return events.changes

    assert asyncio.run(scenario()) == [("storage", "ok", "failed"), ("storage", "failed", "ok")]


def test_a_core_is_judged_by_its_slots() -> None:
    async def look() -> list[Seen]:
        return [await probe_core(lambda used=used: Load(used, 2, 3))() for used in (1, 2, 3)]  # type: ignore[misc]

    states = asyncio.run(look())
    assert [state for state, _ in states] == ["ok", "degraded", "failed"]
    assert states[2][1] == "3 of 3 slots in use"
