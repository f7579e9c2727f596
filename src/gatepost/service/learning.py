"""Train pools in the background, each in a process of its own, and report learning to Prometheus.

Every node that has a core looks for pools with new reports that are due; the lock in storage lets one of them train
each, and the training itself is sealed and of low priority (`learning.sealed_training`). Reports that are too old are
forgotten here, too.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from gatepost.service.schedules import Schedule, run_command
from gatepost.settings.learning import LearningSettings
from gatepost.store.learning import LearningRun, PoolSummary
from gatepost.store.store import Store
from gatepost.times import now

log = structlog.get_logger("gatepost.learning")

POLL_SECONDS = 60.0
RUN_SECONDS = 1_800.0
DAY = 86_400_000
# A pool that was never trained begins when it can teach something.
MIN_REPORTS = 40
_RESULTS = {0: "taken", 2: "refused"}


class LearningSchedule(Schedule):
    """Trains pools that are due, one after the other, from `start` to `stop`."""

    def __init__(
        self, store: Store, settings: LearningSettings, config: Path, data: Path, poll: float = POLL_SECONDS
    ) -> None:
        super().__init__(poll, "gatepost.learning", "pools cannot be trained")
        self._store, self._settings, self._config, self._data = store, settings, config, data
        self._pools: tuple[PoolSummary, ...] = ()
        self._models = 0
        self._runs: Counter[str] = Counter()

    def collect(self) -> Iterator[Metric]:
        runs = CounterMetricFamily("gatepost_learning_runs", "Trainings of pools by this process", labels=("result",))
        for result, count in self._runs.items():
            runs.add_metric((result,), count)
        yield runs
        reports = GaugeMetricFamily("gatepost_learning_reports", "Reports in training pools", labels=("pools", "says"))
        for name, pools in (
            ("deployment", [pool for pool in self._pools if pool.tenant is None]),
            ("tenants", [pool for pool in self._pools if pool.tenant]),
        ):
            reports.add_metric((name, "unwanted"), sum(pool.unwanted for pool in pools))
            reports.add_metric((name, "wanted"), sum(pool.wanted for pool in pools))
        yield reports
        yield GaugeMetricFamily("gatepost_learnt_models", "Learnt models that take part", value=self._models)

    async def look(self) -> None:
        """Train the pools that are due, and forget reports that are too old."""
        self._pools = await self._store.learning.pools()
        self._models = len(await self._store.learning.current_models())
        runs = {run.tenant: run for run in await self._store.learning.runs()}
        for pool in self._pools:
            if is_due(pool, runs.get(pool.tenant), now()):
                await self._run(pool.tenant)
        await self._store.learning.purge_reports(now() - self._settings.retention * DAY)

    async def _run(self, tenant: str | None) -> None:
        folders = ("--config", str(self._config), "--data", str(self._data))
        of = ("--tenant", tenant) if tenant else ()
        words = ("learn", "now", *of, *folders, "--scheduled", "--json")
        ended = await run_command(*words, seconds=RUN_SECONDS)
        result = "failed" if ended.code is None else _RESULTS.get(ended.code, "failed")
        if ended.code is None:
            log.warning("training took too long", tenant=tenant)
        self._runs[result] += 1
        log.info("pool trained", tenant=tenant, result=result)


def is_due(pool: PoolSummary, run: LearningRun | None, moment: int) -> bool:
    """Whether a pool has reports that no training has seen, and may be trained again."""
    if run is None:
        return pool.unwanted + pool.wanted >= MIN_REPORTS
    return run.next_run <= moment and run.locked_until <= moment and pool.newest > run.finished
