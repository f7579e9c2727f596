"""One door for all sources: with every slot busy, SMTP is told 451 and keeps its connection, REST waits."""

import asyncio
from pathlib import Path
from typing import Any

from gatepost.guard.admission import Admission
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.scanning.request import Full, ScanRequest, ScanResult
from gatepost.settings.keys import GuardSettings as Settings
from gatepost.smtp.services import MessageHandler
from gatepost.store import open_store
from gatepost.view.values import NotShown
from gatepost.workers.jobs import AnalysisJob

SLOTS = 20


class Pool:
    """Analyses that end when they are told to."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.running = 0

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def extract(self, job: AnalysisJob) -> None:
        raise AssertionError(f"{job.ggrid} was to be read for learning")

    async def show(self, job: AnalysisJob) -> NotShown:
        return NotShown("nobody looks here")

    async def analyse(self, job: AnalysisJob) -> Report:
        self.running += 1
        await self.may_end.wait()
        return Report("clean", "deliver", (), 0, "")


class Plain:
    size = 5

    def read(self) -> bytes:
        return b"plain"


def test_with_all_slots_busy_smtp_is_refused_and_rest_waits(
    deployment: Any, hop: Any, run: Any, tmp_path: Path
) -> None:
    async def test() -> None:
        pool, admission = Pool(), Admission(SLOTS, SLOTS, 5.0)
        store = open_store("sqlite:g.db", tmp_path)
        guard = Guard(Settings(), store, pool, Answerer(Resolver([], 0.1)), admission)
        next_hop = hop()
        async with deployment(next_hop) as gate:
            gate.services.guard, gate.services.handler = guard, MessageHandler(guard, gate.holding)
            early, late = await gate.connect(), await gate.connect()
            await late.up_to_data()  # MAIL came while there was room
            scans = [asyncio.create_task(guard.scan(request())) for _ in range(SLOTS)]
            await gate.until(lambda: pool.running == SLOTS)

            await early.say("EHLO c")
            assert (await early.say("MAIL FROM:<a@x.example>")).startswith("451 4.3.2")
            assert (await late.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("451 4.3.2")
            assert isinstance(await guard.scan(request()), Full)
            waiting = asyncio.create_task(guard.wait_for_slot())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            assert admission.counters().refused == 3
            assert guard.load().in_processing == SLOTS

            pool.may_end.set()
            assert all(isinstance(each, ScanResult) for each in await asyncio.gather(*scans))
            await waiting
            for client in (early, late):
                await client.up_to_data()
                assert (await client.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
            assert len(next_hop.messages) == 2
        await store.close()

    run(test())


def request() -> ScanRequest:
    return ScanRequest(new_id(), 1, Envelope("a@x.example", ("b@y.example",)), Plain())
