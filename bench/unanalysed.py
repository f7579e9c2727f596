"""`gatepost serve` without its analysis, for the benchmark of what is around it: every message gets the same report at
once. Arguments are the folders of configuration and data."""

import sys
from pathlib import Path

import msgspec

from gatepost.report import Report
from gatepost.service import commands, core
from gatepost.service.data_folder import DataFolder
from gatepost.workers.jobs import AnalysisJob, PoolCounters
from gatepost.workers.pool import WorkerPool

REPORT = Report("clean", "deliver", (), 0, "not analysed")


class NoPool(WorkerPool):
    """In place of the workers: none is started."""

    async def start(self) -> None:
        return None

    async def analyse(self, _job: AnalysisJob) -> Report:
        self._jobs += 1
        return REPORT

    def counters(self) -> PoolCounters:
        return msgspec.structs.replace(super().counters(), sealed=True)


def main() -> None:
    setattr(core, "WorkerPool", NoPool)  # noqa: B010  for this process alone
    commands.serve(DataFolder(Path(sys.argv[2])), Path(sys.argv[1]), lambda _started: None)


if __name__ == "__main__":
    main()
