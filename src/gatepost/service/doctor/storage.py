"""Checks of storage, and of the sender history, the feeds and the nodes in it.

A tenant with too short a history gets no findings from it, which is easily taken for a fault; the row says how many
scopes have enough.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gatepost.sender_history import ALL_MAIL
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.keys import SenderHistorySettings
from gatepost.settings.values import hide_credentials

if TYPE_CHECKING:
    from gatepost.store.feeds import FeedRecord
    from gatepost.store.publishing import NodeRecord, Rollout
    from gatepost.store.store import Store

T = TypeVar("T")

_DAY_SECONDS = 86_400
# A deployment may have thousands of tenants; the doctor does not wait for all of them.
MAX_TENANTS = 100
# A feed is late if it was not read for so many times its interval.
LATE = 3
# A deployment may have had many nodes; those that were heard of last have a row.
MAX_NODES = 50
NO_RUN = "never run so far; it is run by hand"


def check_storage(read: ExaminedFiles, data: DataFolder) -> DoctorRow:
    """Check that the database opens and has a schema that fits."""
    from gatepost.store.errors import StorageError

    if not _is_there(read.storage, data):
        return DoctorRow("storage", "warn", f"{read.storage} is not there yet", "gatepost serve makes it")
    try:
        tenants = _ask(read.storage, data, lambda store: store.tenants.all())
    except StorageError as fault:
        return DoctorRow("storage", "fail", str(fault), "correct storage.url, or restore the file")
    return DoctorRow("storage", "ok", f"{hide_credentials(read.storage)} opens; {len(tenants)} tenants")


def _is_there(url: str, data: DataFolder) -> bool:
    """Whether there can be anything in storage: the file of SQLite is made by the first start."""
    return not url.startswith("sqlite:") or (data.path / url.removeprefix("sqlite:")).exists()


def _ask(url: str, data: DataFolder, ask: "Callable[[Store], Awaitable[T]]") -> T:
    """Return what storage answers; raises `StorageError`."""
    from gatepost.store import open_store

    async def run() -> T:
        store = open_store(url, data.path)
        try:
            return await ask(store)
        finally:
            await store.close()

    return asyncio.run(run())


def _ask_if_there(url: str, data: DataFolder, ask: "Callable[[Store], Awaitable[T]]") -> T | None:
    """Return what storage answers; None where it is not there or cannot be read, which the row of the storage says."""
    from gatepost.store.errors import StorageError

    with contextlib.suppress(StorageError):
        return _ask(url, data, ask) if _is_there(url, data) else None
    return None


def check_sender_history(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check how much sender history there is; no row if storage cannot be read."""
    if read.guard is None:
        return
    settings = read.guard.sender_history
    if not settings.enabled:
        yield DoctorRow("sender history", "ok", "off: senders and sites are not remembered")
        return
    today = int(now.timestamp()) // _DAY_SECONDS
    counted = _ask_if_there(read.guard.storage.url, data, partial(_count_sightings, settings, today))
    if counted:
        keys, ready, scopes = counted
        found = f"{keys:,} senders and sites remembered; enough to call one new in {ready} of {scopes} scopes"
        yield DoctorRow("sender history", "ok", found)


async def _count_sightings(settings: SenderHistorySettings, today: int, store: "Store") -> tuple[int, int, int]:
    """Return the number of senders and sites, of scopes with enough history, and of scopes."""
    scopes = [None, *(tenant.uid for tenant in await store.tenants.all())][:MAX_TENANTS]
    keys = ready = 0
    for scope in scopes:
        keys += await store.sightings.count(scope)
        all_mail = (await store.sightings.find(scope, (ALL_MAIL,))).get(ALL_MAIL)
        if all_mail and all_mail.delivered >= settings.min_messages:
            ready += today - all_mail.first >= settings.min_days
    return keys, ready, len(scopes)


