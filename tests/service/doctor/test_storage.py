"""The doctor's rows on storage, sender history and feeds."""

import contextlib
import sqlite3
from datetime import UTC, datetime

import msgspec
from tests.data_folders import with_store

from gatepost.mail.sender_history import ALL_MAIL
from gatepost.process.health import Health, make_reason
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import examination
from gatepost.service.doctor.rows import ExaminedFiles
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.keys import SenderHistorySettings
from gatepost.store.audit import SYSTEM
from gatepost.store.feeds import FEED, FeedCounts, FeedRecord
from gatepost.store.publishing import NodeDetail, VersionContent
from gatepost.store.sealed_secrets import KEY_FILE
from gatepost.store.sightings import SightingBatch
from gatepost.store.store import Store

NOW = datetime(2026, 11, 15, tzinfo=UTC)
TODAY = int(NOW.timestamp()) // 86_400


def found(read: ExaminedFiles, data: DataFolder) -> list[str]:
    return [row.found for row in examination.check_sender_history(read, data, NOW)]


def test_how_much_is_remembered(data: DataFolder, read: ExaminedFiles) -> None:
    assert read.guard
    assert found(read, data) == [], "there is no storage yet"

    async def fill(store: Store) -> None:
        await store.tenants.create("young")
        await store.sightings.record([SightingBatch(None, TODAY - 7, {ALL_MAIL: 200, 22: 1})])

    with_store(data.path, fill)
    assert found(read, data) == ["2 senders and sites remembered; enough to call one new in 1 of 2 scopes"]
    off = read.guard.model_copy(update={"sender_history": SenderHistorySettings(enabled=False)})
    assert found(msgspec.structs.replace(read, guard=off), data) == ["off: senders and sites are not remembered"]


def test_secrets_in_clear_or_without_their_key(data: DataFolder, read: ExaminedFiles) -> None:

    def rows() -> list[str]:
        return [row.found for row in examination.check_sealed_secrets(read, data)]

    assert rows() == [], "there is no storage yet"
    with_store(data.path, lambda store: store.digests.current_key(1_000))
    assert rows() == []
    key = (data.path / KEY_FILE).rename(data.path / "elsewhere")
    (found,) = rows()
    assert found.startswith("1 secrets in the database are encrypted with a key that is not in")
    key.rename(data.path / KEY_FILE)
    with contextlib.closing(sqlite3.connect(data.path / "gatepost.db")) as database, database:
        database.execute("UPDATE digest_keys SET secret = 'abcd'")
    assert rows() == ["1 secrets in the database are in clear"]


def test_feeds_that_were_not_read_lately(data: DataFolder, read: ExaminedFiles) -> None:
    assert read.abby
    stated = {"list_name": "blocked-urls", "every": 10}
    names = ("good", "late", "bad", "new")
    url = "https://feeds.example/"
    feeds = [FeedSettings.model_validate({"name": name, "url": url, **stated}, by_name=True) for name in names]
    feeds.append(FeedSettings.model_validate({"name": "hand", **stated}, by_name=True))
    read = msgspec.structs.replace(read, abby=read.abby.model_copy(update={"feeds": feeds}))
    assert list(examination.check_feeds(read, data, NOW)) == [], "there is no storage yet"
    minutes = {"good": 5, "late": 31}
    records = {
        name: FeedRecord(succeeded=int(NOW.timestamp() - 60 * age) * 1000, counts=FeedCounts(entries=1_000))
        for name, age in minutes.items()
    }
    records["bad"] = FeedRecord(result="refused", message="it lost all", failures=2)

    async def fill(store: Store) -> None:
        for name, record in records.items():
            async with store.jobs.take(FEED, name) as held:
                assert held
                assert await store.feeds.finish(held.job, record, 0, audited=False)

    with_store(data.path, fill)
    rows = {row.what: (row.state, row.found) for row in examination.check_feeds(read, data, NOW)}
    late = "1,000 entries for blocked-urls, read 31 minutes ago; it should be read every 10 minutes"
    assert rows == {
        "feed good": ("ok", "1,000 entries for blocked-urls, read 5 minutes ago"),
        "feed late": ("warn", late),
        "feed bad": ("warn", "refused 2 times in a row: it lost all"),
        "feed new": ("warn", "never run so far"),
        "feed hand": ("ok", "never run so far; it is run by hand"),
    }


def test_every_node_has_a_row(data: DataFolder, read: ExaminedFiles) -> None:
    assert list(examination.check_nodes(read, data, NOW)) == [], "there is no storage yet"
    (data.path / "guard.node").write_text("own")

    slow, bad = make_reason("nextHop", "next hop is down", 0), make_reason("disk", "the disk is full", 0)

    async def fill(store: Store) -> int:
        content = VersionContent({}, {})
        published = await store.publishing.publish(0, content, "new", SYSTEM)
        assert published
        assert published.number == 1
        behind = NodeDetail(error="no such file")
        for name, detail in (
            ("good", NodeDetail(version=1)),
            ("behind", behind),
            ("slow", NodeDetail(version=1, health=Health.of([slow]))),
            ("bad", NodeDetail(version=1, health=Health.of([bad]))),
            ("own", NodeDetail(version=1)),
        ):
            await store.publishing.put_node(name, f"{name}.example", detail)
        return (await store.publishing.nodes())[0].seen

    def look(seconds: int) -> dict[str, tuple[str, str]]:
        moment = datetime.fromtimestamp(heard / 1000 + seconds, UTC)
        return {row.what: (row.state, row.found) for row in examination.check_nodes(read, data, moment)}

    heard = with_store(data.path, fill)
    rows = look(2)
    assert rows["node good.example"] == ("ok", "runs version 1; heard of 2 s ago")
    behind = "GREEN; runs its own files, wanted is version 1; heard of 2 s ago"
    assert rows["node behind.example"] == ("warn", f"{behind}; last error: no such file")
    assert "next hop is down, since 1970-01-01T00:00:00Z. It clears " in rows["node slow.example"][1]
    assert rows["node slow.example"] == ("warn", f"YELLOW; runs version 1; heard of 2 s ago; {slow}")
    assert rows["node bad.example"] == ("fail", f"RED; runs version 1; heard of 2 s ago; {bad}")
    assert "published version" not in rows
    with_store(data.path, lambda store: store.publishing.fail_rollout("bad", "bad.example", 1, 0, "it was bad"))
    rows = look(60)
    assert rows["node good.example"][0] == "warn"
    assert rows["node good.example"][1].startswith("silent; runs version 1")
    assert rows["node own.example"][0] == "ok"
    assert rows["node own.example"][1].startswith("does not run at the moment; runs version 1")
    assert rows["published version"] == ("warn", "version 1 failed on bad.example: it was bad")
