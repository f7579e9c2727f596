"""One door for all sources: with every slot busy, all wait for one, REST for as long as its client does, and SMTP until
it is told 451 and keeps its connection."""

import asyncio
from pathlib import Path
from typing import Any

from tests.guard.test_service import Pool
from tests.waiting_client import WaitingClient

from gatepost.analysis.report import Report
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import Full, ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.settings.keys import GuardSettings as Settings
from gatepost.smtp.services import MessageHandler
from gatepost.store import open_store
from gatepost.workers.fair_queue import FairQueue

SLOTS = 20


PLAIN = BytesBody(b"plain")


async def test_with_all_slots_busy_smtp_is_refused_and_rest_waits(deployment: Any, hop: Any, tmp_path: Path) -> None:
    pool, queue = Pool(Report("clean", "deliver", (), 0, "")), FairQueue(SLOTS, SLOTS, 5.0, patience=0.05)
    pool.may_end.clear()
    store = open_store("sqlite:g.db", tmp_path)
    guard = Guard(Settings(), store, pool, Answerer(Resolver([], 0.1)), queue)
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.services.guard, gate.services.handler = guard, MessageHandler(guard, gate.holding)
        early, late = await gate.connect(), await gate.connect()
        scans = [asyncio.create_task(guard.scan(request(), PLAIN)) for _ in range(SLOTS)]
        await gate.until(lambda: len(pool.jobs) == SLOTS)

        for client in (early, late):
            await client.up_to_data()
            assert (await client.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("451 4.3.2")
        assert isinstance(await guard.scan(request(), PLAIN), Full)
        waiting = asyncio.create_task(guard.scan_in_turn(request(), PLAIN, WaitingClient()))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert queue.counters().refused == 3
        assert (guard.load().in_processing, guard.load().waiting) == (SLOTS, 1)

        queue.patience = 60.0
        await late.up_to_data()
        patient = asyncio.create_task(late.say(b"Subject: x\r\n\r\ny\r\n.\r\n"))
        await gate.until(lambda: guard.load().waiting == 2)
        pool.may_end.set()
        assert (await patient).startswith("250")
        assert all(isinstance(each, ScanResult) for each in await asyncio.gather(*scans))
        assert isinstance(await waiting, ScanResult)
        for client in (early, late):
            await client.up_to_data()
            assert (await client.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
        assert len(next_hop.messages) == 3
    await store.close()


def request() -> ScanRequest:
    return ScanRequest(new_id(), 1, Envelope("a@x.example", ("b@y.example",)))
