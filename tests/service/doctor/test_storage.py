"""The doctor's rows on storage and sender history."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gatepost.sender_history import ALL_MAIL
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import storage
from gatepost.service.doctor.rows import ExaminedFiles, read_files
from gatepost.service.first_start import prepare
from gatepost.settings.keys import SenderHistorySettings
from gatepost.store import open_store
from gatepost.store.sightings import SightingBatch

NOW = datetime(2026, 11, 15, tzinfo=UTC)
TODAY = int(NOW.timestamp()) // 86_400


def found(read: ExaminedFiles, data: DataFolder) -> list[str]:
    return [row.found for row in storage.check_sender_history(read, data, NOW)]


def test_how_much_is_remembered(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    read = read_files(prepare(data, None))
    assert read.guard
    assert found(read, data) == [], "there is no storage yet"

    async def fill() -> None:
        store = open_store(read.storage, data.path)
        await store.create_tenant("young")
        await store.record_sightings([SightingBatch(None, TODAY - 7, {ALL_MAIL: 200, 22: 1})])
        await store.close()

    asyncio.run(fill())
    assert found(read, data) == ["2 senders and sites remembered; enough to call one new in 1 of 2 scopes"]
    off = read.guard.model_copy(update={"sender_history": SenderHistorySettings(enabled=False)})
    assert found(msgspec.structs.replace(read, guard=off), data) == ["off: senders and sites are not remembered"]
