"""Data folders as tests prepare them, and what is stored in them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from bench.ports import free_ports

from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.store import open_store
from gatepost.store.store import Store

T = TypeVar("T")


def write_files(folder: Path, guard: str | None = None, abby: str | None = None) -> Path:
    """Write `guard.yml`, `abby.yml` or both of them to their places in a folder; returns the folder."""
    for name, text in ((GUARD_FILE, guard), (ABBY_FILE, abby)):
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def prepare_with_free_ports(data: Path) -> int:
    """Prepare a first start, but with one worker process and with ports that are free here; returns that of the API."""
    prepare(DataFolder(data), None)
    core, port = free_ports(2)
    for name, more in ((GUARD_FILE, "workerProcesses: 1\n"), (ABBY_FILE, "")):
        text = (data / name).read_text().replace("9785", str(core)).replace("9081", str(port))
        (data / name).write_text(text + more)
    return port


def with_store(data: Path, work: Callable[[Store], Awaitable[T]], url: str = "sqlite:gatepost.db") -> T:
    """Open the store of a data folder for some work; returns its result."""

    async def run() -> T:
        store = open_store(url, data)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())
