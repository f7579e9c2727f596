"""Analyses of the command line, in a sealed worker as the service has them.

A message that is scanned from a file is as hostile as one that arrives by SMTP, and the readers of archives, pictures
and pages are partly native code. So `gatepost scan`, `learn` and `try` hand every message to a worker with the
limits of the configuration. A message that breaks its worker is `unscannable`, and the next one gets a new worker.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Policy, shipped_policy
from gatepost.process import logs
from gatepost.questions import (
    Answer,
    Answers,
    Antivirus,
    AskCampaign,
    AskSightings,
    Campaign,
    Dns,
    DnsAnswer,
    Lookup,
    LookupAnswer,
    Question,
    Questions,
    Sightings,
)
from gatepost.scanning.spool import BytesBody
from gatepost.service.data_folder import StartError
from gatepost.settings.keys import GuardSettings
from gatepost.view.values import NotShown
from gatepost.workers.jobs import EMPTY, Job, Snapshot
from gatepost.workers.pool import PoolSettings, WorkerPool
from gatepost.workers.protocol import FEATURES, JUDGE, Extracted
from gatepost.workers.supervisor import LoaderError, SealError

FAILED = DnsAnswer("failed")

AnswerQuestions: TypeAlias = Callable[[Job[Any], Questions], Awaitable[Answers]]


def answer_nothing(question: Question, dns: DnsAnswer) -> Answer:
    """Answer as a deployment does that has no list entry, no history and no antivirus; every name gets `dns`."""
    if isinstance(question, Dns):
        return dns
    if isinstance(question, Lookup):
        return LookupAnswer()
    if isinstance(question, AskSightings):
        return Sightings()
    return Campaign() if isinstance(question, AskCampaign) else Antivirus()


async def answer_offline(_job: Job[Any], questions: Questions) -> Answers:
    """Answer every question as `answer_nothing` does, without a name server."""
    return tuple(answer_nothing(question, FAILED) for question in questions)


class SealedAnalyser:
    """Analyses one message after the other. It belongs to the thread that opened it."""

    def __init__(self, runner: asyncio.Runner, pool: WorkerPool) -> None:
        self._runner = runner
        self._pool = pool

    def analyse(self, raw: bytes, ggrid: str, envelope: Envelope, now: float, lists: Snapshot = EMPTY) -> Report:
        """Return the report on one message; `now` is the time by which it is judged."""
        return self._runner.run(self._pool.run(Job(JUDGE, ggrid, envelope, BytesBody(raw), now, lists=lists)))

    def extract_rows(self, raws: Sequence[bytes]) -> list[Extracted | None]:
        """Return what a report on each of these messages teaches; None for one that cannot be read."""

        async def extract_all() -> list[Extracted | NotShown]:
            jobs = (Job(FEATURES, new_id(), Envelope(), BytesBody(raw), 0.0) for raw in raws)
            return await asyncio.gather(*map(self._pool.run, jobs))

        return [None if isinstance(found, NotShown) else found for found in self._runner.run(extract_all())]


async def start_pool(
    settings: GuardSettings, policy: Policy, answer: AnswerQuestions, models: str = "", processes: int = 1
) -> WorkerPool:
    """Start sealed workers. `models` is a file with the only text model to use; without it, the shipped one is."""
    logs.configure("error")  # a lost worker shows in the result of its message
    limits = PoolSettings(
        processes=processes,
        analysis_timeout=settings.analysis_timeout / 1000,
        stage_limit=settings.stage_limit / 1000,
        message_cpu=settings.message_cpu / 1000,
        memory=settings.worker_memory,
        unsealed=settings.unsealed,
        models=models,
        plugins=tuple(settings.plugins),
    )
    pool = WorkerPool(limits, answer, policy)
    try:
        await pool.start()
    except (SealError, LoaderError) as fault:
        raise StartError(str(fault)) from None
    return pool


@contextmanager
def open_extractor() -> Iterator[SealedAnalyser]:
    """Yield an analyser that only extracts features, with a worker for each processor."""
    workers = os.cpu_count() or 1
    with (
        asyncio.Runner() as runner,
        open_analyser(runner, GuardSettings(), shipped_policy(), answer_offline, processes=workers) as analyser,
    ):
        yield analyser


@contextmanager
def open_analyser(
    runner: asyncio.Runner,
    settings: GuardSettings,
    policy: Policy,
    answer: AnswerQuestions,
    models: str = "",
    processes: int = 1,
) -> Iterator[SealedAnalyser]:
    """Yield an analyser on the event loop of `runner`; its workers end with the context."""
    pool = runner.run(start_pool(settings, policy, answer, models, processes))
    try:
        yield SealedAnalyser(runner, pool)
    finally:
        runner.run(pool.stop())
