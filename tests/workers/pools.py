"""Worker pools of a test's own, with answers from made-up zones."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from gatepost.policy.rules import Policy, shipped_policy
from gatepost.questions import Answers, Questions
from gatepost.workers import warmup
from gatepost.workers.jobs import Job
from gatepost.workers.pool import PoolSettings, WorkerPool

Answer = Callable[[Job[Any], Questions], Answers | Awaitable[Answers]]

FAULT_INJECTION = str(Path(__file__).parents[1] / "fault_injection.py")
# Limits that no honest message reaches on a busy machine.
SETTINGS = PoolSettings(processes=2, analysis_timeout=60.0, stage_limit=20.0, memory=192 << 20)


async def from_zone(_job: Job[Any], questions: Questions) -> Answers:
    return warmup.answers_to(questions)


@asynccontextmanager
async def running(
    settings: PoolSettings = SETTINGS,
    answer: Answer = from_zone,
    policy: Policy | None = None,
    tenants: Mapping[str, Policy] | None = None,
) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(settings, answer, policy or shipped_policy(), tenants or {})
    with mock.patch.dict(os.environ, GATEPOST_FAULT_INJECTION=FAULT_INJECTION):
        await pool.start()
        try:
            yield pool
        finally:
            await pool.stop()


def changed(**settings: Any) -> PoolSettings:
    return msgspec.structs.replace(SETTINGS, **settings)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not true():  # noqa: ASYNC110  what is waited for happens in other processes
            await asyncio.sleep(0.01)
