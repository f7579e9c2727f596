"""Checks of storage, and of the sender history and the feeds in it.

A tenant with too short a history gets no findings from it, which is easily taken for a fault; the row says how many
scopes have enough.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from gatepost.sender_history import ALL_MAIL
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.keys import SenderHistorySettings
from gatepost.settings.values import hide_credentials

if TYPE_CHECKING:
    from gatepost.store.feeds import FeedRecord

_DAY_SECONDS = 86_400
# A deployment may have thousands of tenants; the doctor does not wait for all of them.
MAX_TENANTS = 100
# A feed is late if it was not read for so many times its interval.
LATE = 3
NO_RUN = "never run so far; it is run by hand"


def check_sender_history(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check how much sender history there is; no row if storage cannot be read."""
    from gatepost.store.errors import StorageError

    if read.guard is None:
        return
    settings, url = read.guard.sender_history, read.guard.storage.url
    if not settings.enabled:
        yield DoctorRow("sender history", "ok", "off: senders and sites are not remembered")
        return
    if url.startswith("sqlite:") and not (data.path / url.removeprefix("sqlite:")).exists():
        return
    try:
        keys, ready, scopes = asyncio.run(_count_sightings(url, data, settings, int(now.timestamp()) // _DAY_SECONDS))
    except StorageError:
        return  # the row of the storage says so
    found = f"{keys:,} senders and sites remembered; enough to call one new in {ready} of {scopes} scopes"
    yield DoctorRow("sender history", "ok", found)


async def _count_sightings(
    url: str, data: DataFolder, settings: SenderHistorySettings, today: int
) -> tuple[int, int, int]:
    """Return the number of senders and sites, of scopes with enough history, and of scopes."""
    from gatepost.store import open_store

    store = open_store(url, data.path)
    try:
        scopes = [None, *(tenant.uid for tenant in await store.tenants())][:MAX_TENANTS]
        keys = ready = 0
        for scope in scopes:
            keys += await store.count_sightings(scope)
            all_mail = (await store.sightings(scope, (ALL_MAIL,))).get(ALL_MAIL)
            if all_mail and all_mail.delivered >= settings.min_messages:
                ready += today - all_mail.first >= settings.min_days
        return keys, ready, len(scopes)
    finally:
        await store.close()


def check_flow_control(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Say which limits are reached now; no row without a limit, or if storage cannot be read."""
    from gatepost.smtp.greylisting import MAX_ENTRIES
    from gatepost.store import open_store
    from gatepost.store.errors import StorageError

    if read.guard is None or not read.guard.flow_control.is_on:
        return
    url = read.guard.storage.url
    if url.startswith("sqlite:") and not (data.path / url.removeprefix("sqlite:")).exists():
        return

    async def count() -> tuple[int, int]:
        store = open_store(url, data.path)
        try:
            limited = await store.limited_now(int(now.timestamp() * 1_000))
            return len(limited), await store.greylist_size(MAX_ENTRIES)
        finally:
            await store.close()

    try:
        limited, entries = asyncio.run(count())
    except StorageError:
        return  # the row of the storage says so
    found = f"{limited:,} limits are reached now; greylisting knows {entries:,} senders and networks"
    if entries >= MAX_ENTRIES:
        yield DoctorRow(
            "flow control", "warn", f"{found}, which is the most", "nothing more is greylisted until some expire"
        )
    else:
        yield DoctorRow("flow control", "ok", found)


def check_feeds(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check that every feed was read lately; no rows if storage cannot be read."""
    from gatepost.store import open_store
    from gatepost.store.errors import StorageError
    from gatepost.store.feeds import FeedState

    feeds, url = read.abby.feeds if read.abby else [], read.storage
    if not feeds or (url.startswith("sqlite:") and not (data.path / url.removeprefix("sqlite:")).exists()):
        return

    async def load_states() -> dict[str, FeedState]:
        store = open_store(url, data.path)
        try:
            return {state.name: state for state in await store.feed_states()}
        finally:
            await store.close()

    try:
        states = asyncio.run(load_states())
    except StorageError:
        return  # the row of the storage says so
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


def check_storage(read: ExaminedFiles, data: DataFolder) -> DoctorRow:
    """Check that the database opens and has a schema that fits."""
    from gatepost.store import open_store
    from gatepost.store.errors import StorageError

    url = read.storage
    if url.startswith("sqlite:") and not (data.path / url.removeprefix("sqlite:")).exists():
        return DoctorRow("storage", "warn", f"{url} is not there yet", "gatepost serve makes it")

    async def count_tenants() -> int:
        store = open_store(url, data.path)
        try:
            return len(await store.tenants())
        finally:
            await store.close()

    try:
        return DoctorRow("storage", "ok", f"{hide_credentials(url)} opens; {asyncio.run(count_tenants())} tenants")
    except StorageError as fault:
        return DoctorRow("storage", "fail", str(fault), "correct storage.url, or restore the file")
