"""What a node does by itself every so many seconds, and the commands that it starts for that as processes of their own.

Every node looks whether something is due; locks in storage let one of them do it. The simplest of these schedules is
here, too: looking back after entries were added over the List API, where `lists.lookBack` is on.
"""

import asyncio
import contextlib
import sys
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.store.errors import StorageError
from gatepost.store.store import Store

# What is kept of the output of a command; more is read and dropped.
MAX_OUTPUT = 1 << 20
LOOK_BACK_POLL_SECONDS = 20.0
# How long one run may take; what it has not reached waits for the next.
LOOK_BACK_SECONDS = 900.0


class Schedule(Collector):
    """Calls `look` every `poll` seconds, from `start` to `stop`. While storage does not answer, the log of this name
    says so with `fault`, and the next look comes as usual."""

    def __init__(self, poll: float, name: str, fault: str) -> None:
        self._poll, self._fault = poll, fault
        self._log = structlog.get_logger(name)
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def look(self) -> None:
        """Do what is due."""

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.create_task(self._look_forever())

    def cancel(self) -> None:
        """Look no more: another generation takes over."""
        if self._task:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop. A command that is under way is killed; what it had begun is done after its lock has run out."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look_forever(self) -> None:
        while True:
            try:
                await self.look()
            except StorageError as fault:
                self._log.warning(self._fault, reason=str(fault))
            await asyncio.sleep(self._poll)


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended, with what it wrote. `code` is None for one that took too long and was killed."""

    code: int | None
    output: str
    fault: str


async def run_command(*words: str, seconds: float) -> CommandResult:
    """Run `gatepost` with these words; it is killed after so many seconds, and when the caller is cancelled."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gatepost", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            output, fault = await asyncio.gather(_read_some(child.stdout), _read_some(child.stderr))
            return CommandResult(await child.wait(), output, fault.strip())
    except TimeoutError:
        return CommandResult(None, "", "it took too long")
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _read_some(stream: asyncio.StreamReader | None) -> str:
    """Return what a stream has to say, up to a limit; what comes after it is read and dropped."""
    kept = bytearray()
    while stream and (chunk := await stream.read(65536)):
        kept += chunk[: MAX_OUTPUT - len(kept)]
    return kept.decode("utf-8", "replace")


class LookBackSchedule(Schedule):
    """Looks back for entries that were added over the List API. The child that is started takes the calls that wait, so
    that no other child does. It reads and judges the records itself: mail that is scanned does not wait for it."""

    def __init__(self, store: Store, config: Path, data: Path, poll: float = LOOK_BACK_POLL_SECONDS) -> None:
        super().__init__(poll, "gatepost.lists", "cannot look back")
        self._store, self._config, self._data = store, config, data
        self._waiting = self._runs = self._failed = 0

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("gatepost_look_backs_waiting", "List API calls not looked back for", self._waiting)
        runs = CounterMetricFamily(
            "gatepost_look_back_runs", "Runs that look back, by this process", labels=("result",)
        )
        runs.add_metric(("done",), self._runs - self._failed)
        runs.add_metric(("failed",), self._failed)
        yield runs

    async def look(self) -> None:
        """Look back for the calls that wait, if there are any."""
        self._waiting = await self._store.look_backs.waiting()
        if not self._waiting:
            return
        folders = ("--config", str(self._config), "--data", str(self._data))
        ended = await run_command("lists", "look-back", *folders, "--json", seconds=LOOK_BACK_SECONDS)
        if ended.code is None:
            self._log.warning("looking back took too long")
        self._runs += 1
        self._failed += ended.code != 0
        self._log.info(
            "looked back for new entries", calls=self._waiting, result="failed" if ended.code != 0 else "done"
        )
