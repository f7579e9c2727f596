"""A node of one process, which serves and has nobody above it: its signals, its reloads and its restart."""

import asyncio
import signal
from pathlib import Path

from gatepost.service import systemd
from gatepost.service.generation import Generations
from gatepost.service.http_servers import run
from gatepost.service.plan import Bound, Plan
from gatepost.service.reloading import Reloader, ReloadOutcome
from gatepost.service.running import Started, run_plan
from gatepost.store.store import Store


class SingleControl:
    """Reloads and restarts this process; `NodeControl` of a node of one process."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop, self._reloader = stop, Reloader()
        self.restarts = False

    def attach(self, generations: Generations) -> None:
        """Reload on SIGHUP from now on."""
        self._reloader.attach(generations)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reloader.begin)

    async def reload(self, folder: Path) -> ReloadOutcome:
        """Read the files of a folder and take over what can be taken over."""
        return await self._reloader.reload(folder)

    def restart(self) -> None:
        """End as on SIGTERM, then start again with the same sockets."""
        self.restarts = True
        self._stop.set()


def run_single(plan: Plan, bound: Bound, started: Started) -> bool:
    """Serve until asked to stop; returns whether the process is to be started again."""
    restarts = False

    async def main(stop: asyncio.Event) -> None:
        nonlocal restarts
        # Until there is something to reload: the default would end the process.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
        control = SingleControl(stop)
        watchdog = asyncio.create_task(_feed_watchdog())

        async def announce(port: int, store: Store) -> None:
            await started(port, store)
            systemd.notify_ready()

        try:
            await run_plan(plan, stop, announce, bound, control=control)
        finally:
            watchdog.cancel()
            restarts = control.restarts

    run(main)
    return restarts


async def _feed_watchdog() -> None:
    """Tell the service manager, if it asks, that the event loop turns."""
    while seconds := systemd.watchdog_seconds():
        systemd.feed_watchdog()
        await asyncio.sleep(seconds)
