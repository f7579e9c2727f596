"""Run feeds by their schedule, each in a process of its own, and report them to Prometheus.

A feed is foreign data in any amount: it is read and compared by a child process, so that neither its parsing nor its
memory is felt by mail that is being scanned. Every node looks for feeds that are due; the lock in storage lets one of
them run each. What came of it is in storage as well, so all nodes report the same figures.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from gatepost.service.schedules import CommandResult, Schedule, run_command
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.web_feeds import WebFeedError, build_feed
from gatepost.store.feeds import FeedState
from gatepost.store.store import Store
from gatepost.times import now

log = structlog.get_logger("gatepost.feeds")

POLL_SECONDS = 15.0
# What a run may take beyond the time for reading: comparing, changing, and looking back.
MORE_SECONDS = 900.0
# How long somebody waits for a dry run in the web interface.
TRY_SECONDS = 60.0


async def load_web_feeds(
    store: Store, of_files: Container[str], data: Path, *, paused: bool = False
) -> tuple[list[FeedSettings], dict[str, str]]:
    """Return the feeds of the web interface, and why some of them cannot be run; `paused` ones only where they are
    asked for. A feed of the files wins over one of the same name."""
    feeds, faults = [], {}
    for definition in await store.feeds.definitions():
        if definition.name in of_files or (definition.paused and not paused):
            continue
        try:
            feeds.append(build_feed(definition.name, definition.feed, data))
        except WebFeedError as fault:
            faults[definition.name] = str(fault)
    return feeds, faults


async def try_feed(config: Path, data: Path, name: str) -> tuple[bool, str]:
    """Run a feed without changing anything, in a process of its own; return whether it could be read, and the JSON of
    what would change, or why it could not."""
    arguments = ("feeds", "run", name, "--dry-run", "--config", str(config), "--data", str(data), "--json")
    ended = await run_command(*arguments, seconds=TRY_SECONDS)
    if ended.code is None:
        return False, f"it took longer than {TRY_SECONDS:g} seconds; gatepost feeds run {name} --dry-run has no limit"
    return (True, ended.output) if ended.output.strip() else (False, ended.fault[-500:])


class FeedSchedule(Schedule):
    """Runs the feeds that have a source, of the settings and of the web interface, one after the other, from `start` to
    `stop`."""

    def __init__(
        self, store: Store, feeds: Sequence[FeedSettings], config: Path, data: Path, poll: float = POLL_SECONDS
    ) -> None:
        super().__init__(poll, "gatepost.feeds", "feeds cannot be run")
        self._store, self._config, self._data = store, config, data
        self._of_files = {feed.name: feed for feed in feeds}
        self._feeds = {name: feed for name, feed in self._of_files.items() if feed.is_scheduled}
        self._faults: dict[str, str] = {}
        self._states: dict[str, FeedState] = {}
        self._runs: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterator[Metric]:
        runs = CounterMetricFamily("gatepost_feed_runs", "Runs of feeds by this process", labels=("feed", "result"))
        for labels, count in self._runs.items():
            runs.add_metric(labels, count)
        yield runs
        gauges = {
            "gatepost_feed_entries": "Entries that the feed had when it was last read",
            "gatepost_feed_invalid": "Values among them that its list refused",
            "gatepost_feed_failures": "Runs in a row that failed or were refused",
            "gatepost_feed_last_success_seconds": "When a run succeeded last, in Unix seconds",
        }
        families = [GaugeMetricFamily(name, text, labels=("feed",)) for name, text in gauges.items()]
        for name in self._feeds:
            record = self._states.get(name, FeedState(name)).record
            figures = (record.counts.entries, record.counts.invalid, record.failures, record.succeeded / 1000)
            for family, figure in zip(families, figures, strict=True):
                family.add_metric((name,), figure)
        yield from families

    async def look(self) -> None:
        """Run the feeds that are due."""
        await self._load_feeds()
        await self._load_states()
        for name, feed in self._feeds.items():
            state = self._states.get(name, FeedState(name))
            moment = now()
            is_other = state.record.fingerprint not in ("", feed.fingerprint)
            if state.locked_until <= moment and (state.next_run <= moment or (is_other and not state.record.failures)):
                await self._run(feed, only_due=not is_other)
                await self._load_states()

    async def _load_feeds(self) -> None:
        """Find all feeds that are run: those of the files, and those of the web interface that are not paused."""
        feeds, faults = await load_web_feeds(self._store, self._of_files, self._data)
        for name, fault in faults.items():
            if self._faults.get(name) != fault:
                log.warning("feed of the web interface cannot be run", feed=name, reason=fault)
        self._faults = faults
        self._feeds = {feed.name: feed for feed in (*self._of_files.values(), *feeds) if feed.is_scheduled}

    async def _load_states(self) -> None:
        self._states = {state.name: state for state in await self._store.feeds.states()}

    async def _run(self, feed: FeedSettings, *, only_due: bool) -> None:
        folders = ("--config", str(self._config), "--data", str(self._data))
        due = ("--scheduled",) if only_due else ()
        words = ("feeds", "run", feed.name, *folders, "--json", *due)
        ended = await run_command(*words, seconds=feed.timeout / 1000 + MORE_SECONDS)
        await self._report(feed, ended)

    async def _report(self, feed: FeedSettings, ended: CommandResult) -> None:
        record = (await self._store.feeds.state(feed.name)).record
        before = self._states.get(feed.name, FeedState(feed.name)).record
        if record.finished == before.finished:
            # The child ended before it had an outcome, or another node runs the feed.
            if ended.code != 0:
                self._runs[feed.name, "failed"] += 1
                log.warning("feed not run", feed=feed.name, reason=ended.fault[-500:])
            return
        self._runs[feed.name, record.result] += 1
        counts = record.counts
        if record.result in ("refused", "failed"):
            log.warning("feed not taken", feed=feed.name, result=record.result, reason=record.message)
        else:
            log.info(
                "feed read", feed=feed.name, result=record.result, entries=counts.entries, added=counts.added,
                removed=counts.removed, invalid=counts.invalid,
            )  # fmt: skip
