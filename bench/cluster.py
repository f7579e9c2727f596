"""A PostgreSQL server of one's own, with a database for Gatepost in it."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import asyncpg
import psutil

from bench.lists import made, postgres_server


class Cluster:
    """A server that runs from `with` to its end; `url` is a `storage.url`, `process` is the postmaster."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self.url = ""
        self._server = ""

    def __enter__(self) -> "Cluster":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._server = self._stack.enter_context(postgres_server(self._folder))
        self.url = asyncio.run(made(self._server, "gatepost"))
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def process(self) -> psutil.Process:
        """The server process that all others are children of."""
        first = (self._folder / "postgres" / "postmaster.pid").read_text().split("\n", 1)[0]
        return psutil.Process(int(first))

    def configure(self, settings: Sequence[str]) -> None:
        """Restart the server with these settings instead of those of before."""
        self.run("ALTER SYSTEM RESET ALL", *(f"ALTER SYSTEM SET {each}" for each in settings))
        # The server has little time to end by itself.
        self.run("CHECKPOINT")
        self._stack.close()
        self._server = self._stack.enter_context(postgres_server(self._folder))
        self.url = self._server.replace("/postgres?", "/gatepost?")

    def run(self, *statements: str) -> None:
        """Execute statements one after the other, each in a transaction of its own."""

        async def execute() -> None:
            connection = await asyncpg.connect(self.url)
            for statement in statements:
                await connection.execute(statement)
            await connection.close()

        asyncio.run(execute())

    def rows(self, statement: str) -> list[Any]:
        """All rows."""

        async def fetch() -> list[Any]:
            connection = await asyncpg.connect(self.url)
            found: list[Any] = await connection.fetch(statement)
            await connection.close()
            return found

        return asyncio.run(fetch())

    def query(self, statement: str) -> Any:
        """The first value of the first row."""
        return self.rows(statement)[0][0]
