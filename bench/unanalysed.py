"""`gatepost serve` without its analysis, for the benchmark of what is around it: every message gets the same report at
once. Arguments are the folders of configuration and data."""

import sys
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from gatepost.analysis.report import Report
from gatepost.service import commands, core
from gatepost.service.data_folder import DataFolder
from gatepost.workers.jobs import Job, PoolCounters
from gatepost.workers.pool import WorkerPool

T = TypeVar("T")

REPORT = Report("clean", "deliver", (), 0, "not analysed")


class NoPool(WorkerPool):
    """In place of the workers: none is started."""

    async def start(self) -> None:
        return None

    async def run(self, _job: Job[T], *, patient: bool = False) -> T:  # noqa: ARG002  nothing waits
        self._count += 1
        return cast("T", REPORT)

    def counters(self) -> PoolCounters:
        return msgspec.structs.replace(super().counters(), sealed=True)


def main() -> None:
    setattr(core, "WorkerPool", NoPool)  # noqa: B010  for this process alone
    commands.serve(DataFolder(Path(sys.argv[2])), Path(sys.argv[1]), lambda _started: None)


if __name__ == "__main__":
    main()
