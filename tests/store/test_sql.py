"""Statements are written once: what they are on each engine, and that each engine can prepare all of them."""

import asyncio
import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost import store
from gatepost.store.engine import storable
from gatepost.store.sql import ENGINES, STATED, Sql, SqlError, compose, delete_many, insert_many, tables, update_many
from gatepost.store.sqlite import open_file


@pytest.mark.parametrize(
    ("statement", "postgres", "sqlite"),
    [
        ("SELECT 1 WHERE a = $1 AND b = $12", "SELECT 1 WHERE a = $1 AND b = $12", "SELECT 1 WHERE a = ?1 AND b = ?12"),
        ("WHERE @one_of(t.key, $2)", "WHERE t.key = ANY($2)", "WHERE t.key IN carray(?2)"),
        ("WHERE NOT @holds(lower(a), $1)", "WHERE NOT strpos(lower(a), $1) > 0", "WHERE NOT instr(lower(a), ?1) > 0"),
        ("SET v = @larger(v + 1, $1)", "SET v = GREATEST(v + 1, $1)", "SET v = max(v + 1, ?1)"),
        ("SELECT @bytes(key)", "SELECT octet_length(key)", "SELECT length(CAST(key AS BLOB))"),
        ("WHERE @day(s.completed) >= $1", "WHERE s.completed >= $1", "WHERE +s.completed >= ?1"),
        ("FROM t @lock(UPDATE)", "FROM t FOR UPDATE", "FROM t "),
        ("FROM t @lock(KEY SHARE)", "FROM t FOR KEY SHARE", "FROM t "),
        (
            "@larger(0, a - @larger(0, @bytes(b) - (c + 1)))",
            "GREATEST(0, a - GREATEST(0, octet_length(b) - (c + 1)))",
            "max(0, a - max(0, length(CAST(b AS BLOB)) - (c + 1)))",
        ),
    ],
)
def test_a_statement_on_each_engine(statement: str, postgres: str, sqlite: str) -> None:
    made = compose(statement)
    assert (made.postgres, made.sqlite) == (postgres, sqlite)


def test_an_unknown_word_is_an_error() -> None:
    with pytest.raises(SqlError, match="greater is not one of the words one_of, holds, larger, bytes, day, lock"):
        Sql("SELECT @greater(a, b)")
    with pytest.raises(SqlError, match="has no arguments"):
        _ = Sql("SELECT @larger FROM t").sqlite
    assert Sql("SELECT 1 FROM t WHERE a LIKE '%@%'").postgres.endswith("LIKE '%@%'")


def test_unknown_columns_and_tables_are_errors() -> None:
    with pytest.raises(SqlError, match="no column kee of a table entries"):
        insert_many("entries", "list_id, kee")
    with pytest.raises(SqlError, match="no column key of a table entrys"):
        delete_many("entrys", "key")
    with pytest.raises(SqlError, match="no column hit of a table entries"):
        update_many("entries", "list_id", "hit", "hits = new.hit")


def test_columns_have_the_types_of_the_schema() -> None:
    assert tables()["users"]["must_change"] == "smallint"
    assert [tables()["messages"][name] for name in ("id", "detail", "ggrid")] == ["bigint", "bytea", "text"]
    added = insert_many("recovery_codes", "user_uid, digest")
    assert added.postgres == (
        "INSERT INTO recovery_codes (user_uid, digest) SELECT * FROM unnest($1::text[], $2::text[])"
        " ON CONFLICT DO NOTHING"
    )
    assert added.sqlite == "INSERT INTO recovery_codes (user_uid, digest) VALUES (?, ?) ON CONFLICT DO NOTHING"
    changed = update_many("entries", "key", "hits", "hits = @larger(entries.hits, new.hits)")
    assert changed.sqlite == "UPDATE entries SET hits = max(entries.hits, ?2) WHERE entries.key = ?1"


def _stated(engine: str) -> Iterator[Sql]:
    """Everything that modules of the store state for an engine."""
    for module in pkgutil.iter_modules(store.__path__):
        importlib.import_module(f"gatepost.store.{module.name}")
    for statement, engines in STATED:
        assert set(engines) <= set(ENGINES)
        if engine in engines:
            yield statement


def test_sqlite_prepares_every_statement(tmp_path: Path) -> None:
    faults = {}
    with closing(open_file(tmp_path / "g.db")) as connection:
        for statement in _stated("sqlite"):
            count = max(map(int, re.findall(r"\?(\d+)", statement.sqlite)), default=statement.sqlite.count("?"))
            try:
                connection.execute(f"EXPLAIN {statement.sqlite}", [None] * count).fetchall()
            except apsw.SQLError as fault:
                faults[statement] = str(fault)
    assert faults == {}


def test_postgresql_prepares_every_statement(postgres_url: str) -> None:
    async def run() -> dict[str, str]:
        faults = {}
        connection = await asyncpg.connect(postgres_url)
        try:
            for statement in _stated("postgres"):
                try:
                    await connection.prepare(statement.postgres)
                except asyncpg.PostgresError as fault:
                    faults[str(statement)] = str(fault)
        finally:
            await connection.close()
        return faults

    assert asyncio.run(run()) == {}
    assert len(list(_stated("postgres"))) > 300


@given(st.text(alphabet=st.characters(codec=None) | st.sampled_from("\0\ud800\udfff\U0001f600")))
def test_storable_text_is_utf8_without_nul_and_stays(text: str) -> None:
    kept = storable(text)
    assert "\0" not in kept
    assert kept.encode().decode() == kept == storable(kept)
    if text.isascii() and "\0" not in text:
        assert kept == text
