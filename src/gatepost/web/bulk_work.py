"""Work on many messages in the background: four at a time, with the results stored as they come.

Storing results writes all of the record, so that of long work a hundredth is stored at once, or what some seconds
brought.

The record of the work (`store.bulk_actions`) is what pages show; a task of this process does the work. Should the
process end, the record says how far the work came, and its user can continue it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gatepost.api.call_limits import RunningCall
from gatepost.process.logs import Logger
from gatepost.store.bulk_actions import BulkAction, BulkActions
from gatepost.store.errors import StorageError

AT_ONCE = 4
# How long a request waits for its own work before it shows the progress instead; proxies give up after 30 or 60.
PATIENCE_SECONDS = 15.0
# Results are stored so many times for all items, and after so many seconds: far below the lease of the work.
STORED_TIMES = 100
STORE_SECONDS = 5.0

log = Logger("gatepost.abby")

# Does the action for one message; returns why it failed, "" if it succeeded.
ActsOnOne: TypeAlias = Callable[[str], Awaitable[str]]


class BulkWork:
    """The tasks of this process."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(
        self, store: BulkActions, work: BulkAction, act: ActsOnOne, call: RunningCall | None = None
    ) -> None:
        """Begin or continue work, unless somebody does it, and wait a little for its end. `call` is what it counts as
        until it ends."""
        if work.id not in self._tasks and await store.claim(work.id):
            task = asyncio.create_task(self._run(store, work, act, call))
            self._tasks[work.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(work.id, None))
        elif call:
            call.end()
        if running := self._tasks.get(work.id):
            await asyncio.wait({running}, timeout=PATIENCE_SECONDS)

    async def _run(self, store: BulkActions, work: BulkAction, act: ActsOnOne, call: RunningCall | None) -> None:
        left = work.items[len(work.results) :]
        results: list[str] = []
        stored = time.monotonic()
        try:
            for start in range(0, len(left), AT_ONCE):
                results += await asyncio.gather(*(_try(act, item) for item in left[start : start + AT_ONCE]))
                is_last = start + AT_ONCE >= len(left)
                late = time.monotonic() - stored >= STORE_SECONDS
                if is_last or late or len(results) >= len(work.items) // STORED_TIMES:
                    await store.add_results(work.id, results)
                    results, stored = [], time.monotonic()
        except StorageError as fault:
            # The record keeps what was stored; its user is told, and can continue.
            log.warning("work on many messages stopped", id=work.id, reason=str(fault))
        finally:
            if call:
                call.end()


async def _try(act: ActsOnOne, item: str) -> str:
    try:
        return await act(item)
    except StorageError as fault:
        return f"storage failed: {fault}"
