"""Checks of storage, and of the sender history in it.

A tenant with too short a history gets no findings from it, which is easily taken for a fault; the row says how many
scopes have enough.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime

from gatepost.sender_history import ALL_MAIL
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles
from gatepost.settings.keys import SenderHistorySettings
from gatepost.settings.values import hide_credentials

_DAY_SECONDS = 86_400
# A deployment may have thousands of tenants; the doctor does not wait for all of them.
MAX_TENANTS = 100


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