def check_flow_control(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Say which limits are reached now; no row without a limit, or if storage cannot be read."""
    from gatepost.smtp.flow_control import MAX_ENTRIES

    if read.guard is None or not read.guard.flow_control.is_on:
        return

    async def count(store: "Store") -> tuple[int, int]:
        limited = await store.flow_counts.limited_now(int(now.timestamp() * 1_000))
        return len(limited), await store.flow_counts.greylist_size(MAX_ENTRIES)

    counted = _ask_if_there(read.guard.storage.url, data, count)
    if counted is None:
        return
    limited, entries = counted
    found = f"{limited:,} limits are reached now; greylisting knows {entries:,} senders and networks"
    if entries >= MAX_ENTRIES:
        advice = "nothing more is greylisted until some expire"
        yield DoctorRow("flow control", "warn", f"{found}, which is the most", advice)
    else:
        yield DoctorRow("flow control", "ok", found)


def check_feeds(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check that every feed was read lately; no rows if storage cannot be read."""
    from gatepost.store.feeds import FeedState

    feeds = read.abby.feeds if read.abby else []
    found = _ask_if_there(read.storage, data, lambda store: store.feeds.states()) if feeds else None
    if found is None:
        return
    states = {state.name: state for state in found}
    for feed in feeds:
        yield _describe_feed(feed, states.get(feed.name, FeedState(feed.name)).record, now)


def _describe_feed(feed: FeedSettings, record: "FeedRecord", now: datetime) -> DoctorRow:
    what, advice = f"feed {feed.name}", f"try it with: gatepost feeds run {feed.name} --dry-run"
    if record.failures:
        return DoctorRow(what, "warn", f"{record.result} {record.failures} times in a row: {record.message}", advice)
    if not record.succeeded:
        return (
            DoctorRow(what, "warn", "never run so far", advice) if feed.is_scheduled else DoctorRow(what, "ok", NO_RUN)
        )
    minutes = int(now.timestamp() - record.succeeded / 1000) // 60
    found = f"{record.counts.entries:,} entries for {feed.list_name}, read {minutes:,} minutes ago"
    if feed.is_scheduled and minutes > LATE * feed.every:
        return DoctorRow(what, "warn", f"{found}; it should be read every {feed.every:,} minutes", "is abby running?")
    return DoctorRow(what, "ok", found)


def check_nodes(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check every node of the deployment by what it said last, and whether the last version could be taken over; no
    rows if storage cannot be read."""

    async def load_nodes(store: "Store") -> "tuple[Rollout, tuple[NodeRecord, ...]]":
        return await store.publishing.rollout(), await store.publishing.nodes()

    loaded = _ask_if_there(read.storage, data, load_nodes) if read.storage else None
    if loaded is None:
        return
    rollout, nodes = loaded
    own = {each for name in ("guard", "abby") if (each := _read_own_node(data, name)) and not data.is_locked(name)}
    latest = sorted(nodes, key=lambda node: node.seen, reverse=True)[:MAX_NODES]
    for node in sorted(latest, key=lambda node: node.name):
        yield _describe_node(node, rollout, int(now.timestamp() * 1000), is_stopped=node.id in own)
    if rollout.failed:
        found = f"version {rollout.failed} failed on {rollout.failed_node}: {rollout.failed_reason}"
        advice = "correct the files and publish again; the nodes run the version before"
        yield DoctorRow("published version", "warn", found, advice)


def _describe_node(node: "NodeRecord", rollout: "Rollout", moment: int, *, is_stopped: bool) -> DoctorRow:
    """Return the row of a node; one of this machine that does not run at the moment is no fault."""
    detail, health = node.detail, node.health(moment)
    version = f"version {detail.version}" if detail.version else "its own files"
    if detail.version != rollout.wanted:
        version += f", wanted is version {rollout.wanted}" if rollout.wanted else ", wanted are its own files"
    notes = [f"needs a restart: {', '.join(detail.waits_for_restart)}"] if detail.waits_for_restart else []
    notes += [f"last error: {detail.error}"] if detail.error else []
    heard = f"heard of {max(0, moment - node.seen) // 1_000:,} s ago"
    what, found = f"node {node.name}", "; ".join([f"runs {version}", heard, *filter(None, [detail.reason]), *notes])
    if health == "silent" and is_stopped:
        return DoctorRow(what, "ok", f"does not run at the moment; {found}")
    if health == "silent":
        advice = f"start it; if it is gone for good: gatepost nodes --forget {node.id}"
        return DoctorRow(what, "warn", f"silent; {found}", advice)
    if health == "failed":
        return DoctorRow(what, "fail", f"failed; {found}", "see its log, and gatepost doctor on that machine")
    if health != "ok" or notes or detail.version != rollout.wanted:
        return DoctorRow(what, "warn", f"{health}; {found}", "see gatepost nodes, and the log of the node")
    return DoctorRow(what, "ok", found)


def _read_own_node(data: DataFolder, service: str) -> str:
    """Return the id of this machine's node of a service, "" if it never ran."""
    file = data.path / f"{service}.node"
    return file.read_text("ascii", "replace").strip() if file.exists() else ""
