"""What the doctor says of the memory for senders and sites: how much there is, and who has enough of it.

A tenant whose memory is too young gets no findings from it, which is easily taken for a fault.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime

from gatepost.sender_history import EVERYTHING
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles
from gatepost.settings.keys import SenderHistory

_DAY_SECONDS = 86_400
# A deployment may have thousands of tenants; the doctor does not wait for all of them.
MAX_TENANTS = 100


def examine_sender_history(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """One row, where there is a storage to look into."""
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
        keys, ready, scopes = asyncio.run(_counted(url, data, settings, int(now.timestamp()) // _DAY_SECONDS))
    except StorageError:
        return  # the row of the storage says so
    found = f"{keys:,} senders and sites remembered; enough to call one new in {ready} of {scopes} scopes"
    yield DoctorRow("sender history", "ok", found)


async def _counted(url: str, data: DataFolder, settings: SenderHistory, today: int) -> tuple[int, int, int]:
    from gatepost.store import open_store

    store = open_store(url, data.path)
    try:
        scopes = [None, *(tenant.uid for tenant in await store.tenants())][:MAX_TENANTS]
        keys = ready = 0
        for scope in scopes:
            keys += await store.count_sightings(scope)
            all_mail = (await store.sightings(scope, (EVERYTHING,))).get(EVERYTHING)
            if all_mail and all_mail.delivered >= settings.min_messages:
                ready += today - all_mail.first >= settings.min_days
        return keys, ready, len(scopes)
    finally:
        await store.close()
