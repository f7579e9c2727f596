"""Using the storage of a deployment from the command line, beside a server that may be running."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gatepost.cli.places import config_folder, data_folder
from gatepost.service.datafolder import StartError

if TYPE_CHECKING:
    from gatepost.store.errors import NotFound
    from gatepost.store.store import Store

T = TypeVar("T")


def with_store(config: Path | None, data: Path | None, use: Callable[["Store"], Awaitable[T]]) -> T:
    """Use the storage that the configuration names."""
    import asyncio

    from gatepost.config import load_abby
    from gatepost.store import open_store

    place = data_folder(data)
    url = load_abby(config_folder(config, place)).storage.url
    place.make()

    async def used() -> T:
        store = open_store(url, place.path)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(used())


def found(outcome: "T | NotFound", what: str) -> T:
    """What a call found; a sentence where there is none."""
    from gatepost.store.errors import NotFound

    if isinstance(outcome, NotFound):
        raise StartError(f"There is no {outcome.what} {what}.")
    return outcome
