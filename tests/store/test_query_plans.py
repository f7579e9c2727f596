"""What a call costs grows with the call, not with what others have stored: every statement has its plan looked at.

A statement that reads a whole table stands here with the reason why it may: the table is small, or the statement is for
work that is done seldom or in the background, off the path of mail and of calls.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from gatepost import store
from gatepost.store.sql import Sql
from gatepost.store.sqlite import open_file

# One row for each tenant, node, feed, model or alert, or fewer; administrators of the deployment make them.
SMALL_TABLES = {
    *("alert_definitions", "config_versions", "departed", "digest_keys", "digest_runs", "digest_settings"),
    *("dismissed_items", "feed_definitions", "jobs", "learnt_models", "nodes", "rule_sets", "scopes"),
    *("meta", "tenant_domains", "tenants", "token_uses", "unsearched"),
}
REASONS = {
    "api_keys._SELECT_ALL": "administrators of the deployment list all keys",
    "campaigns._LATEST": "the newest marks, by their number, for a process that starts",
    "digests._COUNTS": "the page of digests counts those of a scope",
    "learning._POOLS": "the page of pools; reports of a scope are bounded",
    "lists._LIST_WITH_EXPIRED": "the purge looks for the next list, every five minutes",
    "look_backs._FIRST": "the next entry in the order of their numbers, one process at a time",
    "look_backs._WAITING": "a metric; the queue of a scope is bounded",
    "messages._RECENT": "the newest results, in the order of the key, up to a limit",
    "privacy._LISTS": "an administrator looks for an address",
    "privacy._DELETE_REMOVED": "an administrator erases an address",
    "privacy._REMOVED": "an administrator looks for an address",
    "privacy._SIGHTINGS": "an administrator looks for an address",
    "quarantine._COUNT_TEXTS": "both counts end at a limit, and only SQLite asks for them",
    "quarantine._TOTALS": "the size of the quarantine, from an index, for its limit, health and metrics",
    "sealed_secrets._ANY_SEALED_TOTP": "the first one ends it, where a secret is stored",
    "sealed_secrets._TOTP": "at a start, and when an administrator replaces the key",
    "second_factors._LAST_USES": "administrators list users",
    "sent_reports._WAITING": "every five minutes, from the key: the counts of days that are over",
    "sessions._DELETE_OVER": "at a sign-in; what was idle for two hours goes with it, so that the table stays small",
    "sessions._OF_PROVIDER": "a provider ends its session, with a token that it has signed",
    "sightings._SIZES": "the purge of sightings, from an index",
    "upgrading._LISTS": "once after an upgrade",
    "users._SELECT_ALL": "administrators of the deployment list all users",
}
_SCAN = re.compile(r"SCAN (\w+)(?!.*VIRTUAL TABLE)")
# Results of subqueries and constants.
_DERIVED = {"CONSTANT", "open", "counted", "listed", "waiting", "found"}


def statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.iter_modules(store.__path__):
        if module.name != "postgres":
            for name, value in vars(importlib.import_module(f"gatepost.store.{module.name}")).items():
                if isinstance(value, Sql):
                    yield f"{module.name}.{name}", value.sqlite


def plan(connection: apsw.Connection, statement: str) -> list[str] | None:
    """The lines of a plan; None for fragments and for statements that only PostgreSQL runs."""
    count = max(map(int, re.findall(r"\?(\d+)", statement)), default=statement.count("?"))
    try:
        return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", [None] * count)]
    except apsw.SQLError:
        return None


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    opened = open_file(Path(tmp_path_factory.mktemp("plans")) / "g.db")
    yield opened
    opened.close()


def test_no_statement_reads_a_table_that_others_fill(connection: apsw.Connection) -> None:
    planned, scanning = 0, dict[str, list[str]]()
    for name, statement in statements():
        lines = plan(connection, statement)
        planned += lines is not None
        tables = {match[1] for line in lines or () if (match := _SCAN.match(line))} - _DERIVED - SMALL_TABLES
        if tables:
            scanning[name] = sorted(tables)
    assert planned > 350
    assert {name: tables for name, tables in scanning.items() if name not in REASONS} == {}
    assert set(REASONS) <= set(scanning), "a reason that is no longer needed"


def test_a_scan_is_found(connection: apsw.Connection) -> None:
    lines = plan(connection, "SELECT count(*) FROM entries WHERE comment = ?1")
    assert lines
    assert any(match[1] == "entries" for line in lines if (match := _SCAN.match(line)))
    assert plan(connection, "SELECT 1 FROM entries WHERE ") is None
