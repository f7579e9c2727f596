"""Health: a state counts once it was seen twice, and each change is told once."""

import asyncio
from typing import Any

import pytest
from tests.clock import Clock

from gatepost.events.schema import EventFields, HealthChanged
from gatepost.process import health
from gatepost.process.health import PARTS, WELL, Health, HealthLedger, State, make_reason
from gatepost.process.logs import Logger
from gatepost.service.health import HealthWatch


class Collected:
    """Keeps the events."""

    is_idle = False

    def __init__(self) -> None:
        self.changes: list[tuple[str, str, str]] = []
        self.reasons: list[str] = []

    def emit(self, make: Any, *args: Any, **kwargs: Any) -> None:
        event: EventFields = make(*args, **kwargs)
        assert isinstance(event, HealthChanged)
        self.changes.append((event.component, event.before, event.after))
        self.reasons.append(event.reason)


def test_a_state_counts_once_it_was_seen_twice() -> None:
    events, ledger = Collected(), HealthLedger()
    reasons = {"RED": "storage", "YELLOW": "nextHop"}
    seen: list[State] = ["GREEN", "RED", "GREEN", "RED", "RED", "YELLOW", "YELLOW", "GREEN", "GREEN"]
    states = iter(seen)

    async def ask() -> Health:
        state = next(states)
        return Health.of([make_reason(reasons[state], "so it is", 7)]) if state in reasons else WELL  # type: ignore[arg-type]

    async def scenario() -> None:
        watch = HealthWatch(events, ledger, ask)
        for _ in seen:
            await watch.look()

    asyncio.run(scenario())
    assert events.changes == [
        ("messageQueue", "ok", "failed"),
        ("messageQueue", "failed", "degraded"),
        ("messageQueue", "degraded", "ok"),
    ]
    assert events.reasons == ["so it is", "so it is", ""]


def test_parts_are_told_of_by_what_was_noted() -> None:
    events, ledger = Collected(), HealthLedger()

    async def ask() -> Health:
        return ledger.health

    async def scenario() -> None:
        watch = HealthWatch(events, ledger, ask)
        for storage, dns in (("", "slow"), ("", "slow"), ("away", "slower"), ("away", ""), ("", ""), ("", "")):
            ledger.note("storage", storage)
            ledger.note("dns", dns)
            await watch.look()

    asyncio.run(scenario())
    assert events.changes == [
        ("dns", "ok", "degraded"),
        ("messageQueue", "ok", "failed"),
        ("storage", "ok", "failed"),
        ("dns", "degraded", "ok"),
        ("messageQueue", "failed", "ok"),
        ("storage", "failed", "ok"),
    ]


def test_a_fault_is_logged_when_it_begins_and_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[str, str]] = []
    for level in ("error", "warning", "info"):
        monkeypatch.setattr(Logger, level, lambda _self, event, level=level, **_: lines.append((level, event)))
    clock = Clock(50.0)
    ledger = HealthLedger(clock)
    for seconds, said in ((0, "4 of 9 failed"), (10, "5 of 9 failed"), (10, ""), (10, ""), (10, "9 of 9 failed")):
        clock.now += seconds
        ledger.note("dns", said)
    assert lines == [("warning", "health warning"), ("info", "health warning is over"), ("warning", "health warning")]
    (reason,) = ledger.reasons
    assert (reason.sentence, reason.since) == ("9 of 9 failed", "1970-01-01T00:01:30.000Z")
    assert (
        str(reason) == "9 of 9 failed, since 1970-01-01T00:01:30Z. It clears within a minute after name servers answer."
    )
    lines.clear()
    ledger.note("full", "all slots are in use")
    ledger.note("full", "")
    assert lines == [], "that comes and goes with each message"


def test_every_part_says_what_ends_it() -> None:
    for code, part in PARTS.items():
        assert part.clears.startswith("It clears "), code
        assert part.clears.endswith("."), code
    assert set(health.COMPONENTS) < PARTS.keys()
