"""PostgreSQL behind PgBouncer: what a pooler takes away, and how work goes on without it.

An address says so itself: `postgresql://gatepost@pool.example:6432/gatepost?pooler=transaction`, or `pooler=session`.

In both modes PgBouncer refuses the planner settings that Gatepost gives its connections. They are set for the role in
its database instead, once, and hold for every connection that PgBouncer opens from then on.

In transaction mode two statements outside of a transaction may run on two servers. asyncpg prepares a statement first
and runs it then; so every statement has a transaction here. Statements are not kept prepared, names of cursors are
unique over all clients, and there is no LISTEN: what it would have told is found by asking, as with SQLite.
"""

import re
import uuid
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import asyncpg

Pooler: TypeAlias = Literal["", "session", "transaction"]

_POOLER = re.compile(r"(?<=[?&])pooler=([a-z]*)(?:&|$)")
_DATABASE = "SELECT current_database()"


def split_pooler(url: str) -> tuple[str, Pooler]:
    """An address without the mode of its pooler, and that mode; raises `ValueError` where there is no such mode."""
    found = _POOLER.search(url)
    if found is None:
        return url, ""
    if found[1] not in ("session", "transaction"):
        raise ValueError("pooler must be session or transaction")
    return _POOLER.sub("", url, count=1).rstrip("?&"), cast("Pooler", found[1])


class PinnedConnection(asyncpg.Connection):
    """A connection through PgBouncer in transaction mode: each statement has a transaction, and so one server."""

    async def _execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run a prepared statement; `fetch`, `fetchval` and `execute` with parameters all end here."""
        if self.is_in_transaction():
            return await super()._execute(*args, **kwargs)  # type: ignore[misc]
        async with self.transaction():
            return await super()._execute(*args, **kwargs)  # type: ignore[misc]

    def _get_unique_id(self, prefix: str) -> str:
        """A name that no other client of the pooler gives: theirs stay on its servers."""
        return f"__{prefix}_{uuid.uuid4().hex}__"


async def set_for_role(connection: Any, settings: Mapping[str, str]) -> None:
    """Have these settings on every connection that is opened for this role and database from now on."""
    shown = {name: await connection.fetchval("SELECT current_setting($1)", name) for name in settings}
    if shown == dict(settings):
        return
    database = (await connection.fetchval(_DATABASE)).replace('"', '""')
    for name, value in settings.items():
        await connection.execute(f"ALTER ROLE CURRENT_USER IN DATABASE \"{database}\" SET {name} = '{value}'")
