"""A storage as the versions before schema 32 left it: schema 31, with rows in every table.

`schema_31` has the statements of the 31 schema files of that time, each on a line, and the rows of both engines.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from gatepost.store.sqlite import APPLICATION_ID

FOLDER = Path(__file__).parent / "schema_31"
# What schemas up to the last one had in `meta` when a program had to know them.
_USABLE_FROM = {"sqlite": "19", "postgres": "23"}

# Rows that come with their numbers do not move the sequences that give numbers.
_SET_SEQUENCES = """DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT table_name FROM information_schema.columns WHERE table_schema = current_schema()
    AND column_name = 'id' AND data_type = 'bigint' AND table_name NOT LIKE 'messages\\_%'
    AND (is_identity = 'YES' OR column_default LIKE 'nextval%') LOOP
        EXECUTE format(
            'SELECT setval(pg_get_serial_sequence(%1$L, ''id''), coalesce(max(id), 0) + 1, false) FROM %1$I', name
        );
    END LOOP;
END $$"""


def engine_of(url: str) -> str:
    """The engine of an address, as files of schemas are named."""
    return "sqlite" if url.startswith("sqlite") else "postgres"


def read_rows() -> dict[str, list[list[Any]]]:
    """The rows of each table, after a row of their columns."""
    return {
        table: [[bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in row] for row in rows]
        for table, rows in json.loads((FOLDER / "rows.json").read_text("utf-8")).items()
    }


def run_statements(url: str, folder: Path, *statements: str) -> None:
    """Run statements as somebody with the database does."""
    _run(url, folder, [(statement, []) for statement in statements])


def make_old_storage(url: str, folder: Path, schema: int = 31, *, filled: bool = False) -> None:
    """Make a storage of schema 31, which calls itself `schema`."""
    engine = engine_of(url)
    statements: list[tuple[str, list[list[Any]]]] = [((FOLDER / f"{engine}.sql").read_text("utf-8"), [])]
    for table, (columns, *rows) in read_rows().items() if filled else ():
        if table != "meta":
            values = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
            override = "OVERRIDING SYSTEM VALUE" if engine == "postgres" else ""
            statements.append((f"INSERT INTO {table} ({', '.join(columns)}) {override} VALUES ({values})", rows))
    facts = [["schema", str(schema)], ["usable_from", _USABLE_FROM[engine]], ["normal_forms", "3"]]
    statements.append(("INSERT INTO meta VALUES ($1, $2)", facts))
    if engine == "sqlite":
        statements.append((f"PRAGMA application_id = {APPLICATION_ID}", []))
    else:
        statements.append((_SET_SEQUENCES, []))
    _run(url, folder, statements)


def _run(url: str, folder: Path, statements: list[tuple[str, list[list[Any]]]]) -> None:
    if engine_of(url) == "sqlite":
        connection = apsw.Connection(str(folder / url.removeprefix("sqlite:")))
        for statement, rows in statements:
            if rows:
                connection.executemany(statement.replace("$", "?"), rows)
            else:
                connection.execute(statement).fetchall()
        connection.close()
        return

    async def run() -> None:
        database = await asyncpg.connect(url)
        try:
            async with database.transaction():
                # As a dump is loaded: rows come in the order of the names of their tables.
                await database.execute("SET LOCAL session_replication_role = replica")
                for statement, rows in statements:
                    await (database.executemany(statement, rows) if rows else database.execute(statement))
        finally:
            await database.close()

    asyncio.run(run())
