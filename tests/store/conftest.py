"""Records to keep, and every engine to keep them in: a test that takes `store`, `use` or `storage_url` runs on each."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.store import open_store
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store

NewRecord = Callable[..., MessageRecord]
Use = Callable[[Callable[[Store], Awaitable[None]]], None]
on_sqlite = pytest.mark.parametrize("storage_url", ["sqlite"], indirect=True)


@pytest.fixture
def new_record() -> NewRecord:
    def made(
        ggrid: str = "", completed: int = 2_000, subject: str = "Hello", tenant: str | None = None
    ) -> MessageRecord:
        report = Report("spam", "quarantine", ("text:lure", "url:homograph"), 730, "it adds up", subject=subject)
        envelope = Envelope("a@sender.example", ("b@rcpt.example", "ü@rcpt.example"), "192.0.2.1", "mx", tenant)
        return MessageRecord(ggrid or new_id(), 1_000, completed, envelope, 1_234, "ab" * 32, report)

    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A storage of each engine without data."""
    return _choose_engine(request, tmp_path, "postgres_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A storage of each engine with nothing in it, not even tables."""
    return _choose_engine(request, tmp_path, "empty_postgres_url")


def _choose_engine(request: pytest.FixtureRequest, folder: Path, postgres: str) -> str:
    return f"sqlite:{folder / 'g.db'}" if request.param == "sqlite" else str(request.getfixturevalue(postgres))


@pytest.fixture
def use(storage_url: str, tmp_path: Path) -> Use:
    """Runs what a test does with a store that is opened for it; again for what is there afterwards."""

    def used(scenario: Callable[[Store], Awaitable[None]]) -> None:
        async def run() -> None:
            store = open_store(storage_url, tmp_path)
            try:
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(run())

    return used
