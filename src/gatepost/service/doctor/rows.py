"""One row of what the doctor finds, the configuration that it examines, and how it asks storage."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load, load_abby, load_guard
from gatepost.settings.keys import AbbySettings, GuardSettings

if TYPE_CHECKING:
    from gatepost.store.store import Store

T = TypeVar("T")
DoctorState = Literal["ok", "warn", "fail"]


class DoctorRow(msgspec.Struct, frozen=True):
    """One thing that was checked. `advice` is empty if nothing needs to be done."""

    what: str
    state: DoctorState
    found: str
    advice: str = ""


class ExaminedFiles(msgspec.Struct, frozen=True):
    """The settings of this machine; None for a file that is not there."""

    guard: GuardSettings | None = None
    abby: AbbySettings | None = None

    @property
    def storage(self) -> str:
        """The storage URL of the service that runs here."""
        settings = self.abby or self.guard
        return settings.storage.url if settings else ""


def read_files(folder: Path) -> ExaminedFiles:
    """Read both files, or the one that is there; raises `ConfigError`."""
    has_guard, has_abby = (folder / GUARD_FILE).exists(), (folder / ABBY_FILE).exists()
    if has_guard and not has_abby:
        return ExaminedFiles(guard=load_guard(folder, certificates=True))
    if has_abby and not has_guard:
        return ExaminedFiles(abby=load_abby(folder, certificates=True))
    both = load(folder, certificates=True)
    return ExaminedFiles(both.guard, both.abby)


def is_storage_there(url: str, data: DataFolder) -> bool:
    """Whether there can be anything in storage: the file of SQLite is made by the first start."""
    return not url.startswith("sqlite:") or (data.path / url.removeprefix("sqlite:")).exists()


def ask_storage(read: ExaminedFiles, data: DataFolder, ask: "Callable[[Store], Awaitable[T]]") -> T:
    """Return what storage answers; raises `StorageError`."""
    from gatepost.store import open_store

    async def run() -> T:
        store = open_store(read.storage, data.path)
        try:
            return await ask(store)
        finally:
            await store.close()

    return asyncio.run(run())


def ask_storage_if_there(read: ExaminedFiles, data: DataFolder, ask: "Callable[[Store], Awaitable[T]]") -> T | None:
    """Return what storage answers; None where it is not there or cannot be read, which the row of the storage says."""
    from gatepost.store.errors import StorageError

    with contextlib.suppress(StorageError):
        return ask_storage(read, data, ask) if is_storage_there(read.storage, data) else None
    return None
