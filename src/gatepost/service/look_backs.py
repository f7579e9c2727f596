"""Look back for entries that came through the List API, in a process of its own.

Every node asks storage whether something waits; the child that it starts takes one list after the other, and what one
child has taken no other takes. Records are read and judged there, so that neither is felt by mail that is scanned.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.store.errors import StorageError
from gatepost.store.store import Store

log = structlog.get_logger("gatepost.lists")

# Calls that come within this time are looked back for together.
POLL_SECONDS = 20.0
RUN_SECONDS = 900.0


class LookBackSchedule(Collector):
    """Starts looks back that wait, from `start` to `stop`."""

    def __init__(self, store: Store, config: Path, data: Path, poll: float = POLL_SECONDS) -> None:
        self._store, self._config, self._data, self._poll = store, config, data, poll
        self._waiting = self._runs = self._failed = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look for what waits, from now on."""
        self._task = asyncio.create_task(self._forever())

    def cancel(self) -> None:
        """Look no more: others take over."""
        if self._task:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop; a run that is under way is killed, and what it had taken is taken again later."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("gatepost_look_backs_waiting", "List API calls not looked back for", self._waiting)
        runs = CounterMetricFamily(
            "gatepost_look_back_runs", "Runs that look back, by this process", labels=("result",)
        )
        runs.add_metric(("done",), self._runs - self._failed)
        runs.add_metric(("failed",), self._failed)
        yield runs

    async def _forever(self) -> None:
        while True:
            try:
                self._waiting = await self._store.waiting_look_backs()
                if self._waiting:
                    await self._run()
            except StorageError as fault:
                log.warning("cannot look back", reason=str(fault))
            await asyncio.sleep(self._poll)

    async def _run(self) -> None:
        folders = ("--config", str(self._config), "--data", str(self._data))
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gatepost", "lists", "look-back", *folders, "--json"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(RUN_SECONDS):
                await child.wait()
        except TimeoutError:
            log.warning("looking back took too long")
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        self._runs += 1
        self._failed += child.returncode != 0
        log.info("looked back for new entries", calls=self._waiting, result="failed" if child.returncode else "done")
