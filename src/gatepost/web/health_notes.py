"""The worst of what is known about the health of the service, as every page shows it.

What the cores say (storage, disk, next hop, slots, and warnings of certificates, the quarantine, DNS and SMTP) comes
with the load that abby asks them for every few seconds. Feeds and nodes are looked up at most once a minute, when
somebody opens a page. Users of a tenant are told that mail waits, and not why: names of nodes and hosts are the
operator's.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gatepost.scanning.request import Load
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

LOOK_MILLISECONDS = 60_000
# Where warnings are explained; a note that leads there is not for people of a tenant.
WARNED = "/system#health"


class HealthNote(msgspec.Struct, frozen=True):
    """A sentence about what is wrong, how bad it is, and where to read on."""

    level: Literal["bad", "warn"]
    text: str
    path: str = "/system"


def worst_of_cores(states: Sequence[tuple[str, Load | None]]) -> HealthNote | None:
    """Return the worst that the cores say of themselves; None where all is well."""
    silent = [name for name, load in states if load is None]
    loads = [load for _, load in states if load is not None]
    if fault := next((load.fault for load in loads if load.fault), ""):
        return HealthNote("bad", f"No message can be taken to its end: {fault}.")
    if silent and not loads:
        return HealthNote("bad", "No core is answering; no mail can be scanned.")
    if slowed := next((load.slowed for load in loads if load.slowed), ""):
        return HealthNote("warn", f"Mail waits with its senders: {slowed}.")
    if silent:
        return HealthNote("warn", f"The core {silent[0]} is not answering.")
    if loads and all(load.full for load in loads):
        return HealthNote("warn", "All slots are in use; mail waits.")
    return warn_of([text for load in loads for text in load.warned])


def warn_of(texts: Sequence[str]) -> HealthNote | None:
    """Return what is said of warnings, which are not for tenants: mail flows."""
    if not texts:
        return None
    more = f" ({len(set(texts)) - 1} more)" if len(set(texts)) > 1 else ""
    return HealthNote("warn", f"{texts[0][:1].upper()}{texts[0][1:]}{more}.", WARNED)


class SlowChecks:
    """Feeds that failed and nodes that are silent or failed, as they were when somebody looked last."""

    def __init__(self) -> None:
        self._looked = 0
        self.note: HealthNote | None = None

    async def look(self, store: Store, now: int) -> None:
        """Look again, if the last time is a minute ago."""
        if now - self._looked < LOOK_MILLISECONDS:
            return
        self._looked = now
        try:
            self.note = await _find_trouble(store, now)
        except StorageError as fault:
            self.note = HealthNote("bad", f"Storage cannot be used: {fault}")


async def _find_trouble(store: Store, now: int) -> HealthNote | None:
    for node in await store.publishing.nodes():
        health = node.health(now)
        if health in ("silent", "failed"):
            return HealthNote("warn", f"The node {node.name} is {health}.", "/nodes")
    for feed in await store.feeds.states():
        if feed.record.result == "failed":
            return HealthNote("warn", f"The feed {feed.name} could not be read.", "/feeds")
    return None


def note_for(note: HealthNote | None, *, may_know: bool) -> HealthNote | None:
    """Return a note as this user may read it."""
    if note is None or may_know:
        return note
    if note.path != "/system":
        return None
    said = "No mail can be taken at the moment." if note.level == "bad" else "Mail is delayed at the moment."
    return HealthNote(note.level, said, "")
