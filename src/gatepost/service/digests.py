"""Send digests in the background, and report them to Prometheus.

Every node that has a core and a next hop looks once a minute for scopes whose digests are due or wait; the lock in
storage lets one of them work on each.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from gatepost.digests.run import DigestBusy, DigestSender
from gatepost.service.plan import SharedParts
from gatepost.service.routes import hostname
from gatepost.service.schedules import Schedule
from gatepost.settings.keys import GuardSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.routing import Routing
from gatepost.store.digests import DigestRun
from gatepost.store.store import Store
from gatepost.times import now

log = structlog.get_logger("gatepost.digests")

POLL_SECONDS = 60.0
# How long a scope rests after a run that sent as many digests as one run may.
REST_MILLISECONDS = 3_600_000


def build_sender(settings: GuardSettings, store: Store, routing: Routing) -> DigestSender | None:
    """Return what sends digests; None without `publicUrl`, which every link begins with."""
    if settings.public_url is None:
        return None
    sender = settings.digests.sender or f"postmaster@{hostname(settings)}"
    tenancy = Tenancy(settings.tenants, store.tenants.of_domain)
    return DigestSender(store, routing, tenancy, settings.digests, settings.public_url, sender, settings.tenants)


def schedule_digests(
    settings: GuardSettings, routing: Routing | None, shared: SharedParts, stack: AsyncExitStack
) -> "DigestSchedule | None":
    """Return the schedule of digests, if this process sends them; the stack stops it."""
    sender = build_sender(settings, shared.store, routing) if routing else None
    if not shared.node.is_first:
        return None
    schedule = DigestSchedule(shared.store, sender)
    shared.registry.register(schedule)
    stack.push_async_callback(schedule.stop)
    return schedule


class DigestSchedule(Schedule):
    """Sends digests that are due, scope by scope, from `start` to `stop`. Without a sender it only says so."""

    def __init__(self, store: Store, sender: DigestSender | None, poll: float = POLL_SECONDS) -> None:
        super().__init__(poll, "gatepost.digests", "digests cannot be sent")
        self._store, self._sender = store, sender
        self._sent: Counter[str] = Counter()
        self._waiting = 0
        self._warned = False

    def collect(self) -> Iterator[Metric]:
        sent = CounterMetricFamily("gatepost_digests", "Digests of held mail by this process", labels=("result",))
        for result, count in self._sent.items():
            sent.add_metric((result,), count)
        yield sent
        yield GaugeMetricFamily("gatepost_digests_waiting", "Digests that wait to be sent", value=self._waiting)

    async def look(self) -> None:
        """Look at every scope once, and send what is to be sent."""
        enabled = {each.scope for each in await self._store.digests.scopes() if each.preferences.enabled}
        if not enabled:
            return
        if self._sender is None:
            if not self._warned:
                log.warning("digests cannot be sent: guard.yml needs publicUrl and delivery.nextHop")
            self._warned = True
            return
        runs = [run for run in await self._store.digests.runs() if run.scope in enabled]
        self._waiting = await self._count_waiting(runs)
        for run in runs:
            if await self._is_due(run):
                await self._run(self._sender, run.scope)

    async def _count_waiting(self, runs: Sequence[DigestRun]) -> int:
        return sum([(await self._store.digests.counts(run.scope)).waiting for run in runs])

    async def _is_due(self, run: DigestRun) -> bool:
        moment = now()
        if run.locked_until > moment:
            return False
        if run.next_run <= moment or run.holder:
            # A lock that has run out is that of a process that died at its work.
            return True
        if run.record.is_cut and moment - run.record.finished < REST_MILLISECONDS:
            return False
        return bool(await self._store.digests.waiting(run.scope, 1))

    async def _run(self, sender: DigestSender, scope: str | None) -> None:
        record = await sender.run(scope)
        if isinstance(record, DigestBusy):
            return
        self._sent["sent"] += record.sent
        self._sent["failed"] += record.failed
        if record.sent or record.failed:
            log.info("digests sent", tenant=scope, sent=record.sent, failed=record.failed, reason=record.message)
