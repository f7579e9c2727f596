"""PostgreSQL behind PgBouncer: what a pooler takes away, and how work goes on without it.

An address says so itself: `postgresql://gatepost@pool.example:6432/gatepost?pooler=transaction`, or `pooler=session`.

In session mode a connection has a server for itself, and everything is as without a pooler; planner settings are set
with SET, since PgBouncer refuses them where a connection begins.

In transaction mode two statements outside of a transaction may run on two servers. asyncpg prepares a statement first
and runs it then; so every statement has a transaction here, which begins with the settings of this connection (SET
LOCAL): nothing of them stays on a server that goes on to another client. Statements are not kept prepared, names of
cursors are unique over all clients, and there is no LISTEN: what it would have told is found by asking, as with SQLite.

A pooler answers with a process id of its own making where a connection begins, so that one which the address does not
name is noticed (`has_pooler`). Which mode it has cannot be seen.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, cast

import asyncpg

Pooler: TypeAlias = Literal["", "session", "transaction"]

_POOLER = re.compile(r"(?<=[?&])pooler=([a-z]*)(?:&|$)")


def split_pooler(url: str) -> tuple[str, Pooler]:
    """An address without the mode of its pooler, and that mode; raises `ValueError` where there is no such mode."""
    found = _POOLER.search(url)
    if found is None:
        return url, ""
    if found[1] not in ("session", "transaction"):
        raise ValueError("pooler must be session or transaction")
    return _POOLER.sub("", url, count=1).rstrip("?&"), cast("Pooler", found[1])


def write_settings(settings: Mapping[str, str], how: Literal["SET", "SET LOCAL"] = "SET") -> str:
    """Return the statements that set these values, for the connection or for the transaction."""
    return "".join(f"{how} {name} = '{value}';" for name, value in settings.items())


async def has_pooler(connection: Any) -> bool:
    """Whether a pooler is between this connection and its server."""
    async with connection.transaction():
        return bool(await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid())


class PinnedConnection(asyncpg.Connection):
    """A connection through PgBouncer in transaction mode: each statement has a transaction, and so one server."""

    # What every transaction of this connection begins with, in the same message to the server.
    beginning: ClassVar[str] = ""

    async def execute(self, query: str, *args: Any, **kwargs: Any) -> str:
        """Execute statements; one that begins a transaction brings the settings along."""
        more = self.beginning if query.startswith("BEGIN") else ""
        return str(await super().execute(query + more, *args, **kwargs))

    async def _execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a prepared statement; `fetch`, `fetchval` and `execute` with parameters all end here."""
        if self.is_in_transaction():
            return await super()._execute(*args, **kwargs)  # type: ignore[misc]
        async with self.transaction():
            return await super()._execute(*args, **kwargs)  # type: ignore[misc]

    def _get_unique_id(self, prefix: str) -> str:
        """A name that no other client of the pooler gives: theirs stay on its servers."""
        return f"__{prefix}_{uuid.uuid4().hex}__"
