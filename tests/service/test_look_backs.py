"""The schedule of looks back: what waits is looked back for by a child process, and told as every look back is."""

import asyncio
import json
from pathlib import Path

import pytest

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.service.schedules import LookBackSchedule
from gatepost.store import open_store
from gatepost.store.audit import Actor
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.times import now

URLS = BY_NAME["blocked-urls"]


@pytest.mark.process
def test_what_waits_is_looked_back_for_by_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "abby/abby").mkdir(parents=True)
    stated = {
        "serviceProviders": {"core": {"hosts": ["https://127.0.0.1:9785"]}},
        "storage": {"url": "sqlite:g.db"},
        "lists": {"lookBack": 7},
    }
    (tmp_path / "abby/abby/abby.yml").write_text(json.dumps(stated))

    async def scenario() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        schedule = LookBackSchedule(store, tmp_path, tmp_path, seconds=0.05)
        try:
            report = Report("clean", "deliver", (), 0, "", subjects=(Subject("link", "https://a.example/", "1"),))
            record = MessageRecord(
                new_id(), now(), now(), Envelope("x@x.example", ("b@b.example",)), 1, "0" * 64, report
            )
            await store.messages.record(record)
            for key in ("a.example", "b.example"):
                await store.lists.add(None, URLS, [NewEntry(key, key)], Actor("key", "soar"), look_back=True)
            schedule.periodic.start()
            # The child process tells nobody but storage.
            while not (kept := await store.look_backs.of_list(None, URLS.name)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert [(each.entries, each.found, each.hits) for each in kept] == [(2, 1, ((record.ggrid, "a.example"),))]
            while await store.look_backs.waiting():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        finally:
            await schedule.periodic.stop()
            await store.close()
        assert {family.name for family in schedule.collect()} == {
            "gatepost_look_backs_waiting",
            "gatepost_look_back_runs",
        }

    asyncio.run(asyncio.wait_for(scenario(), 300))
