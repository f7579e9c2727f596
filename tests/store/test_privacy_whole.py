"""After an erasure no table of either engine has the address: every value of every row is looked at, also packed."""

import base64
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.store.conftest import SPREAD
from tests.store.test_second_factors import run_sql

from gatepost.cli.privacy_steps import Choices, PersonalData
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.settings.events import WebAlert
from gatepost.settings.feeds import WebFeed
from gatepost.store.audit import CLI, Actor
from gatepost.store.flow_counts import FlowCount
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.privacy import Person
from gatepost.store.record_packing import decompress
from gatepost.store.store import Store
from gatepost.store.users import User

Use = Callable[[Callable[[Store], Awaitable[None]]], None]
ANN = "ann@example.org"
PSEUDONYM = "erased-1@erased.invalid"


async def fill(store: Store) -> None:
    """Ann in everything that people and mail can bring her into."""
    user = await store.users.create(ANN, "administrator", None, "hash", CLI)
    other = await store.users.create("root", "administrator", None, "hash", CLI)
    assert isinstance(user, User)
    assert isinstance(other, User)
    by = Actor("user", ANN, user.uid)
    held = []
    for sender, recipients in (
        ("bob@x.example", (ANN,)),
        ("bob@x.example", (ANN, "carol@x.example")),
        (ANN, ("carol@x.example",)),
    ):
        report = Report("spam", "quarantine", (), 700, f"it names {ANN}", senders=(sender,), subject=f"For {ANN}")
        record = MessageRecord(new_id(), 1, 2_000, Envelope(sender, recipients), 5, "ab" * 32, report)
        await store.messages.record(record)
        await store.quarantine.hold(record)
        said = f"550 5.1.1 <{ANN}>: no such user"
        await store.messages.record_deliveries([Delivery(record.ggrid, 2_000, "smtp://mx", 550, said)])
        held.append(record)
    await store.quarantine.delete(held[2].ggrid, by)
    await store.lists.add(None, BY_NAME["blocked-senders"], [NewEntry(ANN, ANN, f"asked by {ANN}")], by)
    await store.lists.add(None, BY_NAME["blocked-senders"], [NewEntry("evil@x.example", "evil@x.example", "no")], by)
    await store.users.save_search(user.uid, "/messages", "hers", "q=ann%40example.org")
    work = await store.bulk_actions.create(user.uid, "release", [held[0].ggrid])
    await store.bulk_actions.add_results(work.id, [f"550 {ANN}: no such user"])
    await store.flow_counts.add_counts([FlowCount(1, 0, 5, 1 << 50, f"sender {ANN}: 5 messages")], [])
    await store.secrets.rotate(CLI)
    await store.alerts.put("hers", WebAlert(kinds=("node.state",), recipients=(ANN, "b@x.example")), 0, by)
    await store.feeds.put_definition(
        "feed", WebFeed(list_name="blocked-senders", url="https://f.example/x"), 0, by, paused=True
    )
    preferences = (await store.digests.scope(None)).preferences
    await store.digests.put_preferences(None, preferences, 0, by)
    await store.sessions.create(user.uid, "digest", 1 << 50, "192.0.2.1", "agent", strong=True)


def list_values(url: str) -> list[tuple[str, str, Any]]:
    """Every value of the database with its table and column."""
    if url.startswith("sqlite:"):
        tables = [row[0] for row in run_sql(url, "SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: [row[1] for row in run_sql(url, f"PRAGMA table_info({table})")] for table in tables}
    else:
        found = run_sql(
            url,
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " ORDER BY table_name, ordinal_position",
        )
        columns = {}
        for table, column in found:
            columns.setdefault(table, []).append(column)
    return [
        (table, column, value)
        for table, names in columns.items()
        for row in run_sql(url, f'SELECT * FROM "{table}"')
        for column, value in zip(names, row, strict=True)
    ]


def open_value(value: Any) -> str:
    """A value as text, unpacked where it is packed."""
    if not isinstance(value, bytes):
        return str(value)
    texts = [value.decode("utf-8", "replace")]
    with contextlib.suppress(Exception):
        texts.append(decompress(value).decode("utf-8", "replace"))
    with contextlib.suppress(Exception):
        texts.append(repr(msgspec.msgpack.decode(value)))
    return " ".join(texts)


def find_traces(url: str) -> set[str]:
    """The tables and columns that have the address in any form."""
    forms = (ANN, ANN.replace("@", "%40"), base64.b64encode(ANN.encode()).decode()[:-2], "ann=example.org")
    return {
        f"{table}.{column}"
        for table, column, value in list_values(url)
        if any(form.casefold() in open_value(value).casefold() for form in forms)
    }


def test_nothing_is_left_of_an_address(
    request: pytest.FixtureRequest, use: Use, storage_url: str, tmp_path: Path
) -> None:
    use(fill)
    spread = request.node.callspec.params["storage_url"] == SPREAD
    urls = [storage_url, *([request.getfixturevalue("other_postgres_url")] if spread else [])]
    before = {trace for url in urls for trace in find_traces(url)}
    assert {
        "messages.detail",
        "messages.sender",
        "deliveries.reply",
        "alert_definitions.settings",
        "audit.sample",
    } <= before

    async def erase(store: Store) -> None:
        choices = Choices(PSEUDONYM, lists=True, users=True, held=True)
        whole = PersonalData(store, tmp_path, Person(ANN), choices, lambda _kind, _item: None)
        await whole.go_through()
        again = PersonalData(store, tmp_path, Person(ANN), choices, lambda _kind, _item: None)
        await again.go_through()
        assert not [kind for kind, tally in again.tallies.items() if tally.found]

    use(erase)
    assert {trace for url in urls for trace in find_traces(url)} == set()

    async def others(store: Store) -> None:
        (alert,) = await store.alerts.all()
        assert alert.alert.recipients == ("b@x.example",)
        assert {user.name for user in await store.users.all()} == {"root"}

    use(others)
